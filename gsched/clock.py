"""Clocks, injected wherever time is read: wall time for what people see, boot time for how long things take."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol


class Now(NamedTuple):
    """One reading of both clocks, in integer milliseconds.

    wall: since the epoch; may step. boot: CLOCK_BOOTTIME of this machine; never steps, goes on in suspend.
    """

    wall: int
    boot: int


class Clock(Protocol):
    """Where a daemon gets the time from."""

    def now(self) -> Now: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> Now:
        return Now(time.time_ns() // 1_000_000, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)
