"""Moments as sacct's -S and -E take them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.cli._moments import parse_moment, start_of_today
from gsched.errors import BadRequest
from gsched.values.ids import Instant


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone with summer time, whatever the machine's is."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOW = Instant(1_795_996_800_000 + 123)  # 2026-11-30T01:00:00.123 CET


def local(instant: Instant) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(instant / 1000))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29", "2026-11-29T00:00:00"),
        ("2026-11-29T08:05", "2026-11-29T08:05:00"),
        ("2026-11-29T08:05:09", "2026-11-29T08:05:09"),
        ("2026-11-29 08:05:09", "2026-11-29T08:05:09"),
        ("2026-07-01T00:00", "2026-07-01T00:00:00"),  # summer time
        ("11/29", "2026-11-29T00:00:00"),
        ("11/29/25-23:59", "2025-11-29T23:59:00"),
        ("02/29/2024", "2024-02-29T00:00:00"),
        ("14:30", "2026-11-30T14:30:00"),
        ("2:30pm", "2026-11-30T14:30:00"),
        ("12:00am", "2026-11-30T00:00:00"),
        ("today", "2026-11-30T00:00:00"),
        ("Midnight", "2026-11-30T00:00:00"),
        ("yesterday", "2026-11-29T00:00:00"),
        ("tomorrow", "2026-12-01T00:00:00"),
        ("noon", "2026-11-30T12:00:00"),
        ("now", "2026-11-30T01:00:00"),
        ("now-2hours", "2026-11-29T23:00:00"),
        ("now-1day", "2026-11-29T01:00:00"),
        ("now+1week", "2026-12-07T01:00:00"),
        ("now-90", "2026-11-30T00:58:30"),
        ("now-30min", "2026-11-30T00:30:00"),
    ],
)
def test_a_moment_is_read_as_slurm_reads_it(text: str, moment: str) -> None:
    assert local(parse_moment(text, NOW)) == moment


@pytest.mark.parametrize("text", ["", "soon", "2026", "2026-11-29Tx", "now-2m", "now-", "nowhere", "1:2", "10:00pmx"])
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(BadRequest, match=r"not a moment: .*expected YYYY-MM-DD"):
        parse_moment(text, NOW)


@pytest.mark.parametrize("text", ["2026-02-29", "2026-13-01", "0000-01-01", "13/01", "25:00", "12:60", "13:00pm"])
def test_days_and_times_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="no such"):
        parse_moment(text, NOW)


def test_today_begins_at_local_midnight() -> None:
    assert local(start_of_today(NOW)) == "2026-11-30T00:00:00"


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    with suppress(BadRequest):
        parse_moment(text, NOW)
