"""Each reader on small texts: what it makes of them, and what it says of a wrong one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gsched.errors import BadConfig, BadRequest
from gsched.spec.nodelists import fold
from gsched.topology.own_yaml import own_yaml, read_own
from gsched.topology.read import parse_topology, read_topology
from gsched.values.ids import NodeName
from gsched.values.topology import ProblemKind, Topology
from tests.outside import ROOT

TREE = """
# three leaves, one of them without a spine
SwitchName=core Switches=spine1,leaf3
switchname=spine1 \\
    Switches=leaf[1-2] LinkSpeed=1
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3-4]
SwitchName=leaf3 Nodes=n[5-6]
"""
BLOCKS = """
BlockName=b1 Nodes=n[1-2]
BlockName=b2 Nodes=n[3-4]
BlockName=b3 Nodes=n[5-6]
BlockSizes=2,4
"""
MODEL = """
switches:
  spine: {switches: [leaf1, leaf2]}
blocks:
- switch: leaf1
  nodes: ["n[1-2]"]
  annotations: {accelerator.x/domain: nvl1}
- switch: leaf2
  nodes: [n3, n4]
"""
OWN = """
levels: [nvlink, leaf, pod]
domains:
  nvlink:
    "1": "n[1-2]"
  leaf:
    leaf1: {domains: "1", nodes: n03}
    leaf2: {nodes: [x1, "x[2-3]"], switches: "s[1-2]"}
  pod:
    pod1: [leaf1, leaf2]
