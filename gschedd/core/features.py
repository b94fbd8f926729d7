"""Which nodes and GPUs a request may use by what never changes in a pass: features and the GPU's model."""

from __future__ import annotations

from collections.abc import Collection

from gsched.spec.constraints import parse_constraint
from gsched.values.node import Inventory


def features_match(constraint: str, features: Collection[str]) -> bool:
    """Whether a node with these features meets the constraint. The text was read once already, at submit."""
    return parse_constraint(constraint).met_by(features)


def model_mask(wanted: str, inventory: Inventory) -> int:
    """Mask of the node's GPUs whose model has `wanted` in its name, in any case."""
    text = wanted.casefold()
    return sum(1 << gpu.index for gpu in inventory.gpus if text in gpu.model.casefold())


def all_gpus(inventory: Inventory) -> int:
    """Mask of all the node's GPUs."""
    return sum(1 << gpu.index for gpu in inventory.gpus)
