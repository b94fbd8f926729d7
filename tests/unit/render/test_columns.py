"""The format language of -o: widths, sides, text between, and what it says to a wrong letter."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest
from gsched.render.columns import Column, parse_format

COLUMNS = {
    "i": Column[str]("JOBID", lambda row: row, cut=False),
    "j": Column[str]("NAME", lambda row: row),
}


def lines(form: str, *rows: str, header: bool = False) -> list[str]:
    return list(parse_format(form, COLUMNS).lines(rows, header))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("%j", "train"),
        ("%8j|", "train   |"),
        ("%-8j|", "train   |"),
        ("%.8j|", "   train|"),
        ("%.3j", "tra"),
        ("%3j", "tra"),
        ("a %j b", "a train b"),
        ("100%% of %j", "100% of train"),
        ("no column", "no column"),
        ("%j%j", "traintrain"),
        ("%#j|", "train|"),
    ],
)
def test_a_field_is_padded_or_cut_as_the_format_says(form: str, expected: str) -> None:
    assert lines(form, "train") == [expected]


def test_the_header_takes_the_same_widths() -> None:
    assert lines("%.8j %i", "train", header=True) == ["    NAME JOBID", "   train train"]


def test_a_number_sign_is_the_width_of_the_longest_cell_or_header() -> None:
    assert lines("%#j|", "a", "bbbbbb", header=True) == ["NAME  |", "a     |", "bbbbbb|"]
    assert lines("%.#j|", "a", header=True) == ["NAME|", "   a|"]


def test_an_id_is_never_cut() -> None:
    assert lines("%.3i", "123456") == ["123456"]


@pytest.mark.parametrize("form", ["%q", "%.8q", "%", "%.8", "%-", "%!", "%é", "%8"])
def test_an_unknown_letter_is_refused_and_the_known_ones_are_listed(form: str) -> None:
    with pytest.raises(BadRequest, match=r"known are %i=JOBID %j=NAME, and %% for a percent sign"):
        parse_format(form, COLUMNS)


def test_a_width_that_can_only_be_a_slip_is_refused() -> None:
    with pytest.raises(BadRequest, match="at most 1000"):
        parse_format("%.10000j", COLUMNS)


def test_an_empty_format_gives_empty_lines() -> None:
    assert lines("", "a") == [""]
