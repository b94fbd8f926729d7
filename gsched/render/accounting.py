"""What `gacct` shows of jobs, their runs and steps: lines with sacct's fields, and JSON.

One line is a try of a job, or a step of it. The script is the step `batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gsched.protocol.messages import AcctJob
from gsched.render.times import moment
from gsched.spec.durations import sacct_limit, sacct_style
from gsched.spec.nodelists import fold
from gsched.values.ids import BATCH_STEP, Instant, NodeName
from gsched.values.job import DEFAULT_ACCOUNT, Job, MemoryRule
from gsched.values.run import Run, Step
from gsched.values.states import JobState, RunOutcome


class Line(Struct, frozen=True):
    """One line of gacct: a try of a job (`step` None), or a step of that try. Instants are ms; None = not yet."""

    job: Job
    run: Run | None  # None: the job waits, or ended without this try
    step: Step | None
    state: str
    started: Instant | None
    ended: Instant | None
    elapsed_s: int
    exit_code: int
    exit_signal: int
    worst: tuple[int, int] = (0, 0)  # highest exit code and signal of the steps


def lines_of(row: AcctJob, now: Instant, *, steps: bool, earlier: bool) -> Iterator[Line]:
    """One job's lines in sacct's order. `earlier`: also the tries before the current one."""
    current = current_run(row.job, row.runs)
    if earlier:
        for run in row.runs:
            if run is not current:
                yield from _try_lines(row, run, _earlier(row.job, run, now), now, steps)
    yield from _try_lines(row, current, _current(row.job, current, now), now, steps)


def current_run(job: Job, runs: tuple[Run, ...]) -> Run | None:
    """The run that the job's state is about: not one after which it went back to waiting."""
    last = runs[-1] if runs else None
    if last is None or last.no != job.run or job.state is JobState.PENDING:
        return None
    if job.state.final and (last.outcome is None or last.outcome.value != job.state.value):
        return None
    return last


def _current(job: Job, run: Run | None, now: Instant) -> Line:
    state = job.state.value
    if job.state is JobState.CANCELLED and job.cancelled_by is not None:
        state = f"CANCELLED by {job.cancelled_by}"
    started = job.started if run is not None else None
    running = job.state in (JobState.RUNNING, JobState.CONFIGURING) and started is not None
    elapsed_s = max(0, now - started) // 1000 if running and started is not None else job.elapsed_s
    ended = job.ended if job.state.final else None
    return Line(job, run, None, state, started, ended, elapsed_s, job.exit_code, job.exit_signal)


def _earlier(job: Job, run: Run, now: Instant) -> Line:
    state = "RUNNING" if run.outcome is None else run.outcome.value
    elapsed_s = run.elapsed_s or _between_s(run.started, run.ended, now)
    return Line(job, run, None, state, run.started, run.ended, elapsed_s, run.exit_code, run.exit_signal)


def _try_lines(row: AcctJob, run: Run | None, line: Line, now: Instant, steps: bool) -> Iterator[Line]:
    inner = [] if run is None else [_step_line(line, run, step, now) for step in _steps(row, run)]
    worst = max(((s.exit_code, s.exit_signal) for s in inner if s.step and s.step.id != BATCH_STEP), default=(0, 0))
    yield replace(line, worst=worst)
    if steps:
        yield from inner


def _steps(row: AcctJob, run: Run) -> list[Step]:
    """The run's steps, the script first; its line is made from the run, for the controller keeps none."""
    found = sorted((s for s in row.steps if s.run == run.no), key=lambda step: step.id)
    if run.started is None or (found and found[0].id == BATCH_STEP):
        return found
    first = run.parts[0].share
    ended = run.ended if run.outcome is not None else None
    script = Step(
        job=run.job,
        run=run.no,
        id=BATCH_STEP,
        name="batch",
        ntasks=1,
        nodes=(first.node,),
        cpus=first.cpus,
        started=run.started,
        ended=ended,
        exit_code=run.exit_code,
        exit_signal=run.exit_signal,
    )
    return [script, *found]


# Ends that come from outside: what of the run was still going was cancelled with it, as sacct says it.
_STOPPED: Final = {RunOutcome.CANCELLED, RunOutcome.TIMEOUT, RunOutcome.REQUEUED, RunOutcome.NODE_FAIL}


