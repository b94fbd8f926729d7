"""A daemon is known by more than its pid, and a job's leavings by what only they carry."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.local import leftovers, processes
from gsched.local.place import Place
from gsched.local.processes import Daemon
from gsched.values.ids import NodeName
from tests.waiting import until

NODE = NodeName("n1")
WAITS = "import signal, time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test started; ended whatever happens."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for child in started:
        child.kill()
        child.wait()


def daemon(folder: Path, program: str = WAITS) -> Daemon:
    pid_file = folder / "d.pid"
    argv = (sys.executable, "-c", program, "--pid-file", str(pid_file))
    return Daemon("daemon", argv, pid_file, folder / "log" / "d.log")


def started(it: Daemon, folder: Path, children: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    child = processes.start(it, folder)
    children.append(child)
    until(lambda: processes.command_line(child.pid), what="the program runs")
    return child


def test_a_running_daemon_is_found_by_its_pid_file(tmp_path: Path, children: list[subprocess.Popen[bytes]]) -> None:
    it = daemon(tmp_path)
    assert processes.running_pid(it) is None
    child = started(it, tmp_path, children)
    assert processes.running_pid(it) == child.pid


@pytest.mark.parametrize("noted", [None, "", "garbage", "1", "999999999999"])
def test_a_daemon_whose_pid_file_is_wrong_is_found_and_its_file_set_right(
    tmp_path: Path, children: list[subprocess.Popen[bytes]], noted: str | None
) -> None:
    it = daemon(tmp_path)
    child = started(it, tmp_path, children)
    it.pid_file.unlink()
    if noted is not None:
        it.pid_file.write_text(noted)
    assert processes.running_pid(it) == child.pid
    assert processes.set_right(it)
    assert it.pid_file.read_text() == f"{child.pid}\n"
    assert processes.stop(it, 10) == "stopped"
    child.wait(10)
    assert not processes.set_right(it)


def test_a_pid_that_another_process_has_now_is_never_taken_for_the_daemon(
    tmp_path: Path, children: list[subprocess.Popen[bytes]]
) -> None:
    other = subprocess.Popen([sys.executable, "-c", WAITS])
    children.append(other)
    it = daemon(tmp_path)
    it.pid_file.write_text(str(other.pid))
    assert processes.running_pid(it) is None
    assert processes.stop(it, 1) == ""
    assert other.poll() is None


@pytest.mark.parametrize("text", ["", "no number", "-1", "0", "999999999", "99999999999999999999"])
def test_a_pid_file_with_nonsense_is_nobody(tmp_path: Path, text: str) -> None:
    it = daemon(tmp_path)
    it.pid_file.write_text(text)
    assert processes.running_pid(it) is None


def test_a_daemon_that_ended_but_was_not_waited_for_does_not_run(
    tmp_path: Path, children: list[subprocess.Popen[bytes]]
) -> None:
    it = daemon(tmp_path)
    started(it, tmp_path, children).kill()
    until(lambda: processes.running_pid(it) is None)


def test_a_daemon_is_asked_to_stop_and_its_pid_file_goes(
    tmp_path: Path, children: list[subprocess.Popen[bytes]]
) -> None:
    it = daemon(tmp_path)
    child = started(it, tmp_path, children)
    assert processes.stop(it, 5) == "stopped"
    assert child.wait(5) == -15
    assert not it.pid_file.exists()


def test_a_daemon_that_does_not_listen_is_killed(tmp_path: Path, children: list[subprocess.Popen[bytes]]) -> None:
    it = daemon(tmp_path, DEAF)
    child = started(it, tmp_path, children)
    until(lambda: processes.log_tail(it) == ["deaf"])
    assert processes.stop(it, 0.1) == "killed"
    assert child.wait(5) == -9


def test_a_daemon_gets_no_variables_of_the_shell_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, children: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setenv("GSCHED_SOCKET", "/elsewhere")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    it = daemon(tmp_path, "import os; print(*os.environ, sep='\\n')")
    started_child = processes.start(it, tmp_path)
    children.append(started_child)
    started_child.wait(10)
    names = processes.log_tail(it, lines=1000)
    assert "PATH" in names
    assert not [name for name in names if name.startswith(("GSCHED_", "SLURM_"))]


def test_what_a_job_left_is_found_and_ended_but_not_who_only_looks(
    tmp_path: Path, children: list[subprocess.Popen[bytes]]
) -> None:
    place = Place(tmp_path)
    file = place.spool(NODE) / "out"
    file.parent.mkdir(parents=True)
    file.touch()
    inside = {**os.environ, "GSCHED_SOCKET": str(place.agent_socket(NODE))}
    outside = {**os.environ, "GSCHED_SOCKET": str(place.socket)}
    left = subprocess.Popen([sys.executable, "-c", WAITS], env=inside, start_new_session=True)
    deaf = subprocess.Popen([sys.executable, "-c", DEAF], env=inside, stdout=subprocess.PIPE)
    reader = subprocess.Popen(["tail", "-f", str(file)], env=outside)
    children += [left, deaf, reader]
    assert deaf.stdout
    assert deaf.stdout.readline() == b"deaf\n"
    deaf.stdout.close()
    until(lambda: set(leftovers.job_processes(place)) == {left.pid, deaf.pid})
    assert leftovers.supervisors(place) == []
    assert leftovers.end_all(place, grace_s=0.3) == 2
    assert (left.wait(5), deaf.wait(5)) == (-15, -9)
    assert reader.poll() is None
