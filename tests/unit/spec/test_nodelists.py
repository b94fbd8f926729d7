"""Node lists (known fault 01): in order, the first host right, and unknown syntax is an error."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest, TooLarge
from gsched.spec.nodelists import expand, fold, natural


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nodeA,nodeB[001,003],nodeC", "nodeA nodeB001 nodeB003 nodeC"),
        (
            "foo003,foo0[10-12],foo[103-104],foo[10,12-14],foo-m11-16",
            "foo003 foo010 foo011 foo012 foo103 foo104 foo10 foo12 foo13 foo14 foo-m11-16",
        ),
        ("c[1-2]", "c1 c2"),
        ("host-[001-002]", "host-001 host-002"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("node[001,007-009],x", "node001 node007 node008 node009 x"),
        ("n[9-11]", "n9 n10 n11"),
        ("n[09-11]", "n09 n10 n11"),
        ("gpu[1-2]-ib.cluster", "gpu1-ib.cluster gpu2-ib.cluster"),
        ("b,a,b", "b a b"),
    ],
)
def test_fault_01_a_mixed_list_expands_in_order(text: str, names: str) -> None:
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a,",
        "a,,b",
        "a[1",
        "a1]",
        "a]1[",
        "a[[1]]",
        "a[]",
        "a[,1]",
        "a[1-]",
        "a[2-1]",
        "a[1-010]",
        "a[010-9]",
        "a b",
        "a[1 -2]",
        "^hosts",
        "@group",
        "a{1..2}",
        "a*",
        "-a",
        "a[x]",
        "a[1-2/2]",
        "å",
        "a\n",
        "a" * 300,
    ],
)
def test_unknown_syntax_is_an_error_and_never_one_node(text: str) -> None:
    with pytest.raises(BadRequest, match="not a node list"):
        expand(text)


def test_a_list_that_stands_for_too_many_names_is_refused_before_it_is_made() -> None:
    with pytest.raises(TooLarge, match="stands for 1000000000000000000 names; the most is 100000"):
        expand("n[0-999999999][0-999999999]")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("n1 n2 n3 n5", "n[1-3,5]"),
        ("n1", "n1"),
        ("n2 n1", "n[2,1]"),
        ("n09 n10 n11 n100", "n[09-11,100]"),
        ("n9 n10", "n[9-10]"),
        ("n1 n01", "n1,n01"),
        ("a b c", "a,b,c"),
        ("n1 x n2", "n1,x,n2"),
        ("gpu1-ib gpu2-ib", "gpu1-ib,gpu2-ib"),
        ("r1n01 r1n02 r2n01", "r1n[01-02],r2n01"),
        ("", ""),
    ],
)
def test_folding_keeps_the_order_and_the_widths(names: str, text: str) -> None:
    assert fold(names.split()) == text


def test_names_sort_as_people_sort_them() -> None:
    assert sorted(["n10", "n2", "a", "n1-b", "n1"], key=natural) == ["a", "n1", "n1-b", "n2", "n10"]
