"""ginfo's views: sinfo's table, a line a node, reasons, GPUs."""

from __future__ import annotations

import json
import time

from gsched.protocol.messages import NodePage, PartitionRow
from gsched.render import nodes as views
from gsched.render.columns import parse_format
from gsched.render.text import json_text
from gsched.values.ids import Instant
from gsched.values.node import NodeState
from tests.unit.render.node_rows import node_row, page_of


def table(form: str, groups: list[views.NodeGroup]) -> list[str]:
    return list(parse_format(form, views.node_columns()).lines(groups))


def test_the_default_table_is_sinfos() -> None:
    page = page_of(
        node_row("n1", state=NodeState.ALLOCATED, gpus_used=255),
        node_row("n2"),
        node_row("n3"),
        node_row("n4", state=NodeState.DOWN, responding=False),
        max_time_s=7200,
    )
    assert table(views.DEFAULT, views.group_nodes(page)) == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "main*        up    2:00:00      1  alloc n1",
        "main*        up    2:00:00      2   idle n[2-3]",
        "main*        up    2:00:00      1  down* n4",
    ]


def test_a_partition_without_nodes_has_a_line() -> None:
    page = NodePage(rows=(), partitions=(PartitionRow("empty", False, 0, ()),))
    assert table(views.DEFAULT, views.group_nodes(page)) == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "empty        up   infinite      0    n/a ",
    ]


def test_the_long_table_tells_nodes_of_other_sizes_apart() -> None:
    page = page_of(node_row("n1"), node_row("n2", gpus=()))
    assert len(views.group_nodes(page)) == 1
    assert len(views.group_nodes(page, long=True)) == 2


def test_by_node_there_is_a_line_a_node() -> None:
    assert table(views.BY_NODE, views.single_nodes(page_of(node_row("n1"), node_row("n10")))) == [
        "NODELIST  NODES PARTITION STATE ",
        "n1            1 main*     idle  ",
        "n10           1 main*     idle  ",
    ]


def test_a_node_in_no_partition_is_not_hidden() -> None:
    page = page_of(node_row("n1"), node_row("n2", partitions=()))
    assert [group.rows[0].node.name for group in views.single_nodes(page)] == ["n1", "n2"]


def test_reasons_stand_together_where_they_are_one_act() -> None:
    at = Instant(1_800_000_000_000)
    why = {"drained": True, "drain_reason": "fan\nbroken", "drained_by": "root", "drained_at": at}
    page = page_of(node_row("n1", **why), node_row("n2", **why), node_row("n3"))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at / 1000))
    assert table(views.REASONS, views.reason_groups(page)) == [
        "REASON               USER      TIMESTAMP           NODELIST",
        rf"fan\nbroken          root      {stamp} n[1-2]",
    ]


def test_the_gpu_map_shows_what_is_held_by_index() -> None:
    page = page_of(node_row("n1", gpus_used=0b1000_0011, state=NodeState.MIXED), node_row("n2", gpus=()))
    assert table(views.GPU_LINES, views.nodes_once(page)) == [
        "NODELIST STATE MODEL       GPUS FREE MAP",
        "n1       mix   NVIDIA H100    8    5 ##.....#",
        "n2       idle  none           0    0 -",
    ]


def test_cpus_are_counted_as_used_idle_other_total() -> None:
    page = page_of(node_row("n1", cpus_used=6), node_row("n2", state=NodeState.DRAINED))
    (group,) = [views.NodeGroup(page.partitions[0], page.rows)]
    assert views.node_columns()["C"].value(group) == "6/90/96/192"


def test_the_json_of_a_node_is_stable() -> None:
    page = page_of(node_row("n1", gpus_used=1, jobs=(4,), switches=("leaf1", "spine")))
    told = json.loads(json_text(views.cluster_json(page)))
    gpus = told["nodes"][0].pop("gpus")
    assert gpus[0] == {"index": 0, "uuid": "GPU-0", "model": "NVIDIA H100", "memory_mib": 81559, "used": True}
    assert [gpu["used"] for gpu in gpus] == [True] + 7 * [False]
    assert told == {
        "nodes": [{
            "name": "n1", "state": "IDLE", "responding": True, "partitions": ["main"], "features": [],
            "switches": ["leaf1", "spine"], "address": "", "simulated": True, "cpus": 96, "cpus_used": 0,
            "memory_mib": 1_000_000, "memory_used_mib": 0, "jobs": [4], "drained": False, "drain_reason": "",
            "drained_by": "", "drained_at_ms": None,
        }],
        "partitions": [{"name": "main", "default": True, "max_time_s": None, "nodes": ["n1"]}],
        "missing": [],
        "unconfirmed": False,
    }  # fmt: skip


def test_names_fold_in_the_controllers_order() -> None:
    assert views.fold_names([node_row("n2"), node_row("n3"), node_row("a")]) == "n[2-3],a"
