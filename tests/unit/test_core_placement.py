"""Which nodes and GPUs a job gets when it has the choice."""

from __future__ import annotations

from tests.builders.cluster import Cluster, inventory, request

PAIRS = "X NV18 SYS SYS/NV18 X SYS SYS/SYS SYS X NV18/SYS SYS NV18 X"


def test_a_gang_stays_under_the_lowest_switch_that_holds_it() -> None:
    c = Cluster(nodes=8, leaf=4)
    c.running("n1", gpus=8)
    c.pending("gang", request(4, gpus=8))
    assert c.plan().started == {"gang": ["n5", "n6", "n7", "n8"]}


def test_of_switches_that_hold_it_a_gang_takes_the_fullest() -> None:
    c = Cluster(nodes=8, leaf=4)
    c.running("n5", gpus=8)
    c.pending("gang", request(2, gpus=8))
    assert c.plan().started == {"gang": ["n6", "n7"]}


def test_a_gang_too_large_for_a_leaf_crosses_as_few_leaves_as_possible_within_one_pod() -> None:
    c = Cluster(nodes=12, leaf=2, pod=3)
    c.running("n1", gpus=8)
    c.running("n8", gpus=8)
    c.pending("gang", request(4, gpus=8))
    c.pending("three", request(3, gpus=8))
    outcome = c.plan()
    assert outcome.started == {"gang": ["n3", "n4", "n5", "n6"], "three": ["n7", "n9", "n10"]}


def test_a_job_of_one_gpu_takes_the_node_with_least_to_spare() -> None:
    c = Cluster(nodes=3)
    c.running("n2", gpus=5)
    c.running("n3", gpus=7)
    c.pending("one", request(1, gpus=1))
    c.pending("two", request(1, gpus=1))
    assert c.plan().started == {"one": ["n3"], "two": ["n2"]}


def test_a_job_without_gpus_keeps_off_nodes_with_idle_gpus() -> None:
    c = Cluster(nodes=1)
    c.node("n2", inventory(gpus=0))
    c.pending("cpu", request(1, cores=4))
    assert c.plan().started == {"cpu": ["n2"]}


def test_inside_a_node_the_best_linked_gpus_are_taken() -> None:
    c = Cluster(nodes=0)
    c.node("n1", inventory(gpus=4, links=PAIRS))
    c.running("n1", gpus=1)
    c.pending("pair", request(1, gpus=2))
    assert c.plan().gpus == {"pair": [0b1100]}


def test_a_single_gpu_leaves_the_best_pair_behind() -> None:
    c = Cluster(nodes=0)
    c.node("n1", inventory(gpus=4, links=PAIRS))
    c.running("n1", gpus=1)
    c.pending("one", request(1, gpus=1))
    assert c.plan().gpus == {"one": [0b0010]}


def test_a_job_of_several_gpus_prefers_the_node_where_they_are_best_linked() -> None:
    c = Cluster(nodes=0)
    c.node("n1", inventory(gpus=4))
    c.node("n2", inventory(gpus=4, links=PAIRS))
    c.pending("pair", request(1, gpus=2))
    assert c.plan().started == {"pair": ["n2"]}


def test_a_job_on_one_whole_node_leaves_the_largest_free_switch_whole() -> None:
    c = Cluster(nodes=8, leaf=4)
    c.running("n5", gpus=8)
    c.pending("node", request(1, gpus=8))
    assert c.plan().started == {"node": ["n6"]}


def test_named_nodes_are_all_in_and_the_rest_comes_from_near_them() -> None:
    c = Cluster(nodes=8, leaf=4)
    c.pending("gang", request(3, gpus=8, on=["n6"]))
    assert c.plan().started == {"gang": ["n5", "n6", "n7"]}


def test_shares_come_in_topology_order_and_numbers_in_names_count_as_numbers() -> None:
    c = Cluster(nodes=12)
    c.pending("gang", request(12, gpus=8))
    assert c.plan().started == {"gang": [f"n{i}" for i in range(1, 13)]}


def test_nodes_with_more_gpus_than_link_tables_cover_give_their_lowest() -> None:
    c = Cluster(nodes=0)
    c.node("n1", inventory(gpus=20))
    c.running("n1", gpus=3)
    c.pending("four", request(1, gpus=4))
    assert c.plan().gpus == {"four": [0b1111000]}
