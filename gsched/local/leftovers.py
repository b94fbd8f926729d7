"""What jobs of a local cluster have left running: found by what only they carry, ended in order.

A process of a job was started with GSCHED_SOCKET naming the agent's socket in this directory; its supervisor runs the
program `agent/supervisor` and holds a file below the node's spool. A look at a file in the directory, or a shell that
uses the cluster, is neither.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from gsched.local.place import Place
from gsched.local.processes import command_line, opened_pid, own_processes

_PAUSE_S: Final = 0.02
_KILL_WAIT_S: Final = 5.0


def supervisors(place: Place) -> list[int]:
    """Pids of the supervisors of this cluster's runs."""
    return [pid for pid in own_processes() if _is_supervisor(pid, place)]


def job_processes(place: Place) -> list[int]:
    """Pids of processes that this cluster's jobs started, whoever their parents are now."""
    return [pid for pid in own_processes() if _is_jobs(pid, place)]


def end_all(place: Place, grace_s: float) -> int:
    """End what is left: TERM, and KILL after `grace_s`. Gives how many processes there were.

    Supervisors are asked first, because they end their runs in order and record it; what has no supervisor any more is
    asked itself.
    """
    asked: set[int] = set()
    deadline = time.monotonic() + grace_s
    number = signal.SIGTERM
    while True:
        over, below = supervisors(place), job_processes(place)
        if not over and not below:
            return len(asked)
        if time.monotonic() > deadline:
            if number == signal.SIGKILL:
                return len(asked)  # not even that helps: the kernel has them
            number, deadline = signal.SIGKILL, time.monotonic() + _KILL_WAIT_S
            asked_now = {*over, *below}
        else:
            asked_now = set(over or below) - asked
        for pid in asked_now:
            _send(pid, place, number)
        asked |= asked_now
        time.sleep(_PAUSE_S)


def _send(pid: int, place: Place, number: int) -> None:
    with opened_pid(pid) as handle:
        if handle is not None and (_is_jobs(pid, place) or _is_supervisor(pid, place)):
            handle.send(number)


def _is_jobs(pid: int, place: Place) -> bool:
    mark = b"GSCHED_SOCKET=" + os.fsencode(place.directory / "nodes") + b"/"
    try:
        return any(pair.startswith(mark) for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return False


def _is_supervisor(pid: int, place: Place) -> bool:
    words = command_line(pid)
    if not any(word.endswith("/agent/supervisor") for word in words):
        return False
    nodes = f"{place.directory / 'nodes'}/"
    if any(word.startswith(nodes) for word in words):
        return True
    try:
        return any(str(link.readlink()).startswith(nodes) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
