"""The time line of a pass, with reservations, claims and the promises of the pass before: as its twin has it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gsched.values.ids import Instant
from gsched.values.run import NodeShare
from gschedd.core.board import snapshot_of
from gschedd.core.inputs import Bookable, ClaimInput, NodeInput, PassInput, Plan, PlannedStart, ReservationInput
from gschedd.core.plan import plan
from gschedd.core.twins import plan_py
from tests.builders.cluster import NOW
from tests.builders.clusters_at_random import worlds

SECOND = 1000
STARTS = (-60, 0, 20, 30, 60, 300, 900)


@st.composite
def passes(draw: st.DrawFn) -> PassInput:
    """A small cluster where much is booked, and jobs that name what is."""
    world = draw(worlds(most_nodes=5, most_jobs=8))
    reservations = tuple(draw(_reservation(world.nodes, name)) for name in draw(st.sampled_from([(), "a", "ab"])))
    named = st.sampled_from(["", "", "", "a", "b", "gone"])
    queue = tuple(replace(job, request=replace(job.request, reservation=draw(named))) for job in world.queue)
    claims = tuple(draw(_claim(world.nodes, job.job)) for job in queue[:1] if draw(st.booleans()))
    policy = replace(world.policy, planned_starts=draw(st.sampled_from([1, 3, 8])), strict_order=False)
    return PassInput(world.nodes, world.holds, queue, policy, NOW, reservations=reservations, claims=claims)


@st.composite
def _reservation(draw: st.DrawFn, nodes: tuple[NodeInput, ...], name: str) -> ReservationInput:
    held = draw(st.lists(st.sampled_from([node.name for node in nodes]), min_size=1, max_size=3, unique=True))
    start = draw(st.sampled_from(STARTS))
    lasts = draw(st.sampled_from([None, 30, 300, 3600]))
    return ReservationInput(
        name=name,
        holds=tuple(Bookable(node, draw(st.sampled_from([-1, -1, 0b0011, 0b1110]))) for node in held),
        start=_at(start),
        end=None if lasts is None else _at(start + lasts),
        maint=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def _claim(draw: st.DrawFn, nodes: tuple[NodeInput, ...], job: int) -> ClaimInput:
    node = draw(st.sampled_from(nodes))
    share = NodeShare(node.name, cpus=1, mem_mib=100, gpus=draw(st.sampled_from([0, 1, 0b1100])))
    return ClaimInput(job, (share,), _at(draw(st.sampled_from([0, 30, 300]))))


def _at(seconds: int) -> Instant:
    return Instant(NOW + SECOND * seconds)


def _decide(given: PassInput) -> Plan:
    return plan(snapshot_of(given), given.policy, given.now)


@settings(max_examples=40)
@given(passes())
def test_a_pass_with_reservations_and_claims_agrees_with_its_twin(given: PassInput) -> None:
    snapshot = snapshot_of(given)
    assert plan(snapshot, given.policy, NOW) == plan_py(snapshot, given.policy, NOW)


@settings(max_examples=25)
@given(passes())
def test_promises_are_kept_by_a_pass_over_the_same_world(given: PassInput) -> None:
    first = _decide(given)
    again = replace(given, planned=first.planned)
    assert _decide(again).planned == first.planned
    assert plan_py(snapshot_of(again), given.policy, NOW).planned == first.planned


@settings(max_examples=25)
@given(passes())
def test_no_instant_of_the_whole_plan_gives_more_gpus_or_cores_than_a_node_has(given: PassInput) -> None:
    decided = _decide(given)
    spans = _spans(given, decided)
    for node in given.nodes:
        here = [span for span in spans if span[0] == node.name]
        whole = [r for r in given.reservations for hold in r.holds if hold.node == node.name and hold.gpus < 0]
        for _, start, _, _, _, job in here:
            on = [span for span in here if span[1] <= start < span[2]]
            assert sum(span[3] for span in on) <= len(node.inventory.gpus)
            assert sum(span[4] for span in on) <= node.inventory.cpus
            for reservation in whole:
                named = next((j.request.reservation for j in given.queue if j.job == job), None)
                inside = reservation.start <= start and (reservation.end is None or start < reservation.end)
                assert not inside or named is None or named == reservation.name


def _spans(given: PassInput, decided: Plan) -> list[tuple[str, int, int, int, int, int]]:
    """(node, start, end, GPUs, cores, job) of all that runs, starts or is planned; ends as the pass counts them."""
    never = 1 << 60
    kill = SECOND * given.policy.kill_time_s
    limits = {job.job: SECOND * job.request.time_limit_s or never for job in given.queue}
    needs = {job.job: job.request.need for job in given.queue}
    spans = []
    for hold in given.holds:
        end = never if hold.expected_end is None else hold.expected_end
        end = NOW + kill if end <= NOW else end
        spans += [(share.node, 0, end, share.gpus.bit_count(), share.cpus, -1) for share in hold.shares]
    for start in decided.starts:
        for share in start.shares:
            end = NOW + limits[start.job]
            spans.append((share.node, NOW, end, share.gpus.bit_count(), share.cpus, start.job))
    for planned in decided.planned:
        need, end = needs[planned.job], planned.at + limits[planned.job]
        spans += [(node, planned.at, end, need.gpus, need.cpus, planned.job) for node in planned.nodes]
    return spans


@settings(max_examples=25)
@given(passes())
def test_a_promise_that_cannot_be_improved_keeps_its_nodes(given: PassInput) -> None:
    """Whatever nodes were promised at the earliest instant, if they fit then: not those that would be chosen anew."""
    first = _decide(given)
    for planned in first.planned[:1]:
        others = tuple(node.name for node in reversed(given.nodes))[: len(planned.nodes)]
        promise = PlannedStart(planned.job, planned.at, others)
        again = _decide(replace(given, planned=(promise,))).planned[0]
        assert (again.job, again.at) == (planned.job, planned.at)
        assert set(again.nodes) in (set(others), set(planned.nodes))
