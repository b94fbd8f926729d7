"""A question to the planning thread sees everything up to now, and its answer comes on the loop."""

from __future__ import annotations

import asyncio
import threading

from gsched.values.ids import Instant, JobId
from gschedd.core.inputs import JobGone, PassLog, Plan, Policy
from gschedd.planner import Planner

LOG = PassLog((JobGone(JobId(7)),), Policy(), Instant(5))


class Told:
    """A desk that keeps what it was told."""

    def __init__(self) -> None:
        self.logs: list[PassLog] = []

    def replay(self, log: PassLog) -> None:
        self.logs.append(log)

    def decide(self, log: PassLog) -> Plan:
        self.replay(log)
        return Plan()


def test_a_question_is_answered_after_the_desk_was_told_all() -> None:
    desk = Told()

    async def ask() -> tuple[int, bool]:
        planner = Planner(lambda: LOG, desk, lambda _: None)
        here, answer = threading.get_ident(), asyncio.get_running_loop().create_future()
        planner.inquire(
            lambda log: (len(desk.logs) * log.now, threading.get_ident() == here),
            lambda found: answer.set_result((found, threading.get_ident() == here)),
        )
        found, on_the_loop = await answer
        planner.stop()
        assert on_the_loop
        return found

    assert asyncio.run(ask()) == (5, False)
    assert desk.logs == [LOG]
