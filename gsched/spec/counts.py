"""Counts of things: whole, positive, below a bound that only a slip of the finger exceeds."""

from __future__ import annotations

import re
from typing import Final

from gsched.errors import BadRequest

COUNT_MAX: Final = 1_000_000

_WHOLE: Final = r"[0-9]+"
_FRACTION: Final = r"[0-9]*\.[0-9]+"


def parse_count(text: str, what: str, most: int = COUNT_MAX) -> int:
    """Read a count of `what` ("nodes", "tasks"): 1 to `most`. Raises BadRequest."""
    if not re.fullmatch(_WHOLE, text):
        raise BadRequest(f"not a whole number of {what}: {text!r}")
    if len(text) > 18 or int(text) > most:
        raise BadRequest(f"{text[:24]} {what} were asked; the most one job can ask is {most}")
    if int(text) == 0:
        raise BadRequest(f"0 {what} were asked; the least is 1")
    return int(text)


def parse_gpu_count(text: str) -> int:
    """Read a count of GPUs. Raises BadRequest; the text says so where it was a fraction or zero."""
    if re.fullmatch(_FRACTION, text):
        raise BadRequest(f"{text} GPUs were asked; fractions of a GPU are not supported yet, ask for whole ones")
    if re.fullmatch(_WHOLE, text) and not text.strip("0"):
        raise BadRequest("0 GPUs were asked; leave the option out for a job without GPUs")
    return parse_count(text, "GPUs")


def parse_node_count(text: str) -> tuple[int, int]:
    """Read `4` or `2-4`: fewest and most nodes. Raises BadRequest."""
    least, dash, most = text.partition("-")
    if not dash:
        count = parse_count(text, "nodes")
        return count, count
    if not (re.fullmatch(_WHOLE, least) and re.fullmatch(_WHOLE, most)):
        raise BadRequest(f"not a number of nodes: {text!r} (forms: COUNT, FEWEST-MOST)")
    low, high = parse_count(least, "nodes"), parse_count(most, "nodes")
    if low > high:
        raise BadRequest(f"from {low} to {high} nodes were asked; the first number must be the smaller one")
    return low, high
