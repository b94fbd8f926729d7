"""Replays as text: a table for people, and a row a job in CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from gschedd.replay.measures import Measures, Replayed
from gschedd.replay.published import published
from gschedd.replay.replay import Story

HEAD: Final = (
    ("setting", 10),
    ("policy", 10),
    ("completion: mean", 18),
    ("median", 11),
    ("p99", 11),
    ("wait: mean", 12),
    ("p99", 11),
    ("max", 11),
    ("makespan", 11),
    ("busy %", 8),
    ("torn %", 8),
    ("preempted", 11),
)


def replay_table(result: Replayed) -> Iterator[str]:
    """A line a policy and setting, in seconds; what was published for this trace below."""
    yield f"{result.trace}: {result.jobs:,} jobs, {result.gpu_s / 3600:,.0f} GPU hours, on {result.nodes} GPUs; seconds"
    yield _line([name for name, _ in HEAD])
    for run in result.runs:
        yield _line([run.setting, run.policy, *(f"{value:,.0f}" for value in _seconds(run)), *_shares(run)])
    rows = published(result.jobs, result.gpu_s, result.nodes)
    for row in rows:
        makespan = "" if row.makespan_s is None else f"{row.makespan_s:,}"
        cells = ["published", row.policy, f"{row.completion_mean_s:,}", "", "", "", "", "", makespan]
        yield _line(cells)
    if rows:
        yield "published: knows durations, may preempt; results of others (Muri, SIGCOMM 2022)"


def _seconds(run: Measures) -> tuple[float, ...]:
    return (
        run.completion_mean_s,
        run.completion_median_s,
        run.completion_p99_s,
        run.wait_mean_s,
        run.wait_p99_s,
        run.wait_max_s,
        run.makespan_s,
    )


def _shares(run: Measures) -> tuple[str, ...]:
    return f"{run.utilisation_percent:.1f}", f"{run.torn_percent:.1f}", str(run.preemptions)


def _line(cells: Sequence[str]) -> str:
    """The first two columns to the left, numbers to the right."""
    padded = [
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, (_, width)) in enumerate(zip(cells, HEAD, strict=False))
    ]
    return "".join(padded).rstrip()


COLUMNS: Final = (
    *("setting", "policy", "job_id", "group", "num_gpus", "preemptions"),
    *("submit_s", "start_s", "end_s", "wait_s", "completion_s"),
)


class JobsCsv:
    """A row a job, policy and setting."""

    def __init__(self, file: TextIO) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def add(self, setting: str, policy: str, story: Story) -> None:
        for done in story.jobs:
            job = done.job
            times = (job.submit, done.start, done.end, done.wait, done.completion)
            seconds = (ms / 1000 if ms % 1000 else ms // 1000 for ms in times)
            self._writer.writerow((setting, policy, job.id, job.group, job.gpus, done.preemptions, *seconds))
