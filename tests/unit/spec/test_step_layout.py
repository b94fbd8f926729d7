"""Where the tasks of a step go: Slurm's block distribution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import BadRequest
from gsched.spec.step_environment import (
    node_variables,
    step_variables,
    task_gpus,
    task_variables,
    tasks_per_node_text,
)
from gsched.spec.step_layout import NodeTasks, Room, block_layout
from gsched.values.ids import NodeName, StepId


def rooms(*cpus: int, gpus: int = 0) -> list[Room]:
    return [Room(NodeName(f"n{i}"), n, gpus) for i, n in enumerate(cpus, 1)]


def counts(layout: tuple[NodeTasks, ...]) -> dict[str, list[int]]:
    return {part.node: list(part.ranks) for part in layout}


def test_neighbours_in_rank_share_a_node_and_nodes_get_equal_numbers() -> None:
    assert counts(block_layout(rooms(8, 8), 6)) == {"n1": [0, 1, 2], "n2": [3, 4, 5]}


def test_the_first_nodes_get_what_is_left_over() -> None:
    assert counts(block_layout(rooms(8, 8), 3)) == {"n1": [0, 1], "n2": [2]}


def test_a_small_node_gets_no_more_than_it_holds() -> None:
    assert counts(block_layout(rooms(1, 8), 5)) == {"n1": [0], "n2": [1, 2, 3, 4]}


def test_tasks_per_node_is_the_most_on_one_node() -> None:
    assert counts(block_layout(rooms(8, 8, 8), 5, at_most=2)) == {"n1": [0, 1], "n2": [2, 3], "n3": [4]}


def test_a_node_without_a_task_is_left_out() -> None:
    assert counts(block_layout(rooms(8, 8), 1)) == {"n1": [0]}


def test_tasks_that_do_not_fit_are_refused_with_what_would() -> None:
    with pytest.raises(BadRequest, match=r"9 tasks of 2 cores do not fit .* hold 8 .*n1 4 \(8 cores"):
        block_layout(rooms(8, 8), 9, cpus_per_task=2)
    with pytest.raises(BadRequest, match=r"3 tasks of 1 core and 3 GPUs .* hold 2"):
        block_layout(rooms(8, 8, gpus=4), 3, gpus_per_task=3)


@given(st.lists(st.integers(1, 16), min_size=1, max_size=6), st.data())
def test_every_rank_is_placed_once_in_order(cpus: list[int], data: st.DataObject) -> None:
    ntasks = data.draw(st.integers(1, sum(cpus)))
    layout = block_layout(rooms(*cpus), ntasks)
    assert [rank for part in layout for rank in part.ranks] == list(range(ntasks))
    assert all(part.count <= room.cpus for part in layout for room in rooms(*cpus) if room.node == part.node)


def test_counts_are_written_as_slurm_writes_them() -> None:
    assert tasks_per_node_text([2, 2, 2, 1]) == "2(x3),1"
    assert tasks_per_node_text([4]) == "4"


def test_each_task_knows_its_place_under_both_names() -> None:
    layout = block_layout(rooms(2, 2), 4)
    step = step_variables(StepId(3), layout, "n[1-2]", None)
    assert step["SLURM_STEP_ID"] == step["GSCHED_STEP_ID"] == "3"
    assert step["SLURM_STEP_NODELIST"] == "n[1-2]"
    assert step["SLURM_NTASKS"] == "4"
    assert step["SLURM_STEP_TASKS_PER_NODE"] == "2(x2)"
    assert "SLURM_CPUS_PER_TASK" not in step
    node = node_variables(1, layout[1])
    assert (node["SLURM_NODEID"], node["SLURM_GTIDS"], node["SLURMD_NODENAME"]) == ("1", "2,3", "n2")
    task = task_variables(3, 1, ())
    assert (task["SLURM_PROCID"], task["SLURM_LOCALID"], task["CUDA_VISIBLE_DEVICES"]) == ("3", "1", "none")


def test_a_task_sees_all_gpus_or_its_own_in_order() -> None:
    gpus = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")
    assert task_gpus(gpus, 1, None) == gpus
    assert task_gpus(gpus, 1, 2) == ("GPU-c", "GPU-d")
    with pytest.raises(BadRequest, match="2 GPUs for task 2 of a node that has 4"):
        task_gpus(gpus, 2, 2)
