"""The scheduling core by the clock: whole passes, changes, single decisions, compiling, growth. CPU time throughout.

`python -m tests.bench.bench_pass [PART...] [--repeats N] [--plot DIRECTORY]`: only the parts named; see PARTS.
The machine's own pace is the probe in each table: a stable numpy argsort of 100,000 doubles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import process_time, thread_time
from typing import Final

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import JobId
from gschedd.core.board import Board
from gschedd.core.inputs import Plan, Policy
from gschedd.core.order import ordered
from gschedd.core.plan import plan
from gschedd.core.warm import compile_kernels
from gschedd.kernel_cache import use_kernel_cache
from tests.bench.pass_world import PassWorld, every_one_different, pass_world, queued
from tests.bench.report import Row, percentile, show
from tests.builders.cluster import NOW, request

NODES: Final = 10_000
POLICY: Final = Policy(planned_starts=50)
GROWTH: Final = ((100, 1_000), (1_000, 1_000), (1_000, 10_000), (10_000, 10_000), (1_000, 100_000), (10_000, 100_000))


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.bench_pass", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help=f"any of {', '.join(PARTS)}; none = all")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--plot", type=Path, help="write the curve of growth there, as PNG and SVG")
    given = parser.parse_args()
    use_kernel_cache(Path(os.environ.get("NUMBA_CACHE_DIR") or ".numba"))
    compile_kernels()
    for name in given.parts or PARTS:
        PARTS[name](given.repeats, given.plot)


def full(repeats: int, _plot: Path | None) -> None:
    """The pass that the design names, and what it is made of."""
    world = pass_world(NODES, 100_000, 2_000)
    board = world.board()
    snapshot = board.snapshot()
    rows = [
        _probe(repeats),
        Row(_said("pass", board, POLICY), cpu_ms(_pass(board, POLICY), repeats), budget="100, aim 30"),
        Row("  of that: snapshot", cpu_ms(board.snapshot, repeats)),
        Row("  of that: order", cpu_ms(lambda: ordered(snapshot, POLICY, NOW), repeats)),
        Row("  with one planned start", cpu_ms(_pass(board, replace(POLICY, planned_starts=1)), repeats)),
    ]
    show_with_ratio(f"One pass, {NODES:,} nodes of 8 GPUs, 70 % busy, 50 planned starts", rows)


def million(repeats: int, _plot: Path | None) -> None:
    """Ten times the queue."""
    board = pass_world(NODES, 1_000_000, 2_000).board()
    row = Row(_said("pass", board, POLICY), cpu_ms(_pass(board, POLICY), min(repeats, 5)), budget="300, aim 50")
    show_with_ratio("One pass, a million pending", [_probe(repeats), row])


def classes(repeats: int, _plot: Path | None) -> None:
    """No two jobs alike."""
    board = every_one_different(pass_world(NODES, 100_000, 2_000)).board()
    row = Row(_said("pass", board, POLICY), cpu_ms(_pass(board, POLICY), min(repeats, 5)), budget="300, aim 100")
    show_with_ratio("One pass, every job a class of its own", [_probe(repeats), row])


def changes(repeats: int, _plot: Path | None) -> None:
    """1,000 changes to the board of the full size: a third each of jobs, of runs, and of nodes' states."""
    world = pass_world(NODES, 100_000, 2_000)
    board, random = world.board(), Random(3)
    board.snapshot()
    values = []
    for repeat in range(repeats):
        turns = _turns(board, world, random, repeat)
        values.append(_once_ms(partial(_carry_out, turns)))
        board.snapshot()
    rows = [_probe(repeats), Row("1,000 changes", values, budget="20, aim 5")]
    show_with_ratio("Changes to the arrays", rows)


def _carry_out(turns: list[tuple[Callable[..., None], object]]) -> None:
    for change, value in turns:
        change(value)


def _turns(board: Board, world: PassWorld, random: Random, repeat: int) -> list[tuple[Callable[..., None], object]]:
    """Ends and starts of runs, jobs that come and go, nodes that go away and come back."""
    first = 1_000_000 * (repeat + 1)
    fresh = [queued(first + i, world.requests, random) for i in range(166)]
    leaving = [world.queue.pop(random.randrange(len(world.queue))) for _ in range(166)]
    world.queue.extend(fresh)
    held = [world.holds[random.randrange(len(world.holds))] for _ in range(167)]
    moved = {hold.key: replace(hold, expected_end=None) for hold in held}
    nodes = [world.nodes[random.randrange(len(world.nodes))] for _ in range(334)]
    turns: list[tuple[Callable[..., None], object]] = [
        *((board.put_job, job) for job in fresh),
        *((board.drop_job, job.job) for job in leaving),
        *((board.drop_hold, key) for key in moved),
        *((board.put_hold, hold) for hold in moved.values()),
        *((board.put_node, replace(node, gpus_out=repeat % 2)) for node in nodes),
    ]
    return turns[:1000]


