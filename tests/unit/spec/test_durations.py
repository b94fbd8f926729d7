"""Durations: what each form means, what is refused, how they are printed."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest
from gsched.spec.durations import FORMS, parse_duration, sacct_limit, sacct_style, squeue_limit, squeue_style

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90 * MINUTE),
        ("30:00", 30 * MINUTE),
        ("0:05", 5),
        ("00:00:01", 1),
        ("36:00:00", 36 * HOUR),
        ("0:90:00", 90 * MINUTE),
        ("1-0", DAY),
        ("2-3", 2 * DAY + 3 * HOUR),
        ("1-12:30", DAY + 12 * HOUR + 30 * MINUTE),
        ("1-02:03:04", DAY + 2 * HOUR + 3 * MINUTE + 4),
        ("0", 0),
        ("infinite", 0),
        ("INFINITE", 0),
        ("UNLIMITED", 0),
        ("36500-0", 36500 * DAY),
    ],
)
def test_every_form_of_slurm_is_read_to_the_second(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-5",
        "-1",
        "1:2:3:4",
        "1-2:3:4:5",
        "1-",
        "-",
        "1--2",
        "1.5",
        "5m",
        "1:",
        ":5",
        "+5",
        "1 0",
        "٣",
        "x" * 99,
    ],
)
def test_what_is_no_time_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(BadRequest, match="forms: MINUTES, MINUTES:SECONDS") as refused:
        parse_duration(text)
    assert FORMS in refused.value.text


def test_a_negative_time_is_called_negative() -> None:
    with pytest.raises(BadRequest, match="negative: '-5'"):
        parse_duration("-5")


def test_more_than_a_century_is_refused_with_the_limit() -> None:
    with pytest.raises(BadRequest, match="longer than 36500 days"):
        parse_duration("36500-0:0:1")


@pytest.mark.parametrize(
    ("seconds", "squeue", "sacct"),
    [
        (0, "0:00", "00:00:00"),
        (65, "1:05", "00:01:05"),
        (3665, "1:01:05", "01:01:05"),
        (2 * DAY + 3665, "2-01:01:05", "2-01:01:05"),
        (-3, "0:00", "00:00:00"),
    ],
)
def test_times_are_printed_as_squeue_and_sacct_do(seconds: int, squeue: str, sacct: str) -> None:
    assert (squeue_style(seconds), sacct_style(seconds)) == (squeue, sacct)


def test_no_limit_is_printed_as_a_word() -> None:
    assert squeue_limit(0) == sacct_limit(0) == "UNLIMITED"
    assert (squeue_limit(1800), sacct_limit(1800)) == ("30:00", "00:30:00")
