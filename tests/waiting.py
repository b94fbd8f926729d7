"""Waiting for a condition with a deadline, the only way in which a test lets real time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], within_s: float = 10.0, what: str = "") -> T:
    """Call `condition` again and again until it gives something true; give that. Fails with `what` when time is up."""
    deadline = time.monotonic() + within_s
    pause_s = 0.002
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or condition}; last: {got!r}")
        time.sleep(pause_s)
        pause_s = min(0.1, pause_s * 1.5)
