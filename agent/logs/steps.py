"""What the stream server asks of whoever runs the steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from gsched.auth.tickets import Ticket
from gsched.protocol.stream import OpenStep
from gsched.values.ids import RunKey, StepId


class Steps(Protocol):
    """The executor's side of steps. A step is known by its run and number."""

    def has_step(self, key: RunKey, step: StepId) -> bool:
        """True once the step was begun here, until its run is forgotten."""

    async def open_step(self, key: RunKey, step: StepId, request: OpenStep, ticket: Ticket) -> None:
        """Start its tasks, once, if the ticket is the run's user's.

        Raises NotFound, NotPermitted, Conflict, Unavailable.
        """

    def signal_step(self, key: RunKey, step: StepId, signal: int) -> None: ...

    def step_output(self, key: RunKey, step: StepId, rank: int, error: bool) -> Path: ...

    def task_ends(self, key: RunKey, step: StepId) -> dict[int, tuple[int, int]]:
        """Exit code and signal by rank, of the tasks that have ended. All they wrote is in their files then."""

    def on_step_change(self, key: RunKey, step: StepId) -> asyncio.Event:
        """A new event, set whenever a task of the step ends; its taker clears it. Raises NotFound."""
