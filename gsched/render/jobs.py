"""Jobs as gqueue shows them: columns with squeue's letters, and sort keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gsched.errors import BadRequest
from gsched.protocol.messages import JobRow
from gsched.render.columns import Column
from gsched.render.text import shown
from gsched.render.times import moment
from gsched.spec.durations import NO_LIMIT, squeue_limit, squeue_style
from gsched.spec.memory import format_memory
from gsched.values.ids import Instant
from gsched.values.states import JobState

DEFAULT: Final = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG: Final = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START: Final = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"

_STATE_ORDER: Final = {state: at for at, state in enumerate(JobState)}
# States in which the last column says why, not where; the words are squeue's.
_SHOWS_REASON: Final = frozenset(
    {JobState.PENDING, JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY}
)


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
        "N": Column("NODELIST", node_list),
        "B": Column("EXEC_HOST", lambda row: row.nodes[0] if row.nodes else "n/a", about="where the script runs"),
        "r": Column("REASON", lambda row: row.reason, about="why it waits, or ended so"),
        "R": Column("NODELIST(REASON)", _where_or_why),
        "Y": Column("SCHEDNODES", _planned_nodes, about="where it is planned to start", cut=False),
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
    """As squeue; 0 is all of the node's, -1 a share by the node's GPUs or cores."""
    return "share" if mib < 0 else format_memory(mib)


def _gpus(row: JobRow) -> str:
    if not row.gpus:
        return "N/A"
    model = f"{shown(row.gpu_model)}:" if row.gpu_model else ""
    return f"gres/gpu:{model}{row.gpus // max(1, row.nnodes)}"


def node_list(row: JobRow) -> str:
    """The nodes of the current or last run, folded; "" if it never ran."""
    if len(row.nodes) < 2:
        return "".join(row.nodes)
    from gsched.spec.nodelists import fold  # here, because most listings need it not and gqueue should feel instant

    return fold(row.nodes)


def _planned_nodes(row: JobRow) -> str:
    if not row.planned_nodes:
        return "(null)"
    from gsched.spec.nodelists import fold  # here, as above

    return fold(row.planned_nodes)


def _where_or_why(row: JobRow) -> str:
    return f"({row.reason})" if row.state in _SHOWS_REASON else node_list(row)


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
    "S": lambda row: start if (start := _start(row)) >= 0 else 1 << 62,  # what is not known comes last
    "V": lambda row: row.submitted,
}
DEFAULT_SORT: Final = "P,t,i"
START_SORT: Final = "S,i"


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