def _step_line(line: Line, run: Run, step: Step, now: Instant) -> Line:
    ended = step.ended
    if ended is None and run.outcome is not None:
        ended = run.ended  # its end was not reported: it ended with the run at the latest
    if ended is None:
        state = "RUNNING"
    elif run.outcome in _STOPPED and (step.ended is None or step.exit_signal or step.id == BATCH_STEP):
        state = "CANCELLED"
    else:
        state = "FAILED" if step.exit_code or step.exit_signal else "COMPLETED"
    elapsed_s = _between_s(step.started, ended, now)
    if step.id == BATCH_STEP and ended is not None:
        elapsed_s = run.elapsed_s or elapsed_s
    return Line(line.job, run, step, state, step.started, ended, elapsed_s, step.exit_code, step.exit_signal)


def _between_s(started: Instant | None, ended: Instant | None, now: Instant) -> int:
    return 0 if started is None else max(0, (now if ended is None else ended) - started) // 1000


# --- fields


class Field(Struct, frozen=True):
    """One of sacct's fields: its name, default width (negative = on the left) and value, as users wrote it."""

    name: str
    width: int
    value: Callable[[Line], str]


def line_id(line: Line) -> str:
    """`12`, `12.batch`, `12.0`."""
    if line.step is None:
        return str(line.job.id)
    return f"{line.job.id}.{'batch' if line.step.id == BATCH_STEP else line.step.id}"


def _nodes(line: Line) -> tuple[NodeName, ...]:
    if line.step is not None:
        return line.step.nodes
    return tuple(part.share.node for part in line.run.parts) if line.run is not None else ()


def cpus_of(line: Line) -> int:
    """CPUs held, over all nodes; 0 for what never started."""
    if line.run is None:
        return 0
    if line.step is not None and line.step.cpus:
        return line.step.cpus
    nodes = set(_nodes(line))
    return sum(part.share.cpus for part in line.run.parts if part.share.node in nodes)


def gpus_of(line: Line) -> int:
    """GPUs held, over all nodes."""
    nodes = set(_nodes(line))
    return sum(part.share.gpus.bit_count() for part in line.run.parts if part.share.node in nodes) if line.run else 0


def _mem_mib(line: Line) -> int:
    nodes = set(_nodes(line))
    return sum(part.share.mem_mib for part in line.run.parts if part.share.node in nodes) if line.run else 0


def _tres(line: Line) -> str:
    if line.run is None:
        return ""
    gpus = gpus_of(line)
    parts = [f"cpu={cpus_of(line)}", f"gres/gpu={gpus}" if gpus else "", f"mem={size_text(_mem_mib(line))}"]
    return ",".join([*filter(None, parts), f"node={len(_nodes(line))}"])


def size_text(mib: int) -> str:
    """Memory in the largest unit that leaves a whole number: `4G`, `1500M`."""
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"


def _req_mem(line: Line) -> str:
    """What was asked of each node: nothing if the share was left to the cluster; `0` is the whole node, as in Slurm."""
    need = line.job.request.need
    return {MemoryRule.SHARE: "", MemoryRule.ALL: "0"}.get(need.mem_rule, size_text(need.mem_mib))


def _node_list(line: Line) -> str:
    return fold(_nodes(line)) or "None assigned"


def _start(line: Line) -> str:
    return moment(line.started, "None" if line.ended is not None else "Unknown")


def _of_job(value: Callable[[Job], str]) -> Callable[[Line], str]:
    """A field that sacct leaves empty on the lines of steps."""
    return lambda line: "" if line.step is not None else value(line.job)


def _ntasks(line: Line) -> str:
    return str(line.step.ntasks) if line.step is not None else ""


def _nnodes(line: Line) -> str:
    return str(len(_nodes(line)) or line.job.request.nodes_min)


