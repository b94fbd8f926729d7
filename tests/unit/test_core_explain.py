"""Five jobs that wait for five different things, and what is said of each."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gsched.values.explanation import Constraint, Explanation
from gsched.values.ids import Instant, NodeName
from gsched.values.states import Reason
from gschedd.core.board import build_snapshot
from gschedd.core.explain import explain
from gschedd.core.inputs import (
    Availability,
    Bookable,
    PassInput,
    Plan,
    PlannedStart,
    Policy,
    ReservationInput,
)
from gschedd.core.plan import plan
from gschedd.core.waits import Wait, Waits
from tests.builders.cluster import NOW, Cluster, inventory, request

HOUR = 3_600_000


def explained(cluster: Cluster, name: str, decided: Plan | None = None, **more: object) -> Explanation:
    """What is said of the job of that name, after a pass over the cluster."""
    given = PassInput(
        nodes=tuple(cluster.nodes.values()),
        holds=tuple(cluster.holds),
        queue=tuple(cluster.queue),
        policy=Policy(planned_starts=4),
        now=NOW,
    )
    given = replace(given, **more)
    if decided is None:
        decided = plan(build_snapshot(given.nodes, given.holds, given.queue), given.policy, given.now)
    job = next(job for job in cluster.queue if cluster.names[job.job] == name)
    return explain(given, decided, job)


def excluded(found: Explanation) -> dict[str, int]:
    return {each.text: each.nodes for each in found.excluded}


def named(found: Explanation, name: str) -> Constraint:
    return next(each for each in found.constraints if each.name == name)


def adds_up(found: Explanation) -> bool:
    return sum(each.nodes for each in found.excluded) + found.nodes_fit == found.nodes_known


def test_too_few_free_gpus_are_held_by_runs_until_their_ends() -> None:
    cluster = Cluster(4)
    cluster.running("n1", "n2", gpus=8, ends_in_s=600)
    cluster.running("n3", gpus=4, ends_in_s=60)
    cluster.pending("wide", request(nodes=3, gpus=8))
    found = explained(cluster, "wide")
    assert (found.reason, found.nodes_needed, found.nodes_fit) == ("Resources", 3, 1)
    assert excluded(found) == {"too few free GPUs": 3}
    free = named(found, "free_gpus")
    assert (free.needed, free.best) == ("3 nodes with 8 GPUs free", "1 such node of 4; the most on one is 8")
    assert (free.met, free.earliest) == (False, NOW + 600_000)
    assert [(h.what, h.nodes, h.until) for h in free.holders] == [
        ("job 10001", 1, NOW + 60_000),
        ("job 10000", 2, NOW + 600_000),
    ]
    assert found.planned == NOW + 600_000
    assert named(found, "free_cores").met
    assert adds_up(found)


def test_a_run_without_an_end_makes_the_start_unknown() -> None:
    cluster = Cluster(1)
    cluster.running("n1", gpus=8, ends_in_s=None)
    cluster.pending("job", request(gpus=1))
    found = explained(cluster, "job")
    assert named(found, "free_gpus").earliest is None
    assert [(h.what, h.until) for h in named(found, "free_gpus").holders] == [("job 10000", None)]


def test_the_wrong_model_names_those_that_are_there() -> None:
    cluster = Cluster(3)
    cluster.node("n4", inventory(model="NVIDIA A100-SXM4-80GB"))
    cluster.pending("fussy", request(nodes=2, gpus=1, model="A100"))
    found = explained(cluster, "fussy")
    assert found.reason == "BadConstraints"
    assert excluded(found) == {"wrong GPU model": 3}
    model = named(found, "gpu_model")
    assert (model.needed, model.best, model.met) == ("2 nodes with GPU model A100", "1 node of 4", False)
    assert model.earliest is None
    assert adds_up(found)


def test_drained_nodes_are_counted_and_named() -> None:
    cluster = Cluster(2)
    cluster.node("n3", state=Availability.DRAINED)
    cluster.node("n4", state=Availability.AWAY)
    cluster.pending("job", request(nodes=3, gpus=8))
    found = explained(cluster, "job")
    assert found.reason == "ReqNodeNotAvail"
    assert excluded(found) == {"drained": 1, "away": 1}
    state = named(found, "state")
    assert (state.best, state.met) == ("2 nodes of 4; not now: n3, n4", False)
    assert [h.what for h in state.holders] == ["n3 is drained", "n4 is away"]


def test_behind_a_planned_start_the_job_before_it_is_named() -> None:
    cluster = Cluster(2)
    cluster.running("n1", gpus=8, ends_in_s=600)
    cluster.pending("wide", request(nodes=2, gpus=8))
    cluster.pending("long", request(nodes=1, gpus=8, limit_s=7200))
    found = explained(cluster, "long")
    assert found.reason == "Priority"
    assert excluded(found) == {"too few free GPUs": 1, "kept for jobs before it": 1}
    kept = named(found, "planned")
    assert (kept.best, kept.met) == ("0 of 1 that fit otherwise", False)
    assert [(h.what, h.nodes) for h in kept.holders] == [("job 1, planned", 1)]
    assert found.planned == kept.earliest
    assert adds_up(found)


def test_what_is_reserved_for_others_is_free_after_its_end() -> None:
    cluster = Cluster(2)
    cluster.pending("job", request(nodes=2, gpus=8))
    holds = (Bookable(NodeName("n2")),)
    maint = ReservationInput("maint", holds, Instant(NOW + 60_000), Instant(NOW + HOUR), maint=True)
    waits = Plan(waits=Waits.made_of([Wait(cluster.queue[0].job, Reason.RESOURCES)]))
    found = explained(cluster, "job", waits, reservations=(maint,))
    assert excluded(found) == {"reserved": 1}
    reserved = named(found, "reserved")
    assert (reserved.met, reserved.earliest) == (False, NOW + HOUR)
    assert [(h.what, h.until) for h in reserved.holders] == [("reservation maint", NOW + HOUR)]
    short = explained(cluster, "job", waits, reservations=(replace(maint, start=Instant(NOW + 2 * HOUR)),))
    assert (short.nodes_fit, excluded(short)) == (2, {})


def test_inside_a_reservation_only_its_nodes_count_and_only_once_it_has_begun() -> None:
    cluster = Cluster(3)
    cluster.pending("job", replace(request(nodes=2, gpus=8), reservation="mine"))
    holds = (Bookable(NodeName("n1")), Bookable(NodeName("n2")))
    mine = ReservationInput("mine", holds, Instant(NOW - 1), None, uids=(1000,))
    waits = Plan(waits=Waits.made_of([Wait(cluster.queue[0].job, Reason.RESOURCES)]))
    found = explained(cluster, "job", waits, reservations=(mine,))
    assert (found.nodes_fit, excluded(found)) == (2, {"outside reservation mine": 1})
    later = explained(cluster, "job", waits, reservations=(replace(mine, start=Instant(NOW + HOUR)),))
    assert excluded(later) == {"reservation mine has not begun": 3}
    assert named(later, "reservation").earliest == NOW + HOUR


def test_a_level_is_met_in_the_domain_that_has_enough_first() -> None:
    cluster = Cluster(4, leaf=2)
    cluster.running("n1", gpus=8, ends_in_s=900)
    cluster.running("n3", gpus=8, ends_in_s=300)
    cluster.pending("job", replace(request(nodes=2, gpus=8), level="leaf"))
    waits = Plan(waits=Waits.made_of([Wait(cluster.queue[0].job, Reason.RESOURCES)]))
    found = explained(cluster, "job", waits, levels=("leaf",))
    level = named(found, "level")
    assert (level.needed, level.best) == ("2 nodes in one leaf", "the best leaf of 2 has 1 such now")
    assert (level.met, level.earliest) == (False, NOW + 300_000)


@pytest.mark.parametrize(
    ("wanted", "filter_text"),
    [
        (request(partition="other"), "not in partition other"),
        (request(constraint="ib"), "without ib"),
        (request(exclude=["n1"]), "excluded by name"),
        (request(on=["n2"]), "not among the nodes named"),
        (request(gpus=9), "too few GPUs"),
        (request(cores=65), "too few cores"),
        (request(memory=600_000), "too little memory"),
    ],
)
def test_each_filter_that_never_changes(wanted: object, filter_text: str) -> None:
    cluster = Cluster(2)
    cluster.pending("job", wanted)  # type: ignore[arg-type]  # mypy loses the type in the table
    waits = Plan(waits=Waits.made_of([Wait(cluster.queue[0].job, Reason.BAD_CONSTRAINTS)]))
    found = explained(cluster, "job", waits)
    assert filter_text in excluded(found)
    assert adds_up(found)


def test_one_planned_without_room_by_number_is_kept_out_by_number() -> None:
    """Of two jobs that need half a node each both fit beside each other."""
    cluster = Cluster(1)
    cluster.pending("half", request(gpus=4))
    cluster.pending("other", request(gpus=4))
    before = Plan(planned=(PlannedStart(cluster.queue[0].job, Instant(NOW + 1000), (NodeName("n1"),)),))
    assert explained(cluster, "other", before).nodes_fit == 1
