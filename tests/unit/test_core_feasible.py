"""An impossible request is refused with one sentence of its own: which constraint, what was asked, what exists (S5)."""

from __future__ import annotations

import pytest

from gsched.values.job import Request
from gschedd.core.feasible import why_impossible
from gschedd.core.inputs import Availability, NodeInput
from tests.builders.cluster import Cluster, inventory, request


def _nodes() -> list[NodeInput]:
    c = Cluster(nodes=4)
    c.node("c1", inventory(gpus=0, cores=16, memory_mib=1000), partitions=["cpu"], features=["ib"])
    return list(c.nodes.values())


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (request(5, gpus=8), "5 nodes with 8 GPUs each asked: partition main has 4 nodes"),
        (request(1, gpus=9), "9 GPUs per node asked: the largest node of partition main has 8"),
        (
            request(1, gpus=1, model="b200"),
            "GPU model b200 asked: partition main has none (models there: NVIDIA H100 80GB HBM3)",
        ),
        (request(1, gpus=1, partition="cpu"), "1 GPU per node asked: partition cpu has no GPUs"),
        (request(1, partition="gone"), "partition gone has no nodes (partitions with nodes: cpu, main)"),
        (
            request(1, partition="cpu", constraint="nvme"),
            "constraint nvme matches no node of partition cpu (features there: ib)",
        ),
        (request(1, on=["n9"]), "nodelist names n9: no such node is known (known: n1, n2, n3, n4, c1)"),
        (request(1, exclude=["x"]), "exclude names x: no such node is known (known: n1, n2, n3, n4, c1)"),
        (request(1, on=["n1", "n2"]), "nodelist names 2 nodes, all to be used, but 1 at most asked"),
        (request(2, on=["n1"], exclude=["n1"]), "nodelist and exclude both name n1"),
        (request(1, on=["c1"]), "node c1 is not in partition main"),
        (request(1, partition="cpu", exclude=["c1"]), "exclude names every node of partition cpu (1 node)"),
        (request(1, cores=65), "65 cores per node asked: the largest node of partition main has 64"),
        (
            request(1, memory=600_000),
            "600000 MiB of memory per node asked: the largest node of partition main has 512000 MiB",
        ),
        (
            request(4, gpus=1, exclude=["n1"]),
            "4 nodes with 1 GPU each asked: partition main has 3 such nodes (of 4)",
        ),
    ],
)
def test_each_mistake_has_its_own_sentence(wanted: Request, sentence: str) -> None:
    assert why_impossible(wanted, _nodes()) == sentence


def test_a_request_that_fits_some_day_is_possible_whatever_the_state_of_the_nodes() -> None:
    c = Cluster(nodes=2)
    c.node("n3", state=Availability.DRAINED)
    c.node("n4", state=Availability.AWAY)
    assert why_impossible(request(4, gpus=8), list(c.nodes.values())) is None


def test_65_gpus_on_64_are_refused() -> None:
    """S8: it waited without an error."""
    nodes = list(Cluster(nodes=8).nodes.values())
    assert why_impossible(request(8, gpus=8), nodes) is None
    assert why_impossible(request(13, gpus=5), nodes) == "13 nodes with 5 GPUs each asked: partition main has 8 nodes"


def test_while_no_node_is_known_nothing_is_called_impossible() -> None:
    assert why_impossible(request(1, gpus=8), []) is None