"""
FABRIC = """
Switch 65 "S-0a" # "MF0;leaf-a:MQM9701/U1" enhanced port 0 lid 1 lmc 0
[1] "H-1a"[1](1a) # "n1 mlx5_0" lid 2 4xNDR
[2] "H-2a"[1](2a) # "n2 mlx5_0" lid 2 4xNDR
[3] "S-05"[1] # "MF0;spine:MQM9701/U1" lid 9 4xNDR
[4] "H-9a"[1](9a) # "Mellanox Technologies Aggregation Node" lid 2 4xNDR
Switch 65 "S-0b" # "MF0;leaf-b:MQM9701/U1" enhanced port 0 lid 1 lmc 0
[1] "H-1b"[1](1b) # "n1 mlx5_1" lid 2 4xNDR
[3] "S-05"[2] # "MF0;spine:MQM9701/U1" lid 9 4xNDR
Switch 65 "S-0c" # "MF0;leaf-c:MQM9701/U1" enhanced port 0 lid 1 lmc 0
[1] "H-3a"[1](3a) # "n3 HCA-1" lid 2 4xNDR
[2] "H-4a"[1](4a) # "MT4129 ConnectX7   Mellanox Technologies" lid 2 4xNDR
[3] "S-05"[3] # "MF0;spine:MQM9701/U1" lid 9 4xNDR
Switch 65 "S-05" # "MF0;spine:MQM9701/U1" enhanced port 0 lid 9 lmc 0
[1] "S-0a"[3] # "MF0;leaf-a:MQM9701/U1" lid 1 4xNDR
[2] "S-0b"[3] # "MF0;leaf-b:MQM9701/U1" lid 1 4xNDR
[3] "S-0c"[3] # "MF0;leaf-c:MQM9701/U1" lid 1 4xNDR
vendid=0x2c9
Ca 1 "H-1a" # "n1 mlx5_0"
[1](1a) "S-0a"[1] # lid 2 lmc 0 "MF0;leaf-a:MQM9701/U1" lid 1 4xNDR
Ca 1 "H-1b" # "n1 mlx5_1"
Ca 1 "H-2a" # "n2 mlx5_0"
Ca 1 "H-3a" # "n3 HCA-1"
Ca 1 "H-4a" # "MT4129 ConnectX7   Mellanox Technologies"
Ca 1 "H-9a" # "Mellanox Technologies Aggregation Node"
"""


def path(topology: Topology, node: str) -> tuple[str, ...]:
    return topology.paths[NodeName(node)]


def test_slurms_tree_has_a_level_for_each_step_up() -> None:
    topology = parse_topology(TREE, "t.conf")
    assert topology.levels == ("leaf", "spine", "core")
    assert path(topology, "n1") == ("leaf1", "spine1", "core")
    assert path(topology, "n5") == ("leaf3", "", "core")
    assert topology.path_of(NodeName("n5")) == ("leaf3", "core")
    assert topology.domains_of(NodeName("n5")) == ("leaf3", "leaf3", "core")


def test_a_node_that_hangs_nowhere_is_alone_at_every_level() -> None:
    topology = parse_topology(TREE, "t.conf")
    assert topology.path_of(NodeName("x")) == ()
    assert topology.domains_of(NodeName("x")) == ("x", "x", "x")


def test_slurms_blocks_are_joined_in_their_order() -> None:
    topology = parse_topology(BLOCKS, "t.conf")
    assert topology.levels == ("block", "blocks4")
    assert [path(topology, f"n{i}") for i in (1, 4, 6)] == [("b1", "b1.x2"), ("b2", "b1.x2"), ("b3", "b3.x2")]


def test_a_node_on_two_leaves_stays_on_the_first_and_is_reported() -> None:
    topology = parse_topology("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]", "t.conf")
    (problem,) = topology.problems
    assert path(topology, "n2") == ("a",)
    assert (problem.kind, problem.nodes, problem.domains) == (ProblemKind.TWO_PLACES, ("n2",), ("a", "b"))


def test_topographs_accelerator_domains_are_the_lowest_level() -> None:
    topology = parse_topology(MODEL, "m.yaml")
    assert topology.levels == ("nvlink", "leaf", "spine")
    assert path(topology, "n1") == ("nvl1", "leaf1", "spine")
    assert topology.domains_of(NodeName("n3")) == ("n3", "leaf2", "spine")


def test_topographs_accelerator_domains_may_be_over_the_leaves() -> None:
    topology = parse_topology(MODEL.replace("nodes: [n3, n4]", "nodes: [n3]\n  labels: {x/accelerator: nvl1}"), "m")
    assert topology.levels == ("leaf", "nvlink", "spine")
    assert path(topology, "n3") == ("leaf2", "nvl1", "spine")


def test_our_yaml_has_any_levels_and_nodes_may_hang_at_any() -> None:
    topology = parse_topology(OWN, "o.yaml")
    assert topology.levels == ("nvlink", "leaf", "pod")
    assert path(topology, "n1") == ("1", "leaf1", "pod1")
    assert path(topology, "n03") == ("", "leaf1", "pod1")
    assert path(topology, "x3") == ("", "leaf2", "pod1")
    assert topology.switches == {"leaf2": ("s1", "s2")}


@pytest.mark.parametrize("text", [TREE, BLOCKS, MODEL, OWN, FABRIC])
def test_what_is_written_as_our_yaml_reads_back(text: str) -> None:
    topology = parse_topology(text, "t")
    again = read_own(own_yaml(topology), "again")
    assert (again.levels, again.paths, again.switches) == (topology.levels, topology.paths, topology.switches)


def test_leaves_and_spines_are_found_from_the_links() -> None:
    """n1 is on leaf-a and leaf-b: rails, folded into one domain, which n2 is in though it has one link only."""
    topology = parse_topology(FABRIC, "f.out")
    assert topology.levels == ("leaf", "spine")
    assert [path(topology, n) for n in ("n1", "n2", "n3")] == [
        ("leaf-a.x2", "spine"), ("leaf-a.x2", "spine"), ("leaf-c", "spine"),
    ]  # fmt: skip
    assert topology.switches == {"leaf-a.x2": ("leaf-a", "leaf-b")}
    kinds = {problem.kind: (problem.nodes, problem.domains) for problem in topology.problems}
    assert kinds == {
        ProblemKind.NO_NAME: ((), ("leaf-c",)),
        ProblemKind.FEW_LINKS: (("n2",), ("leaf-b",)),
    }


def test_a_host_on_two_groups_of_leaves_is_reported_and_joins_nothing() -> None:
    more = "".join(f'[{9 + i}] "H-{i}d"[1](0) # "m{i} mlx5_0"\n' for i in range(2))
    text = FABRIC.replace('# "n3 HCA-1" lid 2 4xNDR\n', f'# "n3 HCA-1" lid 2 4xNDR\n[8] "H-1c"[1](1c) # "n1"\n{more}')
    text += 'Ca 1 "H-1c" # "n1 mlx5_2"\nCa 1 "H-0d" # "m0 mlx5_0"\nCa 1 "H-1d" # "m1 mlx5_0"\n'
    text = text.replace('[1] "H-1b"[1](1b) # "n1 mlx5_1" lid 2 4xNDR\n', "")
    text = text.replace('[2] "H-2a"', '[5] "H-5a"[1](5a) # "n5 mlx5_0"\n[2] "H-2a"') + 'Ca 1 "H-5a" # "n5 mlx5_0"\n'
    topology = parse_topology(text, "f.out")
    assert path(topology, "n3") == path(topology, "m0") == ("leaf-c", "spine")
    assert path(topology, "n2") == path(topology, "n1") == ("leaf-a", "spine")
    assert [p.nodes for p in topology.problems if p.kind is ProblemKind.TWO_PLACES] == [("n1",)]


def test_a_manager_on_a_spine_makes_no_leaf_of_it() -> None:
    lines = [f'[{i}] "H-{i:02x}"[1] # "n{i} mlx5_0"' for i in range(4)]
    text = "\n".join(
        ['Switch 9 "S-0a" # "leaf"', *lines, '[9] "S-0b"[1] # "spine"', 'Switch 9 "S-0b" # "spine"']
        + ['[1] "S-0a"[9] # "leaf"', '[2] "H-ff"[1] # "ufm mlx5_0"', 'Ca 1 "H-ff" # "ufm mlx5_0"']
        + [f'Ca 1 "H-{i:02x}" # "n{i} mlx5_0"' for i in range(4)]
    )
    topology = parse_topology(text, "f.out")
    assert path(topology, "n0") == ("leaf", "spine")
    assert path(topology, "ufm") == ("", "spine")
    assert [p.kind for p in topology.problems] == [ProblemKind.NOT_A_LEAF]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hello", "t: expected a topology: Slurm's"),
        ("SwitchName=a", "t: line 1: expected either Nodes= (a leaf) or Switches=, found neither"),
        ("\nSwitchName=a Nodes=n[1", "t: line 2: not a node list: 'n[1'"),
        ("SwitchName=a Nodes=n1 Speed", "t: line 1: expected Key=Value, found 'Speed'"),
        ("SwitchName=a Nodes=n1 Node=n2", "t: line 1: expected nodes or switches or linkspeed after switchname"),
        ("SwitchName=a Switches=b", "t: line 1: expected switches that have a SwitchName= line, found b"),
        (
            "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2",
            "t: line 2: expected a new name, found a again (first on line",
        ),
        ("SwitchName=a Nodes=n1\nBlockName=a Nodes=n2", "t: line 2: expected switches only, as above, found a block"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "t: line 1: expected a tree with leaves below, found a"),
        (
            "SwitchName=l Nodes=n1\nSwitchName=a Switches=l,b\nSwitchName=b Switches=a",
            "t: expected a tree of switches, found a circle: a < b < a",
        ),
        (
            "SwitchName=l Nodes=n1\nSwitchName=a Switches=l\nSwitchName=b Switches=l",
            "t: line 3: expected each switch under one other, found l, which is under a too",
        ),
        ("BlockName=a Nodes=n1\nBlockSizes=4,12", "t: line 2: expected sizes that are each a power of two times"),
        ("levels: [a", "t: line 2: expected YAML, found an error: "),
        ("levels: [a]\nnodes: x", "t: line 2: expected levels and domains, found the key nodes"),
        ("levels: [a]", "t: expected domains, found only levels"),
        ("levels: [a, a]\ndomains: {}", "t: line 1: expected each level once, found a again"),
        ("levels: [a, b]\ndomains: {a: {x: n1}}", "t: line 2: expected domains of level b, found those of a only"),
        ("levels: [a]\ndomains:\n  a:\n    x: n1\n    x: n2", "t: line 5: expected each key once, found x again"),
        (
            "levels: [a]\ndomains:\n  a:\n    x: n1\n    y: n1",
            "t: line 5: expected each node once, found n1, which is in",
        ),
        (
            "levels: [a]\ndomains:\n  a:\n    x: {node: n1}",
            "t: line 4: expected one of nodes, domains, switches, found",
        ),
        ("levels: [a]\ndomains:\n  a:\n    x: {domains: n1}", "t: line 4: expected nodes at the lowest level, found"),
        (
            "levels: [a, b]\ndomains:\n  a:\n    x: n1\n  b:\n    y: z",
            "t: line 6: expected domains of level a, found z",
        ),
        (
            "levels: [a, b]\ndomains:\n  a:\n    x: n1\n  b:\n    y: x\n    z: x",
            "t: line 7: expected each domain in one other, found x, which is in y too",
        ),
        (
            "levels: [a]\ndomains: &d\n  a: {x: n1}\n  b: *d",
            "t: line 2: expected plain mappings, lists and texts, found",
        ),
        ("blocks: 3", "t: line 1: expected a list of blocks, found the text '3'"),
        ("blocks:\n- nodes: [n1]", "t: line 2: expected a block with switch, found one with nodes"),
        ("switches: {a: {switches: [b]}}", "t: expected `blocks`, each with a switch and its nodes, found switches"),
        ('Switch 9 "S-0a" # "a"\nbogus', "t: line 2: expected what ibnetdiscover prints"),
        ('Switch 9 "S-0a" # "a"\n', "t: expected hosts on switches, found none"),
    ],
)
def test_a_mistake_names_the_file_the_line_and_what_was_expected(text: str, error: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parse_topology(text, "t")
    assert refused.value.text.startswith(error)
    assert "\n" not in refused.value.text


def test_an_nvlink_domain_that_nests_nowhere_is_refused() -> None:
    text = MODEL.replace(
        "nodes: [n3, n4]", "nodes: [n3]\n- switch: leaf2\n  nodes: [n4]\n  labels: {accelerator.x: nvl1}"
    )
    with pytest.raises(BadConfig, match="nvlink nvl1 within one domain"):
        parse_topology(text, "m.yaml")


def test_a_format_may_be_said_and_an_unknown_one_is_refused() -> None:
    assert parse_topology(TREE, "t", "slurm").levels == ("leaf", "spine", "core")
    with pytest.raises(
        BadRequest, match="no format is called 'dot'; there are auto, slurm, topograph, ibnetdiscover, yaml"
    ):
        parse_topology(TREE, "t", "dot")


def test_a_file_may_be_gzipped(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(gzip.compress(TREE.encode()))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TREE.encode())[:-9])
    assert read_topology(tmp_path / "t.gz").levels == ("leaf", "spine", "core")
    with pytest.raises(BadConfig, match="cannot be unpacked"):
        read_topology(tmp_path / "cut.gz")
    with pytest.raises(BadConfig, match="cannot be read: No such file"):
        read_topology(tmp_path / "no.conf")


def test_the_example_reads() -> None:
    topology = read_topology(ROOT / "conf" / "topology.yaml")
    assert topology.levels == ("nvlink", "leaf", "pod")
    assert {name: fold(nodes) for name, nodes in topology.members(2).items()} == {"pod1": "gb[1-36]", "pod2": "h[1-16]"}
