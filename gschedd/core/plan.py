"""One pass: `plan(snapshot, policy, now) -> Plan`. The same three arguments always give the same plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from gsched.values.ids import Instant, JobId
from gsched.values.run import NodeShare
from gsched.values.states import Reason
from gschedd.core.inputs import Plan, PlannedStart, Policy, Start, Wait
from gschedd.core.kernels.arrays import (
    OUT_AT,
    OUT_FOUND,
    OUT_NODES,
    OUT_START,
    OUT_VERDICT,
    SHARE_GPUS,
    SHARE_MEMORY,
    SHARE_NODE,
    SOMEDAY,
    VERDICT_STARTED,
    Grid,
)
from gschedd.core.kernels.walk import walk_nb
from gschedd.core.order import ordered
from gschedd.core.preempt import preempt
from gschedd.core.snapshot import Snapshot
from gschedd.core.words import wait_for
from gschedd.core.workspace import make_workspace


def plan(snapshot: Snapshot, policy: Policy, now: Instant) -> Plan:
    """Decide one pass; never act. The snapshot is left as it is: all changes go to copies made here."""
    snapshot = ordered(snapshot, policy, now)
    work = make_workspace(snapshot, policy, now)
    blocked_from = walk_nb(*work, now, policy.kill_time_s * 1000, policy.planned_starts, policy.strict_order)
    decided = snapshot.queue.job.size if blocked_from < 0 else blocked_from + 1
    walked = as_plan(snapshot, _decisions(work.out, work.shares, decided), blocked_from)
    if not snapshot.queue.preempts.any():
        return walked
    preemptions, claims = preempt(snapshot, work, policy, now)
    return replace(walked, preemptions=preemptions, claims=claims)


class Decision(NamedTuple):
    """What the walk decided for one job."""

    verdict: int
    found: int = 0  # nodes that hold a member now
    shares: Sequence[tuple[int, int, int]] = ()  # started: node, GPU mask, memory of each member
    planned: int = -1  # planned start; -1 = none
    planned_nodes: Sequence[int] = ()


def _decisions(out: Grid, shares: Grid, decided: int) -> Iterator[Decision]:
    """The walk's columns as rows, in queue order."""
    columns = (out[row].tolist() for row in (OUT_VERDICT, OUT_FOUND, OUT_AT, OUT_NODES, OUT_START))
    node, gpus, memory = (shares[row].tolist() for row in (SHARE_NODE, SHARE_GPUS, SHARE_MEMORY))
    for verdict, found, at, count, start in islice(zip(*columns, strict=True), decided):
        if verdict == VERDICT_STARTED:
            rows = slice(at, at + count)
            yield Decision(verdict, 0, list(zip(node[rows], gpus[rows], memory[rows], strict=True)))
        else:
            yield Decision(verdict, found, (), start, node[at : at + count])


def as_plan(snapshot: Snapshot, decisions: Iterable[Decision], blocked_from: int) -> Plan:
    """Decisions as values. blocked_from: the job that nobody could pass any more; -1 = none."""
    starts: list[Start] = []
    planned: list[PlannedStart] = []
    waits: list[Wait] = []
    known: dict[tuple[int, int, int], tuple[Reason, str]] = {}
    above: JobId | None = None  # the highest planned job
    down = frozenset(name for name, up in zip(snapshot.names, snapshot.nodes.up.tolist(), strict=True) if not up)
    jobs, classes = snapshot.queue.job.tolist(), snapshot.queue.cls.tolist()
    for job, c, decision in zip(jobs, classes, decisions, strict=False):
        if decision.verdict == VERDICT_STARTED:
            starts.append(Start(job, _shares(snapshot, c, decision)))
            continue
        key = (c, decision.verdict, decision.found)
        if key not in known:
            request = snapshot.requests[c]
            known[key] = wait_for(decision.verdict, request, decision.found, above, snapshot.names, down)
        waits.append(Wait(job, *known[key]))
        if decision.planned < 0:
            continue
        if above is None:
            above = job
            known.clear()
        if decision.planned < SOMEDAY:
            nodes = tuple(snapshot.names[n] for n in decision.planned_nodes)
            planned.append(PlannedStart(job, Instant(decision.planned), nodes))
    if blocked_from >= 0:
        behind = f"waits behind job {jobs[blocked_from]}"
        waits += [Wait(job, Reason.PRIORITY, behind) for job in jobs[blocked_from + 1 :]]
    return Plan(tuple(starts), tuple(planned), tuple(waits))


def _shares(snapshot: Snapshot, c: int, decision: Decision) -> tuple[NodeShare, ...]:
    cores = int(snapshot.classes.cores[c])
    return tuple(NodeShare(snapshot.names[node], cores, memory, gpus) for node, gpus, memory in decision.shares)
