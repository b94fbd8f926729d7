"""gschedd as a process: what survives kill -9, and what it says when it cannot start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gsched.protocol.messages import Accounting, ListJobs, Ping, Submitted
from gsched.transport.unix import listen_unix
from tests.daemon import TOML, Process, client, process, submission


def start_and_fail(directory: Path, *words: str) -> tuple[int, str]:
    """Exit status and stderr of a gschedd that does not get as far as ready."""
    command = [sys.executable, "-m", "gschedd.main", "--config", str(directory / "gsched.toml"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=180)
    return done.returncode, next(line for line in done.stderr.splitlines() if line.startswith("gschedd: "))


def test_what_was_acknowledged_is_there_after_kill_9_and_clients_only_notice_a_pause(short_dir: Path) -> None:
    with process(short_dir) as gschedd, client(short_dir) as c:
        acknowledged = [a.job for a in c.pipeline([submission() for _ in range(50)]) if isinstance(a, Submitted)]
        requests = [submission(f"during-{n}") for n in range(400)]
        answers: list[object] = []
        with client(short_dir) as busy:
            asking = threading.Thread(target=lambda: answers.extend(busy.pipeline(requests)))
            asking.start()
            gschedd.kill()
            assert gschedd.socket.exists()  # so that clients wait for it
            gschedd.start()
            asking.join(30)
        acknowledged += [a.job for a in answers if isinstance(a, Submitted)]
        assert len(set(acknowledged)) == 450  # each request counted once
        listed = [row.id for page in c.pages(ListJobs()) for row in page.rows]
        stored = [row.job.id for page in c.pages(Accounting()) for row in page.rows]
        assert listed == stored == sorted(acknowledged)
        assert gschedd.stop() == 0


def test_a_clean_stop_is_quick_and_leaves_no_socket_and_no_pid_file(short_dir: Path) -> None:
    with process(short_dir) as gschedd, client(short_dir) as c:
        assert int(gschedd.pid_file.read_text()) > 0
        assert c.call(Ping()).cluster == "test"
        assert gschedd.stop() == 0
        assert not gschedd.pid_file.exists()
        assert not gschedd.socket.exists()
        assert "event=stopped" in gschedd.log.read_text()


def test_systemd_is_told_when_all_is_ready(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(short_dir / "notify"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(short_dir / "notify"))
        with process(short_dir):
            assert systemd.recv(100) == b"READY=1"


def test_a_second_gschedd_on_the_same_directory_says_who_has_it(short_dir: Path) -> None:
    with process(short_dir) as gschedd:
        status, line = start_and_fail(short_dir)
        assert status != 0
        assert "is in use by another gschedd (process " in line
        with client(short_dir) as c:
            assert c.call(Ping()).cluster == "test"
        assert gschedd.status is None


def test_a_socket_that_another_process_serves_is_not_taken(short_dir: Path) -> None:
    Process(short_dir)  # writes the configuration
    with listen_unix(short_dir / "gschedd.sock", 0o600):
        status, line = start_and_fail(short_dir)
    assert status == 7
    assert "another process listens there" in line


@pytest.mark.parametrize(
    ("toml", "status", "said"),
    [
        ("[controler]\n", 4, "controler"),
        (TOML.replace("127.0.0.1:0", "nowhere"), 4, "expected HOST:PORT"),
        (TOML.replace("{directory}/state", "/proc/nothing/here"), 4, "/proc/nothing/here cannot be"),
    ],
)
def test_a_wrong_configuration_is_one_line(short_dir: Path, toml: str, status: int, said: str) -> None:
    (short_dir / "gsched.toml").write_text(
        toml.replace("{uid}", str(os.geteuid())).replace("{directory}", str(short_dir))
    )
    found, line = start_and_fail(short_dir)
    assert found == status
    assert said in line


def test_a_cache_of_compiled_code_that_others_may_write_is_refused(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Process(short_dir)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(short_dir))
    short_dir.chmod(0o777)
    status, line = start_and_fail(short_dir, "--compile")
    assert status == 4
    assert "others may write it" in line
