"""What gsub says when a controller answers, over a real socket."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.cli.gsub import main
from gsched.errors import GschedError, Impossible
from gsched.protocol import frames
from gsched.protocol.messages import SubmitJob, Submitted
from gsched.values.ids import JobId
from tests.integration.test_client import serving


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to submit from, with the controller's socket in it and a script."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as name:
        path = Path(name).resolve()
        (path / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 2 --time=10\nhostname\n")
        monkeypatch.chdir(path)
        monkeypatch.setenv("GSCHED_SOCKET", str(path / "s"))
        yield path


def answered(desk: Path, argv: list[str], answer: Submitted | GschedError) -> tuple[int, list[SubmitJob]]:
    """Run gsub against a controller that gives one answer; give its status and what was asked."""
    asked: list[SubmitJob] = []

    def reply(frame: frames.Frame) -> bytes:
        asked.append(frames.check_body(frame.body, SubmitJob))
        if isinstance(answer, GschedError):
            return frames.encode(frames.ERROR, frame.id, (answer.code, answer.text))
        return frames.encode(frames.REPLY, frame.id, answer)

    with serving(desk / "s", reply):
        return main(argv), asked


def test_the_answer_is_slurms_line(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, (asked,) = answered(desk, ["-t", "5", "job.sh", "a"], Submitted(JobId(42)))
    assert (status, capsys.readouterr()) == (0, ("Submitted batch job 42\n", ""))
    assert (asked.spec.nodes_min, asked.spec.time_limit_s, asked.spec.chdir) == (2, 300, str(desk))
    assert asked.payload.script.endswith(b"hostname\n")
    assert asked.payload.args == ("a",)
    assert asked.spec.submit_host == os.uname().nodename
    assert asked.request_id


def test_parsable_is_the_id_alone_and_quiet_is_nothing(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(desk, ["--parsable", "job.sh"], Submitted(JobId(7)))[0] == 0
    assert answered(desk, ["-Q", "job.sh"], Submitted(JobId(7)))[0] == 0
    assert capsys.readouterr() == ("7\n", "")


def test_a_note_goes_to_stderr(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(desk, ["job.sh"], Submitted(JobId(7), "spread over 4 nodes"))[0] == 0
    assert capsys.readouterr() == ("Submitted batch job 7\n", "gsub: spread over 4 nodes\n")


def test_a_refusal_is_the_controllers_text_and_status(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "40 GPUs on 5 nodes were asked; there are 4 nodes"
    assert answered(desk, ["job.sh"], Impossible(text))[0] == 3
    assert capsys.readouterr() == ("", f"gsub: error: {text}\n")


def test_nothing_is_sent_if_a_check_fails_here(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(desk, ["-o", "job.sh/%j", "job.sh"], Submitted(JobId(7))) == (2, [])
    assert capsys.readouterr().err.startswith("gsub: error: the output file job.sh/%j cannot be written: ")
