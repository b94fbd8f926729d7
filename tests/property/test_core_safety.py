"""What holds for every plan: nothing twice, gangs whole, same input same plan, planned starts not delayed."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from msgspec.structs import replace

from gsched.values.ids import Instant, RunKey, RunNo
from gsched.values.job import MemoryRule, Request
from gsched.values.run import NodeShare
from gsched.values.states import Reason
from gschedd.core.board import build_snapshot
from gschedd.core.feasible import why_impossible
from gschedd.core.features import features_match, model_mask
from gschedd.core.inputs import Availability, HoldInput, NodeInput, Plan, QueueInput
from gschedd.core.plan import plan
from tests.builders.cluster import NOW
from tests.builders.clusters_at_random import LEVELS, World, worlds


def _plan(world: World) -> Plan:
    return plan(build_snapshot(world.nodes, world.holds, world.queue, levels=LEVELS), world.policy, NOW)


@settings(max_examples=25)
@given(worlds())
def test_no_gpu_core_or_byte_is_given_twice(world: World) -> None:
    shares = [share for hold in world.holds for share in hold.shares]
    shares += [share for start in _plan(world).starts for share in start.shares]
    for node in world.nodes:
        here = [share for share in shares if share.node == node.name]
        taken = 0
        for share in here:
            assert not taken & share.gpus
            taken |= share.gpus
        assert sum(share.cpus for share in here) <= node.inventory.cpus
        assert sum(share.mem_mib for share in here) <= node.inventory.memory_mib


@settings(max_examples=25)
@given(worlds())
def test_a_job_gets_all_it_asked_for_on_nodes_it_may_use_or_nothing(world: World) -> None:
    nodes = {node.name: node for node in world.nodes}
    queue = {job.job: job for job in world.queue}
    for start in _plan(world).starts:
        job = queue[start.job]
        wanted = job.request
        names = [share.node for share in start.shares]
        assert max(wanted.nodes_min, len(wanted.nodelist)) <= len(names) <= max(wanted.nodes_max, len(wanted.nodelist))
        assert len(set(names)) == len(names)
        assert set(wanted.nodelist) <= set(names)
        assert not {*wanted.exclude, *job.avoid} & set(names)
        for share in start.shares:
            _assert_member(wanted, nodes[share.node], share)


def _assert_member(wanted: Request, node: NodeInput, share: NodeShare) -> None:
    assert node.availability is Availability.UP
    assert wanted.partition in node.partitions
    assert features_match(wanted.constraint, node.features)
    assert share.cpus == wanted.need.cpus
    assert share.gpus.bit_count() == wanted.need.gpus
    assert not share.gpus & node.gpus_out
    assert not share.gpus & ~model_mask(wanted.gpu_model, node.inventory)
    if wanted.need.mem_rule is MemoryRule.EXACT:
        assert share.mem_mib == wanted.need.mem_mib


@settings(max_examples=20)
@given(worlds())
def test_every_job_is_answered_once_and_the_same_input_gives_the_same_plan(world: World) -> None:
    first = _plan(world)
    assert first == _plan(world)
    answered = [start.job for start in first.starts] + [wait.job for wait in first.waits]
    assert sorted(answered) == [job.job for job in world.queue]
    assert {start.job for start in first.planned} <= {wait.job for wait in first.waits}


@settings(max_examples=25)
@given(worlds())
def test_a_job_is_called_impossible_exactly_when_submit_would_refuse_it(world: World) -> None:
    """The words of feasible.py and the walk's verdict come from different code: they may not differ."""
    given_up = {wait.job for wait in _plan(world).waits if wait.reason is Reason.BAD_CONSTRAINTS}
    for job in world.queue:
        spread = job.request.level or job.request.switches or job.request.segment  # these the pass alone judges
        if not world.policy.strict_order and not spread:
            assert (why_impossible(_without_most(job.request), world.nodes) is not None) == (job.job in given_up)


def _without_most(request: Request) -> Request:
    """A nodelist longer than asked for is refused at submit only."""
    return replace(request, nodes_max=max(request.nodes_max, len(request.nodelist)))


@settings(max_examples=25)
@given(worlds())
def test_the_highest_job_that_waits_starts_when_planned_if_ends_keep_their_word(world: World) -> None:
    """Replay: at the planned instant, with all that ended taken away, a pass with that job first starts it."""
    decided = _plan(world)
    for planned in decided.planned[:1]:
        job = next(job for job in world.queue if job.job == planned.job)
        holds = [*_late_ends(world), *_as_holds(decided, world.queue)]
        still = [hold for hold in holds if hold.expected_end is None or hold.expected_end > planned.at]
        again = plan(build_snapshot(world.nodes, still, [job], levels=LEVELS), world.policy, planned.at)
        assert [start.job for start in again.starts] == [planned.job]


@settings(max_examples=25)
@given(worlds())
def test_a_planned_start_is_not_made_later_by_any_lower_job(world: World) -> None:
    """With lower jobs or without them: the first planned start is the same, or there is none to delay."""
    decided = _plan(world)
    for planned in decided.planned[:1]:
        upto = [job for job in world.queue if job.job <= planned.job]
        alone = plan(build_snapshot(world.nodes, world.holds, upto, levels=LEVELS), world.policy, NOW)
        assert alone.planned[0] == planned
        started = [*_late_ends(world), *_as_holds(decided, world.queue)]
        job = [job for job in upto if job.job == planned.job]
        after = plan(build_snapshot(world.nodes, started, job, levels=LEVELS), world.policy, NOW)
        assert after.planned[0].at <= planned.at


def _late_ends(world: World) -> list[HoldInput]:
    """Runs, where an end that has passed is a minute from now, as the pass counts it."""
    minute = Instant(NOW + 1000 * world.policy.kill_time_s)
    return [
        replace(hold, expected_end=minute) if hold.expected_end is not None and hold.expected_end <= NOW else hold
        for hold in world.holds
    ]


def _as_holds(decided: Plan, queue: Iterable[QueueInput]) -> list[HoldInput]:
    limits = {job.job: job.request.time_limit_s for job in queue}
    return [
        HoldInput(
            RunKey(start.job, RunNo(1)),
            start.shares,
            Instant(NOW + 1000 * limits[start.job]) if limits[start.job] else None,
        )
        for start in decided.starts
    ]
