"""What the controller makes of a topology, and of nodes that are elsewhere."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.config.settings import Settings
from gsched.protocol.messages import ShowTopology, TopologyShown
from gsched.topology.read import parse_topology
from gsched.values.ids import NodeName
from gsched.values.topology import ProblemKind
from tests.builders.controller import Controller, inventory

TEXT = "levels: [nvlink, leaf]\ndomains: {nvlink: {r1: n1, r2: 'n[2-3]'}, leaf: {l1: 'r[1-2]'}}"


def shown(controller: Controller) -> TopologyShown:
    answer = controller.ask(ShowTopology())
    assert isinstance(answer, TopologyShown)
    return answer


def test_without_a_topology_there_is_nothing_odd() -> None:
    answer = shown(Controller(nodes=2))
    assert (answer.topology.levels, answer.problems) == ((), ())


def test_nodes_that_joined_are_compared_with_the_file() -> None:
    controller = Controller(nodes=2, settings=Settings(fabric=parse_topology(TEXT, "t.yaml")))
    assert [(p.kind, p.nodes) for p in shown(controller).problems] == [(ProblemKind.ONLY_IN_FILE, ("n3",))]
    controller.arrive("n3", replace(inventory(), nvlink_domain="c.1"))
    controller.arrive("x1", inventory())
    assert [(p.kind, p.nodes) for p in shown(controller).problems] == [
        (ProblemKind.NOT_IN_FILE, ("x1",)),
        (ProblemKind.CONTRADICTED, ("n2", "n3")),
    ]


def test_a_pass_gets_a_domain_of_each_level_for_each_node() -> None:
    controller = Controller(nodes=1, settings=Settings(fabric=parse_topology(TEXT, "t.yaml")))
    controller.arrive("x1", inventory())
    given = controller.machine.pass_input(controller.now)
    assert given.levels == ("nvlink", "leaf")
    assert {node.name: node.switches for node in given.nodes} == {
        NodeName("n1"): ("r1", "l1"),
        NodeName("x1"): ("x1", "x1"),
    }
