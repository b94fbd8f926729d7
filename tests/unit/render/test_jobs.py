"""gqueue's table: squeue's columns, times and order."""

from __future__ import annotations

import json
import time

import pytest

from gsched.errors import BadRequest
from gsched.protocol.messages import JobPage, JobRow
from gsched.render.columns import parse_format
from gsched.render.job_json import queue_json
from gsched.render.jobs import DEFAULT, DEFAULT_SORT, LONG, job_columns, sort_jobs
from gsched.render.text import json_text
from gsched.values.ids import Instant, JobId
from gsched.values.states import JobState
from tests.unit.render.job_rows import NOW, pending, running


def cell(letter: str, row: JobRow) -> str:
    return job_columns(NOW)[letter].value(row)


def table(form: str, *rows: JobRow) -> list[str]:
    return list(parse_format(form, job_columns(NOW)).lines(rows))


def test_the_default_table_is_squeues() -> None:
    assert table(DEFAULT, pending(), running(3723, "n1", "n2", id=JobId(6), name="a-long-name")) == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        "                 7      main    train    alice PD       0:00      2 (Resources)",
        "                 6      main a-long-n    alice  R    1:02:03      2 n[1-2]",
    ]


def test_the_long_table_adds_the_limit_and_whole_states() -> None:
    assert table(LONG, pending()) == [
        "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)",
        "                 7      main    train    alice  PENDING       0:00   1:00:00      2 (Resources)",
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0:00"), (59, "0:59"), (61, "1:01"), (3600, "1:00:00"), (90_061, "1-01:01:01"), (864_000, "10-00:00:00")],
)
def test_a_running_job_shows_the_time_since_its_start(seconds: int, expected: str) -> None:
    assert cell("M", running(seconds, "n1")) == expected


def test_a_started_job_of_a_clock_that_went_back_has_run_no_time() -> None:
    assert cell("M", running(-5, "n1")) == "0:00"


def test_an_ended_job_shows_its_supervisors_time_for_ever() -> None:
    ended = running(500, "n1", state=JobState.COMPLETED, elapsed_s=42, ended=NOW)
    assert cell("M", ended) == "0:42"
    assert job_columns(Instant(NOW + 60_000))["M"].value(ended) == "0:42"


def test_no_time_limit_is_unlimited() -> None:
    assert cell("l", pending(time_limit_s=0)) == cell("L", pending(time_limit_s=0)) == "UNLIMITED"


def test_time_left_never_goes_below_zero() -> None:
    assert cell("L", running(60, "n1")) == "59:00"
    assert cell("L", running(4000, "n1")) == "0:00"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (JobState.PENDING, "(Why)"),
        (JobState.RUNNING, "n[1-2]"),
        (JobState.COMPLETING, "n[1-2]"),
        (JobState.COMPLETED, "n[1-2]"),
        (JobState.CANCELLED, "n[1-2]"),
        (JobState.FAILED, "(Why)"),
        (JobState.TIMEOUT, "(Why)"),
    ],
)
def test_the_last_column_says_where_or_why(state: JobState, expected: str) -> None:
    assert cell("R", running(1, "n1", "n2", state=state, reason="Why")) == expected


def test_a_job_that_never_ran_has_no_nodes() -> None:
    assert cell("N", pending()) == cell("R", pending(state=JobState.CANCELLED)) == ""


def test_the_start_of_a_waiting_job_is_the_planned_one() -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW / 1000))
    assert cell("S", pending(planned=NOW)) == stamp
    assert cell("S", pending()) == "N/A"
    assert cell("e", running(3600, "n1")) == stamp


@pytest.mark.parametrize(("mib", "expected"), [(-1, "share"), (0, "0"), (1024, "1G"), (1500, "1500M")])
def test_memory_is_a_node_s_in_the_largest_whole_unit(mib: int, expected: str) -> None:
    assert cell("m", pending(mem_mib=mib)) == expected


def test_gpus_are_shown_a_node() -> None:
    assert cell("b", pending()) == "gres/gpu:8"
    assert cell("b", pending(gpu_model="h100")) == "gres/gpu:h100:8"
    assert cell("b", pending(gpus=0)) == "N/A"


def test_an_odd_name_stays_on_its_line() -> None:
    (line,) = parse_format("%i|%j", job_columns(NOW)).lines([pending(name="two\nlines|bar\x1b")], header=False)
    assert line == r"7|two\nlines|bar\x1b"


def test_the_default_order_is_partition_then_state_then_id() -> None:
    rows = [running(1, "n1", id=JobId(1)), pending(id=JobId(3)), pending(id=JobId(2)), pending(id=9, partition="a")]
    sort_jobs(rows, DEFAULT_SORT)
    assert [row.id for row in rows] == [9, 2, 3, 1]


def test_a_minus_sorts_downwards() -> None:
    rows = [pending(id=JobId(1), name="b"), pending(id=JobId(2), name="a"), pending(id=JobId(3), name="a")]
    sort_jobs(rows, "j,-i")
    assert [row.id for row in rows] == [3, 2, 1]


def test_a_wrong_sort_key_is_refused() -> None:
    with pytest.raises(BadRequest, match="cannot sort by 'x'"):
        sort_jobs([], "P,x")


def test_every_default_is_of_known_letters() -> None:
    assert {c.before for c in parse_format(DEFAULT, job_columns(NOW)).cells} == {"", " "}


def test_the_json_of_a_job_is_stable() -> None:
    page = JobPage(rows=(running(90, "n1", "n2"), pending(name="crazy|name")), more=False, now=NOW)
    told = json.loads(json_text(queue_json(page, list(page.rows))))
    assert told["now_ms"] == NOW
    assert told["missing"] == []
    assert told["unconfirmed"] is False
    assert told["jobs"][1]["name"] == "crazy|name"
    assert told["jobs"][0] == {
        "job_id": 7, "name": "train", "user": "alice", "uid": 1000, "partition": "main",
        "state": "RUNNING", "state_compact": "R", "reason": "None", "detail": "2 of 4 nodes are free",
        "nodes": ["n1", "n2"], "node_list": "n[1-2]", "node_count": 2, "tasks": 16, "cpus": 32, "gpus": 16,
        "gpu_model": "", "mem_mib_per_node": None, "time_limit_s": 3600, "elapsed_s": 90,
        "submitted_ms": NOW - 60_000, "started_ms": NOW - 90_000, "ended_ms": None, "planned_start_ms": None,
        "restarts": 0, "exit_code": 0, "exit_signal": 0, "chdir": "/home/alice",
            "planned_nodes": [],
    }  # fmt: skip
