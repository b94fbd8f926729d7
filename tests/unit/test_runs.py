"""The life of a run as the machine sees it: two phases for a gang, whose fault a failure is, loss and return."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest, Conflict, NotFound, NotPermitted
from gsched.protocol.link import ActualRun, Blame
from gsched.protocol.messages import (
    CancelJobs,
    CreateStep,
    DrainNode,
    HoldJobs,
    JobResults,
    ListJobs,
    NodeDead,
    StepCreated,
)
from gsched.values.ids import JobId, NodeName, RunKey, RunNo
from gsched.values.run import NodePhase, WantedPhase
from gsched.values.states import JobState, Reason
from tests.builders.controller import Controller, inventory

S = JobState


def _granted(nodes: int = 2, **spec: object) -> Controller:
    c = Controller()
    c.submit(nodes_min=nodes, gpus_per_node=8, **spec)
    c.plan()
    return c


# --- gangs in two phases


def test_a_gang_starts_nowhere_before_all_its_nodes_are_ready() -> None:
    c = _granted(2)
    assert c.job(1).state is S.CONFIGURING
    assert [c.wanted(n, 1) for n in ("n1", "n2")] == [WantedPhase.PREPARE, WantedPhase.PREPARE]
    c.report("n1", 1, NodePhase.READY)
    assert [c.wanted(n, 1) for n in ("n1", "n2")] == [WantedPhase.PREPARE, WantedPhase.PREPARE]
    c.report("n2", 1, NodePhase.READY)
    assert c.job(1).state is S.RUNNING
    assert [c.wanted(n, 1) for n in ("n1", "n2")] == [WantedPhase.PREPARE, WantedPhase.START]


def test_the_script_starts_when_the_other_nodes_are_open_for_steps() -> None:
    c = _granted(2)
    c.report("n1", 1, NodePhase.READY)
    c.report("n2", 1, NodePhase.READY)
    c.report("n2", 1, NodePhase.OPEN)
    assert c.wanted("n1", 1) is WantedPhase.START


def test_a_run_on_one_node_is_told_both_at_once() -> None:
    c = _granted(1)
    assert c.wanted("n1", 1) is WantedPhase.START
    c.report("n1", 1, NodePhase.OPEN)
    assert c.job(1).state is S.RUNNING


def test_one_failing_node_undoes_all_and_the_job_waits_avoiding_that_node() -> None:
    c = _granted(2)
    c.report("n1", 1, NodePhase.READY)
    c.fail_launch("n2", 1, Blame.NODE, "no space")
    assert c.job(1).state is S.PENDING
    assert c.job(1).avoid == ("n2",)
    assert c.wanted("n1", 1) is WantedPhase.STOP
    c.report("n1", 1, NodePhase.CLEAN)
    assert not c.machine.state.use[NodeName("n1")].runs
    c.wait(2)
    c.plan()
    assert (c.job(1).run, c.job(1).nodes) == (2, ("n1", "n3"))


def test_a_launch_that_failed_through_the_job_ends_it_and_blames_no_node() -> None:
    c = _granted(2)
    c.report("n2", 1, NodePhase.CLEAN, blame=Blame.JOB, reason="OutputFile", text="/x: Permission denied")
    c.report("n1", 1, NodePhase.CLEAN)
    assert (c.job(1).state, c.job(1).reason) == (S.FAILED, Reason.OUTPUT_FILE)
    assert "Permission denied" in c.job(1).detail
    assert c.machine.state.nodes[NodeName("n2")].failed_jobs == ()


def test_a_shared_failure_backs_off_and_blames_nobody() -> None:
    c = _granted(1)
    c.fail_launch("n1", 1, Blame.SHARED)
    assert (c.job(1).state, c.job(1).avoid) == (S.PENDING, ())
    c.plan()
    assert c.job(1).run == 1  # it waits
    c.wait(2)
    c.plan()
    assert c.job(1).run == 2


def test_the_same_fault_on_three_nodes_is_the_jobs() -> None:
    c = Controller(nodes=4)
    c.submit(gpus_per_node=8)
    for _ in range(3):
        c.wait(70)
        c.plan()
        c.fail_launch(c.run(1).parts[0].share.node, 1, Blame.NODE)
    assert (c.job(1).state, c.job(1).reason) == (S.FAILED, Reason.LAUNCH_FAILURE)


def test_a_node_where_three_jobs_failed_to_launch_is_drained_with_the_reason() -> None:
    c = Controller(nodes=1)
    for job in (1, 2, 3):
        c.submit()
        c.plan()
        c.fail_launch("n1", job, Blame.NODE, "no space left")
    node = c.machine.state.nodes[NodeName("n1")]
    assert node.drained
    assert "no space left" in node.drain_reason


def test_a_good_launch_clears_a_nodes_name() -> None:
    c = Controller(nodes=1)
    for job in (1, 2):
        c.submit()
        c.plan()
        c.fail_launch("n1", job, Blame.NODE)
    c.submit()
    c.plan()
    c.started(3)
    assert c.machine.state.nodes[NodeName("n1")].failed_jobs == ()


def test_a_node_that_does_not_prepare_in_time_has_failed_the_launch() -> None:
    c = _granted(2)
    c.report("n1", 1, NodePhase.READY)
    c.wait(c.settings.times.prepare_timeout_s + 1)
    assert (c.job(1).state, c.job(1).avoid) == (S.PENDING, ("n2",))


# --- ends


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        ({}, S.COMPLETED, Reason.NONE),
        ({"exit_code": 3}, S.FAILED, Reason.NON_ZERO_EXIT),
        ({"exit_signal": 9}, S.FAILED, Reason.RAISED_SIGNAL),
        ({"exit_signal": 15, "timed_out": True}, S.TIMEOUT, Reason.TIME_LIMIT),
        ({"exit_signal": 9, "oom_kills": 1}, S.OUT_OF_MEMORY, Reason.OUT_OF_MEMORY),
        ({"oom_kills": 2}, S.OUT_OF_MEMORY, Reason.OUT_OF_MEMORY),  # a child was killed and the script went on
        ({"exit_signal": 15, "timed_out": True, "oom_kills": 1}, S.TIMEOUT, Reason.TIME_LIMIT),
    ],
)
def test_the_scripts_end_decides_and_is_shown_when_all_is_clean(
    facts: dict[str, object], state: JobState, reason: Reason
) -> None:
    c = _granted(2)
    c.started(1)
    c.report("n1", 1, NodePhase.EXITED, elapsed_s=7, **facts)
    assert c.job(1).state is S.COMPLETING
    assert c.wanted("n2", 1) is WantedPhase.STOP
    c.report("n1", 1, NodePhase.CLEAN, elapsed_s=7, **facts)
    assert c.job(1).state is S.COMPLETING
    c.report("n2", 1, NodePhase.CLEAN)
    assert (c.job(1).state, c.job(1).reason, c.job(1).elapsed_s) == (state, reason, 7)
    assert c.machine.state.runs == {}


def test_a_rank_killed_for_memory_on_another_node_makes_the_job_out_of_memory() -> None:
    c = _granted(2)
    c.started(1)
    c.report("n1", 1, NodePhase.EXITED, exit_code=1)
    c.report("n2", 1, NodePhase.CLEAN, oom_kills=3)
    c.report("n1", 1, NodePhase.CLEAN, exit_code=1)
    job = c.job(1)
    assert (job.state, job.exit_code) == (S.OUT_OF_MEMORY, 1)
    assert job.detail.startswith("3 processes killed on n2: memory limit ")


def test_fault_14_an_end_that_is_reported_late_has_the_time_at_which_it_was() -> None:
    c = _granted(1)
    began = c.now.wall
    c.wait(50)
    c.report("n1", 1, NodePhase.OPEN, at=began + 1000)
    c.report("n1", 1, NodePhase.EXITED, at=began + 31_000, elapsed_s=30)
    c.report("n1", 1, NodePhase.CLEAN, at=began + 31_000, elapsed_s=30)
    job = c.job(1)
    assert (job.started, job.ended, job.elapsed_s) == (began + 1000, began + 31_000, 30)


def test_a_node_whose_clock_is_wrong_puts_no_end_before_the_start_or_after_now() -> None:
    c = _granted(1)
    c.wait(5)
    c.report("n1", 1, NodePhase.OPEN, at=c.now.wall - 10**8)
    assert c.job(1).started == c.run(1).created
    c.report("n1", 1, NodePhase.EXITED, at=c.now.wall + 10**8)
    assert c.job(1).ended == c.now.wall


def test_each_nodes_gpus_are_free_from_its_own_confirmation() -> None:
    c = _granted(2)
    c.started(1)
    c.report("n1", 1, NodePhase.EXITED)
    c.report("n2", 1, NodePhase.CLEAN)
    use = c.machine.state.use
    assert (use[NodeName("n1")].gpus, use[NodeName("n2")].gpus) == (255, 0)


def test_a_report_counts_once_and_only_forward() -> None:
    c = _granted(1)
    c.started(1)
    c.report("n1", 1, NodePhase.EXITED, exit_code=3)
    c.report("n1", 1, NodePhase.OPEN)
    c.report("n1", 1, NodePhase.EXITED, exit_code=0)
    c.report("n1", 1, NodePhase.CLEAN, exit_code=3)
    assert c.job(1).exit_code == 3


def test_fault_12_a_report_of_an_earlier_run_ends_nothing() -> None:
    c = _granted(1)
    c.fail_launch("n1", 1, Blame.SHARED)
    c.wait(2)
    c.plan()
    c.started(1)
    c.report("n1", 1, NodePhase.EXITED, run=1, exit_signal=9)
    c.report("n1", 1, NodePhase.CLEAN, run=1, exit_signal=9)
    assert (c.job(1).state, c.job(1).run) == (S.RUNNING, 2)


def test_a_run_that_is_not_cleaned_up_drains_its_node_and_the_job_ends() -> None:
    c = _granted(1)
    c.started(1)
    c.report("n1", 1, NodePhase.EXITED)
    c.wait(c.settings.times.kill_grace_s + 61)
    assert c.job(1).state is S.COMPLETED
    assert c.machine.state.nodes[NodeName("n1")].drained
    assert c.machine.state.use[NodeName("n1")].gpus == 255  # and its GPUs are not offered


# --- cancel, signal, hold


def _cancel(c: Controller, job: int, uid: int = 1000, **more: object) -> str:
    reply = c.ask(CancelJobs(f"c{job}{c.now.boot}{more}{uid}", (JobId(job),), **more), uid)
    assert isinstance(reply, JobResults)
    return reply.results[0].code


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_when_it_is_clean() -> None:
    c = _granted(1)
    c.submit(hold=True)
    assert _cancel(c, 2) == ""
    assert c.job(2).state is S.CANCELLED
    c.started(1)
    assert _cancel(c, 1) == ""
    assert (c.job(1).state, c.wanted("n1", 1)) == (S.COMPLETING, WantedPhase.STOP)
    c.report("n1", 1, NodePhase.CLEAN, exit_signal=15)
    assert (c.job(1).state, c.job(1).exit_signal, c.job(1).cancelled_by) == (S.CANCELLED, 15, 1000)


def test_nobody_cancels_anothers_job_but_an_administrator() -> None:
    c = _granted(1)
    assert _cancel(c, 1, uid=1001) == NotPermitted.code
    assert _cancel(c, 99) == NotFound.code
    assert _cancel(c, 1, uid=0) == ""
    c.now = c.now._replace(boot=c.now.boot + 1)
    assert _cancel(c, 1) == Conflict.code  # it has ended already


def test_a_signal_goes_to_every_node_once_it_runs() -> None:
    c = _granted(2)
    assert _cancel(c, 1, signal=10) == Conflict.code
    c.started(1)
    assert _cancel(c, 1, signal=12) == ""
    assert [c.told[n][-1].signals for n in ("n1", "n2")] == [(12,), (12,)]
    assert _cancel(c, 1, signal=10, batch_only=True) == ""
    assert c.told["n1"][-1].signals == (12, -10)


def test_a_held_job_is_not_started_until_released() -> None:
    c = Controller()
    c.submit(hold=True)
    c.plan()
    assert c.job(1).state is S.PENDING
    c.ask(HoldJobs("r", (JobId(1),), release=True))
    c.plan()
    assert c.job(1).state is S.CONFIGURING


def test_a_listing_tells_a_whole_nodes_memory_from_a_share_of_it() -> None:
    c = Controller()
    asked = [c.submit(hold=True, **spec) for spec in ({}, {"mem_mib": 0}, {"mem_mib": 2048})]
    page = c.ask(ListJobs(tuple(asked)))
    assert [row.mem_mib for row in page.rows] == [-1, 0, 2048]


# --- silence, loss, return


def _row(c: Controller, job: int) -> tuple[str, str]:
    page = c.ask(ListJobs((JobId(job),)))
    return page.rows[0].state.value, page.rows[0].reason


def test_a_blip_leaves_no_trace() -> None:
    c = _granted(1)
    c.started(1)
    c.leave("n1")
    c.wait(100)
    c.arrive("n1", inventory(), runs=[ActualRun(RunKey(JobId(1), RunNo(1)), NodePhase.OPEN)])
    assert (c.job(1).state, c.job(1).restarts) == (S.RUNNING, 0)


def test_a_lost_run_is_repeated_only_when_its_end_is_certain() -> None:
    c = _granted(2)
    c.started(1)
    c.leave("n2")
    c.wait(c.settings.times.lost_after_s + 5)
    assert _row(c, 1) == ("PENDING", "RunLost")
    c.report("n1", 1, NodePhase.CLEAN)
    c.plan()
    assert c.job(1).run == 1  # three nodes are free, and it must not start
    c.arrive("n2", inventory(), runs=[ActualRun(RunKey(JobId(1), RunNo(1)), NodePhase.OPEN)])
    assert c.wanted("n2", 1) is WantedPhase.STOP
    c.plan()
    assert c.job(1).run == 1
    c.report("n2", 1, NodePhase.CLEAN, run=1)
    c.plan()
    assert (c.job(1).run, c.job(1).restarts) == (2, 1)


def test_another_boot_is_proof_that_a_run_is_over() -> None:
    c = _granted(1)
    c.started(1)
    c.leave("n1")
    c.arrive("n1", inventory(), boot="boot2")
    c.plan()
    assert (c.job(1).state, c.job(1).run, c.job(1).restarts) == (S.CONFIGURING, 2, 1)


def test_an_administrator_may_say_that_a_node_is_dead() -> None:
    c = _granted(1)
    c.started(1)
    c.leave("n1")
    with pytest.raises(NotPermitted):
        c.ask(NodeDead("r1", NodeName("n1")))
    c.ask(NodeDead("r2", NodeName("n1")), uid=0)
    c.plan()
    assert (c.job(1).run, c.job(1).nodes) == (2, ("n2",))


def test_a_job_that_may_not_be_requeued_ends_node_fail() -> None:
    c = _granted(1, requeue=False)
    c.started(1)
    c.leave("n1")
    c.wait(c.settings.times.lost_after_s + 5)
    assert c.job(1).state is S.NODE_FAIL


def test_a_run_that_the_controller_does_not_know_keeps_its_node_from_new_work_until_it_is_gone() -> None:
    c = _granted(1)
    c.started(1)
    c.ended(1)
    c.leave("n1")
    c.arrive("n1", inventory(), runs=[ActualRun(RunKey(JobId(1), RunNo(1)), NodePhase.OPEN)])
    c.submit(nodelist=("n1",))
    c.plan()
    assert c.job(2).state is S.PENDING
    c.report("n1", 1, NodePhase.CLEAN, run=1)
    c.plan()
    assert c.job(2).state is S.CONFIGURING


def test_a_run_above_the_counter_proves_that_the_store_went_back_in_time() -> None:
    c = Controller()
    outcome = c.arrive("n1", inventory(), runs=[ActualRun(RunKey(JobId(7), RunNo(1)), NodePhase.OPEN)])
    assert "went back in time" in outcome.fatal


def test_a_second_machine_under_a_nodes_name_is_refused() -> None:
    c = Controller()
    outcome = c.arrive("n1", inventory(), machine="other")
    assert outcome.closes
    assert "another machine" in outcome.closes[0].why


def test_what_the_loop_was_late_by_is_nobodys_silence() -> None:
    c = _granted(1)
    c.started(1)
    c.leave("n1")
    c.now = c.now._replace(boot=c.now.boot + 3_600_000)
    c.wait(1)
    assert c.job(1).state is S.RUNNING


# --- steps and nodes


def test_a_step_is_its_owners_in_a_running_job() -> None:
    c = _granted(2)
    with pytest.raises(Conflict, match="CONFIGURING"):
        c.ask(CreateStep(JobId(1), "s", 2, request_id="r1"))
    c.started(1)
    with pytest.raises(NotPermitted):
        c.ask(CreateStep(JobId(1), "s", 2, request_id="r2"), uid=1001)
    with pytest.raises(BadRequest, match="3 nodes"):
        c.ask(CreateStep(JobId(1), "s", 3, 3, request_id="r3"))
    reply = c.ask(CreateStep(JobId(1), "s", 4, request_id="r4"))
    assert isinstance(reply, StepCreated)
    assert (reply.step, [n.node for n in reply.nodes]) == (0, ["n1", "n2"])


def test_a_drained_node_gets_nothing_new_and_keeps_what_it_runs() -> None:
    c = _granted(1)
    c.started(1)
    with pytest.raises(BadRequest, match="reason"):
        c.ask(DrainNode("r1", (NodeName("n1"),)), uid=0)
    c.ask(DrainNode("r2", (NodeName("n1"),), "fan"), uid=0)
    c.submit(nodelist=("n1",))
    c.plan()
    assert (c.job(1).state, c.job(2).state) == (S.RUNNING, S.PENDING)
    c.ended(1)
    c.ask(DrainNode("r3", (NodeName("n1"),), undrain=True), uid=0)
    c.plan()
    assert c.job(2).state is S.CONFIGURING
