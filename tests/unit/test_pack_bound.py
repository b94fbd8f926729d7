"""The upper bound on allocation, where it can be told by hand."""

from __future__ import annotations

import pytest

from gschedd.core.mix import Shape
from gschedd.replay.openb import TraceNode, TracePod
from gschedd.replay.pack_bound import allocation_bound
from gschedd.replay.pack_run import Case


def _bound(load: float, *shapes: Shape, cores: int = 64_000) -> float:
    nodes = [TraceNode(f"n{i}", cores, 1000, 4, "A") for i in range(5)]
    return allocation_bound(Case(nodes, [TracePod("pod", shape) for shape in shapes]), load)


def test_shares_that_leave_a_gap_bound_what_can_be_used() -> None:
    assert _bound(1.3, Shape(gpus=1, milli=600)) == pytest.approx(60, abs=0.1)
    assert _bound(1.3, Shape(gpus=1, milli=500)) == pytest.approx(100, abs=0.1)
    assert _bound(1.3, Shape(gpus=1, milli=600), Shape(gpus=1, milli=400)) == pytest.approx(100, abs=0.1)


def test_no_more_is_allocated_than_arrives() -> None:
    assert _bound(0.5, Shape(gpus=1, milli=500)) == pytest.approx(50, abs=0.1)


def test_cores_bound_too() -> None:
    assert _bound(1.3, Shape(cores=32_000, gpus=1, milli=1000)) == pytest.approx(50, abs=0.1)


def test_a_node_holds_whole_pods_for_several_gpus() -> None:
    assert _bound(1.3, Shape(gpus=3, milli=1000)) == pytest.approx(75, abs=0.1)


def test_what_asks_for_less_may_not_be_turned_away_for_what_asks_for_more() -> None:
    """Wholes alone would fill the cluster. But while a whole fits, the 810 that came beside it fits too."""
    bound = _bound(2.0, Shape(gpus=1, milli=1000), Shape(gpus=1, milli=810))
    assert bound == pytest.approx(100 * 1.81 / 2, abs=0.1)
