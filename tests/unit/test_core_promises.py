"""Planned starts from one pass to the next: kept, or moved later for a cause that is told; and when runs should end."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.values.ids import Instant, NodeName
from gschedd.core.board import snapshot_of
from gschedd.core.inputs import (
    Availability,
    Bookable,
    MoveCause,
    PassInput,
    Plan,
    PlannedStart,
    Policy,
    ReservationInput,
)
from gschedd.core.plan import plan
from tests.builders.cluster import NOW, Cluster, request

HOUR = 3600


def _at(seconds: int) -> Instant:
    return Instant(NOW + 1000 * seconds)


def _decide(
    c: Cluster, before: Plan | None = None, now_s: int = 0, reservations: tuple[ReservationInput, ...] = ()
) -> Plan:
    given = PassInput(
        nodes=tuple(c.nodes.values()),
        holds=tuple(c.holds),
        queue=tuple(c.queue),
        policy=Policy(planned_starts=10),
        now=_at(now_s),
        reservations=reservations,
        planned=() if before is None else before.planned,
    )
    return plan(snapshot_of(given), given.policy, given.now)


def _waiting_gang() -> Cluster:
    c = Cluster(nodes=3)
    c.running("n1", gpus=8, ends_in_s=600)
    c.running("n2", gpus=8, ends_in_s=600)
    c.running("n3", gpus=8, ends_in_s=600)
    c.pending("gang", request(2, gpus=8))
    return c


def _cause(decided: Plan) -> list[MoveCause]:
    return [moved.cause for moved in decided.moved]


def test_a_promise_keeps_its_instant_and_its_nodes() -> None:
    c = _waiting_gang()
    first = _decide(c)
    assert [(p.job, p.at, p.nodes) for p in first.planned] == [(1, _at(600), ("n1", "n2"))]
    promise = replace(first.planned[0], nodes=(NodeName("n2"), NodeName("n3")))
    again = _decide(c, Plan(planned=(promise,)), now_s=60)
    assert [(p.at, p.nodes) for p in again.planned] == [(_at(600), ("n2", "n3"))]
    assert again.moved == ()


def test_a_promise_that_can_be_earlier_is() -> None:
    c = _waiting_gang()
    first = _decide(c)
    c.holds = [replace(hold, expected_end=_at(300)) for hold in c.holds]
    again = _decide(c, first)
    assert [p.at for p in again.planned] == [_at(300)]
    assert again.moved == ()


def test_a_promise_moves_later_when_a_node_of_it_is_drained() -> None:
    c = _waiting_gang()
    c.holds[2] = replace(c.holds[2], expected_end=_at(900))
    first = _decide(c)
    c.node("n1", state=Availability.DRAINED)
    again = _decide(c, first)
    assert [p.at for p in again.planned] == [_at(900)]
    assert [(m.was, m.at, m.cause) for m in again.moved] == [(_at(600), _at(900), MoveCause.NODE)]


def test_a_promise_moves_later_for_a_reservation_a_raised_limit_or_a_late_end() -> None:
    c = _waiting_gang()
    first = _decide(c)
    maint = ReservationInput("maint", tuple(Bookable(NodeName(f"n{i}")) for i in (1, 2, 3)), _at(700), _at(800))
    assert _cause(_decide(c, first, reservations=(maint,))) == [MoveCause.ADMIN]
    holds = c.holds
    c.holds = [replace(hold, expected_end=_at(1200), started=_at(-60)) for hold in holds]
    assert _cause(_decide(c, first)) == [MoveCause.LIMIT]
    c.holds = [replace(hold, started=_at(-60)) for hold in holds]
    assert _cause(_decide(c, first, now_s=601)) == [MoveCause.OVERRUN]


def test_a_promise_moves_later_for_a_job_of_higher_order() -> None:
    c = _waiting_gang()
    first = _decide(c)
    c.pending("above", request(3, gpus=8))
    c.queue.reverse()
    c.queue = [replace(job, rank=1 - i) for i, job in enumerate(c.queue)]
    again = _decide(c, first)
    assert [(m.job, m.at, m.cause) for m in again.moved] == [(1, _at(600 + HOUR), MoveCause.ORDER)]


def test_a_promise_on_nodes_that_are_gone_is_none() -> None:
    c = _waiting_gang()
    gone = PlannedStart(c.queue[0].job, _at(100), (NodeName("n8"), NodeName("n9")))
    again = _decide(c, Plan(planned=(gone,)))
    assert [p.at for p in again.planned] == [_at(600)]
    assert _cause(again) == [MoveCause.NODE]


def test_a_predicted_end_counts_and_is_doubled_each_time_that_it_passes_but_not_over_the_limit() -> None:
    c = Cluster(nodes=1)
    c.running("n1", gpus=8, ends_in_s=1000)
    c.pending("next", request(1, gpus=8))
    for predicted_s, expected_s in ((100, 100), (-50, 100), (-80, 60), (0, 100), (900, 900)):
        c.holds = [replace(c.holds[0], started=_at(-100), predicted_end=_at(predicted_s))]
        assert [p.at for p in _decide(c).planned] == [_at(expected_s)], predicted_s
    c.holds = [replace(c.holds[0], started=_at(-700), predicted_end=_at(-10))]
    assert [p.at for p in _decide(c).planned] == [_at(680)]
    c.holds = [replace(c.holds[0], started=_at(-1500), predicted_end=_at(-10))]
    assert [p.at for p in _decide(c).planned] == [_at(1000)]
