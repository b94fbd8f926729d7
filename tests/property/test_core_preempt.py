"""The preempt stage over whole passes: who is stopped is stopped for a job that then runs; nobody plays ping-pong."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, RunKey, RunNo
from gsched.values.run import NodeShare
from gschedd.core.board import Board
from gschedd.core.inputs import AccountInput, HoldInput, NodeInput, Plan, Policy, QueueInput
from gschedd.core.plan import plan
from tests.builders.cluster import NOW, request
from tests.builders.victims_at_random import case_at_random

TREE = (
    AccountInput("a", guarantee=(("", 8000),)),
    AccountInput("b", guarantee=(("", 4000),)),
    AccountInput("b-lab", "b", (("", 4000),)),
    AccountInput("c"),
)
MOST_PASSES = 60


class Replay:
    """Passes one after the other on a cluster where nothing ends by itself. A preemptor starts on its claim."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.nodes: tuple[NodeInput, ...] = case_at_random(random, most_nodes=4).nodes
        self.waiting = {
            JobId(i): QueueInput(
                JobId(i),
                request(random.choice([1, 1, 2, 3]), random.choice([1, 2, 4]), limit_s=0),
                rank=random.choice([0, 0, 1, 2]),
                account=random.choice(["a", "b", "b-lab", "c", ""]),
                preempts=random.random() < 0.8,
            )
            for i in range(1, random.randint(4, 14))
        }
        self.running: dict[JobId, tuple[QueueInput, HoldInput]] = {}
        self.arriving = sorted(self.waiting, key=lambda _: random.random())
        self.elsewhere = {job: self.waiting.pop(job) for job in self.arriving}
        self.now = NOW
        self.stopped: list[tuple[JobId, JobId]] = []  # victim, preemptor
        self.times: dict[JobId, int] = {}

    def plan(self, jobs: dict[JobId, QueueInput]) -> Plan:
        board = Board()
        for node in self.nodes:
            board.put_node(node)
        for _, hold in self.running.values():
            board.put_hold(hold)
        for job in jobs.values():
            board.put_job(job)
        board.set_accounts(TREE)
        return plan(board.snapshot(), Policy(), self.now)

    def step(self) -> Plan:
        """One job arrives, if any is left; one pass; all that it decided is done."""
        if self.arriving:
            job = self.arriving.pop()
            self.waiting[job] = self.elsewhere.pop(job)
        decided = self.plan(self.waiting)
        for start in decided.starts:
            self._start(start.job, start.shares)
        for preemption in decided.preemptions:
            victim, hold = self.running.pop(preemption.victim.job)
            self.waiting[victim.job] = victim
            self.stopped.append((victim.job, preemption.preemptor))
            self.times[victim.job] = hold.preempted + 1
        for claim in decided.claims:
            self._start(claim.job, claim.shares)
        self.now = Instant(self.now + 60_000)
        return decided

    def _start(self, job: JobId, shares: tuple[NodeShare, ...]) -> None:
        queued = self.waiting.pop(job)
        times = self.times.get(job, 0)
        self.running[job] = (
            queued,
            HoldInput(
                RunKey(job, RunNo(times + 1)),
                shares,
                None,
                queued.account,
                queued.rank,
                preemptable=True,
                started=self.now,
                preempted=times,
            ),
        )

    def check_nothing_is_held_twice(self) -> None:
        taken: dict[str, int] = {}
        for _, hold in self.running.values():
            for share in hold.shares:
                assert not taken.get(share.node, 0) & share.gpus
                taken[share.node] = taken.get(share.node, 0) | share.gpus


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 1 << 32))
def test_preemptions_come_to_an_end_and_nobody_stops_whom_he_was_stopped_by(seed: int) -> None:
    replay = Replay(seed)
    jobs = len(replay.arriving)
    for _ in range(MOST_PASSES):
        decided = replay.step()
        replay.check_nothing_is_held_twice()
        victims = [preemption.victim for preemption in decided.preemptions]
        assert len(set(victims)) == len(victims)
        assert {claim.job for claim in decided.claims} == {p.preemptor for p in decided.preemptions}
        if not (replay.arriving or decided.starts or decided.preemptions):
            break
    else:
        raise AssertionError(f"still preempting after {MOST_PASSES} passes: {replay.stopped[-6:]}")
    assert len(replay.stopped) <= jobs * jobs
    assert not {(victim, preemptor) for preemptor, victim in replay.stopped} & set(replay.stopped)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 1 << 32))
def test_a_preemptor_starts_at_once_when_its_victims_have_gone(seed: int) -> None:
    """The pass itself says so, given the cluster without them; and with one of them still there it does not."""
    replay = Replay(seed)
    for _ in range(6):
        replay.step()
    decided = replay.plan(replay.waiting)
    first = decided.claims[0].job if decided.claims else None
    if first is None:
        return
    for start in decided.starts:
        replay._start(start.job, start.shares)
    mine = [p.victim.job for p in decided.preemptions if p.preemptor == first]
    quiet = {first: replace(replay.waiting[first], preempts=False)}
    gone = {job: replay.running.pop(job) for job in mine}
    assert [start.job for start in replay.plan(quiet).starts] == [first]
    for job in mine:
        replay.running[job] = gone[job]
        assert not replay.plan(quiet).starts, f"it did not need to stop {job}"
        del replay.running[job]
