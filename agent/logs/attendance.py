"""Who follows which step: a step whose client stays away is ended, a client that comes back takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from signal import SIGKILL
from typing import Final

from gsched.values.ids import RunKey, StepId

AWAY_S: Final = 10.0  # a client may be gone for so long (its network, a restart of the agent)

Follow = tuple[RunKey, StepId]


class Attendance:
    """At most one connection a step; the newest counts."""

    def __init__(self, signal_step: Callable[[RunKey, StepId, int], None], away_s: float = AWAY_S) -> None:
        self._signal_step = signal_step
        self._away_s = away_s
        self._present: dict[Follow, Callable[[], None]] = {}
        self._away: dict[Follow, asyncio.TimerHandle] = {}

    def joins(self, step: Follow, leave: Callable[[], None]) -> None:
        """A client follows the step now; one that did before is told to leave."""
        timer = self._away.pop(step, None)
        if timer is not None:
            timer.cancel()
        before = self._present.pop(step, None)
        self._present[step] = leave
        if before is not None:
            before()

    def leaves(self, step: Follow, leave: Callable[[], None], ended: bool) -> None:
        """The client is gone. Unless the step has ended, or another took over, its time runs."""
        if self._present.get(step) != leave:
            return
        del self._present[step]
        if not ended:
            self.absent(step)

    def absent(self, step: Follow) -> None:
        """Nobody follows the step (also: an agent that has just started has found it). It is ended in a while."""
        if step not in self._present and step not in self._away:
            loop = asyncio.get_running_loop()
            self._away[step] = loop.call_later(self._away_s, self._end, step)

    def _end(self, step: Follow) -> None:
        del self._away[step]
        self._signal_step(*step, SIGKILL)
