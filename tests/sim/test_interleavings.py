"""One thing happens at every possible moment of a job's life: cancel, hold, a crash, a loss, a changed mind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gsched.values.ids import JobId
from gsched.values.job import JobSpec
from gsched.values.states import JobState
from tests.sim.host import Plan
from tests.sim.world import World

GANG = JobSpec(name="gang", nodes_min=2, gpus_per_node=8, time_limit_s=60)
SINGLE = JobSpec(name="single", gpus_per_node=4, time_limit_s=60)


def _cancel(world: World, job: JobId) -> None:
    world.cancel(job)


def _cancel_twice(world: World, job: JobId) -> None:
    world.cancel(job)
    world.cancel(job)


def _hold_and_release(world: World, job: JobId) -> None:
    world.hold(job)
    world.hold(job, release=True)


def _kill_agent(world: World, _job: JobId) -> None:
    world.restart_agent(world.hosts["n1"], 700)


def _kill_controller(world: World, _job: JobId) -> None:
    world.kill_controller(500)


def _kill_both(world: World, _job: JobId) -> None:
    world.kill_controller(900)
    world.restart_agent(world.hosts["n1"], 300)


def _power_off(world: World, _job: JobId) -> None:
    world.cut_power(world.hosts["n1"], 20_000)


def _cut_off_and_cancel(world: World, job: JobId) -> None:
    world.network.cut.add("n1")
    world.at(2000, lambda: world.cancel(job))
    world.at(400_000, lambda: world.network.cut.discard("n1"))


HAPPENINGS: list[Callable[[World, JobId], None]] = [
    _cancel,
    _cancel_twice,
    _hold_and_release,
    _kill_agent,
    _kill_controller,
    _kill_both,
    _power_off,
    _cut_off_and_cancel,
]


def _life(spec: JobSpec, happening: Callable[[World, JobId], None] | None, moment: int, ignores_term: bool) -> World:
    """One job on two nodes; `happening` comes just before the moment-th event after its submission."""
    world = World(seed=1, nodes=2, quiet=True)
    world.run(5)
    plan = Plan(duration_ms=3000, exit_code=0, ignores_term=ignores_term)
    told: list[JobId] = []
    world.submit(spec, plan, told.append)
    first = world.events

    def before(number: int) -> None:
        if happening is not None and number == first + moment:
            happening(world, JobId(1))

    world.on_event = before
    world.run(3600, until=lambda: bool(told) and world.all_ended() and world.events > first + moment)
    world.heal()
    world.run(120)
    world.look()
    world.run(5)
    return world


def _events_of_a_life(spec: JobSpec) -> int:
    world = World(seed=1, nodes=2, quiet=True)
    world.run(5)
    told: list[JobId] = []
    world.submit(spec, Plan(duration_ms=3000, exit_code=0, ignores_term=False), told.append)
    first = world.events
    world.run(60, until=lambda: bool(told) and world.all_ended())
    return world.events - first


def _walk(happening: Callable[[World, JobId], None], spec: JobSpec, stride: int, ignores_term: bool) -> None:
    for moment in range(1, _events_of_a_life(spec) + 2, stride):
        world = _life(spec, happening, moment, ignores_term)
        world.checker.in_the_end()
        state = world.job_state(JobId(1))
        assert state.final, f"{happening.__name__} at event {moment}: {state.value}"
        if happening in (_kill_agent, _kill_controller, _kill_both, _hold_and_release):
            assert state is JobState.COMPLETED, f"{happening.__name__} at event {moment}: {state.value}"


@pytest.mark.parametrize("happening", HAPPENINGS, ids=lambda h: h.__name__.lstrip("_"))
def test_at_many_moments_of_a_gangs_life(happening: Callable[[World, JobId], None]) -> None:
    _walk(happening, GANG, 9, ignores_term=False)


@pytest.mark.full
@pytest.mark.parametrize("ignores_term", [False, True], ids=["polite", "stubborn"])
@pytest.mark.parametrize("spec", [GANG, SINGLE], ids=["gang", "single"])
@pytest.mark.parametrize("happening", HAPPENINGS, ids=lambda h: h.__name__.lstrip("_"))
def test_at_every_moment(happening: Callable[[World, JobId], None], spec: JobSpec, ignores_term: bool) -> None:
    _walk(happening, spec, 1, ignores_term)
