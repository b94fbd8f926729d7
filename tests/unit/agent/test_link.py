"""The agent's pauses between tries, and who attends to a step."""

from __future__ import annotations

import asyncio
from signal import SIGKILL

from agent.link.controller import BackOff
from agent.logs.attendance import Attendance
from gsched.values.ids import JobId, RunKey, RunNo, StepId

STEP = (RunKey(JobId(1), RunNo(1)), StepId(0))


def test_pauses_have_full_jitter_over_a_window_that_doubles_up_to_what_the_controller_said() -> None:
    windows: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        windows.append((low, high))
        return high

    back_off = BackOff(1.0, draw)
    for _ in range(7):
        back_off.next_s()
    assert windows == [(0.0, w) for w in (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0)]
    back_off.reset(0.15)
    assert [back_off.next_s() for _ in range(3)] == [0.05, 0.1, 0.15]


class Kills:
    """Remembers which steps were killed."""

    def __init__(self) -> None:
        self.sent: list[tuple[RunKey, StepId, int]] = []
        self.news = asyncio.Event()

    def __call__(self, key: RunKey, step: StepId, signal: int) -> None:
        self.sent.append((key, step, signal))
        self.news.set()


def leave_nothing() -> None:
    pass


def test_a_step_is_killed_when_its_client_stays_away() -> None:
    async def story() -> None:
        kills = Kills()
        attendance = Attendance(kills, away_s=0.02)
        attendance.joins(STEP, leave_nothing)
        attendance.leaves(STEP, leave_nothing, ended=False)
        async with asyncio.timeout(5):
            await kills.news.wait()
        assert kills.sent == [(*STEP, SIGKILL)]

    asyncio.run(story())


def test_a_client_that_comes_back_in_time_keeps_its_step_and_an_ended_step_needs_nobody() -> None:
    async def story() -> None:
        kills = Kills()
        attendance = Attendance(kills, away_s=0.02)
        attendance.absent(STEP)  # a new agent found it
        attendance.joins(STEP, leave_nothing)
        other = (STEP[0], StepId(1))
        attendance.joins(other, leave_nothing)
        attendance.leaves(other, leave_nothing, ended=True)
        await asyncio.sleep(0.06)
        assert not kills.sent

    asyncio.run(story())


def test_a_second_client_takes_over_from_the_first() -> None:
    async def story() -> None:
        left: list[str] = []

        def first() -> None:
            left.append("first")

        kills = Kills()
        attendance = Attendance(kills, away_s=0.02)
        attendance.joins(STEP, first)
        attendance.joins(STEP, leave_nothing)
        assert left == ["first"]
        attendance.leaves(STEP, first, ended=False)  # too late to count
        await asyncio.sleep(0.06)
        assert not kills.sent

    asyncio.run(story())
