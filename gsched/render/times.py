"""Times as Slurm prints them: lengths in two spellings, moments in local time."""

from __future__ import annotations

import time

UNLIMITED = "UNLIMITED"
UNKNOWN = "Unknown"


def short_length(seconds: int) -> str:
    """A length as squeue and sinfo show it: `0:07`, `1:02:03`, `2-00:00:00`. Negative counts as 0."""
    days, hours, minutes, rest = _parts(seconds)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def full_length(seconds: int) -> str:
    """A length as scontrol and sacct show it: `00:00:07`, `2-00:00:00`. Negative counts as 0."""
    days, hours, minutes, rest = _parts(seconds)
    clock = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days}-{clock}" if days else clock


def _parts(seconds: int) -> tuple[int, int, int, int]:
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest


def moment(instant_ms: int | None, absent: str = "N/A") -> str:
    """An instant as `YYYY-MM-DDTHH:MM:SS` in local time; None and negative are `absent`."""
    if instant_ms is None or instant_ms < 0:
        return absent
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(instant_ms // 1000))
