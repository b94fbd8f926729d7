"""The life of a run: granted, prepared everywhere, started, ended, clean."""

from __future__ import annotations

import itertools
from typing import Final

from msgspec.structs import replace

from gsched.protocol.link import Blame, RunReport
from gsched.values.ids import Instant, NodeName, RunNo
from gsched.values.job import Job
from gsched.values.node import Node
from gsched.values.run import NodePhase, NodeRun, NodeShare, Run, WantedPhase
from gsched.values.states import JobState, Reason, RunOutcome
from gschedd.core.inputs import Start
from gschedd.lifecycle.table import Happening, next_state
from gschedd.lifecycle.wanted import told_to_start
from gschedd.services.steps import end_steps
from gschedd.state import AVOID_S, StateChange

_RANK: Final = {
    NodePhase.ORDERED: 0,
    NodePhase.READY: 1,
    NodePhase.OPEN: 2,
    NodePhase.EXITED: 3,
    NodePhase.LOST: 3,  # of a lost part only CLEAN counts
    NodePhase.CLEAN: 4,
}
_CLEAN_TIMEOUT_S: Final = 60  # after the grace; then the node is drained for not cleaning up
_BACK_OFF_MAX_S: Final = 60


# --- granted


def allocate(change: StateChange, job: Job, start: Start) -> None:
    """Make a run of what the plan granted. A run on one node is told prepare and start at once."""
    state = change.state
    shares = [_with_port(change, share) for share in start.shares]
    run = Run(
        job=job.id,
        no=RunNo(job.run + 1),
        parts=tuple(NodeRun(share) for share in shares),
        created=change.at,
        wanted=WantedPhase.START if len(shares) == 1 else WantedPhase.PREPARE,
        time_limit_s=job.request.time_limit_s,
        grace_s=state.settings.times.kill_grace_s,
    )
    change.new_run(run)
    change.put_job(
        replace(
            job,
            state=next_state(job.state, Happening.PLACED),
            reason=Reason.NONE,
            detail="",
            run=run.no,
            nodes=tuple(share.node for share in shares),
            started=None,
            ended=None,
        )
    )
    _set_deadline(change, run, state.settings.times.prepare_timeout_s)
    change.note("run.granted", job=job.id, text=f"run {run.no} on {','.join(s.node for s in shares)}")


def _with_port(change: StateChange, share: NodeShare) -> NodeShare:
    inventory = change.state.nodes[share.node].inventory
    use = change.state.use[share.node]
    first, last = inventory.port_first, inventory.port_last
    start = use.last_port + 1 if first <= use.last_port < last else first
    ports = itertools.chain(range(start, last + 1), range(first, start))
    use.last_port = next(port for port in ports if port not in use.ports)  # there is one: the commit counted them
    return replace(share, port=use.last_port)


def _set_deadline(change: StateChange, run: Run, seconds: int) -> None:
    change.state.run_deadlines[run.key] = change.now.boot + 1000 * seconds


# --- reports


def on_report(change: StateChange, node: NodeName, report: RunReport) -> None:
    """Fold one fact of an agent in. Counts for that run only, once, and only forward (reliability rule 6)."""
    state = change.state
    index = state.use[node].runs.get(report.key) if node in state.use else None
    if index is None:  # over here and closed, or never ours: nothing to change
        if report.phase is NodePhase.CLEAN:
            state.presence[node].foreign.discard(report.key)
            state.node_changed(node)
            change.ask_plan()
        return
    run = state.runs[report.key]
    part = run.parts[index]
    if _RANK[report.phase] <= _RANK[part.phase]:
        return
    run = _with_part(run, index, replace(part, phase=report.phase, boot_id=report.boot_id, report_seq=report.seq))
    if report.phase is NodePhase.READY:
        run = _on_ready(change, run)
    elif report.phase is NodePhase.OPEN:
        run = _on_open(change, run, index, _moment(change, run, report))
    elif report.phase is NodePhase.EXITED:
        run = _on_exited(change, run, report)
    else:
        run = _on_clean(change, run, index, report)
    if report.oom_kills:
        run = _ran_out_of_memory(change, run, run.parts[index].share, report.oom_kills)
    _settle(change, run)


