"""What a file and the known nodes differ in; the table and JSON; the command that shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsched.topology.compare import compare
from gsched.topology.read import parse_topology
from gsched.values.ids import NodeName
from gsched.values.topology import ProblemKind, Topology
from gschedd.replay.main import main

OWN = """
levels: [nvlink, leaf]
domains:
  nvlink: {r1: "n[1-2]", r2: "n[3-4]"}
  leaf: {l1: r1, l2: r2}
"""


def names(*words: str) -> list[NodeName]:
    return [NodeName(word) for word in words]


def test_nodes_of_one_side_only_are_named() -> None:
    absent, strange = compare(parse_topology(OWN, "o.yaml"), names("n1", "n2", "n4", "x10", "x9"))
    assert (absent.kind, absent.nodes) == (ProblemKind.ONLY_IN_FILE, ("n3",))
    assert absent.text == "n3: in o.yaml, but no such node is known"
    assert (strange.kind, strange.nodes) == (ProblemKind.NOT_IN_FILE, ("x9", "x10"))
    assert strange.text == "x[9-10]: not in o.yaml: each counts as a domain of its own"


def test_without_a_topology_nothing_is_missing() -> None:
    assert compare(Topology(), names("n1")) == ()


def test_agents_may_contradict_the_file() -> None:
    known = names("n1", "n2", "n3", "n4")
    topology = parse_topology(OWN, "o.yaml")
    agreed = dict(zip(known, ("a", "a", "b", "b"), strict=True))
    assert compare(topology, known, agreed) == ()
    one, other = compare(topology, known, {**agreed, NodeName("n2"): "b"})
    assert {one.kind, other.kind} == {ProblemKind.CONTRADICTED}
    assert (
        one.text == ("agents report one NVLink domain (b) is different nvlink domains (r1: n2; r2: n[3-4])")
        or "one NVLink domain (b)" in one.text
    )
    assert one.nodes == ("n2", "n3", "n4")
    assert other.text.startswith("nvlink r1 in the file is what agents report as different ones")


def test_an_nvlink_domain_under_two_leaves_contradicts_a_file_that_has_leaves_only() -> None:
    topology = parse_topology("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "t")
    (problem,) = compare(topology, names("n1", "n2"), dict.fromkeys(names("n1", "n2"), "c"))
    assert problem.domains == ("a", "b")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(OWN)
    return path


def test_gsim_shows_the_levels(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--from", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 nodes, 2 levels: 2 nvlink (2 nodes), 2 leaf (2 nodes)",
        "LEVEL   DOMAIN  NODES  NODELIST",
        "leaf    l1          2",
        "nvlink    r1        2  n[1-2]",
        "leaf    l2          2",
        "nvlink    r2        2  n[3-4]",
    ]


def test_gsim_converts_and_reports(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--from", str(file), "--to", "json", "--nodes", "n[1-5]"]) == 1
    got = capsys.readouterr()
    shown = json.loads(got.out)
    assert shown["levels"] == ["nvlink", "leaf"]
    assert shown["domains"][0] == {"level": "nvlink", "name": "r1", "in": "l1", "nodes": ["n1", "n2"], "switches": []}
    assert shown["problems"][0]["kind"] == "not-in-file"
    assert got.err == f"gsim: warning: n5: not in {file}: each counts as a domain of its own\n"
    assert main(["topology", "--from", str(file), "--to", "yaml"]) == 0
    assert parse_topology(capsys.readouterr().out, "x").paths == parse_topology(OWN, "y").paths


def test_gsim_checks_a_clusters_settings(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = file.with_name("gsched.toml")
    settings.write_text('[topology]\nfile = "topology.yaml"\nlevels = ["rack", "row"]\n[[node]]\nname = "n[1-4]"\n')
    assert main(["topology", "--check", str(settings)]) == 0
    assert "2 rack (2 nodes), 2 row (2 nodes)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "say which topology: --from FILE, or --check GSCHED_TOML"),
        (["--from", "/nowhere"], 4, "/nowhere: cannot be read: No such file or directory"),
        (["--form", "x"], 2, "unknown option --form"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", *words]) == status
    assert said in capsys.readouterr().err
