"""What the planning thread works on: a board of its own, and passes over it."""

from __future__ import annotations

from gschedd.core.board import Board
from gschedd.core.inputs import PassLog, Plan
from gschedd.core.plan import plan


class Desk:
    """Told every log, in order; used by one thread at a time."""

    def __init__(self) -> None:
        self.board = Board()

    def replay(self, log: PassLog) -> None:
        """Take over what has changed."""
        self.board.replay(log)

    def decide(self, log: PassLog) -> Plan:
        """One pass over what is known with this log."""
        self.replay(log)
        return plan(self.board.snapshot(), log.policy, log.now)