def _with_part(run: Run, index: int, part: NodeRun) -> Run:
    return replace(run, parts=(*run.parts[:index], part, *run.parts[index + 1 :]))


def _settle(change: StateChange, run: Run) -> None:
    """Store the run; close it when nothing is left anywhere; finish its job when nothing more is to come."""
    if all(part.phase is NodePhase.CLEAN for part in run.parts):
        run = replace(run, closed=True)
        end_steps(change, run)
        change.ask_plan()
    change.put_run(run)
    if all(part.phase in (NodePhase.CLEAN, NodePhase.LOST) for part in run.parts):
        finish(change, run)


def _on_ready(change: StateChange, run: Run) -> Run:
    """One node is prepared. When all are, the job runs: first the other nodes are opened, then the script starts."""
    if run.outcome is not None or run.others_started or len(run.parts) == 1:
        return run
    if any(part.phase is NodePhase.ORDERED for part in run.parts):
        return run
    job = change.state.jobs[run.job]
    change.put_job(replace(job, state=next_state(job.state, Happening.ALL_READY), started=change.at))
    for part in run.parts[1:]:
        change.touch(part.share.node, run.key)
    _set_deadline(change, run, change.state.settings.times.prepare_timeout_s)
    return replace(run, others_started=True, started=change.at)


def _moment(change: StateChange, run: Run, report: RunReport) -> Instant:
    """When it was, as the node says: a report may come long after. Its clock is believed within reason only."""
    return Instant(max(run.started or run.created, min(report.at, change.at)))


def _on_open(change: StateChange, run: Run, index: int, at: Instant) -> Run:
    node = change.state.nodes[run.parts[index].share.node]
    if node.failed_jobs:
        change.put_node(replace(node, failed_jobs=()))
    if run.outcome is not None:
        return run
    if index > 0:
        if all(part.phase is NodePhase.OPEN for part in run.parts[1:]) and run.wanted is WantedPhase.PREPARE:
            change.touch(run.parts[0].share.node, run.key)
            return replace(run, wanted=WantedPhase.START)
        return run
    change.state.run_deadlines.pop(run.key, None)
    job = change.state.jobs[run.job]
    if job.state is JobState.CONFIGURING:
        change.put_job(replace(job, state=next_state(job.state, Happening.ALL_READY), started=at))
        return replace(run, started=at)
    return run


def _on_exited(change: StateChange, run: Run, report: RunReport) -> Run:
    """The script has ended: this decides the job's final state, unless it was decided before."""
    run = replace(
        run, exit_code=report.exit_code, exit_signal=report.exit_signal, elapsed_s=report.elapsed_s, text=report.text
    )
    if run.outcome is not None:
        return run
    state, reason = _verdict(report)
    if run.started is None:
        run = replace(run, started=Instant(report.at - 1000 * report.elapsed_s))
    outcome, at = RunOutcome(state.value), _moment(change, run, report)
    return end(change, run, outcome, Happening.EXITED, state, reason, report.text, at)


def _verdict(report: RunReport) -> tuple[JobState, Reason]:
    if report.timed_out:
        return JobState.TIMEOUT, Reason.TIME_LIMIT
    if report.exit_signal:
        return JobState.FAILED, Reason.RAISED_SIGNAL
    if report.exit_code:
        return JobState.FAILED, Reason.NON_ZERO_EXIT
    return JobState.COMPLETED, Reason.NONE


def _ran_out_of_memory(change: StateChange, run: Run, share: NodeShare, kills: int) -> Run:
    """The kernel killed processes of the run for its memory limit: what it ended with is not to be believed."""
    if run.outcome not in (RunOutcome.FAILED, RunOutcome.COMPLETED):
        return run
    job = change.state.jobs[run.job]
    text = f"{kills} process{'es' if kills > 1 else ''} killed on {share.node}: memory limit {share.mem_mib} MiB"
    if job.run == run.no and job.state is JobState.COMPLETING:
        change.put_job(replace(job, decided=JobState.OUT_OF_MEMORY, reason=Reason.OUT_OF_MEMORY, detail=text))
    return replace(run, outcome=RunOutcome.OUT_OF_MEMORY, text=text)