def _minutes(seconds: int) -> str:
    return str(-(-seconds // 60)) if seconds else ""


FIELDS: Final = (
    Field("Account", 10, lambda _: DEFAULT_ACCOUNT),
    Field("AllocCPUS", 10, lambda line: str(cpus_of(line))),
    Field("AllocGPUS", 9, lambda line: str(gpus_of(line))),
    Field("AllocNodes", 10, lambda line: str(len(_nodes(line)))),
    Field("AllocTRES", 10, _tres),
    Field("Comment", 14, _of_job(lambda job: job.spec.comment)),
    Field("CPUTime", 10, lambda line: sacct_style(line.elapsed_s * cpus_of(line))),
    Field("CPUTimeRAW", 10, lambda line: str(line.elapsed_s * cpus_of(line))),
    Field("DerivedExitCode", 15, lambda line: "" if line.step else f"{line.worst[0]}:{line.worst[1]}"),
    Field("Elapsed", 10, lambda line: sacct_style(line.elapsed_s)),
    Field("ElapsedRaw", 10, lambda line: str(line.elapsed_s)),
    Field("Eligible", 19, _of_job(lambda job: moment(job.eligible, "Unknown"))),
    Field("End", 19, lambda line: moment(line.ended, "Unknown")),
    Field("ExitCode", 8, lambda line: f"{line.exit_code}:{line.exit_signal}"),
    Field("JobID", -12, line_id),
    Field("JobIDRaw", -12, line_id),
    Field("JobName", 10, lambda line: line.step.name if line.step is not None else line.job.spec.name),
    Field("NCPUS", 10, lambda line: str(cpus_of(line))),
    Field("NNodes", 8, _nnodes),
    Field("NodeList", 15, _node_list),
    Field("NTasks", 8, _ntasks),
    Field("Partition", 10, _of_job(lambda job: job.request.partition)),
    Field("Reason", 22, _of_job(lambda job: job.reason.value)),
    Field("ReqMem", 10, _req_mem),
    Field("Restarts", 8, _of_job(lambda job: str(job.restarts))),
    Field("Start", 19, _start),
    Field("State", 10, lambda line: line.state),
    Field("Submit", 19, lambda line: moment(line.job.submitted if line.step is None else line.started, "Unknown")),
    Field("Timelimit", 10, _of_job(lambda job: sacct_limit(job.request.time_limit_s))),
    Field("TimelimitRaw", 12, _of_job(lambda job: _minutes(job.request.time_limit_s))),
    Field("UID", 10, _of_job(lambda job: str(job.uid))),
    Field("User", 9, _of_job(lambda job: job.user)),
    Field("WorkDir", 20, _of_job(lambda job: job.spec.chdir)),
)
DEFAULT: Final = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"


# --- JSON


class LineJson(Struct, frozen=True):
    """One line of `gacct --json`. Stable: fields are added, never renamed. *_ms is since the epoch; null = none."""

    id: str  # 12, 12.batch, 12.0
    job_id: int
    step: str | None
    run: int | None  # which try; null = none
    name: str
    user: str
    uid: int
    partition: str
    account: str
    state: str  # without the uid that CANCELLED shows in a table
    cancelled_by: int | None
    reason: str
    detail: str
    exit_code: int
    exit_signal: int
    derived_exit_code: int
    derived_exit_signal: int
    elapsed_s: int
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    time_limit_s: int | None
    nodes: tuple[str, ...]
    node_list: str
    tasks: int
    cpus: int
    gpus: int
    mem_mib: int  # over all nodes, as granted
    restarts: int
    chdir: str
    comment: str


class AcctJson(Struct, frozen=True):
    """All that `gacct --json` prints."""

    jobs: tuple[LineJson, ...]
    now_ms: int  # the controller's clock


def json_of(lines: Iterable[Line], now: Instant) -> AcctJson:
    return AcctJson(tuple(map(_line_json, lines)), now)


def _line_json(line: Line) -> LineJson:
    job, step, nodes = line.job, line.step, _nodes(line)
    cancelled = line.state.startswith("CANCELLED by ")
    return LineJson(
        id=line_id(line),
        job_id=job.id,
        step=None if step is None else line_id(line).partition(".")[2],
        run=None if line.run is None else line.run.no,
        name=job.spec.name if step is None else step.name,
        user=job.user,
        uid=job.uid,
        partition=job.request.partition,
        account=DEFAULT_ACCOUNT,
        state="CANCELLED" if cancelled else line.state,
        cancelled_by=job.cancelled_by if cancelled else None,
        reason=job.reason.value,
        detail=job.detail,
        exit_code=line.exit_code,
        exit_signal=line.exit_signal,
        derived_exit_code=line.worst[0],
        derived_exit_signal=line.worst[1],
        elapsed_s=line.elapsed_s,
        submitted_ms=job.submitted,
        started_ms=line.started,
        ended_ms=line.ended,
        time_limit_s=job.request.time_limit_s or None,
        nodes=nodes,
        node_list=fold(nodes),
        tasks=job.request.ntasks if step is None else step.ntasks,
        cpus=cpus_of(line),
        gpus=gpus_of(line),
        mem_mib=_mem_mib(line),
        restarts=job.restarts,
        chdir=job.spec.chdir,
        comment=job.spec.comment,
    )
