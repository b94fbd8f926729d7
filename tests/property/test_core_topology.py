"""Where a gang goes, against trying every set of nodes; and that small requests do not pass it for ever (S8)."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.values.ids import Instant, JobId, RunKey, RunNo
from gschedd.core.board import build_snapshot
from gschedd.core.inputs import HoldInput, NodeInput, Policy, QueueInput
from gschedd.core.plan import plan
from tests.builders.cluster import NOW, Cluster, inventory, request

LEAVES = [("leaf1", "pod1"), ("leaf2", "pod1"), ("leaf3", "pod1"), ("leaf4", "pod2"), ("leaf5", "pod2")]


def _cost(chosen: tuple[NodeInput, ...], free: list[NodeInput]) -> tuple[int, ...]:
    """(level crossed, child domains used below it, nodes free in that domain): smaller is better."""
    paths = [node.switches for node in chosen]
    for level in range(2):
        if len({path[level] for path in paths}) == 1:
            domain = [node for node in free if node.switches[level] == paths[0][level]]
            return level, len({path[0] for path in paths}), len(domain)
    return 2, len({path[1] for path in paths}), len(free)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(LEAVES), st.booleans()), min_size=1, max_size=10), st.integers(2, 6))
def test_the_set_of_nodes_is_as_good_as_the_best_of_all(places: list[tuple[tuple[str, str], bool]], size: int) -> None:
    _assert_best(places, size)


@pytest.mark.full
def test_the_set_of_nodes_is_the_best_in_ten_thousand_cases_of_up_to_sixteen_nodes() -> None:
    random = Random(1)
    for _ in range(10_000):
        nodes = random.randint(2, 16)
        places = [(random.choice(LEAVES), random.random() < 0.35) for _ in range(nodes)]
        _assert_best(places, random.randint(2, 4))


def _assert_best(places: list[tuple[tuple[str, str], bool]], size: int) -> None:
    c = Cluster(nodes=0)
    for i, (switches, busy) in enumerate(places):
        c.node(f"n{i}", inventory(gpus=2), switches=switches)
        if busy:
            c.running(f"n{i}", gpus=1)
    c.pending("gang", request(size, gpus=2))
    free = [c.nodes[f"n{i}"] for i, (_, busy) in enumerate(places) if not busy]
    started = c.plan().started
    if len(free) < size:
        assert started == {}
        return
    chosen = tuple(c.nodes[name] for name in started["gang"])
    assert _cost(chosen, free) == min(_cost(some, free) for some in combinations(free, size))


class Toy:
    """A cluster over time: a pass at each step, jobs that end at their limit or a little later."""

    def __init__(self, nodes: int, overrun_s: int, policy: Policy) -> None:
        self.nodes = list(Cluster(nodes=nodes, of=inventory(gpus=2)).nodes.values())
        self.overrun, self.policy = overrun_s, policy
        self.now = int(NOW)
        self.queue: list[QueueInput] = []
        self.runs: dict[JobId, tuple[HoldInput, int]] = {}  # with its true end
        self.submitted = 0

    def submit(self, nodes: int, gpus: int, limit_s: int, first: bool = False) -> JobId:
        self.submitted += 1
        job = QueueInput(JobId(self.submitted), request(nodes, gpus, limit_s=limit_s))
        self.queue.insert(0 if first else len(self.queue), job)
        return job.job

    def next_end_s(self) -> int:
        """Seconds until something ends."""
        return (min(end for _, end in self.runs.values()) - self.now) // 1000

    def step(self, seconds: int) -> None:
        self.now += 1000 * seconds
        self.runs = {job: run for job, run in self.runs.items() if run[1] > self.now}
        snapshot = build_snapshot(self.nodes, [hold for hold, _ in self.runs.values()], self.queue)
        decided = plan(snapshot, self.policy, Instant(self.now))
        limits = {job.job: job.request.time_limit_s for job in self.queue}
        for start in decided.starts:
            end = self.now + 1000 * limits[start.job]
            hold = HoldInput(RunKey(start.job, RunNo(1)), start.shares, Instant(end))
            self.runs[start.job] = hold, end + 1000 * self.overrun
        self.queue = [job for job in self.queue if job.job not in self.runs]


@settings(max_examples=20)
@given(
    st.lists(st.integers(10, 400), min_size=4, max_size=4),
    st.lists(st.tuples(st.integers(1, 2), st.integers(5, 300)), min_size=20, max_size=20),
    st.sampled_from([0, 30, 45]),
)
def test_small_jobs_that_keep_coming_do_not_keep_a_gang_waiting(
    running: list[int], stream: list[tuple[int, int]], overrun_s: int
) -> None:
    """However small and short they are, and though each ends late: the gang starts soon after what ran before it."""
    toy = Toy(nodes=4, overrun_s=overrun_s, policy=Policy())
    for limit in running:
        toy.submit(1, 2, limit)
    toy.step(0)
    gang = toy.submit(4, 2, 60)
    waited = 0
    while gang not in toy.runs:
        gpus, limit = stream[waited // 10 % len(stream)]
        toy.submit(1, gpus, limit)
        toy.step(10)
        waited += 10
        assert waited <= max(running) + 2 * overrun_s + 70


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2), st.integers(1, 300)), min_size=1, max_size=15))
def test_without_new_arrivals_every_job_starts_by_the_sum_of_the_limits_ahead_of_it(
    jobs: list[tuple[int, int, int]],
) -> None:
    """With a planned start for each; a job without one may also wait for lower jobs that slipped in before it had."""
    toy = Toy(nodes=4, overrun_s=0, policy=Policy(planned_starts=len(jobs)))
    latest = {}
    total = 0
    for nodes, gpus, limit in jobs:
        job = toy.submit(nodes, gpus, limit)
        latest[job] = NOW + 1000 * total
        total += limit
    toy.step(0)
    while toy.queue:
        toy.step(toy.next_end_s())
        assert all(toy.now < latest[job.job] for job in toy.queue)
