"""The policies that are set side by side. All of them are the production core with other numbers."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest
from gschedd.core.inputs import Policy
from gschedd.replay.knowledge import Setting


class Contender(Struct, frozen=True):
    """A policy by name."""

    name: str
    policy: Policy
    words: str
    blind: Policy | None = None  # where no job has a limit

    def policy_in(self, setting: Setting) -> Policy:
        return self.blind if setting is Setting.BLIND and self.blind is not None else self.policy


# Where nothing has a limit no instant can be planned, and each further planned start only keeps others off its nodes;
# nor does the size alone tell who is short. So there the order is by age and one start is planned.
_WITHOUT_LIMITS: Final = Policy(planned_starts=1, shortest_first=True, no_limit_s=0)

CONTENDERS: Final = (
    Contender("fifo", Policy(planned_starts=0, strict_order=True), "first come, first served; nobody passes"),
    Contender("easy", Policy(planned_starts=1), "first come, first served, with EASY backfill: one planned start"),
    Contender(
        "gsched",
        Policy(planned_starts=50, shortest_first=True),
        "short jobs first, aged, 50 planned starts; where no job has a limit by age, one planned start",
        _WITHOUT_LIMITS,
    ),
)


def parse_policies(text: str) -> tuple[Contender, ...]:
    """Raises BadRequest."""
    known = {contender.name: contender for contender in CONTENDERS}
    wrong = [word for word in text.split(",") if word not in known]
    if wrong:
        raise BadRequest(f"--policy: found {wrong[0]!r}; expected some of {','.join(known)}")
    return tuple(known[word] for word in dict.fromkeys(text.split(",")))
