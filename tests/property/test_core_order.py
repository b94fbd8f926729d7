"""The order of the queue: columns and one sort agree with the plain twin, job by job."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gsched.values.ids import Instant, JobId
from gschedd.core.board import snapshot_of
from gschedd.core.inputs import AccountInput, Factors, NodeInput, PassInput, Policy, QueueInput, Weights
from gschedd.core.kernels.order import DIGITS, sorted_rows_nb
from gschedd.core.order import ordered
from gschedd.core.priority_twin import in_order
from tests.builders.cluster import NOW, Cluster, request

THOUSANDTHS = st.integers(0, 1000)
WEIGHTS = st.sampled_from([0, 0, 1, 1000, 1_000_000])


@st.composite
def queues(draw: st.DrawFn, nodes: tuple[NodeInput, ...]) -> PassInput:
    ids = draw(st.lists(st.integers(1, 1 << 40), unique=True, max_size=12))
    queue = tuple(
        QueueInput(
            JobId(number),
            request(draw(st.integers(1, 4)), draw(st.integers(0, 8)), limit_s=draw(st.sampled_from([0, 60, 86_400]))),
            factors=Factors(
                Instant(NOW - draw(st.sampled_from([-5, 0, 0, 1, 60_000, 10**10]))),
                draw(THOUSANDTHS),
                draw(THOUSANDTHS),
                draw(st.sampled_from([0, 0, 5, -10, 2**31])),
            ),
            rank=draw(st.sampled_from([0, 0, 3])),
            account=draw(st.sampled_from(["", "a", "b", "unknown"])),
        )
        for number in ids
    )
    weights = Weights(
        *(draw(WEIGHTS) for _ in range(5)), draw(st.sampled_from([1, 3600, 604_800])), draw(st.booleans())
    )
    accounts = tuple(AccountInput(name, fair_share=draw(THOUSANDTHS)) for name in ("a", "b"))
    policy = Policy(weights=weights, shortest_first=draw(st.booleans()), no_limit_s=draw(st.sampled_from([0, 3600])))
    return PassInput(nodes, (), queue, policy, NOW, accounts=accounts)


@settings(max_examples=200)
@given(queues(tuple(Cluster(nodes=3).nodes.values())))
def test_the_order_agrees_with_its_twin(given_to_it: PassInput) -> None:
    found = ordered(snapshot_of(given_to_it), given_to_it.policy, NOW).queue.job.tolist()
    assert found == [job.job for job, _ in in_order(given_to_it)]


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 3), st.integers(0, 2**62)), max_size=40))
def test_the_sort_for_wide_keys_agrees_with_sorting_tuples(rows: list[tuple[int, int, int]]) -> None:
    keys = np.array(rows, dtype=np.int64).reshape(len(rows), 3).T.copy()
    room = np.zeros((4, len(rows)), dtype=np.int64)
    bits = np.array([41, 2, 63], dtype=np.int64)
    found = sorted_rows_nb(keys, bits, room[:2], room[2:], np.zeros(DIGITS, dtype=np.int64)).tolist()
    assert found == sorted(range(len(rows)), key=lambda j: rows[j][::-1])


def test_jobs_that_began_to_wait_together_go_by_their_ids() -> None:
    queue = tuple(QueueInput(JobId(number), request()) for number in (7, 3, 5))
    given_to_it = PassInput(tuple(Cluster().nodes.values()), (), queue, Policy(), NOW)
    assert ordered(snapshot_of(given_to_it), Policy(), NOW).queue.job.tolist() == [3, 5, 7]


def test_the_shorter_job_comes_first_until_the_longer_has_waited() -> None:
    """28,800 and 600 GPU seconds: the longer must have waited 48 times as long."""
    policy = Policy(shortest_first=True, settle_gpu_s=0)
    long, short = request(gpus=8, limit_s=3600), request(gpus=1, limit_s=600)

    def first(waited_s: int) -> int:
        since = Factors(Instant(NOW - 1000 * waited_s))
        brief = Factors(Instant(NOW - 99_000))  # a second is added to each
        queue = (QueueInput(JobId(1), long, factors=since), QueueInput(JobId(2), short, factors=brief))
        given_to_it = PassInput(tuple(Cluster().nodes.values()), (), queue, policy, NOW)
        return int(ordered(snapshot_of(given_to_it), policy, NOW).queue.job[0])

    assert (first(0), first(4798), first(4800)) == (2, 2, 1)


def test_a_held_back_job_is_as_old_as_its_last_wait() -> None:
    queue = [QueueInput(JobId(1), request(), factors=Factors(NOW)), QueueInput(JobId(2), request())]
    given_to_it = PassInput(tuple(Cluster().nodes.values()), (), tuple(queue), Policy(), NOW)
    assert ordered(snapshot_of(given_to_it), Policy(), NOW).queue.job.tolist() == [2, 1]
    nicer = replace(given_to_it, queue=(queue[0], replace(queue[1], factors=Factors(nice=2000))))
    assert ordered(snapshot_of(nicer), Policy(), NOW).queue.job.tolist() == [1, 2]
