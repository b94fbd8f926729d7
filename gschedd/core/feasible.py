"""Whether some set of the known nodes could ever hold a request, whatever their state now."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.values.job import Request
from gschedd.core.inputs import NodeInput


def why_impossible(request: Request, nodes: Sequence[NodeInput]) -> str | None:
    """One sentence that says what was asked and what exists, or None if it could be held."""
    here = [node for node in nodes if request.partition in node.partitions]
    need = request.need
    model = request.gpu_model.lower()
    fit = [
        node
        for node in here
        if sum(model in gpu.model.lower() for gpu in node.inventory.gpus) >= need.gpus
        and node.inventory.cpus >= need.cpus
        and node.inventory.memory_mib >= need.mem_mib
        and node.name not in request.exclude
    ]
    if len(fit) < request.nodes_min:
        return (
            f"{request.nodes_min} nodes with {need.cpus} cores and {need.gpus} GPUs each are asked: "
            f"partition {request.partition} has {len(fit)} such nodes"
        )
    return None
