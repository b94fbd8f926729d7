"""gsim pack: fill a cluster with a pod list under rising load, several policies through one path, side by side."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean

import click
from msgspec import Struct

from gsched.cli._common import command as declare
from gsched.cli._common import did_you_mean, fail
from gschedd.core.kernels.shares import WHOLE
from gschedd.replay.openb import read_nodes, read_pods
from gschedd.replay.pack_bound import allocation_bound
from gschedd.replay.pack_run import Case, Outcome, PackPolicy, PriceSource, fill, spread

FIRST_SEED = 42


class PolicyResult(Struct, frozen=True):
    policy: PackPolicy
    outcomes: tuple[Outcome, ...]

    def mean(self, measure: str) -> float:
        return float(mean(getattr(outcome, measure) for outcome in self.outcomes))

    def spread(self, measure: str) -> float:
        return spread([getattr(outcome, measure) for outcome in self.outcomes])


@declare("pack")
@click.option("--nodes", "node_file", required=True, type=click.Path(path_type=Path), help="Node list, CSV or CSV.gz.")
@click.option("--pods", "pod_file", required=True, type=click.Path(path_type=Path), help="Pod list, CSV or CSV.gz.")
@click.option("--load", default=1.3, show_default=True, help="GPU demand that arrives, of the cluster's GPUs.")
@click.option(
    "--seeds", default=10, show_default=True, type=click.IntRange(1, 1000), help="How many, with seeds 42, 43..."
)
@click.option(
    "--policy", "policies", default="first-fit,best-fit,fgd,gsched", show_default=True, help="Joined by commas."
)
@click.option(
    "--prices",
    type=click.Choice([source.value for source in PriceSource]),
    default=PriceSource.KNOWN.value,
    show_default=True,
    help="gsched's prices: from the whole pod list, or from what has arrived so far.",
)
@click.option(
    "--memory/--no-memory", default=True, help="Whether nodes' memory counts; FGD's published runs left it out."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--placements", type=click.Path(path_type=Path), help="Write each placement to this CSV file.")
def command(
    node_file: Path,
    pod_file: Path,
    load: float,
    seeds: int,
    policies: str,
    prices: str,
    memory: bool,
    as_json: bool,
    placements: Path | None,
) -> None:
    """Fill a cluster with pods and show how much of its GPUs each policy could use.

    Pods come in random order, then are drawn again until the demand is there; none leaves. A pod that fits somewhere is
    never turned away, which is checked at each rejection.
    """
    chosen = parse_policies(policies)
    if not 0 < load <= 10:
        fail(f"--load is {load:g}: expected above 0, at most 10 (1.3 = 130 % of the cluster's GPUs)", status=2)
    case = Case(read_nodes(node_file), read_pods(pod_file, memory=memory))
    range_of_seeds = range(FIRST_SEED, FIRST_SEED + seeds)
    with _bar(len(chosen) * seeds) as advance:
        results = run_policies(case, chosen, range_of_seeds, load, PriceSource(prices), advance)
    bound = allocation_bound(case, load)
    if placements is not None:
        _write_placements(placements, case, results, range_of_seeds, load)
    shown = _as_json(case, results, load, bound, prices) if as_json else _table(case, results, load, bound, prices)
    click.echo(shown)


def parse_policies(text: str) -> tuple[PackPolicy, ...]:
    """`first-fit,fgd` as policies. Ends the command on one that is unknown or named twice."""
    known = [policy.value for policy in PackPolicy]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            fail(f"unknown policy {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}", status=2)
        if names.count(name) > 1:
            fail(f"policy {name!r} is named twice", status=2)
    return tuple(PackPolicy(name) for name in names)


def run_policies(
    case: Case,
    policies: Sequence[PackPolicy],
    seeds: Sequence[int],
    load: float,
    source: PriceSource,
    advance: Callable[[int], None] | None = None,
) -> tuple[PolicyResult, ...]:
    """Every policy on the same arrivals. `advance` is told of each finished run."""
    outcomes: dict[PackPolicy, list[Outcome]] = {policy: [] for policy in policies}
    for seed in seeds:
        arrivals = case.arrivals(seed, load)
        for policy in policies:
            outcomes[policy].append(fill(case, policy, seed, arrivals, source=source))
            if advance is not None:
                advance(1)
    return tuple(PolicyResult(policy, tuple(found)) for policy, found in outcomes.items())


@contextmanager
def _bar(runs: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=runs, label="packing", file=sys.stderr) as bar:
        yield bar.update


def _table(case: Case, results: Sequence[PolicyResult], load: float, bound: float, prices: str) -> str:
    told = f"{len(case.nodes):,} nodes, {case.gpu_milli // WHOLE:,} GPUs; {len(case.pods):,} pods of "
    told += f"{len(case.shapes):,} kinds; load {100 * load:g} %; seeds {_seeds(results)}; gsched's prices {prices}"
    head = f"{'policy':<10} {'allocation %':>16} {'fragmentation %':>16} {'multi-GPU %':>12} {'CPU-only %':>11} "
    lines = [told, "", head + f"{'us/decision':>12}"]
    for result in results:
        allocated = f"{result.mean('allocation_percent'):.2f} +-{result.spread('allocation_percent'):.2f}"
        fragmented = f"{result.mean('fragmentation_percent'):.2f} +-{result.spread('fragmentation_percent'):.2f}"
        lines.append(
            f"{result.policy.value:<10} {allocated:>16} {fragmented:>16} {result.mean('multi_gpu_percent'):>12.2f} "
            f"{result.mean('cpu_only_percent'):>11.2f} {result.mean('decision_us'):>12.1f}"
        )
    lines += [
        f"{'LP bound':<10} {bound:>10.2f}",
        "",
        "multi-GPU: part of that demand placed. CPU-only: part of those pods.",
    ]
    lines += _paired(results)
    lines.append("Each rejection was checked: no pod that fits somewhere was turned away.")
    return "\n".join(lines)


def _paired(results: Sequence[PolicyResult]) -> list[str]:
    """Allocation against FGD's on the same arrivals, seed by seed."""
    fgd = next((result for result in results if result.policy is PackPolicy.FGD), None)
    if fgd is None or len(results) == 1:
        return []
    lines = ["Allocation less FGD's on the same arrivals, in points, seed by seed:"]
    for result in results:
        if result is fgd:
            continue
        gaps = differences(result, fgd)
        shown = " ".join(f"{gap:+.2f}" for gap in gaps)
        lines.append(f"  {result.policy.value:<10} mean {mean(gaps):+.2f}: {shown}")
    return lines


