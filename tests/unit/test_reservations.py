"""Administrators' reservations: who makes them, what they may hold, who may submit into them, what shows."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.errors import BadRequest, Conflict, Impossible, NotFound, NotPermitted
from gsched.protocol.messages import CreateReservation, DeleteReservation, ListNodes, ListReservations
from gsched.render.records import record
from gsched.render.reservations import reservation_json, reservation_record
from gsched.values.ids import BatchNo, Instant, JobId, NodeName, Term
from gsched.values.node import NodeState
from gsched.values.states import JobState, Reason
from gschedd.build import decide
from gschedd.core.inputs import Bookable, JobGone
from gschedd.events import Planned, Tick
from gschedd.lifecycle.changes import Loaded, PutReservation
from gschedd.services.planning import reason_of
from tests.builders.controller import EPOCH, UID, Controller

HOUR = 3_600_000


def make(c: Controller, name: str = "mine", *nodes: str, uid: int = 0, **more: Any) -> str:
    """As root: for user 1000 unless another thing is said, from now for an hour."""
    c._requests += 1
    who = {} if more.get("maint") or "accounts" in more else {"users": ("user1000",), "uids": (UID,)}
    given = {"end": Instant(EPOCH + HOUR), **who, **more}
    names = tuple(NodeName(node) for node in nodes)
    reply = c.ask(CreateReservation(request_id=f"r{c._requests}", name=name, nodes=names, **given), uid)
    return str(reply.note)


def names(c: Controller) -> list[str]:
    return [row.reservation.name for row in c.ask(ListReservations()).rows]


def states(c: Controller) -> dict[str, NodeState]:
    return {row.node.name: row.state for row in c.ask(ListNodes()).rows}


def test_one_is_made_shown_deleted_and_told_to_the_pass() -> None:
    c = Controller()
    make(c, "mine", "n1", "n2")
    (row,) = c.ask(ListReservations(("mine",))).rows
    assert row.active
    text = record(reservation_record(row), True)
    assert "ReservationName=mine" in text
    assert "Nodes=n[1-2] NodeCnt=2 Gpus=all Users=user1000" in text
    assert reservation_json(row)["nodes"] == [{"node": "n1", "gpus": None}, {"node": "n2", "gpus": None}]
    (given,) = c.machine.pass_input(c.now).reservations
    assert (given.name, given.holds, given.uids) == (
        "mine",
        (Bookable(NodeName("n1")), Bookable(NodeName("n2"))),
        (UID,),
    )
    assert states(c)["n1"] is NodeState.RESERVED
    c.ask(DeleteReservation("d1", "mine"), uid=0)
    assert names(c) == []
    assert states(c)["n1"] is NodeState.IDLE


def test_gpus_are_the_lowest_that_no_other_has() -> None:
    c = Controller(nodes=1)
    make(c, "low", gpus=((3, (NodeName("n1"),)),))
    make(c, "next", gpus=((2, (NodeName("n1"),)),))
    assert [r.holds[0].gpus for r in c.machine.pass_input(c.now).reservations] == [0b111, 0b11000]
    assert states(c)["n1"] is NodeState.IDLE
    with pytest.raises(Conflict, match=r"4 GPUs of node n1 asked: reservations there \(low, next\) leave 3 "):
        make(c, "more", gpus=((4, (NodeName("n1"),)),))
    with pytest.raises(BadRequest, match="9 GPUs of node n1 asked: it has 8"):
        make(c, "many", gpus=((9, (NodeName("n1"),)),))


def test_what_is_wrong_is_said_and_nothing_is_kept() -> None:
    c = Controller()
    with pytest.raises(NotPermitted, match="not an administrator"):
        make(c, "mine", "n1", uid=UID)
    with pytest.raises(NotFound, match="node n9: not known"):
        make(c, "mine", "n1", "n9")
    with pytest.raises(BadRequest, match="what to reserve"):
        make(c, "mine")
    with pytest.raises(BadRequest, match="who may use"):
        make(c, "mine", "n1", users=(), uids=())
    with pytest.raises(BadRequest, match="end before it begins"):
        make(c, "mine", "n1", start=Instant(EPOCH + 2 * HOUR))
    with pytest.raises(BadRequest, match="over already"):
        make(c, "mine", "n1", start=Instant(EPOCH - 2), end=Instant(EPOCH - 1))
    with pytest.raises(BadRequest, match="not a reservation's name"):
        make(c, "a b", "n1")
    with pytest.raises(BadRequest, match="node n1 is named twice"):
        make(c, "mine", "n1", gpus=((1, (NodeName("n1"),)),))
    with pytest.raises(NotFound, match="reservation none: not known; there is none"):
        c.ask(DeleteReservation("d1", "none"), uid=0)
    assert names(c) == []


def test_two_may_follow_each_other_but_not_overlap() -> None:
    c = Controller()
    make(c, "first", "n1")
    with pytest.raises(Conflict, match="node n1 is in reservation first at that time"):
        make(c, "second", "n1", start=Instant(EPOCH + HOUR - 1), end=None)
    make(c, "second", "n1", start=Instant(EPOCH + HOUR), end=None)
    assert names(c) == ["first", "second"]


def test_a_name_is_taken_once_and_replaced_on_demand() -> None:
    c = Controller()
    make(c, "mine", "n1")
    with pytest.raises(Conflict, match="reservation mine is there already"):
        make(c, "mine", "n2")
    make(c, "mine", "n1", "n2", replace=True)
    assert [hold.node for hold in c.machine.state.reservations["mine"].holds] == ["n1", "n2"]


def test_jobs_that_run_there_are_named() -> None:
    c = Controller(nodes=1)
    c.submit(gpus=1)
    c.plan()
    assert make(c, "maint", "n1", maint=True, start=Instant(EPOCH + 1000)) == (
        "jobs run there that may go on after it begins: 1"
    )
    assert states(c)["n1"] is NodeState.MIXED


def test_who_may_submit_into_one() -> None:
    c = Controller()
    make(c, "mine", "n1")
    make(c, "all", "n2", accounts=("default",))
    make(c, "maint", "n3", maint=True)
    assert c.job(c.submit(reservation="mine")).request.reservation == "mine"
    assert c.job(c.submit(uid=1001, reservation="all")).state is JobState.PENDING
    with pytest.raises(NotPermitted, match="user user1001 may not use reservation mine"):
        c.submit(uid=1001, reservation="mine")
    with pytest.raises(NotPermitted, match="reservation maint is for maintenance"):
        c.submit(reservation="maint")
    with pytest.raises(NotFound, match="reservation none: not known; there are all, maint, mine"):
        c.submit(reservation="none")
    with pytest.raises(Impossible, match="inside reservation mine: 2 nodes asked"):
        c.submit(reservation="mine", nodes_min=2)


def test_a_job_whose_reservation_went_waits_and_says_so() -> None:
    c = Controller()
    make(c, "mine", "n1", start=Instant(EPOCH + HOUR), end=None)
    job = c.submit(reservation="mine")
    c.machine.pass_log(c.now)  # told what there is so far
    c.ask(DeleteReservation("d1", "mine"), uid=0)
    assert c.machine.pass_input(c.now).queue == ()
    assert JobGone(job) in c.machine.pass_log(c.now).changes
    assert reason_of(c.machine.state, c.job(job))[0] is Reason.RESERVATION


def test_a_plan_made_before_the_reservation_does_not_break_it() -> None:
    c = Controller(nodes=1)
    job = c.submit(gpus=1, time_limit_s=7200)
    given = c.machine.pass_input(c.now)
    late = decide(given)
    make(c, "maint", "n1", maint=True, start=Instant(EPOCH + HOUR), end=None)
    assert c.feed(Planned(late)).plan
    assert c.job(job).state is JobState.PENDING


def test_one_begins_and_ends_with_a_pass_each_and_is_gone() -> None:
    c = Controller()
    c.feed(Tick())  # all nodes are there: a pass of its own
    make(c, "mine", "n1", start=Instant(EPOCH + 5000), end=Instant(EPOCH + 9000))
    asked = []
    for second in range(12):
        c.now = type(c.now)(EPOCH + 1000 * second, c.now.boot + 1000)
        if c.feed(Tick()).plan:
            asked.append(second)
    assert asked == [5, 9]
    assert names(c) == []


def test_it_survives_a_restart() -> None:
    c = Controller()
    c._requests += 1
    outcome_changes = []
    feed = c.feed

    def recording(event: Any) -> Any:
        outcome = feed(event)
        outcome_changes.extend(outcome.changes)
        return outcome

    c.feed = recording  # type: ignore[method-assign]  # to see what would be written
    make(c, "mine", "n1")
    (put,) = [change for change in outcome_changes if isinstance(change, PutReservation)]
    again = Loaded(term=Term(2), batch=BatchNo(1), next_job_id=JobId(1), reservations=(put.reservation,))
    assert names(Controller(loaded=again)) == ["mine"]
