"""The run's control groups as its supervisor sees them; the agent has made them (`agent/isolation`).

The supervisor enters them before it starts anything, so whatever it starts is in them too.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any


class Group:
    """The groups of one run; a run without any is held by its parents alone."""

    def __init__(self, launch: dict[str, Any]) -> None:
        groups = launch.get("groups", {})
        self._procs: list[str] = groups.get("procs", [])
        self._oom: str = groups.get("oom", "")
        self._pids: str = groups.get("pids", "")
        self._fenced = False

    def enter(self) -> None:
        """Move this process in. Raises OSError."""
        for path in self._procs:
            _write(path, b"0")

    def members(self) -> set[int]:
        """Every process in it but this one."""
        found: set[int] = set()
        for path in self._procs[:1]:
            with contextlib.suppress(OSError), open(path, "rb") as file:
                found = {int(pid) for pid in file.read().split()}
        return found - {os.getpid()}

    def fence(self) -> None:
        """Let nothing in it fork any more: before a KILL, so that no process outruns it."""
        if self._pids and not self._fenced:
            self._fenced = True
            with contextlib.suppress(OSError):
                _write(self._pids, b"0")

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for memory."""
        if not self._oom:
            return 0
        with contextlib.suppress(OSError), open(self._oom, "rb") as file:
            for line in file:
                word, _, count = line.partition(b" ")
                if word == b"oom_kill":
                    return int(count)
        return 0


def _write(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)