def _on_clean(change: StateChange, run: Run, index: int, report: RunReport) -> Run:
    """Nothing of the run is left on one node. If its end was not decided yet, this decides it."""
    node = run.parts[index].share.node
    if run.outcome is None:
        if report.blame is not None:
            return launch_failed(change, run, node, report.blame, report.reason, report.text)
        if report.node_failed:
            return lost(change, run, f"the run's supervisor on {node} died: {report.text}")
        if index > 0 and not report.timed_out:
            return lost(change, run, f"its part on {node} ended unasked")
        return _on_exited(change, run, report)
    if index == 0 and report.blame is None:
        run = replace(run, elapsed_s=report.elapsed_s)
        if report.exit_code or report.exit_signal:
            run = replace(run, exit_code=report.exit_code, exit_signal=report.exit_signal)
    return run


# --- ends


def end(
    change: StateChange,
    run: Run,
    outcome: RunOutcome,
    happening: Happening,
    decided: JobState,
    reason: Reason,
    detail: str = "",
    at: Instant | None = None,
) -> Run:
    """Decide the end of a run whose job ends with it, at `at` or now. What is left of it is stopped.

    Gives the run, not yet stored.
    """
    job = change.state.jobs[run.job]
    elapsed_s = run.elapsed_s or _seconds_since(change, run)
    change.put_job(
        replace(
            job,
            state=next_state(job.state, happening),
            decided=decided,
            reason=reason,
            detail=detail,
            started=job.started or run.started,
            ended=change.at if at is None else at,
            elapsed_s=elapsed_s,
            exit_code=run.exit_code,
            exit_signal=run.exit_signal,
        )
    )
    return _stop(change, run, outcome, at)


def _seconds_since(change: StateChange, run: Run) -> int:
    return change.state.elapsed_s(run.key, change.now.boot)


def _stop(change: StateChange, run: Run, outcome: RunOutcome, at: Instant | None = None) -> Run:
    change.touch_all(run)
    _set_deadline(change, run, run.grace_s + _CLEAN_TIMEOUT_S)
    return replace(run, outcome=outcome, ended=change.at if at is None else at)


def _back_to_queue(change: StateChange, run: Run, job: Job, outcome: RunOutcome) -> Run:
    """End a run whose job goes on waiting; the job keeps its age."""
    change.put_job(replace(job, nodes=(), started=None, ended=None))
    change.ask_plan()
    return replace(_stop(change, run, outcome), elapsed_s=run.elapsed_s or _seconds_since(change, run))


def lost(change: StateChange, run: Run, text: str) -> Run:
    """A node's part is gone or out of sight: the run is over, the job runs again only when that is certain."""
    job = change.state.jobs[run.job]
    change.note("run.lost", job=job.id, text=f"run {run.no}: {text}")
    run = replace(run, text=text)
    if not job.spec.requeue:
        return end(
            change,
            run,
            RunOutcome.NODE_FAIL,
            Happening.LOST_FOR_GOOD,
            JobState.NODE_FAIL,
            Reason.NODE_DOWN,
            text,
        )
    waiting = replace(
        job,
        state=next_state(job.state, Happening.LOST),
        reason=Reason.RUN_LOST,
        detail=text,
        restarts=job.restarts + 1,
    )
    return _back_to_queue(change, run, waiting, RunOutcome.NODE_FAIL)


def launch_failed(change: StateChange, run: Run, node: NodeName, blame: Blame, reason: str, text: str) -> Run:
    """A node could not launch: all is undone; whose fault it is says what follows (reliability rule 4)."""
    state = change.state
    job = state.jobs[run.job]
    change.note("run.launch_failed", job=job.id, node=node, text=f"run {run.no}: {blame}: {text}")
    run = replace(run, text=f"{node}: {text}")
    avoid = tuple(dict.fromkeys((*job.avoid, node))) if blame is Blame.NODE else job.avoid
    if blame is Blame.NODE:
        _blame_node(change, node, job, text)
    if blame is Blame.JOB or len(avoid) >= state.settings.limits.node_launch_failures:
        why = Reason(reason) if reason else Reason.LAUNCH_FAILURE
        run = replace(run, exit_code=run.exit_code or 1)
        return end(change, run, RunOutcome.FAILED, Happening.AT_FAULT, JobState.FAILED, why, run.text)
    failures = job.launch_failures + 1
    wait_s = min(_BACK_OFF_MAX_S, 2 ** min(failures - 1, 10))
    waiting = replace(
        job,
        state=next_state(job.state, Happening.LAUNCH_FAILED),
        reason=Reason.LAUNCH_FAILURE,
        detail=run.text,
        launch_failures=failures,
        avoid=avoid,
        avoid_until=Instant(change.at + 1000 * AVOID_S),
        not_before=Instant(change.at + 1000 * wait_s),
    )
    state.back_off(job.id, 1000 * wait_s, 1000 * AVOID_S, change.now.boot)
    return _back_to_queue(change, run, waiting, RunOutcome.LAUNCH_FAILED)


