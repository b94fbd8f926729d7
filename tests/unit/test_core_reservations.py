"""Administrators' reservations and claims in a pass: nobody else overlaps them, their own jobs stay inside."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.job import Request
from gsched.values.run import NodeShare
from gsched.values.states import Reason
from gschedd.core.board import snapshot_of
from gschedd.core.inputs import Bookable, ClaimInput, PassInput, Policy, ReservationInput
from gschedd.core.plan import plan
from tests.builders.cluster import NOW, Cluster, Outcome, request

HOUR = 3600


def _at(seconds: int) -> Instant:
    return Instant(NOW + 1000 * seconds)


def _held(*names: str, gpus: int = -1) -> tuple[Bookable, ...]:
    return tuple(Bookable(NodeName(name), gpus) for name in names)


def _inside(name: str, wanted: Request) -> Request:
    return replace(wanted, reservation=name)


def _decide(c: Cluster, *reservations: ReservationInput, claims: tuple[ClaimInput, ...] = ()) -> Outcome:
    policy = Policy(planned_starts=10)
    given = PassInput(
        tuple(c.nodes.values()), tuple(c.holds), tuple(c.queue), policy, NOW, reservations=reservations, claims=claims
    )
    return Outcome(plan(snapshot_of(given), policy, NOW), c.names)


def test_a_job_keeps_out_of_a_reservation_and_out_of_its_start() -> None:
    c = Cluster(nodes=1)
    c.pending("long", request(1, gpus=1, limit_s=2 * HOUR))
    c.pending("short", request(1, gpus=1, limit_s=HOUR))
    outcome = _decide(c, ReservationInput("maint", _held("n1"), _at(HOUR), _at(3 * HOUR), maint=True))
    assert outcome.started == {"short": ["n1"]}
    assert outcome.reasons == {"long": Reason.RESERVATION}
    assert outcome.details["long"] == "would run into a reservation"
    assert outcome.planned == {"long": (3 * HOUR, ["n1"])}


def test_a_reservation_of_some_gpus_leaves_the_others() -> None:
    c = Cluster(nodes=1)
    c.pending("four", request(1, gpus=4))
    c.pending("one", request(1, gpus=1))
    outcome = _decide(c, ReservationInput("half", _held("n1", gpus=0x0F), _at(0), None))
    assert outcome.gpus == {"four": [0xF0]}
    assert outcome.reasons == {"one": Reason.RESERVATION}


def test_a_job_of_a_reservation_runs_on_what_it_holds_within_its_time() -> None:
    c = Cluster(nodes=2)
    c.pending("inside", _inside("mine", request(1, gpus=2)))
    c.pending("too long", _inside("mine", request(1, gpus=1, limit_s=5 * HOUR)))
    c.pending("too many", _inside("mine", request(1, gpus=3)))
    c.pending("outside", request(1, gpus=8))
    outcome = _decide(c, ReservationInput("mine", _held("n2", gpus=0b1100), _at(-HOUR), _at(4 * HOUR)))
    assert outcome.started == {"inside": ["n2"], "outside": ["n1"]}
    assert outcome.gpus["inside"] == [0b1100]
    assert outcome.reasons == {"too long": Reason.RESERVATION, "too many": Reason.BAD_CONSTRAINTS}


def test_a_job_waits_for_its_reservation_and_is_planned_for_its_start() -> None:
    c = Cluster(nodes=2)
    c.pending("early", _inside("later", request(1, gpus=8)))
    c.pending("gone", _inside("no such", request(1, gpus=1)))
    outcome = _decide(c, ReservationInput("later", _held("n2"), _at(HOUR), _at(4 * HOUR)))
    assert outcome.started == {}
    assert outcome.reasons == {"early": Reason.RESERVATION, "gone": Reason.RESERVATION}
    assert outcome.details["early"] == "waits for reservation later"
    assert outcome.planned == {"early": (HOUR, ["n2"])}


def test_nobody_runs_inside_a_reservation_for_maintenance() -> None:
    c = Cluster(nodes=1)
    c.pending("any", _inside("maint", request(1, gpus=1)))
    assert _decide(c, ReservationInput("maint", _held("n1"), _at(0), None, maint=True)).started == {}


def test_a_claim_is_held_for_its_job_until_it_passes() -> None:
    c = Cluster(nodes=1)
    c.running("n1", gpus=8, ends_in_s=30)
    c.pending("preemptor", request(1, gpus=8))
    c.pending("thief", request(1, gpus=1, limit_s=10))
    share = NodeShare(NodeName("n1"), cpus=1, mem_mib=1, gpus=0xFF)
    kept = _decide(c, claims=(ClaimInput(JobId(1), (share,), _at(600)),))
    assert kept.planned == {"preemptor": (30, ["n1"]), "thief": (3630, ["n1"])}
    c.holds.clear()
    c.queue.reverse()
    assert _decide(c, claims=(ClaimInput(JobId(1), (share,), _at(600)),)).started == {"preemptor": ["n1"]}
    assert _decide(c, claims=(ClaimInput(JobId(1), (share,), _at(0)),)).started == {"preemptor": ["n1"]}
