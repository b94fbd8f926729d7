"""Cancel, signal, hold and release: one result a job, permission judged for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gsched.errors import BadRequest, Conflict, GschedError, NotFound, NotPermitted
from gsched.protocol.messages import CancelJobs, HoldJobs, JobResult, JobResults
from gsched.values.ids import JobId, RunKey
from gsched.values.job import Job
from gsched.values.states import JobState, Reason, RunOutcome
from gschedd.events import Call
from gschedd.lifecycle.table import Happening, next_state
from gschedd.services import runs
from gschedd.services.rights import is_admin
from gschedd.services.submit import hold
from gschedd.state import State, StateChange

_MOST_SIGNALS = 1000  # a run keeps what it was sent


def may_change(state: State, job: Job, uid: int) -> None:
    """Raises NotPermitted unless the job is the caller's or the caller an administrator."""
    if job.uid != uid and not is_admin(state, uid):
        raise NotPermitted(f"job {job.id} belongs to {job.user}: only its owner or an administrator may do this")


def _each(jobs: Sequence[JobId], act: Callable[[JobId], None]) -> JobResults:
    results = []
    for job in jobs:
        try:
            act(job)
            results.append(JobResult(job))
        except GschedError as error:
            results.append(JobResult(job, error.code, error.text))
    return JobResults(tuple(results))


def _find(state: State, job: JobId) -> Job:
    found = state.jobs.get(job)
    if found is None:
        raise NotFound(f"job {job}: not in the queue")
    return found


# --- cancel and signal


def cancel(change: StateChange, call: Call, request: CancelJobs) -> JobResults:
    """End each job, or send its run a signal."""
    state = change.state
    if not request.jobs and not request.user:
        raise BadRequest("which jobs: give ids, or a user")
    if not 0 <= request.signal <= 64:
        raise BadRequest(f"signal {request.signal}: from 1 to 64 are possible")
    ids = request.jobs or tuple(
        job.id for job in state.jobs.values() if job.user == request.user and not job.state.final
    )
    if request.user and not request.jobs:
        ids = tuple(job for job in ids if job_is_callers(state, job, call.uid))

    def act(job_id: JobId) -> None:
        job = _find(state, job_id)
        may_change(state, job, call.uid)
        if request.user and job.user != request.user:
            raise NotFound(f"job {job_id} is not {request.user}'s but {job.user}'s")
        if request.states and job.state not in request.states:
            if request.jobs:
                raise Conflict(f"job {job_id} is {job.state.value}")
            return
        if request.signal:
            _signal(change, job, -request.signal if request.batch_only else request.signal)
        else:
            cancel_job(change, job, call.uid)

    return _each(ids, act)


def job_is_callers(state: State, job: JobId, uid: int) -> bool:
    return is_admin(state, uid) or state.jobs[job].uid == uid


def cancel_job(change: StateChange, job: Job, uid: int) -> None:
    """A waiting job ends at once; a started one is stopped on all its nodes and ends when they are clean."""
    if job.state.final or job.state is JobState.COMPLETING:
        raise Conflict(f"job {job.id} has already ended ({(job.decided or job.state).value})")
    change.note("job.cancelled", job=job.id, uid=uid)
    change.ask_plan()
    job = replace(job, cancelled_by=uid)
    if job.state is JobState.PENDING:
        state = next_state(job.state, Happening.CANCELLED)
        change.put_job(replace(job, state=state, reason=Reason.NONE, detail="", ended=change.at, elapsed_s=0))
        return
    change.put_job(job)
    run = change.state.runs[RunKey(job.id, job.run)]
    run = runs.end(change, run, RunOutcome.CANCELLED, Happening.CANCELLED, JobState.CANCELLED, Reason.NONE)
    change.put_run(run)


def _signal(change: StateChange, job: Job, signal: int) -> None:
    if job.state is not JobState.RUNNING:
        raise Conflict(f"job {job.id} is {job.state.value}: signals go to RUNNING jobs")
    run = change.state.runs[RunKey(job.id, job.run)]
    if len(run.signals) >= _MOST_SIGNALS:
        raise Conflict(f"job {job.id} was sent {_MOST_SIGNALS} signals already")
    run = replace(run, signals=(*run.signals, signal))
    change.put_run(run)
    change.touch_all(run)


# --- hold


def hold_jobs(change: StateChange, call: Call, request: HoldJobs) -> JobResults:
    """Hold waiting jobs, or release them. A user cannot release what an administrator holds."""
    state = change.state

    def act(job_id: JobId) -> None:
        job = _find(state, job_id)
        may_change(state, job, call.uid)
        if job.state is not JobState.PENDING:
            raise Conflict(f"job {job_id} is {job.state.value}: only PENDING jobs are held and released")
        if request.release and job.reason is Reason.HELD_ADMIN and not is_admin(state, call.uid):
            raise NotPermitted(f"job {job_id} is held by an administrator")
        if job.spec.hold is not request.release:
            return  # already as asked
        by_admin = job.uid != call.uid
        reason = Reason.NONE if request.release else (Reason.HELD_ADMIN if by_admin else Reason.HELD_USER)
        change.put_job(
            replace(job, spec=hold(job.spec, not request.release), reason=reason, eligible=change.at, detail="")
        )
        change.note("job.released" if request.release else "job.held", job=job_id, uid=call.uid)
        change.ask_plan()

    return _each(request.jobs, act)
