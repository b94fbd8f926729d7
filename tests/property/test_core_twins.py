"""Every kernel does what its plain twin says: the whole pass, and alone what can be called alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gschedd.core import links_twin
from gschedd.core.board import build_snapshot
from gschedd.core.kernels import links as links_nb
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.plan import plan
from gschedd.core.twins import plan_py
from tests.builders.cluster import NOW
from tests.builders.clusters_at_random import LEVELS, World, worlds


@settings(max_examples=50)
@given(worlds())
def test_a_pass_agrees_with_its_twin(world: World) -> None:
    _assert_agreement(world)


@pytest.mark.full
@settings(max_examples=1000)
@given(worlds(most_nodes=9, most_jobs=14))
def test_a_pass_agrees_with_its_twin_on_a_thousand_larger_worlds(world: World) -> None:
    _assert_agreement(world)


def _assert_agreement(world: World) -> None:
    snapshot = build_snapshot(world.nodes, world.holds, world.queue, levels=LEVELS)
    assert plan(snapshot, world.policy, NOW) == plan_py(snapshot, world.policy, NOW)


@given(st.integers(0, 2**62 - 1))
def test_popcount_counts_bits(mask: int) -> None:
    assert popcount_nb(mask) == mask.bit_count()


@st.composite
def matrices(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(0, 5))
    cells = {(a, b): draw(st.sampled_from([0, 13, 32, 36])) for a in range(size) for b in range(a)}
    return [[0 if a == b else cells[max(a, b), min(a, b)] for b in range(size)] for a in range(size)]


@settings(max_examples=100)
@given(matrices())
def test_link_tables_and_the_subset_taken_agree_with_trying_everything(matrix: list[list[int]]) -> None:
    size = len(matrix)
    worst, rest = np.zeros(1 << size, dtype=np.int64), np.zeros(1 << size, dtype=np.int64)
    best = np.zeros((1 << size, size + 1), dtype=np.int64)
    links_nb.link_tables_nb(np.array(matrix, dtype=np.int64).reshape(size, size), worst, rest, best)
    for mask in range(1 << size):
        assert worst[mask] == links_twin.worst_py(matrix, mask)
        assert rest[mask] == links_twin.rest_py(matrix, mask)
        for count in range(mask.bit_count() + 1):
            assert best[mask, count] == links_twin.best_py(matrix, mask, count)
