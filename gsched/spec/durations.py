"""Durations as Slurm writes them, to seconds and back.

`parse_duration` keeps seconds: `00:00:01` is one second, not rounded up to a minute. 0 means no limit, both ways.
"""

from __future__ import annotations

import re
from typing import Final

from gsched.errors import BadRequest

FORMS: Final = (
    "MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, DAYS-HOURS:MINUTES, DAYS-HOURS:MINUTES:SECONDS, "
    "UNLIMITED"
)
NO_LIMIT: Final = 0
DAYS_MAX: Final = 36_500  # a century: beyond it is a slip of the finger

_DAY: Final = 24 * 3600
_CLOCK: Final = r"([0-9]+)(?::([0-9]+))?(?::([0-9]+))?"
_DAYS: Final = r"([0-9]+)-([0-9]+)(?::([0-9]+))?(?::([0-9]+))?"


def parse_duration(text: str) -> int:
    """Read a duration: seconds; 0 for `0`, `infinite` and `UNLIMITED`. Raises BadRequest, which lists the forms.

    Without days one number is minutes, two are minutes and seconds: `90` is 90 minutes, `30:00` half an hour.
    """
    if text.lower() in {"infinite", "unlimited"}:
        return NO_LIMIT
    if len(text) > 40:
        raise BadRequest(f"not a time: {text[:40]!r}... (forms: {FORMS})")
    if found := re.fullmatch(_DAYS, text):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    elif found := re.fullmatch(_CLOCK, text):
        days = 0
        first, second, third = found.groups()
        if third is not None:
            hours, minutes, seconds = int(first), int(second), int(third)
        else:
            hours, minutes, seconds = 0, int(first), int(second or 0)
    elif text.startswith("-"):
        raise BadRequest(f"a time cannot be negative: {text!r} (forms: {FORMS})")
    else:
        raise BadRequest(f"not a time: {text!r} (forms: {FORMS})")
    total = days * _DAY + hours * 3600 + minutes * 60 + seconds
    if total > DAYS_MAX * _DAY:
        raise BadRequest(f"{text} is longer than {DAYS_MAX} days; write UNLIMITED for no limit")
    return total


def squeue_style(seconds: int) -> str:
    """As squeue prints times: `0:05`, `1:05`, `1:01:05`, `2-01:01:05`. Below zero counts as zero."""
    days, hours, minutes, left = _parts(seconds)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def sacct_style(seconds: int) -> str:
    """As sacct prints times: `00:01:05`, `2-01:01:05`. Below zero counts as zero."""
    days, hours, minutes, left = _parts(seconds)
    return f"{days}-{hours:02}:{minutes:02}:{left:02}" if days else f"{hours:02}:{minutes:02}:{left:02}"


def squeue_limit(seconds: int) -> str:
    """A time limit in squeue's style; `UNLIMITED` for none. (sinfo writes `infinite` there.)"""
    return "UNLIMITED" if seconds == NO_LIMIT else squeue_style(seconds)


def sacct_limit(seconds: int) -> str:
    """A time limit in sacct's style; `UNLIMITED` for none."""
    return "UNLIMITED" if seconds == NO_LIMIT else sacct_style(seconds)


def _parts(seconds: int) -> tuple[int, int, int, int]:
    minutes, left = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, left
