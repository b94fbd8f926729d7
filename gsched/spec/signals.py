"""Signals by name or number: `TERM`, `SIGUSR1`, `9`."""

from __future__ import annotations

import signal
from typing import Final

from gsched.errors import BadRequest

_BY_NAME: Final = {s.name.removeprefix("SIG"): int(s) for s in signal.Signals}
_LAST: Final = max(_BY_NAME.values())


def parse_signal(text: str) -> int:
    """Read a signal, in any case, with or without SIG. Raises BadRequest."""
    name = text.upper().removeprefix("SIG")
    if name in _BY_NAME:
        return _BY_NAME[name]
    if text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= _LAST:
        return int(text)
    raise BadRequest(f"not a signal: {text[:40]!r} (a number from 1 to {_LAST}, or a name as TERM, INT, USR1, KILL)")


def signal_name(number: int) -> str:
    """`USR1` for 10; the number itself for one without a name."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)
