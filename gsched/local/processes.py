"""A daemon of a local cluster as a process: started in a session of its own, known by its pid file, stopped surely.

A pid alone proves nothing: it may be another process's by now. A process counts as the daemon if its command line names
the daemon's pid file, and signals go through a pidfd that was opened before this was looked at. Where the pid file is
wrong or gone, the daemon is looked for among this user's processes: it must not be started a second time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gsched.errors import BadConfig

TAIL_BYTES: Final = 4000
_OURS: Final = ("GSCHED_", "SLURM_")  # what a shell inside a job or with `gsched env` has set is not for a daemon


class Daemon(NamedTuple):
    """One process of the cluster, running or not."""

    name: str  # "gschedd", "agent n1"
    argv: tuple[str, ...]
    pid_file: Path
    log: Path


def program(name: str) -> str:
    """The path of an installed command: beside this Python, else on PATH. Raises BadConfig if it is nowhere."""
    for folder in (Path(sys.executable).parent, Path(sys.argv[0]).absolute().parent):
        beside = folder / name
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which(name)
    if found is None:
        raise BadConfig(
            f"the command {name} is not installed beside {sys.executable} nor on PATH: install gsched whole"
        )
    return found


def start(daemon: Daemon, directory: Path) -> subprocess.Popen[bytes]:
    """Start it with its output appended to its log; it stays when we and our terminal go."""
    daemon.log.parent.mkdir(mode=0o700, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    with daemon.log.open("ab") as log:
        child = subprocess.Popen(
            daemon.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    _write_pid(daemon, child.pid)  # the daemon writes the same when it is ready
    return child


def running_pid(daemon: Daemon) -> int | None:
    """The pid of the daemon, if it runs."""
    with opened(daemon) as handle:
        return None if handle is None else handle.pid


def set_right(daemon: Daemon) -> bool:
    """Say whether it runs; if it does, its pid file tells so afterwards."""
    pid = running_pid(daemon)
    if pid is not None and pid != _noted_pid(daemon):
        _write_pid(daemon, pid)
    return pid is not None


def own_processes() -> list[int]:
    """Pids of this user's processes, but for this one."""
    uid, me = os.getuid(), os.getpid()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != me and entry.stat().st_uid == uid:
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile
    return found


class Handle(NamedTuple):
    """A process that cannot be mistaken for another: `fd` stays with it even if its pid is used again."""

    pid: int
    fd: int

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended first
            signal.pidfd_send_signal(self.fd, number)

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end; say whether it came."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        return bool(poller.poll(max(0, int(seconds * 1000))))


@contextlib.contextmanager
def opened(daemon: Daemon) -> Iterator[Handle | None]:
    """A handle on the running daemon, or None."""
    noted = _noted_pid(daemon)
    pid = noted if noted is not None and _is(daemon, noted) else next((p for p in own_processes() if _is(daemon, p)), 0)
    with opened_pid(pid) as handle:
        yield handle if handle is not None and _is(daemon, pid) else None


def _is(daemon: Daemon, pid: int) -> bool:
    """Whether the process is the daemon: a program's word `--pid-file` and the file's name are not an accident."""
    words = command_line(pid)
    return ("--pid-file", str(daemon.pid_file)) in itertools.pairwise(words)


def _noted_pid(daemon: Daemon) -> int | None:
    try:
        return int(daemon.pid_file.read_text())
    except (OSError, ValueError):
        return None


def _write_pid(daemon: Daemon, pid: int) -> None:
    fresh = daemon.pid_file.with_suffix(".pid.new")
    fresh.write_text(f"{pid}\n")
    fresh.replace(daemon.pid_file)


@contextlib.contextmanager
def opened_pid(pid: int) -> Iterator[Handle | None]:
    """A handle on whatever process has this pid now. Look at what it is after this, not before."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, OverflowError):
        yield None
        return
    try:
        yield Handle(pid, fd)
    finally:
        os.close(fd)


def command_line(pid: int) -> list[str]:
    """The words of a process's command line; none for one that is gone, or has ended and waits for its parent."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def stop(daemon: Daemon, within_s: float) -> str:
    """Ask it to end, make it after `within_s`. Gives "" if it did not run, else how it went: "stopped", "killed"."""
    with opened(daemon) as handle:
        if handle is None:
            return ""
        handle.send(signal.SIGTERM)
        if handle.ended_within(within_s):
            daemon.pid_file.unlink(missing_ok=True)
            return "stopped"
        handle.send(signal.SIGKILL)
        handle.ended_within(within_s)
        daemon.pid_file.unlink(missing_ok=True)
        return "killed"


def log_tail(daemon: Daemon, lines: int = 15) -> list[str]:
    """The last lines of its log."""
    try:
        with daemon.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []
