"""What `gqueue --json` prints. Apart from the table, so that gqueue loads it only when it is asked for."""

from __future__ import annotations

from msgspec import Struct

from gsched.protocol.messages import JobPage, JobRow
from gsched.render.jobs import elapsed_s, node_list
from gsched.values.ids import Instant


class JobJson(Struct, frozen=True):
    """One job of `gqueue --json`. Stable: fields are added, never renamed. *_ms is since the epoch; null = none."""

    job_id: int
    name: str
    user: str
    uid: int
    partition: str
    state: str  # PENDING, RUNNING, ...
    state_compact: str  # PD, R, ...
    reason: str
    detail: str
    nodes: tuple[str, ...]
    node_list: str  # folded
    node_count: int
    tasks: int
    cpus: int  # over all nodes
    gpus: int  # over all nodes
    gpu_model: str
    mem_mib_per_node: int | None  # null = by share
    time_limit_s: int | None  # null = none
    elapsed_s: int
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    planned_start_ms: int | None
    restarts: int
    exit_code: int
    exit_signal: int
    chdir: str
    planned_nodes: tuple[str, ...]


class QueueJson(Struct, frozen=True):
    """All that `gqueue --json` prints."""

    jobs: tuple[JobJson, ...]
    missing: tuple[int, ...]  # ids asked for that the controller does not know
    unconfirmed: bool  # the controller's store does not answer: this may not survive a crash
    now_ms: int  # the controller's clock


def queue_json(page: JobPage, rows: list[JobRow]) -> QueueJson:
    return QueueJson(tuple(_job_json(row, page.now) for row in rows), page.missing, page.unconfirmed, page.now)


def _job_json(row: JobRow, now: Instant) -> JobJson:
    return JobJson(
        job_id=row.id,
        name=row.name,
        user=row.user,
        uid=row.uid,
        partition=row.partition,
        state=row.state.value,
        state_compact=row.state.compact,
        reason=row.reason,
        detail=row.detail,
        nodes=row.nodes,
        node_list=node_list(row),
        node_count=row.nnodes,
        tasks=row.ntasks,
        cpus=row.cpus,
        gpus=row.gpus,
        gpu_model=row.gpu_model,
        mem_mib_per_node=_or_none(row.mem_mib),
        time_limit_s=row.time_limit_s or None,
        elapsed_s=elapsed_s(row, now),
        submitted_ms=row.submitted,
        started_ms=_or_none(row.started),
        ended_ms=_or_none(row.ended),
        planned_start_ms=_or_none(row.planned),
        restarts=row.restarts,
        exit_code=row.exit_code,
        exit_signal=row.exit_signal,
        chdir=row.chdir,
        planned_nodes=row.planned_nodes,
    )


def _or_none(value: int) -> int | None:
    return value if value >= 0 else None
