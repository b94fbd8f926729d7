"""Whole records for `gctl show`: Key=Value in scontrol's layout, one record a block.

A value that holds a space, a double quote or nothing stands in double quotes (`text.quoted`), so that a record can be
split again; scontrol's other habits are kept: three spaces before each further line, several keys on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gsched.protocol.messages import JobShown, NodeRow, PartitionRow
from gsched.render.nodes import gpu_map, gpu_models, state_word
from gsched.render.text import quoted, shown
from gsched.render.times import moment
from gsched.spec.durations import sacct_limit, sacct_style
from gsched.spec.filenames import DEFAULT_OUTPUT, FileFields, fill_pattern
from gsched.spec.nodelists import fold
from gsched.values.job import Job, MemoryRule, Request
from gsched.values.run import Run
from gsched.values.states import JobState

Pairs = Sequence[tuple[str, object]]


def record(lines: Iterable[Pairs], one_line: bool = False) -> str:
    """Lay out a record: its lines of keys, or all of them on one line (`-o`)."""
    texts = [" ".join(f"{key}={_value(value)}" for key, value in line) for line in lines if line]
    return (" " if one_line else "\n   ").join(texts)


def _value(value: object) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


def _or(text: str, absent: str) -> str:
    return text or absent


# --- jobs


def job_record(shown_job: JobShown) -> list[Pairs]:
    """What `gctl show job` says of one job."""
    job, request, spec = shown_job.job, shown_job.job.request, shown_job.job.spec
    run = shown_job.runs[-1] if shown_job.runs else None
    start = job.started if job.started is not None else shown_job.planned
    lines: list[Pairs] = [
        [("JobId", job.id), ("JobName", spec.name)],
        [("UserId", f"{job.user}({job.uid})"), ("GroupId", job.gid)],
        [("JobState", job.state.value), ("Reason", job.reason.value), ("Dependency", "(null)")],
        [("Detail", job.detail)] if job.detail else [],
        [("Requeue", int(spec.requeue)), ("Restarts", job.restarts), ("ExitCode", _exit(job))],
        [("RunTime", sacct_style(run_time_s(shown_job))), ("TimeLimit", sacct_limit(request.time_limit_s))],
        [("SubmitTime", moment(job.submitted)), ("EligibleTime", moment(job.eligible))],
        [("StartTime", moment(start, "Unknown")), ("EndTime", moment(_end(job, start), "Unknown"))],
        [("Partition", request.partition), ("SubmitHost", _or(spec.submit_host, "(null)"))],
        [("ReqNodeList", _or(fold(request.nodelist) if request.nodelist else "", "(null)")),
         ("ExcNodeList", _or(fold(request.exclude) if request.exclude else "", "(null)"))],
        [("NodeList", _or(fold(job.nodes) if job.nodes else "", "(null)"))],
        [("BatchHost", job.nodes[0])] if job.nodes else [],
        _sizes(request),
        [("TresPerNode", _gpus(request)), ("MinMemoryNode", _memory(request))],
        [("Features", _or(spec.constraint, "(null)"))],
        [("Command", "(null)"), ("WorkDir", spec.chdir)],
        [("StdOut", _file(job, spec.output or DEFAULT_OUTPUT))],
        [("StdErr", _file(job, spec.error or spec.output or DEFAULT_OUTPUT))],
    ]  # fmt: skip
    if spec.comment:
        lines.append([("Comment", spec.comment)])
    if run is not None:
        lines += _run_lines(run)
    return [line for line in lines if line]


def _file(job: Job, pattern: str) -> str:
    """The whole path of an output file. Before the job has nodes, %N stays as it is."""
    node = job.nodes[0] if job.nodes else "%N"
    fields = FileFields(job=job.id, user=job.user, name=job.spec.name, node=node, restarts=job.restarts)
    name = fill_pattern(pattern, fields)
    return name if name.startswith("/") else f"{job.spec.chdir.rstrip('/')}/{name}"


def _exit(job: Job) -> str:
    return f"{job.exit_code}:{job.exit_signal}"


def run_time_s(shown_job: JobShown) -> int:
    """Seconds of the current or last run; the supervisor's own number once it has ended."""
    job = shown_job.job
    if job.state is JobState.RUNNING and job.started is not None:
        return max(0, shown_job.now - job.started) // 1000
    return job.elapsed_s


