"""The preempt stage on small clusters said in words: who goes, for whom, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.job import Request
from gsched.values.run import NodeShare
from gschedd.core.board import Board
from gschedd.core.inputs import AccountInput, ClaimInput, HoldInput, Plan, Policy, QueueInput
from gschedd.core.plan import plan
from tests.builders.cluster import NOW, Cluster, inventory, request

HOUR = 3_600_000


class Floor:
    """A cluster with runs and preemptors."""

    def __init__(self, nodes: int = 2, gpus: int = 4, leaf: int = 0) -> None:
        self.cluster = Cluster(nodes, inventory(gpus=gpus, cores=64), leaf=leaf)
        self.holds: list[HoldInput] = []
        self.queue: list[QueueInput] = []
        self.accounts: tuple[AccountInput, ...] = ()
        self.claims: tuple[ClaimInput, ...] = ()

    def running(
        self, job: int, on: Sequence[str], mask: int = 0b1111, rank: int = 0, ran_ms: int = HOUR, **about: object
    ) -> None:
        shares = tuple(NodeShare(NodeName(name), 1, 1, mask) for name in on)
        hold = HoldInput(RunKey(JobId(job), RunNo(1)), shares, Instant(NOW + HOUR), rank=rank, preemptable=True)
        self.holds.append(replace(hold, started=Instant(NOW - ran_ms), **about))

    def wants(self, job: int, wanted: Request, rank: int = 1, account: str = "", preempts: bool = True) -> None:
        self.queue.append(QueueInput(JobId(job), wanted, rank=rank, account=account, preempts=preempts))

    def plan(self, policy: Policy | None = None) -> Plan:
        board = Board()
        for node in self.cluster.nodes.values():
            board.put_node(node)
        for hold in self.holds:
            board.put_hold(hold)
        for job in self.queue:
            board.put_job(job)
        board.set_accounts(self.accounts)
        board.set_claims(self.claims)
        board.set_levels(("leaf", "all"))
        return plan(board.snapshot(), policy or Policy(), NOW)

    def victims(self, policy: Policy | None = None) -> dict[int, int]:
        """Job of each victim: job of its preemptor."""
        return {int(p.victim.job): int(p.preemptor) for p in self.plan(policy).preemptions}


def test_the_run_that_loses_least_goes() -> None:
    floor = Floor()
    floor.running(10, ["n1"], ran_ms=2 * HOUR)
    floor.running(11, ["n2"], ran_ms=HOUR)
    floor.wants(1, request(gpus=4))
    decided = floor.plan()
    assert [(p.victim.job, p.preemptor, p.cost, p.keep) for p in decided.preemptions] == [(11, 1, (0, 4 * 3600, 1), 0)]
    share = NodeShare(NodeName("n2"), 1, inventory(gpus=4).memory_mib, 0b1111)
    assert decided.claims == (ClaimInput(JobId(1), (share,), Instant(NOW + 600_000)),)
    assert not decided.starts


def test_a_checkpoint_makes_a_run_cheap() -> None:
    floor = Floor()
    floor.running(10, ["n1"], ran_ms=2 * HOUR, checkpoint=Instant(NOW - 1000))
    floor.running(11, ["n2"], ran_ms=HOUR)
    floor.wants(1, request(gpus=4))
    assert floor.victims() == {10: 1}


def test_a_lower_rank_goes_before_a_cheaper_run_of_a_higher_one() -> None:
    floor = Floor()
    floor.running(10, ["n1"], rank=0, ran_ms=9 * HOUR)
    floor.running(11, ["n2"], rank=1, ran_ms=HOUR)
    floor.wants(1, request(gpus=4), rank=2)
    assert floor.victims() == {10: 1}


def test_nobody_goes_if_the_job_would_still_not_fit() -> None:
    floor = Floor()
    floor.running(10, ["n1"], rank=0)
    floor.running(11, ["n2"], rank=1)
    floor.wants(1, request(nodes=2, gpus=4), rank=1)
    assert floor.victims() == {}


def test_a_gang_goes_whole_and_what_it_leaves_serves_two() -> None:
    floor = Floor()
    floor.running(10, ["n1", "n2"])
    floor.wants(1, request(gpus=4))
    floor.wants(2, request(gpus=4))
    decided = floor.plan()
    assert floor.victims() == {10: 1}
    assert [claim.job for claim in decided.claims] == [1]  # job 2 starts without anybody's going


def test_an_elastic_run_gives_up_one_node() -> None:
    floor = Floor(nodes=3)
    floor.running(10, ["n1", "n2", "n3"], elastic_least=2)
    floor.wants(1, request(gpus=4))
    assert [(p.victim.job, p.keep) for p in floor.plan().preemptions] == [(10, 2)]


def test_two_preemptors_share_no_victim() -> None:
    floor = Floor()
    floor.running(10, ["n1"])
    floor.running(11, ["n2"])
    floor.wants(1, request(gpus=4))
    floor.wants(2, request(gpus=4))
    assert floor.victims() == {10: 1, 11: 2}


def test_only_so_many_preemptors_a_pass() -> None:
    floor = Floor()
    floor.running(10, ["n1"])
    floor.running(11, ["n2"])
    floor.wants(1, request(gpus=4))
    floor.wants(2, request(gpus=4))
    assert floor.victims(Policy(preemptors=1)) == {10: 1}


def test_free_gpus_are_used_first() -> None:
    floor = Floor()
    floor.running(10, ["n1"], mask=0b0011)
    floor.running(11, ["n1"], mask=0b1100)
    floor.running(12, ["n2"], mask=0b0001)
    floor.wants(1, request(gpus=4))
    assert floor.victims() == {12: 1}


def test_victims_are_sought_inside_one_domain_of_the_level_asked_for() -> None:
    floor = Floor(nodes=4, leaf=2)
    for node, ran in (("n1", HOUR), ("n2", 9 * HOUR), ("n3", 2 * HOUR), ("n4", 3 * HOUR)):
        floor.running(int(node[1]) + 10, [node], ran_ms=ran)
    floor.wants(1, request(nodes=2, gpus=4))
    assert floor.victims() == {11: 1, 13: 1}
    floor.queue[0] = replace(floor.queue[0], request=replace(floor.queue[0].request, level="leaf"))
    assert floor.victims() == {13: 1, 14: 1}


def test_who_needs_what_the_search_cannot_judge_waits() -> None:
    for about in ({"switches": 1}, {"segment": 2}, {"reservation": "r"}, {"level": "rack"}):
        floor = Floor(nodes=1)
        floor.running(10, ["n1"])
        floor.wants(1, replace(request(gpus=4), **about))
        assert floor.victims() == {}


def test_who_does_not_preempt_waits() -> None:
    floor = Floor()
    floor.running(10, ["n1", "n2"])
    floor.wants(1, request(gpus=4), preempts=False)
    assert floor.victims() == {}


def test_young_runs_and_those_preempted_often_stay() -> None:
    floor = Floor()
    floor.running(10, ["n1"], ran_ms=1000)
    floor.running(11, ["n2"], preempted=3)
    floor.wants(1, request(gpus=4))
    assert floor.victims(Policy(min_run_s=60, max_preemptions=3)) == {}
    assert floor.victims(Policy(min_run_s=60, max_preemptions=4)) == {11: 1}
    assert floor.victims(Policy(max_preemptions=3)) == {10: 1}


def test_a_job_with_a_claim_does_not_preempt_again() -> None:
    floor = Floor()
    floor.running(10, ["n1"])
    floor.running(11, ["n2"])
    floor.wants(1, request(gpus=4))
    floor.claims = (ClaimInput(JobId(1), (NodeShare(NodeName("n1"), 1, 1, 0b1111),), Instant(NOW + HOUR)),)
    assert floor.victims() == {}


def test_what_an_account_is_guaranteed_is_reclaimed_from_who_borrows() -> None:
    floor = Floor()
    floor.accounts = (AccountInput("a", guarantee=(("h100", 4000),)), AccountInput("b", guarantee=(("h100", 4000),)))
    floor.running(10, ["n1"], account="b", rank=1, ran_ms=HOUR)
    floor.running(11, ["n2"], account="b", rank=1, ran_ms=2 * HOUR)
    floor.wants(1, request(gpus=4), account="a")
    floor.wants(2, request(gpus=4), account="a")
    assert floor.victims() == {10: 1}, "b keeps its own four, and a has no more than four"


def test_borrowed_by_a_job_that_is_not_to_be_preempted_it_is_reclaimed_too() -> None:
    floor = Floor(nodes=1)
    floor.accounts = (AccountInput("a", guarantee=(("h100", 4000),)), AccountInput("b"))
    floor.running(10, ["n1"], account="b", rank=1, preempted=9)
    floor.wants(1, request(gpus=4), account="a")
    assert floor.victims(Policy(max_preemptions=3)) == {10: 1}
    floor.holds[0] = replace(floor.holds[0], preemptable=False)
    assert floor.victims() == {10: 1}
    floor.holds[0] = replace(floor.holds[0], in_guarantee=True)
    assert floor.victims() == {}


def test_a_priority_never_justifies_it() -> None:
    floor = Floor(nodes=1)
    floor.running(10, ["n1"], rank=1)
    floor.wants(1, request(gpus=4), rank=1)
    assert floor.victims() == {}
