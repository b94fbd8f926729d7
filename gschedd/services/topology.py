"""What the controller makes of the cluster's topology, and where the nodes are otherwise."""

from __future__ import annotations

from gsched.protocol.messages import TopologyShown
from gsched.topology.compare import compare
from gsched.values.topology import Problem
from gschedd.state import State


def problems(state: State) -> tuple[Problem, ...]:
    """Of the file, and between it and the nodes that are declared or have joined."""
    declared = {node.name for node in state.settings.nodes}
    reported = {name: node.inventory.nvlink_domain for name, node in state.nodes.items() if node.inventory.gpus}
    return compare(state.layout.topology, declared | state.nodes.keys(), reported)


def show(state: State) -> TopologyShown:
    return TopologyShown(state.layout.topology, problems(state))
