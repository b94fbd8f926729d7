"""What a submission means in the cluster's terms, and what is refused at once with nothing kept."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.config.settings import ClusterSettings, PartitionSettings, Settings
from gsched.errors import BadRequest, GschedError, Impossible, NotFound, NotPermitted
from gsched.protocol.messages import SubmitJob, Submitted
from gsched.values.job import JobPayload, JobSpec, MemoryRule
from tests.builders.controller import Controller


def _request(c: Controller, **spec: Any) -> Any:
    return c.job(c.submit(**spec)).request


def test_without_anything_a_job_takes_one_core_on_one_node_for_ever() -> None:
    request = _request(Controller())
    assert (request.nodes_min, request.ntasks, request.need.cpus, request.need.gpus) == (1, 1, 1, 0)
    assert request.need.mem_rule is MemoryRule.SHARE
    assert request.time_limit_s == 0


def test_fault_s6_gpus_without_a_node_count_take_the_fewest_nodes() -> None:
    request = _request(Controller(nodes=4, gpus=8), gpus=8, ntasks=8)
    assert (request.nodes_min, request.need.gpus, request.tasks_per_node) == (1, 8, 8)
    assert request.spread_note == ""


def test_fault_s6_a_spread_that_nothing_better_can_replace_is_said() -> None:
    c = Controller(nodes=4, gpus=4)
    reply = c.ask(SubmitJob(JobSpec(name="j", gpus=8), JobPayload(b"#!/bin/sh\n"), "r"))
    assert isinstance(reply, Submitted)
    assert "2 nodes with 4 each" in reply.note


@pytest.mark.parametrize(
    ("spec", "nodes", "tasks", "per_node"),
    [
        ({"nodes_min": 2, "ntasks": 3}, 2, 3, 2),
        ({"nodes_min": 2, "ntasks_per_node": 4}, 2, 8, 4),
        ({"ntasks": 8, "ntasks_per_node": 2}, 4, 8, 2),
        ({"ntasks": 64}, 1, 64, 64),
        ({"ntasks": 65}, 2, 65, 33),
        ({"gpus": 16, "gpus_per_node": 8}, 2, 2, 1),
        ({"nodelist": ("n1", "n3")}, 2, 2, 1),
    ],
)
def test_tasks_and_nodes_follow_from_each_other(spec: dict[str, Any], nodes: int, tasks: int, per_node: int) -> None:
    request = _request(Controller(), **spec)
    assert (request.nodes_min, request.ntasks, request.tasks_per_node) == (nodes, tasks, per_node)


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ({"nodes_min": 5, "gpus_per_node": 8}, Impossible, "4"),
        ({"gpus": 40}, Impossible, "40 GPUs asked"),
        ({"gpus_per_node": 9}, Impossible, "8"),
        ({"gpu_model": "A100", "gpus": 1}, Impossible, "A100"),
        ({"cpus_per_task": 65}, Impossible, "65"),
        ({"mem_mib": 600_000}, Impossible, "600000"),
        ({"nodelist": ("n9",)}, Impossible, "n9"),
        ({"partition": "big"}, NotFound, "big"),
        ({"ntasks": 2, "nodes_min": 4}, BadRequest, "2 tasks"),
        ({"gpus": 7, "nodes_min": 2}, BadRequest, "7 GPUs"),
        ({"gpus": 8, "gpus_per_node": 3}, BadRequest, "multiple"),
        ({"gpus": 11}, BadRequest, "8 or 16"),
        ({"nodes_min": 0}, BadRequest, "0 nodes"),
        ({"time_limit_s": -5}, BadRequest, "-5"),
        ({"gpus": -1}, BadRequest, "-1"),
        ({"nodes_min": 3, "nodes_max": 2}, BadRequest, "3-2"),
    ],
)
def test_fault_s5_each_mistake_says_its_own_constraint_and_leaves_nothing(
    spec: dict[str, Any], error: type[GschedError], says: str
) -> None:
    c = Controller()
    with pytest.raises(error, match=says):
        c.submit(**spec)
    assert c.machine.state.jobs == {}
    assert c.submit() == 1  # no id was used up


def test_fault_17_longer_than_the_partition_allows_is_refused_with_the_limit() -> None:
    short = PartitionSettings(name="short", default=True, max_time_s=1800, default_time_s=600)
    c = Controller(settings=Settings(partitions=(short,)))
    assert _request(c).time_limit_s == 600
    assert _request(c, time_limit_s=1800).time_limit_s == 1800
    for asked in (1801, 0):
        with pytest.raises(BadRequest, match="1800"):
            c.submit(time_limit_s=asked)


def test_before_the_first_node_is_known_every_request_is_taken() -> None:
    c = Controller(nodes=0)
    assert c.submit(nodes_min=100, gpus_per_node=8) == 1


def test_a_request_sent_again_gets_the_first_answer() -> None:
    c = Controller()
    request = SubmitJob(JobSpec(name="j"), JobPayload(b"#!/bin/sh\n"), "same")
    assert c.ask(request) == c.ask(request) == Submitted(c.job(1).id)
    assert len(c.machine.state.jobs) == 1
    other = c.ask(request, uid=1001)  # another user's id is another request
    assert other == Submitted(c.job(2).id)


def test_a_local_cluster_runs_its_owners_jobs_only() -> None:
    c = Controller(settings=Settings(cluster=ClusterSettings(owner_uid=1000)))
    c.submit()
    with pytest.raises(NotPermitted, match="user1001"):
        c.submit(uid=1001)


def test_jobs_of_root_are_refused_unless_allowed() -> None:
    with pytest.raises(NotPermitted, match="root"):
        Controller().submit(uid=0)
    assert Controller(settings=Settings(cluster=ClusterSettings(allow_root=True))).submit(uid=0) == 1


def test_an_agent_is_believed_only_about_users_with_a_run_on_its_node() -> None:
    c = Controller()
    with pytest.raises(NotPermitted, match="no job on n1"):
        c.ask(SubmitJob(JobSpec(name="j"), JobPayload(b"#!/bin/sh\n"), "r1"), node="n1")
    c.submit()
    c.plan()
    reply = c.ask(SubmitJob(JobSpec(name="j"), JobPayload(b"#!/bin/sh\n"), "r2"), node=c.job(1).nodes[0])
    assert reply == Submitted(c.job(2).id)


def test_segments_divide_the_nodes() -> None:
    controller = Controller()
    assert controller.job(controller.submit(nodes_min=4, segment=2)).request.segment == 2
    with pytest.raises(BadRequest, match="3 nodes cannot be cut into segments of 2"):
        controller.submit(nodes_min=3, segment=2)


def test_only_an_administrator_raises_a_priority() -> None:
    controller = Controller()
    with pytest.raises(NotPermitted, match="--nice -5 raises the priority"):
        controller.submit(nice=-5)
    assert controller.machine.pass_input(controller.now).queue == ()
    job = controller.submit(nice=7)
    assert [each.factors.nice for each in controller.machine.pass_input(controller.now).queue if each.job == job] == [7]