def one(repeats: int, _plot: Path | None) -> None:
    """One job in the queue: a whole call of plan(), board and all."""
    board = replace(pass_world(NODES, 1, 1), queue=[]).board()
    placed, blocked = (request(1, 4, 4), request(NODES // 2, 8, 8))
    rows = [_probe(repeats)]
    for what, wanted, budget in (("placed", placed, "p99 0.5, p50 0.035"), ("blocked", blocked, "p99 2, p50 0.15")):
        values = []
        for number in range(220):
            board.put_job(replace(queued(number + 1, [wanted], Random(number)), request=wanted))
            snapshot = board.snapshot()
            began = thread_time()
            decided = plan(snapshot, POLICY, NOW)
            values.append(1000 * (thread_time() - began))
            board.drop_job(JobId(number + 1))
            assert bool(decided.starts) == (what == "placed")
        values = values[20:]
        text = f"one decision, {what} (p50 {median(values):.3f}, p99 {percentile(values, 99):.3f})"
        rows.append(Row(text, values, budget=budget))
    show_with_ratio(f"One decision on {NODES:,} nodes", rows)


def compiling(_repeats: int, _plot: Path | None) -> None:
    """Fresh processes, with an empty cache and with a full one. Everything that is loaded counts."""
    code = "from gschedd.core.warm import compile_kernels as c; import time; b = time.process_time(); c(); "
    code += "print(time.process_time() - b)"
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "NUMBA_CACHE_DIR": directory}
        times = [
            float(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
            for _ in range(4)
        ]
    rows = [
        Row("all kernels, nothing cached", times[:1], "s", "60, aim 30"),
        Row("all kernels, from the cache", times[1:], "s", "1, aim 0.4"),
    ]
    show("Compiling (CPU time)", rows)


def growth(repeats: int, plot: Path | None) -> None:
    """From 100 nodes and 1,000 jobs to 10,000 and 100,000; a fiftieth of the jobs are distinct requests."""
    rows, points = [_probe(repeats)], []
    for nodes, pending in GROWTH:
        distinct = pending // 50
        board = pass_world(nodes, pending, distinct).board()
        values = cpu_ms(_pass(board, POLICY), min(repeats, 5))
        each = 1000 * median(values) / (nodes + distinct)
        rows.append(Row(f"{nodes:6,} nodes, {pending:7,} pending: {each:.2f} us a node and request", values))
        points.append((nodes, pending, median(values)))
    show_with_ratio("Growth", rows)
    if plot is not None:
        _draw(points, plot)


PARTS: Final[dict[str, Callable[[int, Path | None], None]]] = {
    "full": full,
    "million": million,
    "classes": classes,
    "changes": changes,
    "one": one,
    "compiling": compiling,
    "growth": growth,
}


def cpu_ms(action: Callable[[], object], repeats: int) -> list[float]:
    """CPU milliseconds of each of a few calls, the first one not counted."""
    action()
    return [_once_ms(action) for _ in range(repeats)]


def _once_ms(action: Callable[[], object]) -> float:
    began = process_time()
    action()
    return (process_time() - began) * 1000


def _probe(repeats: int) -> Row:
    floats = np.random.default_rng(1).random(100_000)
    return Row("probe: argsort of 100,000 doubles", cpu_ms(lambda: np.argsort(floats, kind="stable"), repeats))


def show_with_ratio(title: str, rows: Sequence[Row]) -> None:
    """The table, each row with its ratio to the probe, which is the first."""
    probe = median(rows[0].values)
    text = [row._replace(what=f"{row.what} [{median(row.values) / probe:.2f} probes]") for row in rows[1:]]
    show(title + " (CPU time)", [rows[0], *text])


def _pass(board: Board, policy: Policy) -> Callable[[], Plan]:
    return lambda: plan(board.snapshot(), policy, NOW)


def _said(what: str, board: Board, policy: Policy) -> str:
    """How large it is and what comes of it."""
    snapshot = board.snapshot()
    decided = plan(snapshot, policy, NOW)
    jobs, number = snapshot.queue.job.size, len(snapshot.requests)
    return f"{what}: {jobs:,} pending, {number:,} classes, {len(decided.starts):,} start"


def _draw(points: Sequence[tuple[int, int, float]], directory: Path) -> None:
    """CPU time against nodes + distinct requests, and the straight line through the largest."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 5))
    sizes = [nodes + pending // 50 for nodes, pending, _ in points]
    axes.loglog(sizes, [ms for _, _, ms in points], "o", label="measured")
    line = sorted(sizes)
    axes.loglog(line, [points[-1][2] * size / sizes[-1] for size in line], "--", label="linear")
    for size, (nodes, pending, ms) in zip(sizes, points, strict=True):
        axes.annotate(f"{nodes:,} / {pending:,}", (size, ms), textcoords="offset points", xytext=(5, 4), fontsize=8)
    axes.set(xlabel="nodes + distinct requests", ylabel="CPU time of a pass, ms", title="nodes / pending jobs")
    axes.legend()
    for form in ("png", "svg"):
        figure.savefig(directory / f"pass-growth.{form}")
    plt.close(figure)


if __name__ == "__main__":
    main()
