"""gsim replay on the traces under $GSCHED_DATA: mean completion and p99 wait against FIFO and EASY, and the speed."""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time

from gschedd.core.warm import compile_kernels
from gschedd.replay.cluster import Shape
from gschedd.replay.knowledge import Setting
from gschedd.replay.measures import Measures, measure
from gschedd.replay.policies import CONTENDERS
from gschedd.replay.replay import Replay
from gschedd.replay.traces import Trace, read_trace

DATA = Path(os.environ.get("GSCHED_DATA", "../shared/data")) / "traces"
# Trace, nodes, jobs of it (None: all). The Philly trace whole takes an hour: its first jobs tell as much in minutes.
RUNS = (("muri_trace1", "8x8", None), ("muri_trace3", "8x8", None), ("philly_jobs", "12x8", 3000))
SETTINGS = (Setting.BLIND, Setting.PREDICTED, Setting.ORACLE)
SPEED_JOBS, SPEED_NODES = 2000, "500x8"


def main() -> None:
    if not DATA.is_dir():
        print(f"bench_replay: skipped: no traces at {DATA} (set GSCHED_DATA)")
        return
    compile_kernels()
    for name, nodes, limit in RUNS:
        trace = read_trace(DATA / f"{name}.csv.gz", limit)
        print(f"\n{name}, {len(trace.jobs):,} jobs on {nodes}; seconds; CPU time", flush=True)
        for setting in SETTINGS:
            judge(trace, Shape.parse(nodes), setting)
    speed()


def judge(trace: Trace, shape: Shape, setting: Setting) -> None:
    """A line a policy, and whether the design's targets are met."""
    found: dict[str, Measures] = {}
    for contender in CONTENDERS:
        began = process_time()
        story = Replay(trace, shape, contender.policy_in(setting), setting).run()
        took = process_time() - began
        made = found[contender.name] = measure(story, shape, contender.name, setting.value)
        print(
            f"  {setting.value:<10}{contender.name:<8} mean completion {made.completion_mean_s:12,.0f}"
            f"  p99 wait {made.wait_p99_s:12,.0f}  {took:6.1f} s",
            flush=True,
        )
    ours, easy, fifo = found["gsched"], found["easy"], found["fifo"]
    if setting is Setting.BLIND:
        met = ours.completion_mean_s <= easy.completion_mean_s and ours.wait_p99_s <= easy.wait_p99_s
        print(f"  must: not worse than easy: {'met' if met else 'NOT met'}")
    elif setting is Setting.ORACLE:
        mean, wait = ours.completion_mean_s / fifo.completion_mean_s, ours.wait_p99_s / fifo.wait_p99_s
        met = mean <= 1 / 3 and wait <= 1.1
        print(
            f"  aim: mean <= 0.333 x fifo's, p99 wait <= 1.1 x: {mean:.3f}, {wait:.3f}: {'met' if met else 'NOT met'}"
        )


def speed() -> None:
    trace = read_trace(DATA / "philly_jobs.csv.gz", SPEED_JOBS)
    began = process_time()
    story = Replay(trace, Shape.parse(SPEED_NODES), CONTENDERS[-1].policy, Setting.ORACLE).run()
    took = process_time() - began
    span_s = (story.moments[-1].at - story.moments[0].at) / 1000
    print(
        f"\nspeed: first {SPEED_JOBS:,} jobs of philly_jobs on {SPEED_NODES}: {span_s / took:,.0f}x real time"
        f" ({1000 * took / story.passes:.2f} ms a pass, CPU time)  must 1,000x, aim 10,000x"
    )


if __name__ == "__main__":
    main()