def _end(job: Job, start: int | None) -> int | None:
    if job.ended is not None:
        return job.ended
    if start is None or job.request.time_limit_s <= 0:
        return None
    return start + job.request.time_limit_s * 1000


def _sizes(request: Request) -> Pairs:
    low, high = request.nodes_min, request.nodes_max
    return [
        ("NumNodes", low if low == high else f"{low}-{high}"),
        ("NumTasks", request.ntasks),
        ("NumCPUs", request.need.cpus * low),
        ("CPUs/Task", request.cpus_per_task),
        ("NtasksPerNode", request.tasks_per_node),
    ]


def _gpus(request: Request) -> str:
    if not request.need.gpus:
        return "(null)"
    model = f"{request.gpu_model}:" if request.gpu_model else ""
    return f"gres/gpu:{model}{request.need.gpus}"


def _memory(request: Request) -> str:
    words = {MemoryRule.SHARE: "share", MemoryRule.ALL: "all"}
    return words.get(request.need.mem_rule) or f"{request.need.mem_mib}M"


def _run_lines(run: Run) -> list[Pairs]:
    lines: list[Pairs] = [[("Run", run.no), ("Created", moment(run.created)), ("Wanted", run.wanted.value)]]
    for part in run.parts:
        share = part.share
        gpus = ",".join(map(str, share.gpu_indices)) or "none"
        lines.append(
            [
                ("Node", share.node),
                ("Phase", part.phase.value),
                ("CPUs", share.cpus),
                ("MemMiB", share.mem_mib),
                ("GPUs", gpus),
                ("Port", share.port),
            ]
        )
    return lines


# --- nodes and partitions


def node_record(row: NodeRow) -> list[Pairs]:
    """What `gctl show node` says of one node."""
    node, found = row.node, row.node.inventory
    lines: list[Pairs] = [
        [("NodeName", node.name), ("State", state_word(row, compact=False).upper())],
        [("NodeAddr", _or(node.address, "(null)")), ("NodeHostName", _or(found.hostname, "(null)"))],
        [("OS", _or(found.os, "(null)")), ("Driver", _or(found.driver, "(null)")), ("Simulated", int(found.simulated))],
        [("CPUAlloc", row.cpus_used), ("CPUTot", found.cpus)],
        [("AllocMem", row.mem_used_mib), ("RealMemory", found.memory_mib)],
        [("Gpus", len(found.gpus)), ("GpuModel", gpu_models(found.gpus)), ("GpuMap", gpu_map(row))],
        [("Partitions", _or(",".join(row.partitions), "(null)"))],
        [("AvailableFeatures", _or(",".join(row.features), "(null)"))],
        [("Switches", _or(",".join(row.switches), "(null)"))],
        [("Jobs", _or(",".join(map(str, row.jobs)), "(null)"))],
        [("BootId", _or(node.boot_id, "(null)")), ("FirstSeen", moment(node.first_seen))],
    ]
    if node.drained:
        by = f"{shown(node.drained_by)}@{moment(node.drained_at, 'Unknown')}"
        lines.append([("Reason", f"{node.drain_reason} [{by}]")])
    if node.lost_at is not None:
        lines.append([("LostAt", moment(node.lost_at))])
    return lines


def partition_record(partition: PartitionRow) -> list[Pairs]:
    """What `gctl show partition` says of one partition."""
    return [
        [("PartitionName", partition.name), ("Default", "YES" if partition.default else "NO"), ("State", "UP")],
        [("MaxTime", sacct_limit(partition.max_time_s)), ("TotalNodes", len(partition.nodes))],
        [("Nodes", fold(partition.nodes) if partition.nodes else "(null)")],
    ]
