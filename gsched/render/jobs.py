"""Jobs as gqueue shows them: columns with squeue's letters, sort keys, and the rows of `gqueue --json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from gsched.errors import BadRequest
from gsched.protocol.messages import JobPage, JobRow
from gsched.render.columns import Column
from gsched.render.text import shown
from gsched.render.times import moment
from gsched.spec.durations import NO_LIMIT, squeue_limit, squeue_style
from gsched.spec.nodelists import fold
from gsched.values.ids import Instant
from gsched.values.states import JobState

DEFAULT: Final = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG: Final = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START: Final = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"

_STATE_ORDER: Final = {state: at for at, state in enumerate(JobState)}
# States in which the last column says why, not where; the words are squeue's.
_SHOWS_REASON: Final = frozenset({JobState.PENDING, JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL})


def job_columns(now: Instant) -> dict[str, Column[JobRow]]:
    """Give gqueue's letters. `now` is the controller's clock: running jobs have run until then."""
    identity = Column[JobRow]("JOBID", lambda row: str(row.id), cut=False)
    return {
        "i": identity,
        "A": identity,
        "j": Column("NAME", lambda row: shown(row.name)),
        "P": Column("PARTITION", lambda row: shown(row.partition)),
        "u": Column("USER", lambda row: shown(row.user)),
        "U": Column("UID", lambda row: str(row.uid), cut=False),
        "t": Column("ST", lambda row: row.state.compact, about="state, two letters"),
        "T": Column("STATE", lambda row: row.state.value),
        "M": Column("TIME", lambda row: squeue_style(elapsed_s(row, now)), about="time it has run", cut=False),
        "l": Column("TIME_LIMIT", lambda row: squeue_limit(row.time_limit_s), cut=False),
        "L": Column("TIME_LEFT", lambda row: _left(row, now), cut=False),
        "S": Column("START_TIME", lambda row: moment(_start(row)), about="start, or the planned one", cut=False),
        "e": Column("END_TIME", lambda row: moment(_end(row)), about="end, or the limit's", cut=False),
        "V": Column("SUBMIT_TIME", lambda row: moment(row.submitted), cut=False),
        "D": Column("NODES", lambda row: str(row.nnodes), cut=False),
        "C": Column("CPUS", lambda row: str(row.cpus), about="over all nodes", cut=False),
        "m": Column("MIN_MEMORY", lambda row: _memory(row.mem_mib), about="a node", cut=False),
        "b": Column("TRES_PER_NODE", _gpus, about="GPUs a node"),
        "N": Column("NODELIST", _node_list),
        "B": Column("EXEC_HOST", lambda row: row.nodes[0] if row.nodes else "n/a", about="where the script runs"),
        "r": Column("REASON", lambda row: row.reason, about="why it waits, or ended so"),
        "R": Column("NODELIST(REASON)", _where_or_why),
        "Z": Column("WORK_DIR", lambda row: shown(row.chdir)),
    }


def elapsed_s(row: JobRow, now: Instant) -> int:
    """Seconds the current or last run has taken; the supervisor's own number once it has ended."""
    if row.elapsed_s >= 0:
        return row.elapsed_s
    return max(0, now - row.started) // 1000 if row.started >= 0 else 0


def _left(row: JobRow, now: Instant) -> str:
    left_s = max(0, row.time_limit_s - elapsed_s(row, now))
    return squeue_style(left_s) if row.time_limit_s > 0 else squeue_limit(NO_LIMIT)


def _start(row: JobRow) -> int:
    return row.started if row.started >= 0 else row.planned


def _end(row: JobRow) -> int:
    if row.ended >= 0:
        return row.ended
    start = _start(row)
    return start + row.time_limit_s * 1000 if start >= 0 and row.time_limit_s > 0 else -1


def _memory(mib: int) -> str:
    """As squeue: the largest unit that leaves a whole number. -1 is by share of the node's GPUs or cores."""
    if mib < 0:
        return "share"
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"


def _gpus(row: JobRow) -> str:
    if not row.gpus:
        return "N/A"
    model = f"{shown(row.gpu_model)}:" if row.gpu_model else ""
    return f"gres/gpu:{model}{row.gpus // max(1, row.nnodes)}"


def _node_list(row: JobRow) -> str:
    return row.nodes[0] if len(row.nodes) == 1 else fold(row.nodes) if row.nodes else ""


def _where_or_why(row: JobRow) -> str:
    return f"({row.reason})" if row.state in _SHOWS_REASON else _node_list(row)


# --- sorting

_SORT_KEYS: Final[dict[str, Callable[[JobRow], Any]]] = {  # Any: each key compares only with itself
    "i": lambda row: row.id,
    "j": lambda row: row.name,
    "P": lambda row: row.partition,
    "u": lambda row: row.user,
    "U": lambda row: row.uid,
    "t": lambda row: _STATE_ORDER[row.state],
    "T": lambda row: _STATE_ORDER[row.state],
    "D": lambda row: row.nnodes,
    "C": lambda row: row.cpus,
    "l": lambda row: row.time_limit_s or 1 << 62,
    "S": _start,
    "V": lambda row: row.submitted,
}
DEFAULT_SORT: Final = "P,t,i"


def sort_jobs(rows: list[JobRow], keys: str) -> None:
    """Order rows in place by squeue's `-S` text: letters, comma between, `-` before one for descending.

    Raises BadRequest for a letter that is no sort key, before anything is moved.
    """
    order: list[tuple[Callable[[JobRow], Any], bool]] = []
    for word in keys.split(","):
        letter = word.strip().lstrip("+-")
        if letter not in _SORT_KEYS:
            raise BadRequest(
                f"cannot sort by {word!r}; sort keys are {' '.join(_SORT_KEYS)}, '-' before one reverses it"
            )
        order.append((_SORT_KEYS[letter], word.strip().startswith("-")))
    for key, descending in reversed(order):
        rows.sort(key=key, reverse=descending)


# --- JSON


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
        node_list=_node_list(row),
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
    )


def _or_none(value: int) -> int | None:
    return value if value >= 0 else None
