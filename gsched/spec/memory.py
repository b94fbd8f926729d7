"""Sizes of memory, to MiB and back. A number without a unit is MiB; K, M, G and T are powers of 1024."""

from __future__ import annotations

import re
from typing import Final

from gsched.errors import BadRequest

MEMORY_MAX_MIB: Final = 1 << 40  # an EiB: fits every integer we keep it in

_SIZE: Final = r"(?ai)([0-9]{1,18})([KMGT]?)"
_MIB: Final = {"": 1, "M": 1, "G": 1024, "T": 1024 * 1024}


def parse_memory(text: str) -> int:
    """Read `4000`, `4000M`, `4G`, `1T` or `500K` (rounded up): MiB. Raises BadRequest, which lists the forms."""
    found = re.fullmatch(_SIZE, text)
    if not found:
        what = "memory cannot be negative" if text.startswith("-") else "not a size of memory"
        raise BadRequest(f"{what}: {text[:40]!r} (a whole number of MiB, or with K, M, G or T, as 4000 or 16G)")
    number, unit = int(found[1]), found[2].upper()
    mib = -(-number // 1024) if unit == "K" else number * _MIB[unit]
    if mib > MEMORY_MAX_MIB:
        raise BadRequest(f"{text} of memory was asked; the most one job can ask on a node is {MEMORY_MAX_MIB} MiB")
    return mib


def format_memory(mib: int) -> str:
    """Write MiB with the largest unit that divides it: `4000M`, `16G`, `2T`, `0`."""
    if mib == 0:
        return "0"
    for unit in ("T", "G"):
        if mib % _MIB[unit] == 0:
            return f"{mib // _MIB[unit]}{unit}"
    return f"{mib}M"
