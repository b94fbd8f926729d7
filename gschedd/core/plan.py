"""One pass: `plan(snapshot, policy, now) -> Plan`. The same three arguments always give the same plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from gsched.values.ids import Instant, JobId
from gsched.values.run import NodeShare
from gsched.values.states import Reason
from gschedd.core.inputs import Plan, PlannedStart, Policy, Start, Wait
from gschedd.core.kernels.arrays import (
    SOMEDAY,
    VERDICT_STARTED,
    Ahead,
    Held,
    Outcome,
    Scan,
)
from gschedd.core.kernels.walk import walk_nb
from gschedd.core.snapshot import Snapshot
from gschedd.core.words import wait_for


def plan(snapshot: Snapshot, policy: Policy, now: Instant) -> Plan:
    """Decide one pass; never act. The snapshot is left as it is: all changes go to copies made here."""
    out = _outcome(snapshot, policy)
    blocked_from = walk_nb(
        snapshot.nodes._replace(
            free_gpus=snapshot.nodes.free_gpus.copy(),
            free_cores=snapshot.nodes.free_cores.copy(),
            free_memory=snapshot.nodes.free_memory.copy(),
        ),
        snapshot.links,
        snapshot.classes,
        snapshot.queue,
        _held(snapshot, policy, now, out.share_node.size),
        _ahead(snapshot, policy),
        _scan(snapshot, out.share_node.size, policy),
        np.zeros((4, snapshot.classes.least.size), dtype=np.int64),
        out,
        now,
        policy.kill_time_s * 1000,
        policy.planned_starts,
        policy.strict_order,
    )
    decided = snapshot.queue.job.size if blocked_from < 0 else blocked_from + 1
    return as_plan(snapshot, _decisions(out, decided), blocked_from)


def _zeros(size: int) -> np.typing.NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def _most_planned(snapshot: Snapshot, policy: Policy) -> int:
    """Upper bound of the rows that planned starts take."""
    least = np.minimum(snapshot.classes.least, snapshot.nodes.up.size)[snapshot.queue.cls]
    return int(np.sort(least)[::-1][: policy.planned_starts].sum())


def _outcome(snapshot: Snapshot, policy: Policy) -> Outcome:
    jobs = snapshot.queue.job.size
    members = np.minimum(snapshot.classes.most, snapshot.nodes.up.size)[snapshot.queue.cls]
    rows = int(members.sum())
    if (snapshot.classes.cores > 0).all():  # every member then takes a core
        rows = min(rows, int(np.maximum(snapshot.nodes.free_cores, 0).sum()))
    rows += _most_planned(snapshot, policy)
    return Outcome(
        verdict=_zeros(jobs),
        found=_zeros(jobs),
        nodes=_zeros(jobs),
        at=_zeros(jobs),
        start=np.full(jobs, -1, dtype=np.int64),
        share_node=_zeros(rows),
        share_gpus=_zeros(rows),
        share_memory=_zeros(rows),
        used=_zeros(1),
    )


def _held(snapshot: Snapshot, policy: Policy, now: Instant, starts: int) -> Held:
    """What runs, chained by node, with room for the starts. An end that has passed counts as `kill_time_s` from now."""
    runs = snapshot.runs
    rows = runs.node.size
    size = rows + starts
    head = np.full(snapshot.nodes.up.size, -1, dtype=np.int64)
    link = np.full(size, -1, dtype=np.int64)
    order = np.argsort(runs.node, kind="stable")
    same = np.flatnonzero(runs.node[order][1:] == runs.node[order][:-1])
    link[order[same]] = order[same + 1]
    firsts = np.ones(rows, dtype=np.bool_)
    firsts[1:] = runs.node[order][1:] != runs.node[order][:-1]
    head[runs.node[order][firsts]] = order[firsts]

    def with_room(values: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
        return np.concatenate([values, _zeros(starts)])

    return Held(
        head=head,
        used=np.array([rows], dtype=np.int64),
        link=link,
        end=with_room(np.where(runs.end <= now, now + policy.kill_time_s * 1000, runs.end)),
        cores=with_room(runs.cores),
        memory=with_room(runs.memory),
        gpus=with_room(runs.gpus),
    )


def _ahead(snapshot: Snapshot, policy: Policy) -> Ahead:
    size = _most_planned(snapshot, policy)
    return Ahead(
        head=np.full(snapshot.nodes.up.size, -1, dtype=np.int64),
        used=_zeros(1),
        link=_zeros(size),
        guard=_zeros(size),
        start=_zeros(size),
        end=_zeros(size),
        cores=_zeros(size),
        memory=_zeros(size),
        gpus=_zeros(size),
    )


def _scan(snapshot: Snapshot, starts: int, policy: Policy) -> Scan:
    size = snapshot.nodes.up.size
    return Scan(
        fits=_zeros(size),
        gpus=_zeros(size),
        cores=_zeros(size),
        late=_zeros(size),
        before=_zeros(size + 1),
        must=_zeros(size + 1),
        quota=np.zeros((2, size), dtype=np.int64),
        key=_zeros(size),
        when=_zeros(size),
        times=_zeros(1 + size + snapshot.runs.node.size + starts + _most_planned(snapshot, policy)),
        chosen=_zeros(size),
    )


class Decision(NamedTuple):
    """What the walk decided for one job."""

    verdict: int
    found: int = 0  # nodes that hold a member now
    shares: Sequence[tuple[int, int, int]] = ()  # started: node, GPU mask, memory of each member
    planned: int = -1  # planned start; -1 = none
    planned_nodes: Sequence[int] = ()


def _decisions(out: Outcome, decided: int) -> Iterator[Decision]:
    """The walk's columns as rows, in queue order."""
    columns = (out.verdict.tolist(), out.found.tolist(), out.at.tolist(), out.nodes.tolist(), out.start.tolist())
    node, gpus, memory = out.share_node.tolist(), out.share_gpus.tolist(), out.share_memory.tolist()
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
