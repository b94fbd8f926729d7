"""gsub itself: the files it reads, the paths it checks as the user, what it loads, how it answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.cli.gsub import check_paths, main, read_script
from gsched.errors import BadRequest, TooLarge
from gsched.spec.scripts import SCRIPT_MAX_BYTES
from gsched.values.job import JobSpec

HEAVY = {"asyncio", "dataclasses", "structlog", "logging", "numpy", "numba", "sqlalchemy", "alembic", "uvloop"}
HEAVY |= {"cryptography", "ssl", "ClusterShell"}
NOBODY = 65534


@pytest.fixture
def as_a_user() -> Iterator[Path]:
    """A directory of a user who is not root, and the test run as that user."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        if root:
            os.chown(name, NOBODY, -1)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


def refused(chdir: Path | str, output: str = "", error: str = "") -> str:
    with pytest.raises(BadRequest) as why:
        check_paths(JobSpec(name="j", chdir=str(chdir), output=output, error=error))
    return why.value.text


def taken(chdir: Path, output: str = "", error: str = "") -> None:
    check_paths(JobSpec(name="j", chdir=str(chdir), output=output, error=error))


def test_fault_s4_a_working_directory_must_be_there_and_one(tmp_path: Path) -> None:
    assert refused(tmp_path / "no") == (
        f"the working directory {tmp_path}/no cannot be used: No such file or directory; give another with -D"
    )
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file").startswith(f"the working directory {tmp_path}/file is not a directory")


def test_fault_s4_an_output_file_must_be_one_that_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    expected = f"the output file file/out cannot be written: {tmp_path}/file is not a directory; give another with -o"
    assert refused(tmp_path, "file/out") == expected
    assert refused(tmp_path, "file/%j/out").startswith("the output file file/%j/out cannot be written: ")
    assert refused(tmp_path, ".").startswith("the output file . cannot be written: it is a directory")
    assert refused(tmp_path, "x" * 300).endswith("its name is too long; give another with -o")
    assert refused(tmp_path, "/dev/zero").endswith("it is neither a file nor a FIFO; give another with -o")
    (tmp_path / "gone").symlink_to("nowhere")
    assert "gone cannot be used: No such file" in refused(tmp_path, "gone/out")
    assert refused(tmp_path, "ok", "file/err").endswith("give another with -e")


def test_an_output_file_that_the_agent_can_make_is_taken(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    os.mkfifo(tmp_path / "fifo")
    for output in ("", "out", "new/folder/out-%j", "%j/out", "there", "fifo", "/dev/null", "x%%/%j", r"\\%q"):
        taken(tmp_path, output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "there"]  # nothing was made by looking


def test_fault_s4_what_the_user_may_not_write_is_refused(as_a_user: Path) -> None:
    closed = as_a_user / "closed"
    closed.mkdir(mode=0o500)
    expected = (
        f"the output file slurm-%j.out cannot be written: {closed} is one you may not write in; give another with -o"
    )
    assert refused(closed) == expected
    taken(closed, "/dev/null")
    closed.chmod(0o000)
    assert refused(closed, "/dev/null").startswith(f"the working directory {closed} is one you may not enter")
    (as_a_user / "fixed").touch(mode=0o400)
    assert "you may not write it" in refused(as_a_user, "fixed")


def test_a_script_that_cannot_be_read_is_an_error_with_its_cause(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "no.sh", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(BadRequest, match=f"cannot be read: {why}; give a file or --wrap=COMMAND"):
            read_script(str(path))


def test_a_script_of_5_mib_is_refused_with_size_and_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.sh"
    path.write_bytes(b"#!/bin/sh\n".ljust(5 * 1024 * 1024, b"#"))
    with pytest.raises(TooLarge, match=r"big\.sh: the script has 5242880 bytes, the most is 4194304"):
        read_script(str(path))
    path.write_bytes(b"#" * SCRIPT_MAX_BYTES)
    assert len(read_script(str(path))) == SCRIPT_MAX_BYTES


@pytest.mark.parametrize(
    ("argv", "status", "error"),
    [
        (["--wrap=true"], 69, "gsub: error: no controller at "),
        (["no.sh"], 2, "gsub: error: the script no.sh cannot be read: No such file or directory"),
        (["--tme=5", "no.sh"], 2, "gsub: error: unknown option --tme (did you mean --time?); see gsub --help\n"),
        (["--array=1-5", "no.sh"], 2, "gsub: error: --array is not supported yet\n"),
        (["-t", "-5", "--wrap=true"], 2, "gsub: error: --time: a time cannot be negative: '-5'"),
        (["--gpus=0.5", "--wrap=true"], 2, "gsub: error: --gpus: 0.5 GPUs were asked; fractions of a GPU are not "),
        (["-D", "/no/such", "--wrap=true"], 2, "gsub: error: the working directory /no/such cannot be used: "),
    ],
)
def test_an_error_is_one_line_with_a_documented_status(
    argv: list[str],
    status: int,
    error: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GSCHED_SOCKET", str(tmp_path / "none.sock"))
    assert main(argv) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(error)
    assert output.err.count("\n") == 1


def test_without_any_script_on_a_terminal_gsub_does_not_wait() -> None:
    main_side, terminal = os.openpty()
    try:
        command = [sys.executable, "-m", "gsched.cli.gsub"]
        done = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=20, check=False)
    finally:
        os.close(main_side)
        os.close(terminal)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gsub: error: no script; give a file, --wrap=COMMAND, or a script on standard input\n"


@pytest.mark.parametrize("module", ["gsched.cli.gsub", "gsched.cli._common", "gsched.spec.nodelists"])
def test_it_loads_nothing_heavy(module: str) -> None:
    command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "gsched" in loaded
    assert not loaded & HEAVY