def differences(result: PolicyResult, base: PolicyResult) -> list[float]:
    pairs = zip(result.outcomes, base.outcomes, strict=True)
    return [ours.allocation_percent - theirs.allocation_percent for ours, theirs in pairs]


def _as_json(case: Case, results: Sequence[PolicyResult], load: float, bound: float, prices: str) -> str:
    fgd = next((result for result in results if result.policy is PackPolicy.FGD), None)
    rows = []
    for result in results:
        row: dict[str, object] = {"name": result.policy.value}
        for measure in ("allocation_percent", "fragmentation_percent", "multi_gpu_percent", "cpu_only_percent"):
            row[measure] = round(result.mean(measure), 4)
            row[f"{measure}_spread"] = round(result.spread(measure), 4)
        row["decision_us"] = round(result.mean("decision_us"), 2)
        row["seeds"] = {str(o.seed): round(o.allocation_percent, 4) for o in result.outcomes}
        if fgd is not None:
            row["less_fgd"] = [round(gap, 4) for gap in differences(result, fgd)]
        rows.append(row)
    whole = {
        "nodes": len(case.nodes),
        "gpus": case.gpu_milli // WHOLE,
        "pods": len(case.pods),
        "load": load,
        "prices": prices,
        "memory": any(shape.memory_mib for shape in case.shapes),
        "bound_percent": round(bound, 4),
        "policies": rows,
    }
    return json.dumps(whole, indent=2)


def _seeds(results: Sequence[PolicyResult]) -> str:
    seeds = [outcome.seed for outcome in results[0].outcomes]
    return f"{seeds[0]}..{seeds[-1]}" if len(seeds) > 1 else str(seeds[0])


def _write_placements(
    path: Path, case: Case, results: Sequence[PolicyResult], seeds: Sequence[int], load: float
) -> None:
    """One row a policy, seed and pod in order of arrival: indices of node and GPUs, or `rejected`."""
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["policy", "seed", "arrival", "pod", "node", "gpus"])
            for at, seed in enumerate(seeds):
                names = [case.pods[pod].name for pod in case.arrivals(seed, load).tolist()]
                for result in results:
                    outcome = result.outcomes[at]
                    rows = zip(names, outcome.node.tolist(), outcome.gpus.tolist(), strict=True)
                    writer.writerows(
                        (result.policy.value, seed, i, name, node if node >= 0 else "rejected", _indices(mask))
                        for i, (name, node, mask) in enumerate(rows)
                    )
    except OSError as error:
        fail(f"--placements: {path} cannot be written: {error.strerror}")


def _indices(mask: int) -> str:
    return " ".join(str(g) for g in range(mask.bit_length()) if mask >> g & 1)
