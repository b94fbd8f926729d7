"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, comments begin with `;`.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html (version 2.2). Fields used: job number, submit time,
run time, allocated and requested processors, requested time, user. -1 means "not known".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gsched.errors import BadRequest
from gschedd.replay.traces import BadTrace, TraceJob, milliseconds, parse_field

_FIELDS: Final = 18
# Position -> name, as the format's page calls them.
_JOB, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _LIMIT, _USER = 0, 1, 3, 4, 7, 8, 11
_WORDS: Final = {
    _JOB: "1 (job number)",
    _SUBMIT: "2 (submit time)",
    _RUN: "4 (run time)",
    _ALLOCATED: "5 (allocated processors)",
    _REQUESTED: "8 (requested processors)",
    _LIMIT: "9 (requested time)",
}


def swf_jobs(path: Path, lines: Sequence[str], processors_per_gpu: int) -> Iterator[TraceJob | None]:
    """The jobs of a trace; None for one that did not run or asked for no processor. Raises BadTrace, BadRequest.

    processors_per_gpu: so many processors count as one GPU, rounded up.
    """
    if processors_per_gpu < 1:
        raise BadRequest(f"--processors-per-gpu is {processors_per_gpu}: expected 1 or more")
    for number, line in enumerate(lines, start=1):
        text = line.partition(";")[0].split()
        if text:
            yield _job(path, number, text, processors_per_gpu)


def _job(path: Path, line: int, fields: Sequence[str], processors_per_gpu: int) -> TraceJob | None:
    if len(fields) != _FIELDS:
        raise BadTrace(path, line, str(len(fields)), " ".join(fields)[:60], f"{_FIELDS} fields as SWF has them")

    def field(at: int, whole: bool, expected: str) -> int | None:
        """The number; None where the trace says -1."""
        if fields[at] in ("-1", "-1.0"):
            return None
        return parse_field(path, line, _WORDS[at], fields[at], int if whole else milliseconds, expected)

    submit = field(_SUBMIT, False, "seconds, 0 or more")
    duration = field(_RUN, False, "seconds, 0 or more, or -1")
    allocated = field(_ALLOCATED, True, "a whole number, or -1")
    requested = field(_REQUESTED, True, "a whole number, or -1")
    limit = field(_LIMIT, False, "seconds, or -1")
    processors = requested or allocated
    if submit is None or duration is None or not processors:
        return None
    gpus = -(-processors // processors_per_gpu)
    return TraceJob(fields[_JOB], submit, gpus, duration, limit or None, fields[_USER])
