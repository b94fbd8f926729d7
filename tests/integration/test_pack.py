"""`gsim pack` on small lists: where pods go, what is written, and what is said of lists that are wrong."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from gschedd.replay.main import main

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,16000,64000,2,A
n1,32000,64000,4,B
n2,64000,64000,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
half,2000,1000,1,500,
most,4000,1000,1,810,
whole,8000,8000,1,1000,A|B
pair,8000,8000,2,1000,B
cores,12000,1000,0,0,
"""


@pytest.fixture
def lists(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv.gz"
    nodes.write_text(NODES)
    pods.write_bytes(gzip.compress(PODS.encode()))
    return nodes, pods


def _pack(lists: tuple[Path, Path], *words: str) -> int:
    return main(["pack", "--nodes", str(lists[0]), "--pods", str(lists[1]), *words])


def test_json_has_every_policy_with_its_means_and_spread(
    lists: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _pack(lists, "--seeds", "3", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in shown["policies"]] == ["first-fit", "best-fit", "fgd", "gsched"]
    for row in shown["policies"]:
        assert set(row["seeds"]) == {"42", "43", "44"}
        assert row["allocation_percent"] == pytest.approx(sum(row["seeds"].values()) / 3, abs=0.001)
        assert 0 < row["allocation_percent"] <= 100
        assert 0 <= row["fragmentation_percent"] <= 100 - row["allocation_percent"] + 0.001
        assert row["allocation_percent_spread"] >= 0
        assert len(row["less_fgd"]) == 3


@pytest.mark.parametrize("prices", ["known", "learnt"])
def test_placements_are_right_and_nothing_that_fits_was_rejected(
    lists: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], prices: str
) -> None:
    """Replayed here with other code, from the files alone."""
    file = tmp_path / "placements.csv"
    assert _pack(lists, "--load", "2", "--seeds", "2", "--prices", prices, "--json", "--placements", str(file)) == 0
    told = {row["name"]: row["seeds"] for row in json.loads(capsys.readouterr().out)["policies"]}
    runs: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader(file.read_text().splitlines()):
        runs[row["policy"], row["seed"]].append(row)
    assert set(runs) == {(policy, seed) for policy in told for seed in ("42", "43")}
    for (policy, seed), rows in runs.items():
        assert [int(row["arrival"]) for row in rows] == list(range(len(rows)))
        assert _allocated_percent(rows) == pytest.approx(told[policy][seed], abs=0.001)


def _allocated_percent(rows: list[dict[str, str]]) -> float:
    """GPU allocated after these placements; fails on one that does not fit, and on a rejection of what fits."""
    nodes = [dict(row) for row in csv.DictReader(NODES.splitlines())]
    pods = {row["name"]: row for row in csv.DictReader(PODS.splitlines())}
    cores, memory = [int(n["cpu_milli"]) for n in nodes], [int(n["memory_mib"]) for n in nodes]
    free = [[1000] * int(n["gpu"]) for n in nodes]

    def fits(pod: dict[str, str], n: int) -> bool:
        enough = cores[n] >= int(pod["cpu_milli"]) and memory[n] >= int(pod["memory_mib"])
        if pod["num_gpu"] == "0":
            return enough
        named = not pod["gpu_spec"] or nodes[n]["model"] in pod["gpu_spec"].split("|")
        return enough and named and sum(left >= int(pod["gpu_milli"]) for left in free[n]) >= int(pod["num_gpu"])

    for row in rows:
        pod = pods[row["pod"]]
        if row["node"] == "rejected":
            assert not any(fits(pod, n) for n in range(len(nodes)))
            continue
        n, gpus = int(row["node"]), [int(g) for g in row["gpus"].split()]
        assert fits(pod, n)
        assert row["policy"] != "first-fit" or not any(fits(pod, earlier) for earlier in range(n))
        assert len(set(gpus)) == int(pod["num_gpu"])
        cores[n] -= int(pod["cpu_milli"])
        memory[n] -= int(pod["memory_mib"])
        for g in gpus:
            free[n][g] -= int(pod["gpu_milli"])
            assert free[n][g] >= 0
    return 100 * (1 - sum(map(sum, free)) / 6000)


def test_the_table_compares_with_fgd_and_says_that_rejections_were_checked(
    lists: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _pack(lists, "--seeds", "2", "--policy", "gsched,fgd") == 0
    shown = capsys.readouterr()
    assert "gsched" in shown.out
    assert "first-fit" not in shown.out
    assert "LP bound" in shown.out
    assert "seed by seed" in shown.out
    assert "turned away" in shown.out
    assert "packing" not in shown.err  # no bar: not a terminal


@pytest.mark.parametrize(
    ("nodes", "pods", "words", "status", "said"),
    [
        (NODES.replace("cpu_milli", "cpus"), PODS, (), 2, "no column 'cpu_milli'"),
        (NODES, PODS.replace("num_gpu", "gpus"), (), 2, "no column 'num_gpu'"),
        (NODES.replace("64000,4", "64000,-4"), PODS, (), 2, "line 3: gpu is '-4': expected a whole number from 0 on"),
        (NODES, PODS.replace("1,810", "3,810"), (), 2, "line 3: gpu_milli is 810 of each of 3 GPUs"),
        (NODES, PODS.replace("1,810", "1,1810"), (), 2, "line 3: gpu_milli is 1810: at most 1000"),
        (NODES, PODS.replace("1,810,", "1"), (), 2, "line 3"),
        (NODES.splitlines()[0], PODS, (), 2, "no node with a GPU"),
        (NODES, PODS, ("--policy", "fgd,bestfit"), 2, "unknown policy 'bestfit' (did you mean best-fit?)"),
        (NODES, PODS, ("--policy", "fgd,fgd"), 2, "named twice"),
        (NODES, PODS, ("--load", "0"), 2, "--load is 0"),
        (NODES, PODS, ("--seeds", "0"), 2, "--seeds"),
        (None, PODS, (), 2, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_gives_one_clear_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    nodes: str | None,
    pods: str,
    words: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    at = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    if nodes is not None:
        at[0].write_text(nodes)
    at[1].write_text(pods)
    assert _pack(at, "--seeds", "1", *words) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_half_a_gzip_file_is_an_error(lists: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    lists[1].write_bytes(lists[1].read_bytes()[:-20])
    assert _pack(lists) == 2
    assert "gzip" in capsys.readouterr().err
