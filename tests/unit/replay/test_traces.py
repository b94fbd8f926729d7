"""Traces are read as they are; what cannot be read is named by file, line and column."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gsched.errors import BadRequest, NotFound
from gschedd.replay.traces import TraceJob, read_trace

PHILLY = "job_id,vc,submit_s,num_gpus,duration_s\n0,a,20,1,30\n1,b,10,8,5\n"
MURI = "job_id,submit_s,num_gpus,duration_s,model,batch_size,iterations\n7,0,4,1.5,bert,4,10\n"
OURS = "submit_s,gpus,duration_s,limit_s,user\n0,2,10,20,ann\n1,0,10,,bob\n2,1,10,,bob\n"
SWF = (
    "; Version: 2.2\n"
    "; MaxProcs: 64\n"
    " 1 0 5 100 16 -1 -1 16 200 -1 1 3 1 -1 1 -1 -1 -1\n"
    "2 7 5 -1 16 -1 -1 16 200 -1 1 3 1 -1 1 -1 -1 -1  ; never ran\n"
    "3 9 5 10 4 -1 -1 -1 -1 -1 1 4 1 -1 1 -1 -1 -1\n"
)


def trace(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_philly_in_order_of_submission(tmp_path: Path) -> None:
    read = read_trace(trace(tmp_path, PHILLY, "philly.csv.gz"))
    assert read.name == "philly"
    assert read.jobs == (TraceJob("1", 10_000, 8, 5_000, None, "b"), TraceJob("0", 20_000, 1, 30_000, None, "a"))
    assert read.gpu_s == 70


def test_muri_and_fractions_of_a_second(tmp_path: Path) -> None:
    assert read_trace(trace(tmp_path, MURI)).jobs == (TraceJob("7", 0, 4, 1_500),)


def test_ones_own_with_limits_and_a_job_without_gpus_left_out(tmp_path: Path) -> None:
    read = read_trace(trace(tmp_path, OURS))
    assert read.jobs == (TraceJob("0", 0, 2, 10_000, 20_000, "ann"), TraceJob("2", 2_000, 1, 10_000, None, "bob"))
    assert read.left_out == 1


def test_swf_with_processors_as_gpus(tmp_path: Path) -> None:
    read = read_trace(trace(tmp_path, SWF, "t.swf"), processors_per_gpu=8)
    assert read.jobs == (TraceJob("1", 0, 2, 100_000, 200_000, "3"), TraceJob("3", 9_000, 1, 10_000, None, "4"))
    assert read.left_out == 1


def test_the_first_jobs_only(tmp_path: Path) -> None:
    assert [job.id for job in read_trace(trace(tmp_path, PHILLY), limit=1).jobs] == ["1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("submit_s,num_gpus\n", "line 1: no column duration_s"),
        ("", "line 1: no column submit_s or num_gpus or duration_s: found nothing"),
        ("submit_s,num_gpus,duration_s\n0,1,5\n0,x,5\n", "line 3, column num_gpus: found 'x', expected a whole number"),
        ("submit_s,num_gpus,duration_s\n-1,1,5\n", "line 2, column submit_s: found '-1', expected seconds"),
        ("submit_s,num_gpus,duration_s\n0,1,nan\n", "line 2, column duration_s: found 'nan'"),
        ("submit_s,num_gpus,duration_s\n0,1\n", "line 2, column 2: found '0,1', expected 3 columns"),
        ("submit_s,num_gpus,duration_s\n", "no GPU job that ran is in it"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadRequest) as raised:
        read_trace(trace(tmp_path, text))
    assert words in raised.value.text
    assert str(tmp_path) in raised.value.text


def test_a_short_line_of_swf_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"line 2, column 3: found '1 2 3', expected 18 fields"):
        read_trace(trace(tmp_path, "; x\n1 2 3\n", "t.swf"))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_bytes(b"\x1f\x8bxx")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_trace(tmp_path / "bad.csv")
    (tmp_path / "latin.csv").write_bytes(b"submit_s\xe9")
    with pytest.raises(BadRequest, match="not text in UTF-8"):
        read_trace(tmp_path / "latin.csv")
