"""The two clocks, in integer milliseconds: wall time for what people see, boot time for how long things take."""

from __future__ import annotations

import time


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_ms() -> int:
    """CLOCK_BOOTTIME: never steps, goes on in suspend."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
