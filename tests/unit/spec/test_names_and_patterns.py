"""Signals, constraints, job ids and the patterns of file names."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest
from gsched.spec.constraints import parse_constraint
from gsched.spec.filenames import FileFields, check_pattern, fill_pattern, fixed_part, has_marks
from gsched.spec.jobids import parse_job_id, parse_job_ids
from gsched.spec.signals import parse_signal, signal_name

BATCH = FileFields(job=42, user="ann", name="train it", node="n7.example.org", restarts=1)
TASK = FileFields(job=42, user="ann", name="train", node="n8", node_rank=1, rank=9, step="3")


@pytest.mark.parametrize(
    ("pattern", "batch", "task"),
    [
        ("slurm-%j.out", "slurm-42.out", "slurm-42.out"),
        ("%A_%a_%b", "42_4294967294_4", "42_4294967294_4"),
        ("%J", "42", "42.3"),
        ("%s-%t-%n", "batch-0-0", "3-9-1"),
        ("%N/%u/%x", "n7/ann/train it", "n8/ann/train"),
        ("%r", "1", "0"),
        ("%4j.%3t.%99j", "0042.000.0000000042", "0042.009.0000000042"),
        ("%5N%5x", "n7train it", "n8train"),
        ("100%%", "100%", "100%"),
        ("%%j", "%j", "%j"),
        ("a%", "a%", "a%"),
        (r"\\%j", "%j", "%j"),
        (r"\%j", "\\42", "\\42"),
    ],
)
def test_marks_stand_for_what_slurm_says(pattern: str, batch: str, task: str) -> None:
    check_pattern(pattern)
    assert (fill_pattern(pattern, BATCH), fill_pattern(pattern, TASK)) == (batch, task)


def test_what_a_mark_stands_for_is_not_read_as_a_mark() -> None:
    assert fill_pattern("%x", FileFields(job=1, user="u", name="%j%%", node="n")) == "%j%%"


@pytest.mark.parametrize(
    ("pattern", "why"), [("%q", "unknown mark %q"), ("a%4S", "unknown mark %4S"), ("", "empty"), ("a\0", "NUL")]
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        check_pattern(pattern)


def test_the_part_before_the_first_mark_is_known_at_submit() -> None:
    assert (fixed_part("logs/%j/out"), has_marks("logs/%j/out")) == ("logs/", True)
    assert (fixed_part("100%%.out"), has_marks("100%%.out")) == ("100%.out", False)
    assert (fixed_part(r"a\\%j"), has_marks(r"a\\%j")) == ("a%j", False)


@pytest.mark.parametrize(
    ("text", "number"), [("TERM", 15), ("SIGUSR1", 10), ("usr2", 12), ("9", 9), ("sigKill", 9), ("64", 64)]
)
def test_a_signal_is_a_name_or_a_number(text: str, number: int) -> None:
    assert parse_signal(text) == number


@pytest.mark.parametrize("text", ["", "0", "-9", "65", "SIG", "SIG9", "FOO", "9.0", "٩"])
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="not a signal"):
        parse_signal(text)


def test_a_signal_without_a_name_is_shown_by_its_number() -> None:
    assert (signal_name(9), signal_name(10), signal_name(50)) == ("KILL", "USR1", "50")


@pytest.mark.parametrize(
    ("text", "features", "met"),
    [
        ("", "", True),
        ("ib", "ib nvme", True),
        ("ib", "nvme", False),
        ("ib&nvme", "ib nvme", True),
        ("ib&nvme", "ib", False),
        ("a100|h100", "h100", True),
        ("a100|h100", "l40", False),
        ("ib & nvme", "ib nvme", True),
    ],
)
def test_a_constraint_is_met_by_features(text: str, features: str, met: bool) -> None:
    assert parse_constraint(text).met_by(features.split()) is met


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a&b|c", "& and |"),
        ("[a|b]", "brackets"),
        ("a*2", "counts"),
        ("!a", "negation"),
        ("a&", "not a feature"),
        ("a b", "not a"),
    ],
)
def test_a_constraint_that_is_not_there_yet_is_named(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parse_constraint(text)


def test_job_ids_come_apart_or_with_commas_each_once() -> None:
    assert parse_job_ids(["3,1", "2", "1"]) == (3, 1, 2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a job id"),
        ("0", "not a job id"),
        ("-1", "not a job id"),
        ("x", "not a job id"),
        ("1_2", "arrays are not"),
        ("1.0", "is a step"),
    ],
)
def test_what_is_no_job_id_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parse_job_id(text)
