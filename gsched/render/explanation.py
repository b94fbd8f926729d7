"""Why a job waits (`gctl explain`), what priorities are made of (`gctl show priority`), when a job would start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gsched.protocol.messages import ExpectedStart, Explained, JobTried, PriorityPage
from gsched.render.text import shown
from gsched.render.times import moment
from gsched.spec.durations import squeue_limit
from gsched.spec.nodelists import fold
from gsched.values.explanation import Constraint, Explanation, Holder, Priority

_NOT_KNOWN: Final = "not known"


def explanation_text(found: Explained) -> str:
    """The whole answer of `gctl explain`."""
    why = found.explanation
    lines = [
        f"Job {why.job} waits: {why.reason}" + (f" ({shown(why.detail)})" if why.detail else ""),
        counts_line(why),
        _expected(why),
        _order(why, found.priority),
        "",
        *_table(_HEADER, [_row(each, why) for each in why.constraints], _held_lines(why)),
    ]
    return "\n".join(lines)


def counts_line(why: Explanation) -> str:
    """`128 nodes: 64 wrong GPU model, 40 too few free GPUs; 24 could hold a part of it now, 32 are needed`."""
    counts = ", ".join(f"{each.nodes} {shown(each.text)}" for each in why.excluded) or "none excluded"
    known = f"{why.nodes_known} node{'s' * (why.nodes_known != 1)}"
    needed = f"{why.nodes_needed} {'is' if why.nodes_needed == 1 else 'are'} needed"
    return f"{known}: {counts}; {why.nodes_fit} could hold a part of it now, {needed}"


def _expected(why: Explanation) -> str:
    if why.planned is not None:
        return f"Planned to start at {moment(why.planned)} on {fold(why.planned_nodes)}"
    if why.estimate is not None:
        return (
            f"No planned start; expected at {moment(why.estimate)} on {fold(why.planned_nodes)}, if of the jobs before "
            "it only those come first that have one"
        )
    return "No start can be foretold"


def _order(why: Explanation, priority: Priority | None) -> str:
    if priority is None:
        return "It is not among the jobs that may start"
    return f"Place {why.place} of {why.waiting} in the order: priority {_sum(priority)}"


def _sum(row: Priority) -> str:
    return (
        f"{row.total} = age {row.weighted_age} + fair-share {row.weighted_fair_share} + QOS {row.weighted_qos}"
        f" + partition {row.weighted_partition} + size {row.weighted_size} - nice {row.nice}"
    )


_HEADER: Final = ("CONSTRAINT", "MET", "NEEDED", "BEST AVAILABLE", "EARLIEST")


def _row(each: Constraint, why: Explanation) -> tuple[str, ...]:
    earliest = "now" if each.earliest == why.at else moment(each.earliest, _NOT_KNOWN)
    return (each.name, "yes" if each.met else "NO", shown(each.needed), shown(each.best), earliest)


def _held_lines(why: Explanation) -> list[str]:
    """One a constraint: who has what it lacks, or nothing."""
    return [
        ("" if each.name == "state" else "held by ") * bool(each.holders) + "; ".join(map(_holder, each.holders))
        for each in why.constraints
    ]


def _holder(holder: Holder) -> str:
    if " is " in holder.what:  # of a node's state
        return shown(holder.what)
    until = "with no known end" if holder.until is None else f"until {moment(holder.until)}"
    return f"{shown(holder.what)}: {holder.nodes} node{'s' * (holder.nodes != 1)} {until}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> Iterator[str]:
    """Columns as wide as they need; a line of `below` under the row it belongs to."""
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    for number, row in enumerate((header, *rows)):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if number and below and below[number - 1]:
            yield f"{' ' * (widths[0] + 2)}{below[number - 1]}"


def explanation_json(found: Explained) -> dict[str, Any]:  # Any: a tree of plain JSON values
    """Stable: fields are added, never renamed. Instants are ms since the epoch; null = not known."""
    return {"explanation": found.explanation, "priority": found.priority, "unconfirmed": found.unconfirmed}


# --- priorities

_PRIORITY_HEADER: Final = (
    "JOBID", "PARTITION", "USER", "PRIORITY", "AGE", "FAIRSHARE", "JOBSIZE", "PARTITION", "QOS", "NICE",
)  # fmt: skip


def priority_lines(page: PriorityPage, header: bool = True) -> Iterator[str]:
    """As `sprio -l`: weighted factors, the first to start first."""
    rows = [
        (
            str(row.job), shown(row.partition), shown(row.user), str(row.total), str(row.weighted_age),
            str(row.weighted_fair_share), str(row.weighted_size), str(row.weighted_partition), str(row.weighted_qos),
            str(row.nice),
        )
        for row in page.rows
    ]  # fmt: skip
    widths = [max(len(row[at]) for row in (_PRIORITY_HEADER, *rows)) for at in range(len(_PRIORITY_HEADER))]
    for row in (_PRIORITY_HEADER, *rows) if header else rows:
        yield " ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


# --- expected starts

_START_HEADER: Final = ("ASK", "START", "NODES", "GPUS", "CPUS", "TIME_LIMIT", "NODELIST(REASON)")


def tried_line(tried: JobTried, asked: ExpectedStart) -> str:
    """sbatch's sentence for --test-only; where no start can be foretold, why."""
    if asked.start is None:
        why = f"{asked.reason} ({shown(asked.detail)})" if asked.detail else asked.reason or _NOT_KNOWN
        return f"Job {tried.job} would wait in partition {asked.partition}, its start cannot be foretold: {why}"
    return (
        f"Job {tried.job} to start at {moment(asked.start)} using {asked.cpus} processors on nodes "
        f"{fold(asked.nodes)} in partition {shown(asked.partition)}"
    )


def starts_lines(tried: JobTried) -> Iterator[str]:
    """The table of --alternatives, the one as asked first."""
    rows = []
    for each in tried.expected:
        when = "impossible" if each.impossible else "now" if each.start == tried.now else moment(each.start, _NOT_KNOWN)
        where = fold(each.nodes) if each.nodes else f"({shown(each.impossible or each.reason or 'None')})"
        sizes = (str(each.node_count), str(each.gpus), str(each.cpus), squeue_limit(each.time_limit_s))
        rows.append((shown(each.what), when, *sizes, where))
    yield from _table(_START_HEADER, rows)
