"""gacct's lines, fields, tables and JSON, held against sacct's habits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from gsched.errors import BadRequest
from gsched.protocol.messages import AcctJob
from gsched.render.accounting import DEFAULT, FIELDS, Line, json_of, lines_of
from gsched.render.sacct_table import bar_lines, fixed_lines, parse_fields
from gsched.render.text import json_text
from gsched.values.ids import Instant, JobId, NodeName, RunNo, StepId
from gsched.values.job import Job, JobSpec, MemoryRule, NodeNeed, Request
from gsched.values.run import NodeRun, NodeShare, Run, Step
from gsched.values.states import JobState, Reason, RunOutcome


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


START = Instant(1_800_000_000_000)  # 2027-01-15T08:00:00Z
END = Instant(START + 65_000)
NODES = (NodeName("n1"), NodeName("n2"))

REQUEST = Request(
    partition="main",
    nodes_min=2,
    nodes_max=2,
    ntasks=16,
    tasks_per_node=8,
    cpus_per_task=1,
    need=NodeNeed(cpus=8, gpus=4, mem_rule=MemoryRule.EXACT, mem_mib=4096),
    time_limit_s=3600,
)
DONE = Job(
    id=JobId(12),
    uid=1000,
    gid=1000,
    user="ann",
    spec=JobSpec(name="train", chdir="/home/ann"),
    request=REQUEST,
    state=JobState.COMPLETED,
    submitted=Instant(START - 10_000),
    eligible=Instant(START - 10_000),
    started=START,
    ended=END,
    elapsed_s=65,
    run=RunNo(1),
    nodes=NODES,
)
RUN = Run(
    job=JobId(12),
    no=RunNo(1),
    parts=tuple(NodeRun(NodeShare(name, cpus=8, mem_mib=4096, gpus=0b1111)) for name in NODES),
    created=START,
    started=START,
    ended=END,
    outcome=RunOutcome.COMPLETED,
    closed=True,
    elapsed_s=65,
)
STEP = Step(
    job=JobId(12),
    run=RunNo(1),
    id=StepId(0),
    name="python",
    ntasks=16,
    nodes=NODES,
    started=START,
    ended=Instant(START + 60_000),
)
PENDING = replace(DONE, state=JobState.PENDING, started=None, ended=None, elapsed_s=0, nodes=(), run=RunNo(0))


def rows(
    row: AcctJob, fields: str, *, steps: bool = True, earlier: bool = False, now: Instant = END
) -> list[list[str]]:
    """The values of some fields, line by line."""
    columns = parse_fields(fields)
    lines = lines_of(row, now, steps=steps, earlier=earlier)
    return [line.split("|") for line in bar_lines(columns, lines, header=False, last_bar=False)]


def test_a_job_has_a_line_for_itself_its_script_and_each_step() -> None:
    assert rows(AcctJob(DONE, (RUN,), (STEP,)), "jobid,jobname,ntasks,state,elapsed") == [
        ["12", "train", "", "COMPLETED", "00:01:05"],
        ["12.batch", "batch", "1", "COMPLETED", "00:01:05"],
        ["12.0", "python", "16", "COMPLETED", "00:01:00"],
    ]


def test_without_steps_there_is_one_line() -> None:
    assert rows(AcctJob(DONE, (RUN,), (STEP,)), "jobid", steps=False) == [["12"]]


def test_what_was_granted_is_shown_for_the_job_the_script_and_the_step() -> None:
    fields = "AllocCPUS,AllocGPUS,AllocNodes,NNodes,NodeList,AllocTRES"
    assert rows(AcctJob(DONE, (RUN,), (STEP,)), fields) == [
        ["16", "8", "2", "2", "n[1-2]", "cpu=16,gres/gpu=8,mem=8G,node=2"],
        ["8", "4", "1", "1", "n1", "cpu=8,gres/gpu=4,mem=4G,node=1"],
        ["16", "8", "2", "2", "n[1-2]", "cpu=16,gres/gpu=8,mem=8G,node=2"],
    ]


def test_times_are_printed_as_slurm_prints_them() -> None:
    (line,) = rows(AcctJob(DONE, (RUN,), ()), "Submit,Start,End,ElapsedRaw,CPUTime,Timelimit,TimelimitRaw", steps=False)
    assert line == [
        "2027-01-15T07:59:50",
        "2027-01-15T08:00:00",
        "2027-01-15T08:01:05",
        "65",
        "00:17:20",
        "01:00:00",
        "60",
    ]


def test_a_waiting_job_holds_nothing_and_knows_no_times() -> None:
    fields = "State,AllocCPUS,AllocNodes,NNodes,NodeList,Start,End,Elapsed,AllocTRES"
    assert rows(AcctJob(PENDING, (), ()), fields) == [
        ["PENDING", "0", "0", "2", "None assigned", "Unknown", "Unknown", "00:00:00", ""]
    ]


def test_a_running_job_counts_up_to_the_controllers_clock() -> None:
    job = replace(DONE, state=JobState.RUNNING, ended=None, elapsed_s=0)
    run = replace(RUN, ended=None, outcome=None, elapsed_s=0, closed=False)
    got = rows(
        AcctJob(job, (run,), (replace(STEP, ended=None),)), "jobid,state,elapsedraw,end", now=Instant(START + 7000)
    )
    assert got == [
        ["12", "RUNNING", "7", "Unknown"],
        ["12.batch", "RUNNING", "7", "Unknown"],
        ["12.0", "RUNNING", "7", "Unknown"],
    ]


def test_a_cancelled_job_says_by_whom_and_its_script_was_cancelled_too() -> None:
    job = replace(DONE, state=JobState.CANCELLED, cancelled_by=1001, exit_signal=15)
    run = replace(RUN, outcome=RunOutcome.CANCELLED, exit_signal=15)
    assert rows(AcctJob(job, (run,), ()), "state,exitcode") == [["CANCELLED by 1001", "0:15"], ["CANCELLED", "0:15"]]


def test_a_job_cancelled_while_it_waited_never_started() -> None:
    job = replace(PENDING, state=JobState.CANCELLED, cancelled_by=0, ended=END)
    assert rows(AcctJob(job, (), ()), "state,start,end,elapsed") == [
        ["CANCELLED by 0", "None", "2027-01-15T08:01:05", "00:00:00"]
    ]


def test_exit_codes_and_signals_stay_apart_and_the_highest_step_is_told() -> None:
    job = replace(DONE, state=JobState.FAILED, exit_code=3, reason=Reason.NON_ZERO_EXIT)
    run = replace(RUN, outcome=RunOutcome.FAILED, exit_code=3)
    steps = [replace(STEP, id=StepId(n), exit_code=code) for n, code in enumerate((0, 7, 3))]
    got = rows(AcctJob(job, (run,), tuple(steps)), "jobid,exitcode,derivedexitcode,reason,state")
    assert got[0] == ["12", "3:0", "7:0", "NonZeroExitCode", "FAILED"]
    assert [line[1] for line in got[1:]] == ["3:0", "0:0", "7:0", "3:0"]
    assert [line[4] for line in got[1:]] == ["FAILED", "COMPLETED", "FAILED", "FAILED"]
    (only,) = rows(AcctJob(job, (run,), tuple(steps)), "derivedexitcode", steps=False)
    assert only == ["7:0"]


def test_earlier_runs_are_shown_when_asked_for() -> None:
    lost = replace(RUN, outcome=RunOutcome.NODE_FAIL, elapsed_s=30)
    again = replace(RUN, no=RunNo(2))
    job = replace(DONE, run=RunNo(2), restarts=1)
    assert rows(AcctJob(job, (lost, again), ()), "jobid,state,elapsedraw,restarts", steps=False, earlier=True) == [
        ["12", "NODE_FAIL", "30", "1"],
        ["12", "COMPLETED", "65", "1"],
    ]


def test_a_job_that_waits_again_is_not_said_to_be_on_its_old_nodes() -> None:
    lost = replace(RUN, outcome=RunOutcome.NODE_FAIL)
    job = replace(PENDING, run=RunNo(1), reason=Reason.RUN_LOST)
    row = AcctJob(job, (lost,), ())
    assert rows(row, "state,nodelist,start") == [["PENDING", "None assigned", "Unknown"]]
    assert [line[0] for line in rows(row, "state", steps=False, earlier=True)] == ["NODE_FAIL", "PENDING"]
    cancelled = replace(job, state=JobState.CANCELLED, cancelled_by=1000, ended=END)
    assert rows(AcctJob(cancelled, (lost,), ()), "state,nodelist") == [["CANCELLED by 1000", "None assigned"]]


@pytest.mark.parametrize(
    ("need", "shown"),
    [
        (NodeNeed(cpus=1, mem_rule=MemoryRule.EXACT, mem_mib=1500), "1500M"),
        (NodeNeed(cpus=1, mem_rule=MemoryRule.EXACT, mem_mib=2048), "2G"),
        (NodeNeed(cpus=1, mem_rule=MemoryRule.ALL), "0"),
        (NodeNeed(cpus=1, mem_rule=MemoryRule.SHARE), ""),
    ],
)
def test_requested_memory_is_what_was_asked(need: NodeNeed, shown: str) -> None:
    job = replace(DONE, request=replace(REQUEST, need=need))
    assert rows(AcctJob(job, (RUN,), ()), "reqmem", steps=False) == [[shown]]


# --- tables


def lines(job: Job = DONE) -> list[Line]:
    return list(lines_of(AcctJob(job, (RUN,), (STEP,)), END, steps=True, earlier=False))


def test_the_default_table_is_saccts() -> None:
    job = replace(DONE, spec=JobSpec(name="a-long-job-name"))
    assert list(fixed_lines(parse_fields(DEFAULT), lines(job)[:2], header=True)) == [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
        "12           a-long-jo+       main    default         16  COMPLETED      0:0 ",
        "12.batch          batch               default          8  COMPLETED      0:0 ",
    ]


def test_widths_may_be_chosen_and_a_minus_means_the_left() -> None:
    columns = parse_fields("jobid%4,JobName%-8,state%30")
    assert list(fixed_lines(columns, lines()[:1], header=False)) == [f"{'12':>4} {'train':<8} {'COMPLETED':>30} "]


def test_with_bars_there_is_none_at_the_end_unless_wanted() -> None:
    columns = parse_fields("jobid,state")
    assert list(bar_lines(columns, lines()[:1], header=True, last_bar=False)) == ["JobID|State", "12|COMPLETED"]
    assert list(bar_lines(columns, lines()[:1], header=True, last_bar=True)) == ["JobID|State|", "12|COMPLETED|"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("crazy|name", r"crazy\x7cname"),
        (r"back\slash", r"back\x5cslash"),
        (r"both\x7c|", r"both\x5cx7c\x7c"),
        ("line\nbreak", r"line\nbreak"),
        ("caf\udce9", r"caf\xe9"),
        ("näme", "näme"),
        ("\x1b[31m", r"\x1b[31m"),
    ],
)
def test_a_nasty_name_never_adds_a_field_or_a_line(name: str, shown: str) -> None:
    """02 of the faults met elsewhere: rows with one field more than expected were dropped."""
    job = replace(DONE, spec=JobSpec(name=name))
    columns = parse_fields("jobid,jobname,state")
    (text, *_) = bar_lines(columns, lines(job), header=False, last_bar=False)
    assert text.split("|") == ["12", shown, "COMPLETED"]


def test_json_has_the_name_as_it_is() -> None:
    job = replace(DONE, spec=JobSpec(name="crazy|name\udce9\n"))
    decoded = json.loads(json_text(json_of(lines(job), END)))
    assert decoded["now_ms"] == END
    assert decoded["jobs"][0]["name"] == "crazy|name\udce9\n"
    assert [line["id"] for line in decoded["jobs"]] == ["12", "12.batch", "12.0"]
    assert decoded["jobs"][0]["gpus"] == 8


def test_json_tells_the_state_and_who_cancelled_apart() -> None:
    job = replace(PENDING, state=JobState.CANCELLED, cancelled_by=1001, ended=END)
    (line,) = json_of(lines_of(AcctJob(job, (), ()), END, steps=True, earlier=False), END).jobs
    assert (line.state, line.cancelled_by, line.started_ms, line.run) == ("CANCELLED", 1001, None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jobid,sate", r"no field is called 'sate' \(did you mean State\?\); known are Account, "),
        ("", "no field is called ''"),
        ("state%0", "not a width: 'state%0'"),
        ("state%", "not a width"),
        ("state%x", "not a width"),
        ("state%99999", "1 to 1000 characters"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_possible(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_fields(text)


def test_every_field_has_a_value_for_every_kind_of_line() -> None:
    waiting = lines_of(AcctJob(PENDING, (), ()), END, steps=True, earlier=False)
    for line in (*lines(), *waiting):
        for field in FIELDS:
            assert isinstance(field.value(line), str)
