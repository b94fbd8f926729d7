"""Questions to the controller that take computing: explain, priorities, expected starts. Nothing is kept of them."""

from __future__ import annotations

import pytest

from gsched.config.settings import ClusterSettings, SchedulerSettings, Settings
from gsched.errors import BadRequest, Conflict, Impossible, NotFound, NotPermitted
from gsched.protocol.messages import ExplainJob, ListPriorities, TryJob
from gsched.render.explanation import explanation_text, priority_lines, starts_lines, tried_line
from gsched.values.ids import JobId
from gsched.values.job import JobSpec
from tests.builders.controller import UID, Controller

H100 = "NVIDIA H100 80GB HBM3"


ONE_PLANNED = Settings(cluster=ClusterSettings(name="test"), scheduler=SchedulerSettings(planned_starts=1))


@pytest.fixture
def busy() -> Controller:
    """Two nodes of eight GPUs: job 1 has both for an hour, job 2 waits for both, job 3 behind it for one."""
    controller = Controller(nodes=2, settings=ONE_PLANNED)
    controller.submit(nodes_min=2, gpus_per_node=8, time_limit_s=3600)
    controller.plan()
    controller.started(1)
    controller.submit(nodes_min=2, gpus_per_node=8, time_limit_s=3600)
    controller.submit(nodes_min=1, gpus_per_node=8, time_limit_s=7200)
    controller.plan()
    return controller


def test_explain_says_who_holds_what_and_until_when(busy: Controller) -> None:
    found = busy.inquire(ExplainJob(JobId(2)))
    why = found.explanation
    assert (why.reason, why.nodes_fit, why.place, why.waiting) == ("Resources", 0, 1, 2)
    assert [(each.nodes, each.text) for each in why.excluded] == [(2, "too few free GPUs")]
    free = next(each for each in why.constraints if each.name == "free_gpus")
    assert [(h.what, h.nodes) for h in free.holders] == [("job 1", 2)]
    assert why.planned == free.earliest == busy.now.wall + 3_600_000
    text = explanation_text(found)
    assert text.startswith("Job 2 waits: Resources (")
    assert "2 nodes: 2 too few free GPUs; 0 could hold a part of it now, 2 are needed\n" in text
    assert "held by job 1: 2 nodes until " in text


def test_a_job_without_a_planned_start_gets_an_estimate(busy: Controller) -> None:
    why = busy.inquire(ExplainJob(JobId(3))).explanation
    assert why.planned is None
    assert why.estimate == busy.now.wall + 2 * 3_600_000
    assert "No planned start; expected at " in explanation_text(busy.inquire(ExplainJob(JobId(3))))


def test_a_held_job_is_explained_as_held(busy: Controller) -> None:
    job = busy.submit(hold=True)
    found = busy.inquire(ExplainJob(job))
    assert (found.explanation.reason, found.explanation.place, found.priority) == ("JobHeldUser", 0, None)
    assert "It is not among the jobs that may start" in explanation_text(found)


def test_only_what_waits_can_be_explained(busy: Controller) -> None:
    with pytest.raises(NotFound, match="job 99: not in the queue"):
        busy.inquire(ExplainJob(JobId(99)))
    with pytest.raises(Conflict, match="job 1 is RUNNING"):
        busy.inquire(ExplainJob(JobId(1)))


def test_priorities_come_in_the_queues_order_with_their_factors(busy: Controller) -> None:
    busy.wait(3600)
    first = busy.submit(nice=5)
    page = busy.inquire(ListPriorities())
    assert [row.job for row in page.rows] == [2, 3, first]
    assert [row.total for row in page.rows] == [row.weighted_age - row.nice for row in page.rows]
    assert (page.rows[0].age, page.rows[0].user) == (5, f"user{UID}")
    assert page.weights["age"] == 1000
    lines = list(priority_lines(page))
    assert lines[0].split()[:4] == ["JOBID", "PARTITION", "USER", "PRIORITY"]
    assert lines[-1].split()[0] == str(first)
    some = busy.inquire(ListPriorities((JobId(3), JobId(1))))
    assert ([row.job for row in some.rows], some.missing) == ([3], (1,))


def test_a_trial_says_when_and_where_and_keeps_nothing(busy: Controller) -> None:
    before = busy.machine.next_job_id
    tried = busy.inquire(TryJob(JobSpec(name="x", gpus_per_node=8, nodes_min=1, time_limit_s=60)))
    asked = tried.expected[0]
    assert (tried.job, busy.machine.next_job_id, len(busy.machine.state.jobs)) == (before, before, 3)
    # Job 2 is planned at the end of job 1, and this one comes after it.
    assert asked.start == busy.now.wall + 2 * 3_600_000
    assert asked.reason == "Resources"
    line = tried_line(tried, asked)
    assert line.startswith(f"Job {before} to start at ")
    assert line.endswith(f" using 1 processors on nodes {asked.nodes[0]} in partition main")


def test_a_trial_on_an_idle_cluster_starts_now() -> None:
    controller = Controller(nodes=2)
    tried = controller.inquire(TryJob(JobSpec(name="x", gpus_per_node=8, nodes_min=2)))
    assert (tried.expected[0].start, tried.expected[0].nodes) == (controller.now.wall, ("n1", "n2"))
    assert tried.expected[0].reason == ""


def test_without_an_end_before_it_no_start_is_foretold() -> None:
    controller = Controller(nodes=1)
    controller.submit(gpus_per_node=8)
    controller.plan()
    tried = controller.inquire(TryJob(JobSpec(name="x", gpus_per_node=8)))
    assert tried.expected[0].start is None
    assert "would wait in partition main, its start cannot be foretold: Resources" in tried_line(
        tried, tried.expected[0]
    )


def test_alternatives_are_other_sizes_and_times(busy: Controller) -> None:
    spec = JobSpec(name="x", gpus_per_node=8, nodes_min=2, time_limit_s=7200)
    tried = busy.inquire(TryJob(spec, alternatives=True))
    found = {each.what: each for each in tried.expected}
    assert tried.expected[0].what == "as asked"
    assert {"1 node", "4 nodes", "1:00:00 at most", "30:00 at most"} <= set(found)
    assert "asked: partition main has 2" in found["4 nodes"].impossible
    assert found["1 node"].node_count == 1
    table = list(starts_lines(tried))
    assert table[0].startswith("ASK ")
    assert any("impossible" in line for line in table)


def test_a_trial_is_refused_as_the_job_would_be(busy: Controller) -> None:
    with pytest.raises(Impossible, match="9 GPUs per node asked"):
        busy.inquire(TryJob(JobSpec(name="x", gpus_per_node=9)))
    with pytest.raises(BadRequest, match="2000000 nodes asked"):
        busy.inquire(TryJob(JobSpec(name="x", nodes_min=2_000_000)))
    with pytest.raises(NotPermitted, match="jobs of root"):
        busy.inquire(TryJob(JobSpec(name="x")), uid=0)
