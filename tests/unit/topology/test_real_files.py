"""The readers on files of real fabrics and of other tools' tests."""

from __future__ import annotations

import pytest

from gsched.spec.nodelists import fold
from gsched.topology.own_yaml import own_yaml, read_own
from gsched.topology.read import read_topology
from gsched.values.topology import ProblemKind
from tests.outside import data_file


@pytest.mark.parametrize(
    ("name", "levels", "nodes", "domains"),
    [
        ("slurm_topology_tree_12leaf.conf", ("leaf", "spine", "core"), 96, [12, 6, 1]),
        ("slurm_topology_block_12block.conf", ("block", "blocks16", "blocks32"), 96, [12, 6, 3]),
        ("topograph_model_medium.yaml", ("nvlink", "leaf", "spine", "core"), 8, [4, 4, 2, 1]),
        ("topograph_model_large.yaml", ("nvlink", "leaf", "spine", "core"), 96, [12, 12, 6, 1]),
        ("topograph_model_nvl72.yaml", ("nvlink", "leaf", "spine", "core"), 72, [4, 4, 2, 1]),
        ("ibnetdiscover_dgx_31leaf_9spine.out.gz", ("leaf", "spine"), 121, [8, 1]),
    ],
)
def test_a_file_has_its_levels(name: str, levels: tuple[str, ...], nodes: int, domains: list[int]) -> None:
    topology = read_topology(data_file("topology", "fabric", name))
    assert topology.levels == levels
    assert len(topology.paths) == nodes
    assert [len(topology.members(level)) for level in range(len(levels))] == domains
    again = read_own(own_yaml(topology), "again")
    assert (again.levels, again.paths, again.switches) == (topology.levels, topology.paths, topology.switches)


def test_the_rails_of_a_real_fabric_are_folded() -> None:
    """Four leaves a group of 18 hosts, but one leaf is missing; 119 DGX hosts, a manager and one never named."""
    topology = read_topology(data_file("topology", "fabric", "ibnetdiscover_dgx_31leaf_9spine.out.gz"))
    assert sorted(map(len, topology.switches.values())) == [3, 4, 4, 4, 4, 4, 4, 4, 9]
    for name, nodes in topology.members(0).items():
        assert len({node[:13] for node in nodes if "-dgx-" in node}) == 1, fold(nodes)
        assert len({switch[-2:] for switch in topology.switches[name]}) == 1
    assert len([node for node in topology.paths if "-dgx-" in node]) == 119
    few = {p.nodes for p in topology.problems if p.kind is ProblemKind.FEW_LINKS}
    assert few == {("B11-P1-CUFM-02", "ubuntu")}
    (nameless,) = (p for p in topology.problems if p.kind is ProblemKind.NO_NAME)
    assert nameless.text.startswith("72 adapters on 19 switches do not say which host they are in")
