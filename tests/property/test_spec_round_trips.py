"""Text to value and back gives the same, whatever the value; and no text makes a parser fail in another way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import GschedError
from gsched.spec.constraints import parse_constraint
from gsched.spec.counts import parse_count, parse_node_count
from gsched.spec.durations import DAYS_MAX, parse_duration, sacct_style
from gsched.spec.filenames import check_pattern
from gsched.spec.gres import parse_gpus, parse_gres
from gsched.spec.jobids import parse_job_id
from gsched.spec.memory import MEMORY_MAX_MIB, format_memory, parse_memory
from gsched.spec.nodelists import expand, fold
from gsched.spec.signals import parse_signal, signal_name

NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,6}[0-9]{0,4}", fullmatch=True)
NEIGHBOURS = st.builds(
    lambda prefix, width, numbers: [f"{prefix}{n:0{width}d}" for n in numbers],
    st.sampled_from(["n", "r1n", "host-", "r0"]),
    st.integers(1, 4),
    st.lists(st.integers(0, 120), max_size=12),
)


@given(st.lists(st.one_of(NAMES.map(lambda name: [name]), NEIGHBOURS), max_size=6))
def test_expanding_what_was_folded_gives_the_same_names_in_the_same_order(groups: list[list[str]]) -> None:
    names = tuple(name for group in groups for name in group)
    assert (expand(fold(names)) if names else ()) == names


@given(st.lists(st.one_of(NAMES.map(lambda name: [name]), NEIGHBOURS), min_size=1, max_size=4))
def test_clustershell_reads_a_folded_list_as_the_same_set(groups: list[list[str]]) -> None:
    names = {name for group in groups for name in group}
    assert set(NodeSet(fold(sorted(names)))) == names if names else True


@given(st.integers(0, DAYS_MAX * 86400))
def test_a_printed_duration_reads_back(seconds: int) -> None:
    assert parse_duration(sacct_style(seconds)) == seconds


@given(st.integers(0, MEMORY_MAX_MIB))
def test_a_printed_size_of_memory_reads_back(mib: int) -> None:
    assert parse_memory(format_memory(mib)) == mib


@given(st.integers(1, 64))
def test_a_printed_signal_reads_back(number: int) -> None:
    assert parse_signal(signal_name(number)) == number


PARSERS: list[Callable[[str], object]] = [
    expand,
    parse_duration,
    parse_memory,
    parse_signal,
    parse_constraint,
    parse_gpus,
    parse_gres,
    parse_job_id,
    parse_node_count,
    check_pattern,
    lambda text: parse_count(text, "tasks"),
]


@pytest.mark.parametrize("parser", PARSERS)
@given(text=st.one_of(st.text(max_size=60), st.text("0123456789-:.[],&|%gpuna", max_size=40)))
def test_any_text_is_read_or_refused(parser: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(GschedError):
        parser(text)