def _blame_node(change: StateChange, name: NodeName, job: Job, text: str) -> None:
    """Count a launch failure against the node; drain it when several jobs failed there with none launched between."""
    node = change.state.nodes[name]
    failed = tuple(dict.fromkeys((*node.failed_jobs, int(job.id))))
    node = replace(node, failed_jobs=failed)
    if len(failed) >= change.state.settings.limits.drain_after_launch_failures and not node.drained:
        node = drained(change, node, f"launches of {len(failed)} jobs failed here, the last: {text}")
    change.put_node(node)


def drained(change: StateChange, node: Node, reason: str) -> Node:
    """The node as drained by the controller itself; the caller stores it."""
    change.note("node.drained", node=node.name, text=reason)
    return replace(node, drained=True, drain_reason=reason, drained_by="gschedd", drained_at=change.at)


def finish(change: StateChange, run: Run) -> None:
    """Show the final state that was decided: nothing more of this run is to come."""
    job = change.state.jobs[run.job]
    if job.state is not JobState.COMPLETING or job.run != run.no:
        return
    final = next_state(job.state, Happening.CLEANED, job.decided)
    change.put_job(
        replace(
            job,
            state=final,
            elapsed_s=run.elapsed_s or job.elapsed_s,
            exit_code=run.exit_code,
            exit_signal=run.exit_signal,
        )
    )
    change.note("job.ended", job=job.id, text=f"{final.value} {run.exit_code}:{run.exit_signal}")


# --- deadlines


def on_deadline(change: StateChange, run: Run) -> None:
    """A run was not prepared, or not cleaned up, in time."""
    if run.outcome is None:
        late = next((p for p in run.parts if p.phase is NodePhase.ORDERED), None) or next(
            (p for p in (*run.parts[1:], run.parts[0]) if p.phase is NodePhase.READY), None
        )
        if late is None:
            return
        what = "not prepared" if late.phase is NodePhase.ORDERED else "not started"
        text = f"{what} within {change.state.settings.times.prepare_timeout_s} s"
        _settle(change, launch_failed(change, run, late.share.node, Blame.NODE, "", text))
        return
    for part in run.parts:
        name = part.share.node
        if part.phase in (NodePhase.CLEAN, NodePhase.LOST) or change.state.presence[name].session is None:
            continue  # a silent node is declared lost by its own clock
        node = change.state.nodes[name]
        if not node.drained:
            change.put_node(drained(change, node, f"run {run.key} could not be cleaned up"))
    if all(_given_up(change, part) for part in run.parts):
        finish(change, run)
    _set_deadline(change, run, _CLEAN_TIMEOUT_S)


def _given_up(change: StateChange, part: NodeRun) -> bool:
    connected = change.state.presence[part.share.node].session is not None
    return part.phase in (NodePhase.CLEAN, NodePhase.LOST) or connected


def barred(live: list[Run]) -> bool:
    """Whether a live run of a job forbids the next one: something of the user's may still run."""
    return any(told_to_start(run) for run in live)


def lose_part(change: StateChange, run: Run, index: int, text: str, phase: NodePhase) -> None:
    """One node's part is out of sight (LOST), or certainly over without a record (CLEAN)."""
    run = _with_part(run, index, replace(run.parts[index], phase=phase))
    if run.outcome is None:
        run = lost(change, run, text)
    _settle(change, run)
