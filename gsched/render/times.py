"""Moments as Slurm prints them. (Lengths of time are in `spec/durations.py`.)"""

from __future__ import annotations

import time


def moment(instant_ms: int | None, absent: str = "N/A") -> str:
    """An instant as `YYYY-MM-DDTHH:MM:SS` in local time; None and negative are `absent`."""
    if instant_ms is None or instant_ms < 0:
        return absent
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(instant_ms // 1000))
