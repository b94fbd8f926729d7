"""gctl show: Key=Value records that can be split again."""

from __future__ import annotations

import shlex

from msgspec.structs import replace

from gsched.protocol.messages import JobShown, PartitionRow
from gsched.render.records import job_record, node_record, partition_record, record
from gsched.values.ids import Instant, JobId, NodeName, RunNo
from gsched.values.job import Job, JobSpec, NodeNeed, Request
from gsched.values.run import NodeRun, NodeShare, Run
from gsched.values.states import JobState, Reason
from tests.unit.render.node_rows import node_row

NOW = Instant(1_800_000_000_000)
JOB = Job(
    id=JobId(7),
    uid=1000,
    gid=100,
    user="alice",
    spec=JobSpec(name="crazy|na me", chdir="/home/alice/a|b", output="test output", comment='say "hi"'),
    request=Request(
        partition="main",
        nodes_min=2,
        nodes_max=2,
        ntasks=16,
        tasks_per_node=8,
        cpus_per_task=1,
        need=NodeNeed(cpus=8, gpus=8),
        gpu_model="h100",
        time_limit_s=3600,
    ),
    reason=Reason.RESOURCES,
    detail="2 of 4 nodes are free",
    submitted=NOW,
    eligible=NOW,
)


def pairs(text: str) -> dict[str, str]:
    """Read a record back, as its quoting rule promises."""
    return dict(word.split("=", 1) for word in shlex.split(text))


def shown(job: Job, *runs: Run) -> dict[str, str]:
    return pairs(record(job_record(JobShown(job=job, runs=runs, now=Instant(NOW + 90_000)))))


def test_odd_names_and_paths_are_complete() -> None:
    told = shown(JOB)
    assert told["JobName"] == "crazy|na me"
    assert told["WorkDir"] == "/home/alice/a|b"
    assert told["StdOut"] == told["StdErr"] == "/home/alice/a|b/test output"
    assert told["Comment"] == 'say "hi"'


def test_output_files_are_whole_paths_with_their_marks_filled_in() -> None:
    spec = replace(JOB.spec, name="x", chdir="/w", output="", error="logs/%x-%4j-%N.err")
    assert shown(replace(JOB, spec=spec))["StdOut"] == "/w/slurm-7.out"
    assert shown(replace(JOB, spec=spec))["StdErr"] == "/w/logs/x-0007-%N.err"
    ran = replace(JOB, spec=spec, nodes=(NodeName("n3"),))
    assert shown(ran)["StdErr"] == "/w/logs/x-0007-n3.err"
    assert shown(replace(JOB, spec=replace(spec, output="/dev/null")))["StdOut"] == "/dev/null"


def test_a_waiting_job_says_why_and_what_it_asks() -> None:
    told = shown(JOB)
    assert told["JobState"] == "PENDING"
    assert (told["Reason"], told["Detail"]) == ("Resources", "2 of 4 nodes are free")
    assert (told["NumNodes"], told["NumTasks"], told["NumCPUs"]) == ("2", "16", "16")
    assert (told["TresPerNode"], told["MinMemoryNode"]) == ("gres/gpu:h100:8", "share")
    assert (told["RunTime"], told["TimeLimit"], told["StartTime"]) == ("00:00:00", "01:00:00", "Unknown")
    assert told["NodeList"] == "(null)"


def test_a_running_job_says_where_and_for_how_long() -> None:
    job = replace(JOB, state=JobState.RUNNING, started=NOW, nodes=(NodeName("n1"), NodeName("n2")), run=RunNo(1))
    part = NodeRun(NodeShare(node=NodeName("n2"), cpus=8, mem_mib=10, gpus=0b101, port=20000))
    told = shown(job, Run(job=job.id, no=RunNo(1), parts=(part,), created=NOW))
    assert (told["NodeList"], told["BatchHost"], told["RunTime"]) == ("n[1-2]", "n1", "00:01:30")
    assert (told["Node"], told["GPUs"], told["Port"]) == ("n2", "0,2", "20000")


def test_an_ended_job_keeps_its_supervisors_time() -> None:
    told = shown(replace(JOB, state=JobState.FAILED, started=NOW, ended=NOW, elapsed_s=5, exit_code=3))
    assert (told["RunTime"], told["ExitCode"]) == ("00:00:05", "3:0")


def test_one_line_is_one_line() -> None:
    text = record(job_record(JobShown(job=JOB, runs=(), now=NOW)), one_line=True)
    assert "\n" not in text
    assert pairs(text) == shown(JOB)


def test_a_node_shows_what_it_has_and_what_is_held() -> None:
    row = node_row("n1", gpus_used=3, jobs=(4, 5), drained=True, drain_reason="fan broken", drained_by="root")
    told = pairs(record(node_record(row)))
    assert (told["NodeName"], told["Gpus"], told["GpuMap"], told["Jobs"]) == ("n1", "8", "##......", "4,5")
    assert told["Reason"] == "fan broken [root@Unknown]"


def test_a_partition_shows_its_limit_and_nodes() -> None:
    told = pairs(record(partition_record(PartitionRow("main", True, 0, (NodeName("n1"), NodeName("n2"))))))
    assert told == {
        "PartitionName": "main", "Default": "YES", "State": "UP",
        "MaxTime": "UNLIMITED", "TotalNodes": "2", "Nodes": "n[1-2]",
    }  # fmt: skip
