"""Why a job waits, in Slurm's reason and a few words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gsched.values.ids import JobId, NodeName
from gsched.values.job import Request
from gsched.values.states import Reason
from gschedd.core.kernels.arrays import (
    OUT_FOUND,
    OUT_VERDICT,
    VERDICT_BEHIND,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_PRIORITY,
    VERDICT_RESERVATION,
    VERDICTS,
    Grid,
)
from gschedd.core.snapshot import Snapshot
from gschedd.core.waits import Waits


def waits_of(snapshot: Snapshot, out: Grid, waiting: npt.NDArray[np.bool_], above: int, blocked_from: int) -> Waits:
    """Why the jobs of the rows `waiting` wait. above: row of the highest planned job; blocked_from: see `as_plan`."""
    names, requests = snapshot.names, snapshot.requests
    up, size = snapshot.nodes.up.copy(), len(names) + 1
    jobs = snapshot.queue.job[waiting]
    top = JobId(int(snapshot.queue.job[max(above, blocked_from)])) if max(above, blocked_from) >= 0 else None
    later = np.arange(waiting.size)[waiting] > above if above >= 0 else np.zeros(jobs.size, dtype=np.bool_)
    kinds = (snapshot.queue.cls[waiting] * VERDICTS + out[OUT_VERDICT, waiting]) * size + out[OUT_FOUND, waiting]

    def words(kind: int) -> tuple[Reason, str]:
        rest, after = divmod(kind, 2)
        rest, found = divmod(rest, size)
        c, verdict = divmod(rest, VERDICTS)
        if verdict == VERDICT_BEHIND:
            return Reason.PRIORITY, f"waits behind job {top}"
        down = frozenset(name for name, is_up in zip(names, up.tolist(), strict=True) if not is_up)
        return wait_for(verdict, requests[c], found, top if after else None, names, down)

    return Waits(jobs, kinds * 2 + later, words)


def wait_for(
    verdict: int,
    request: Request,
    found: int,
    above: JobId | None,
    known_nodes: tuple[NodeName, ...],
    down: frozenset[NodeName],
) -> tuple[Reason, str]:
    """Reason and detail of a verdict. found: nodes that hold a member now. above: the highest planned job."""
    if not known_nodes:
        return Reason.NODES_UNKNOWN, "no node is known yet"
    if verdict == VERDICT_IMPOSSIBLE:
        return Reason.BAD_CONSTRAINTS, f"no set of the known nodes can hold it any more: {_wanted(request)}"
    if verdict == VERDICT_NOT_AVAILABLE:
        named = [name for name in request.nodelist if name in down]
        if named:
            return Reason.REQ_NODE_NOT_AVAIL, f"drained or away: {', '.join(named)}"
        return Reason.REQ_NODE_NOT_AVAIL, f"too few nodes are up that can hold it: {_wanted(request)}"
    if verdict == VERDICT_RESERVATION:
        own = request.reservation
        return Reason.RESERVATION, f"waits for reservation {own}" if own else "would run into a reservation"
    if verdict == VERDICT_PRIORITY:
        return Reason.PRIORITY, "would delay a job above" if above is None else f"would delay job {above}"
    return Reason.RESOURCES, f"{_wanted(request)}: {found} such free now"


def _wanted(request: Request) -> str:
    """What it needs: nodes, and what of each."""
    need = request.need
    nodes = max(request.nodes_min, len(set(request.nodelist)))
    parts = [f"{need.gpus} GPU{'s' if need.gpus > 1 else ''}"] if need.gpus else []
    parts.append(f"{need.cpus} core{'s' if need.cpus > 1 else ''}")
    return f"needs {nodes} node{'s' if nodes > 1 else ''} with {', '.join(parts)} each"
