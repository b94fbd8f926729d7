"""The policies that are set side by side. All of them are the production core with other numbers."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest
from gschedd.core.inputs import Policy


class Contender(Struct, frozen=True):
    """A policy by name."""

    name: str
    policy: Policy
    words: str


CONTENDERS: Final = (
    Contender("fifo", Policy(planned_starts=0, strict_order=True), "first come, first served; nobody passes"),
    Contender("easy", Policy(planned_starts=1), "first come, first served, with EASY backfill: one planned start"),
    Contender("gsched", Policy(planned_starts=50, shortest_first=True), "shortest expected GPU time, aged; 50 planned"),
)


def parse_policies(text: str) -> tuple[Contender, ...]:
    """Raises BadRequest."""
    known = {contender.name: contender for contender in CONTENDERS}
    wrong = [word for word in text.split(",") if word not in known]
    if wrong:
        raise BadRequest(f"--policy: found {wrong[0]!r}; expected some of {','.join(known)}")
    return tuple(known[word] for word in dict.fromkeys(text.split(",")))
