"""A board that lived through any history gives the same plan as a fresh one that was told the end of it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gschedd.core.board import Board, build_snapshot
from gschedd.core.plan import plan
from tests.builders.cluster import NOW
from tests.builders.clusters_at_random import World, worlds


@settings(max_examples=30)
@given(st.lists(worlds(), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_a_board_forgets_its_history(history: list[World], random: Random) -> None:
    _assert_it_forgets(history, random)


@pytest.mark.full
@settings(max_examples=1000)
@given(st.lists(worlds(most_nodes=9, most_jobs=14), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_a_thousand_boards_forget_their_histories(history: list[World], random: Random) -> None:
    _assert_it_forgets(history, random)


def _assert_it_forgets(history: list[World], random: Random) -> None:
    board, before = Board(), World((), (), (), history[0].policy)
    for world in history:
        _turn(board, before, world, random)
        fresh = build_snapshot(world.nodes, world.holds, world.queue)
        assert plan(board.snapshot(), world.policy, NOW) == plan(fresh, world.policy, NOW)
        before = world


def _turn(board: Board, before: World, after: World, random: Random) -> None:
    """Change the board from one world to another in some order; now and then somebody looks at it."""
    names = {node.name for node in after.nodes}
    keys = {hold.key for hold in after.holds}
    jobs = {job.job for job in after.queue}
    changes = [
        *((board.drop_node, node.name) for node in before.nodes if node.name not in names),
        *((board.drop_hold, hold.key) for hold in before.holds if hold.key not in keys),
        *((board.drop_job, job.job) for job in before.queue if job.job not in jobs),
        *((board.put_node, node) for node in after.nodes),
        *((board.put_hold, hold) for hold in after.holds),
        *((board.put_job, job) for job in after.queue),
    ]
    random.shuffle(changes)
    for change, given_to_it in changes:
        change(given_to_it)  # type: ignore[operator]  # a list of pairs of several kinds
        if random.random() < 0.1:
            board.snapshot()
