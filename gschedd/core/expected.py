"""When runs are expected to give back what they hold."""

from __future__ import annotations

import numpy as np

from gschedd.core.kernels.arrays import HoldArrays, Int64s, RunArrays


def expected_ends(runs: RunArrays, holds: HoldArrays, now: int, kill_ms: int) -> Int64s:
    """The end of each row of what runs hold, always after `now`.

    A limit that has passed counts as `kill_ms` from now. Before the limit a predicted end counts; once it has passed it
    is taken to lie twice as far from the run's start, as often as it takes.
    """
    ends = np.where(runs.end <= now, now + kill_ms, runs.end)
    predicted = holds.predicted[runs.run]
    rows = np.flatnonzero((predicted >= 0) & (runs.end > now))
    if rows.size:
        started = np.where(holds.started >= 0, holds.started, now)[runs.run[rows]]
        lasts = np.maximum(predicted[rows] - started, 1)
        while (over := started + lasts <= now).any():
            lasts = np.where(over, 2 * lasts, lasts)
        ends[rows] = np.minimum(ends[rows], started + lasts)
    return ends
