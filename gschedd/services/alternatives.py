"""What else a user could ask in place of one request: other sizes, GPU models, shorter times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gsched.spec.durations import squeue_style
from gsched.values.job import MemoryRule, Request
from gschedd.core.inputs import NodeInput

_SHORTEST_S = 300
_WHEN_UNLIMITED_S = (24 * 3600, 4 * 3600, 3600)


def alternatives(request: Request, nodes: Sequence[NodeInput]) -> list[tuple[str, Request]]:
    """Each with words for what is different; what asks the same as another is left out."""
    found: dict[Request, str] = {}
    for what, other in (*_sizes(request), *_models(request, nodes), *_times(request)):
        if other != request:
            found.setdefault(other, what)
    return [(what, other) for other, what in found.items()]


def _sizes(request: Request) -> Iterator[tuple[str, Request]]:
    """Half, a quarter and twice the nodes; for one node the GPUs, or cores, on it."""
    if request.nodes_min > 1:
        for count in _around(request.nodes_min):
            fits_names = count >= len(request.nodelist)
            if fits_names and not (request.segment and count % request.segment):
                yield f"{count} node{'s' * (count > 1)}", _of_nodes(request, count)
        return
    need = request.need
    if need.gpus:
        for gpus in _around(need.gpus):
            cpus = max(1, need.cpus * gpus // need.gpus)
            memory = need.mem_mib * gpus // need.gpus if need.mem_rule is MemoryRule.EXACT else need.mem_mib
            changed = replace(need, gpus=gpus, cpus=cpus, mem_mib=memory)
            yield f"{gpus} GPU{'s' * (gpus > 1)}", replace(request, need=changed)
    else:
        for cpus in _around(need.cpus):
            yield f"{cpus} core{'s' * (cpus > 1)}", replace(request, need=replace(need, cpus=cpus))


def _around(count: int) -> Iterable[int]:
    return sorted({max(1, count // 4), max(1, count // 2), count * 2} - {count})


def _of_nodes(request: Request, count: int) -> Request:
    return replace(request, nodes_min=count, nodes_max=count, ntasks=count * request.tasks_per_node)


def _models(request: Request, nodes: Sequence[NodeInput]) -> Iterator[tuple[str, Request]]:
    """Each model in the partition; a name in which the asked one stands is the same again."""
    if not request.need.gpus:
        return
    here = (node for node in nodes if request.partition in node.partitions)
    models = sorted({gpu.model for node in here for gpu in node.inventory.gpus})
    asked = request.gpu_model.casefold()
    if len(models) > 1:
        for model in models:
            if not asked or asked not in model.casefold():
                yield f"GPU model {model}", replace(request, gpu_model=model)
    if asked:
        yield "any GPU model", replace(request, gpu_model="")


def _times(request: Request) -> Iterator[tuple[str, Request]]:
    limit_s = request.time_limit_s
    shorter = [limit_s // 2, limit_s // 4, limit_s // 8] if limit_s else _WHEN_UNLIMITED_S
    for seconds in shorter:
        if seconds >= _SHORTEST_S:
            whole = seconds // 60 * 60
            yield f"{squeue_style(whole)} at most", replace(request, time_limit_s=whole)
