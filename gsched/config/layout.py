"""What the settings say of one node: its partitions, features and place in the topology. Made once, asked often."""

from __future__ import annotations

from gsched.config.settings import Settings
from gsched.topology.tree import from_tree, renamed
from gsched.values.ids import NodeName


class Layout:
    """Look-ups by node; making it costs one walk over the settings. Raises BadConfig: [topology] levels do not fit."""

    def __init__(self, settings: Settings) -> None:
        self._features = {node.name: node.features for node in settings.nodes}
        self._partitions = [(p.name, frozenset(p.nodes)) for p in settings.partitions]
        leaves = {switch.name: switch.nodes for switch in settings.switches if switch.nodes}
        above = {below: switch.name for switch in settings.switches for below in switch.switches}
        self.topology = settings.fabric or renamed(
            from_tree(leaves, above), settings.topology.levels, "[topology] levels"
        )

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the topology's levels, from the lowest up."""
        return self.topology.levels

    def partitions_of(self, node: NodeName) -> tuple[str, ...]:
        """In the order of the settings; a partition without nodes has every node."""
        return tuple(name for name, nodes in self._partitions if not nodes or node in nodes)

    def features_of(self, node: NodeName) -> tuple[str, ...]:
        return self._features.get(node, ())

    def switches_of(self, node: NodeName) -> tuple[str, ...]:
        """From the leaf up to the root; () for a node on no switch. For people: levels may be missing."""
        return self.topology.path_of(node)

    def domains_of(self, node: NodeName) -> tuple[str, ...]:
        """One domain for each of `levels`, for placing: a node on no switch is alone at every level."""
        return self.topology.domains_of(node)
