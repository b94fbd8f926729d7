"""Small traces whose stories were worked out by hand."""

from __future__ import annotations

import pytest

from gsched.errors import Impossible
from gschedd.core.inputs import Policy
from gschedd.replay.cluster import Shape, split
from gschedd.replay.knowledge import Setting
from gschedd.replay.measures import Measures, measure
from gschedd.replay.policies import CONTENDERS
from gschedd.replay.replay import Replay, Story
from gschedd.replay.traces import Trace, TraceJob

ONE = Shape(1, 8)
TWO = Shape(2, 8)
POLICY = {contender.name: contender.policy for contender in CONTENDERS}


def trace(*rows: tuple[int, int, int]) -> Trace:
    """Rows of submission, GPUs and duration; seconds."""
    return Trace("t", tuple(TraceJob(str(i), at * 1000, gpus, s * 1000) for i, (at, gpus, s) in enumerate(rows)))


def story(
    told: Trace, policy: Policy, setting: Setting = Setting.ORACLE, shape: Shape = ONE, interval_s: int = 0
) -> Story:
    return Replay(told, shape, policy, setting, interval_s * 1000).run()


def starts(of: Story) -> list[int]:
    return [job.start // 1000 for job in of.jobs]


# 4 GPUs for 100 s; all 8 for 10 s; 4 for 100 s; 2 for 50 s: one node of 8.
MIXED = trace((0, 4, 100), (1, 8, 10), (2, 4, 100), (3, 2, 50))


def test_fifo_lets_nobody_pass() -> None:
    assert starts(story(MIXED, POLICY["fifo"])) == [0, 100, 110, 110]


def test_easy_lets_pass_who_delays_nobody() -> None:
    """The third would delay the second's start at 100; the fourth ends before it."""
    assert starts(story(MIXED, POLICY["easy"])) == [0, 100, 110, 3]


def test_easy_that_knows_no_durations_lets_nobody_pass_on_planned_nodes() -> None:
    assert starts(story(MIXED, POLICY["easy"], Setting.BLIND)) == [0, 100, 110, 110]


def test_shortest_first_takes_the_lesser_gpu_time() -> None:
    """At 1,000 both have waited as long; the later one is a hundredth of the other."""
    told = trace((0, 8, 1000), (1, 8, 100_000), (1, 8, 1000))
    assert starts(story(told, POLICY["gsched"])) == [0, 2000, 1000]
    assert starts(story(told, POLICY["easy"])) == [0, 1000, 101_000]


def test_predictions_come_from_what_ended_before() -> None:
    """The third is told 100 s, so the fourth is planned at 201: the fifth, told 100, would delay it; the sixth not."""
    told = trace((0, 4, 100), (1, 2, 50), (101, 4, 200), (102, 8, 10), (103, 4, 10), (104, 2, 50))
    assert starts(story(told, POLICY["easy"], Setting.PREDICTED)) == [0, 1, 101, 301, 311, 104]


def test_a_gang_starts_whole() -> None:
    told = trace((0, 4, 100), (1, 16, 10), (2, 4, 5))
    assert starts(story(told, POLICY["easy"], shape=TWO)) == [0, 100, 2]


def test_events_of_one_instant_share_a_pass_and_passes_may_be_kept_apart() -> None:
    told = trace((0, 8, 10), (10, 4, 10), (10, 4, 10), (12, 8, 10))
    once = story(told, POLICY["fifo"])
    assert (starts(once), once.passes) == ([0, 10, 10, 20], 4)
    apart = story(told, POLICY["fifo"], interval_s=15)
    assert (starts(apart), apart.passes) == ([0, 15, 15, 30], 3)


def test_a_job_that_can_never_fit_is_named() -> None:
    with pytest.raises(Impossible, match=r"job 1 of t asks for 17 GPUs: 2x8 has 16"):
        story(trace((0, 1, 1), (0, 17, 1)), POLICY["fifo"], shape=TWO)


def test_a_gang_lies_on_the_fewest_nodes_that_divide_it() -> None:
    shape = Shape(4, 8)
    assert [split(gpus, shape) for gpus in (1, 8, 12, 16, 9, 17)] == [(1, 1), (1, 8), (2, 6), (2, 8), (3, 3), None]


def test_measures_of_a_story() -> None:
    measured = measure(story(MIXED, POLICY["fifo"]), ONE, "fifo", "oracle")
    # Ends at 100, 110, 210, 160; waits 0, 99, 108, 107.
    assert measured.completion_mean_s == (100 + 109 + 208 + 157) / 4
    assert (measured.completion_median_s, measured.completion_p99_s) == (109, 208)
    assert (measured.wait_mean_s, measured.wait_median_s, measured.wait_max_s) == (78.5, 99, 108)
    assert measured.makespan_s == 210
    assert measured.utilisation_percent == round(100 * (4 * 100 + 8 * 10 + 4 * 100 + 2 * 50) / (8 * 210), 3)
    assert measured.torn_percent == pytest.approx(100 * (4 * 100 + 2 * 50 + 4 * 50) / (8 * 210), abs=0.001)


def test_the_same_trace_gives_the_same_measures() -> None:
    def told() -> Measures:
        return measure(story(MIXED, POLICY["gsched"], Setting.PREDICTED), ONE, "gsched", "predicted")

    assert told() == told()
