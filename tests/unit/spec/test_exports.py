"""Which variables go with a job."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest, TooLarge
from gsched.spec.exports import export

MINE = {"PATH": "/bin", "HOME": "/h", "SLURM_JOB_ID": "7", "GSCHED_SOCKET": "/s", "CUDA_VISIBLE_DEVICES": "3"}


def test_all_is_everything_but_what_gsched_sets_itself() -> None:
    assert export("ALL", MINE).environment == {"PATH": "/bin", "HOME": "/h"}


def test_none_is_nothing() -> None:
    assert export("NONE", MINE).environment == {}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("HOME", {"HOME": "/h"}),
        ("A=1,HOME", {"A": "1", "HOME": "/h"}),
        ("ALL,PATH=/x", {"PATH": "/x", "HOME": "/h"}),
        ("A=", {"A": ""}),
        ("A='x,y',B=2", {"A": "x,y", "B": "2"}),
        ("A=b=c", {"A": "b=c"}),
    ],
)
def test_a_list_names_variables_or_gives_them(rule: str, expected: dict[str, str]) -> None:
    assert export(rule, MINE).environment == expected


def test_a_variable_that_is_not_set_is_warned_of() -> None:
    found = export("HOME,NOWHERE", MINE)
    assert found.environment == {"HOME": "/h"}
    assert found.warnings == ("--export: NOWHERE is not set here; the job will not have it",)


def test_a_value_that_is_not_utf8_goes_with_the_job_as_it_is() -> None:
    assert export("ALL", {"LATIN": "\udcff"}).environment == {"LATIN": "\udcff"}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("", "not a value of --export"),
        ("A,,B", "not a value of --export"),
        ("1A=2", "'1A' is no variable's name"),
        ("ALL,NONE", "NONE cannot be joined"),
        ("NIL", "NIL is not supported yet"),
        ("A='x", r"a quote \('\) is not closed"),
        ("CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES is set by gsched"),
        ("SLURM_JOB_ID", "SLURM_JOB_ID is set by gsched"),
    ],
)
def test_a_bad_rule_is_refused(rule: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        export(rule, MINE)


def test_more_than_a_mebibyte_is_refused_with_limit_size_and_the_longest() -> None:
    with pytest.raises(TooLarge, match=r"has 1048594 bytes, the most is 1048576 \(the longest variable is BIG\)"):
        export("ALL", {"A": "1", "BIG": "x" * (1024 * 1024 + 6), "C": ""})
