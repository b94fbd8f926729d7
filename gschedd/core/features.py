"""Which nodes a request may use by its static constraints: partition, features, GPU model, names."""

from __future__ import annotations

from collections.abc import Collection

from gsched.values.node import Inventory


def features_match(constraint: str, features: Collection[str]) -> bool:
    """Whether a node with these features meets `a&b`, `a|b`, `a&b|c`; & binds tighter. "" is met by every node."""
    if not constraint:
        return True
    return any(
        all(word.strip() in features for word in alternative.split("&")) for alternative in constraint.split("|")
    )


def model_mask(wanted: str, inventory: Inventory) -> int:
    """Mask of the node's GPUs whose model has `wanted` in its name, in any case."""
    text = wanted.casefold()
    return sum(1 << gpu.index for gpu in inventory.gpus if text in gpu.model.casefold())


def all_gpus(inventory: Inventory) -> int:
    """Mask of all the node's GPUs."""
    return sum(1 << gpu.index for gpu in inventory.gpus)
