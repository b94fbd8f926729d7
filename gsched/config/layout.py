"""What the settings say of one node: its partitions, features and switches. Made once, asked often."""

from __future__ import annotations

from gsched.config.settings import Settings
from gsched.values.ids import NodeName


class Layout:
    """Look-ups by node; making it costs one walk over the settings."""

    def __init__(self, settings: Settings) -> None:
        self._features = {node.name: node.features for node in settings.nodes}
        self._partitions = [(p.name, frozenset(p.nodes)) for p in settings.partitions]
        self._leaf = {node: switch.name for switch in settings.switches for node in switch.nodes}
        self._above = {below: switch.name for switch in settings.switches for below in switch.switches}

    def partitions_of(self, node: NodeName) -> tuple[str, ...]:
        """In the order of the settings; a partition without nodes has every node."""
        return tuple(name for name, nodes in self._partitions if not nodes or node in nodes)

    def features_of(self, node: NodeName) -> tuple[str, ...]:
        return self._features.get(node, ())

    def switches_of(self, node: NodeName) -> tuple[str, ...]:
        """From the leaf up to the root; () for a node on no switch."""
        path: list[str] = []
        switch = self._leaf.get(node)
        while switch is not None:
            path.append(switch)
            switch = self._above.get(switch)
        return tuple(path)
