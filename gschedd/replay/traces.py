"""Timed traces as values: who came when, wanted how many GPUs, and ran for how long.

A trace in CSV has a header; the columns are known by name, in any order, and others are passed over. So the Philly and
Muri traces are read as they are, and one's own needs no more than `submit_s`, `num_gpus` and `duration_s`. A file that
ends in `.swf` is read as the Standard Workload Format (`swf.py`). Either may be gzipped (`.gz`).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest, NotFound

# What a column may be called -> what it is here.
_NAMES: Final = {
    "job_id": "id",
    "id": "id",
    "job": "id",
    "submit_s": "submit",
    "num_gpus": "gpus",
    "gpus": "gpus",
    "duration_s": "duration",
    "limit_s": "limit",
    "vc": "group",
    "group": "group",
    "user": "group",
}
_NEEDED: Final = {"submit": "submit_s", "gpus": "num_gpus", "duration": "duration_s"}
_MOST_MS: Final = 1 << 50  # 35,000 years: far from where an int64 overflows


class TraceJob(Struct, frozen=True):
    """One job of a trace. Times are milliseconds; `submit` counts from the trace's own zero."""

    id: str
    submit: int
    gpus: int
    duration: int  # how long it ran, alone on its GPUs
    limit: int | None = None  # what its user asked for; None = not known
    group: str = ""  # virtual cluster or user


class Trace(Struct, frozen=True):
    """The jobs in order of submission (those of one instant in the file's order)."""

    name: str
    jobs: tuple[TraceJob, ...]
    left_out: int = 0  # rows that are no GPU job that ran

    @property
    def gpu_s(self) -> int:
        """GPU seconds of all jobs."""
        return sum(job.gpus * job.duration for job in self.jobs) // 1000


class BadTrace(BadRequest):
    """A line of a trace cannot be read: file, line, column, what stands there and what was expected."""

    def __init__(self, path: Path, line: int, column: str, found: str, expected: str) -> None:
        super().__init__(f"{path}: line {line}, column {column}: found {found!r}, expected {expected}")


def read_trace(path: Path, limit: int | None = None, processors_per_gpu: int = 1) -> Trace:
    """Read a trace by its name's ending. limit: only the first so many jobs, by submission.

    Raises NotFound, BadTrace, BadRequest.
    """
    lines = read_lines(path)
    name = path.name.removesuffix(".gz")
    if name.endswith(".swf"):
        from gschedd.replay.swf import swf_jobs  # it reads fields with this module's functions

        rows = list(swf_jobs(path, lines, processors_per_gpu))
    else:
        rows = list(_csv_jobs(path, lines))
    jobs = sorted((job for job in rows if job is not None), key=lambda job: job.submit)
    if not jobs:
        raise BadRequest(f"{path}: no GPU job that ran is in it ({len(rows)} rows were read)")
    return Trace(name.rsplit(".", 1)[0], tuple(jobs[:limit]), rows.count(None))


def read_lines(path: Path) -> list[str]:
    """The text's lines. Raises NotFound, BadRequest."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadRequest(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not text in UTF-8 (byte {error.start}); traces are CSV or SWF") from None


def _csv_jobs(path: Path, lines: Sequence[str]) -> Iterator[TraceJob | None]:
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, [])
        at = _columns(path, header)
        for row in reader:
            if row:
                yield _csv_job(path, reader.line_num, header, at, row)
    except csv.Error as error:
        raise BadRequest(f"{path}: line {reader.line_num}: not CSV: {error}") from None


def _columns(path: Path, header: Sequence[str]) -> dict[str, int]:
    """Where each known column is; of two names for one thing the first counts."""
    at: dict[str, int] = {}
    for i, name in enumerate(header):
        if name.strip() in _NAMES:
            at.setdefault(_NAMES[name.strip()], i)
    missing = [column for key, column in _NEEDED.items() if key not in at]
    if missing:
        found = ", ".join(header[:12]) or "nothing"
        raise BadRequest(f"{path}: line 1: no column {' or '.join(missing)}: found {found}")
    return at


def _csv_job(path: Path, line: int, header: Sequence[str], at: dict[str, int], row: Sequence[str]) -> TraceJob | None:
    """One row; None if it asks for no GPU."""
    if len(row) != len(header):
        raise BadTrace(path, line, str(len(row)), ",".join(row)[:60], f"{len(header)} columns as in the header")

    def field(key: str, parse: Callable[[str], int], expected: str) -> int:
        return parse_field(path, line, header[at[key]], row[at[key]], parse, expected)

    gpus = field("gpus", int, "a whole number of GPUs, 0 or more")
    submit = field("submit", milliseconds, "seconds, 0 or more")
    duration = field("duration", milliseconds, "seconds, 0 or more")
    given = "limit" in at and row[at["limit"]].strip()
    limit = field("limit", milliseconds, "seconds, 0 or more, or nothing") if given else None
    if gpus == 0:
        return None
    return TraceJob(
        id=row[at["id"]] if "id" in at else str(line - 2),
        submit=submit,
        gpus=gpus,
        duration=duration,
        limit=limit or None,
        group=row[at["group"]] if "group" in at else "",
    )


def parse_field(path: Path, line: int, column: str, text: str, parse: Callable[[str], int], expected: str) -> int:
    """A number that is not negative. Raises BadTrace."""
    try:
        value = parse(text)
    except (ValueError, InvalidOperation):
        value = -1
    if not 0 <= value <= _MOST_MS:
        raise BadTrace(path, line, column, text[:60], expected)
    return value


def milliseconds(text: str) -> int:
    """Seconds as written -> milliseconds, rounded. Raises InvalidOperation, ValueError."""
    try:
        return int(text) * 1000
    except ValueError:
        value = Decimal(text)
        if not value.is_finite():
            raise
        return int((value * 1000).to_integral_value())
