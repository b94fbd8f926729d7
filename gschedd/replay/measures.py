"""What a story comes to in numbers: the values of the table, the JSON and the plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gschedd.replay.cluster import Shape
from gschedd.replay.replay import Story
from gschedd.replay.traces import Trace

BINS: Final = 400  # of the curves over time
POINTS: Final = 200  # of a distribution


class Measures(Struct, frozen=True):
    """One policy in one setting. Seconds; percentages of all GPUs; curves have BINS values over the whole time."""

    policy: str
    setting: str
    completion_mean_s: float
    completion_median_s: float
    completion_p99_s: float
    wait_mean_s: float
    wait_median_s: float
    wait_p99_s: float
    wait_max_s: float
    makespan_s: float
    utilisation_percent: float  # over the makespan
    torn_percent: float  # idle GPUs of nodes that are partly busy, over the makespan
    preemptions: int
    passes: int
    bin_s: float
    utilisation: tuple[float, ...] = ()
    torn: tuple[float, ...] = ()
    waiting: tuple[float, ...] = ()  # jobs
    completions_s: tuple[float, ...] = ()  # POINTS + 1 quantiles, the least to the greatest
    waits_s: tuple[float, ...] = ()


class Replayed(Struct, frozen=True):
    """What `gsim replay --json` writes and `gsim compare` reads."""

    trace: str
    nodes: str
    jobs: int
    left_out: int
    gpu_s: int
    interval_s: float
    runs: tuple[Measures, ...]


def measure(story: Story, shape: Shape, policy: str, setting: str) -> Measures:
    """Percentiles are the nearest rank: a value that occurred."""
    completions = np.sort(np.array([job.completion for job in story.jobs], dtype=np.int64))
    waits = np.sort(np.array([job.wait for job in story.jobs], dtype=np.int64))
    at = np.array([moment.at for moment in story.moments], dtype=np.int64)
    span = int(at[-1] - at[0])
    curves = {
        name: _binned(at, np.array([getattr(moment, name) for moment in story.moments], dtype=np.int64))
        for name in ("busy", "torn", "waiting")
    }
    percent = 100 / shape.total
    return Measures(
        policy=policy,
        setting=setting,
        completion_mean_s=_mean(completions),
        completion_median_s=_rank(completions, 50),
        completion_p99_s=_rank(completions, 99),
        wait_mean_s=_mean(waits),
        wait_median_s=_rank(waits, 50),
        wait_p99_s=_rank(waits, 99),
        wait_max_s=_rank(waits, 100),
        makespan_s=span / 1000,
        utilisation_percent=round(float(curves["busy"].mean()) * percent, 3),
        torn_percent=round(float(curves["torn"].mean()) * percent, 3),
        preemptions=story.preemptions,
        passes=story.passes,
        bin_s=round(span / 1000 / BINS, 3),
        utilisation=_rounded(curves["busy"] * percent),
        torn=_rounded(curves["torn"] * percent),
        waiting=_rounded(curves["waiting"]),
        completions_s=_quantiles(completions),
        waits_s=_quantiles(waits),
    )


Ints = np.typing.NDArray[np.int64]
Floats = np.typing.NDArray[np.float64]


def _binned(at: Ints, values: Ints) -> Floats:
    """Means over BINS equal times of what `values` is from each instant to the next."""
    if at[-1] == at[0]:
        return np.zeros(BINS)
    area = np.concatenate([[0.0], np.cumsum(np.diff(at) * values[:-1], dtype=np.float64)])
    edges = np.linspace(float(at[0]), float(at[-1]), BINS + 1)
    means: Floats = np.diff(np.interp(edges, at, area)) * BINS / float(at[-1] - at[0])
    return means


def _mean(values: Ints) -> float:
    return round(float(values.mean()) / 1000, 3)


def _rank(ordered: Ints, percent: int) -> float:
    """The least value that `percent` of all are not above; seconds."""
    return float(ordered[max(0, -(-ordered.size * percent // 100) - 1)]) / 1000


def _quantiles(ordered: Ints) -> tuple[float, ...]:
    at = np.linspace(0, ordered.size - 1, POINTS + 1).round().astype(np.int64)
    return tuple(float(value) / 1000 for value in ordered[at])


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(value), 2) for value in values)


def replayed(trace: Trace, shape: Shape, interval_ms: int, runs: Sequence[Measures]) -> Replayed:
    return Replayed(
        trace=trace.name,
        nodes=str(shape),
        jobs=len(trace.jobs),
        left_out=trace.left_out,
        gpu_s=trace.gpu_s,
        interval_s=interval_ms / 1000,
        runs=tuple(runs),
    )
