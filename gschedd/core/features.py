"""Which nodes and GPUs a request may use by what never changes in a pass: features, the GPU's model and its memory."""

from __future__ import annotations

from collections.abc import Collection

from gsched.spec.constraints import parse_constraint
from gsched.values.node import Gpu, Inventory
from gschedd.core.mig import mig_model


def features_match(constraint: str, features: Collection[str]) -> bool:
    """Whether a node with these features meets the constraint. The text was read once already, at submit."""
    return parse_constraint(constraint).met_by(features)


def model_mask(wanted: str, inventory: Inventory) -> int:
    """Mask of the node's GPUs whose model has `wanted` in its name, in any case."""
    return usable_gpus(wanted, 0, "", inventory.gpus)


def usable_gpus(wanted: str, memory_mib: int, profile: str, gpus: Collection[Gpu]) -> int:
    """Mask of the GPUs whose model has `wanted` in its name, in any case, which have at least that memory, and which
    can be cut into instances of that MIG profile ("" = need not be)."""
    text = wanted.casefold()
    fits = [gpu for gpu in gpus if text in gpu.model.casefold() and gpu.memory_mib >= memory_mib]
    return sum(1 << gpu.index for gpu in fits if not profile or _has_profile(gpu, profile))


def _has_profile(gpu: Gpu, profile: str) -> bool:
    model = mig_model(gpu)
    return model is not None and model.profile(profile) is not None


def all_gpus(inventory: Inventory) -> int:
    """Mask of all the node's GPUs."""
    return sum(1 << gpu.index for gpu in inventory.gpus)
