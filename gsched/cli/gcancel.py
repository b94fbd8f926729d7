"""gcancel: end jobs, or send them a signal. Unlike scancel it never passes over an id in silence."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gsched.cli._common import command, fail, note, run, say
from gsched.cli._selection import job_states, my_name, user_names
from gsched.client.blocking import connect, new_request_id
from gsched.errors import Conflict, from_code
from gsched.protocol.messages import CancelJobs, JobResult
from gsched.spec.jobids import parse_job_ids
from gsched.spec.signals import parse_signal, signal_name


@command("gcancel")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("-u", "--user", metavar="USER", help="All jobs of this user, or only those of the ids given.")
@click.option("--me", is_flag=True, help="The same for my own jobs.")
@click.option("-t", "--state", "states", metavar="LIST", help='Only jobs in these states, e.g. "PENDING" or "R,CG".')
@click.option("-s", "--signal", "signal", metavar="SIGNAL", help="Send this instead of ending the job, e.g. USR1.")
@click.option("-b", "--batch", is_flag=True, help="With -s: to the script's own process only.")
@click.option("-v", "--verbose", is_flag=True, help="Also say what was done.")
def gcancel(
    jobs: tuple[str, ...],
    user: str | None,
    me: bool,
    states: str | None,
    signal: str | None,
    batch: bool,
    verbose: bool,
) -> int:
    """Cancel jobs by id, or all jobs of a user.

    Exit status: 0 if nothing is left to end; else that of the gravest result (5 no such job, 6 not permitted). A job
    that had already ended is said and counts as done, but with --signal it is an error: nobody got the signal.
    """
    if batch and signal is None:
        fail("--batch is for --signal: cancelling a job always ends all of it", status=2)
    if not jobs and user is None and not me and states is None:
        fail("say which jobs: ids, -u USER or --me", status=2)
    request = CancelJobs(
        request_id=new_request_id(),
        jobs=parse_job_ids(jobs) if jobs else (),
        user=_user(user, me or not jobs),
        states=job_states(states)[0] if states is not None else (),
        signal=parse_signal(signal) if signal is not None else 0,
        batch_only=batch,
    )
    with connect() as client:
        results = client.call(request).results
    if not results and not jobs:
        note(f"user {request.user} has no such jobs")
    return max([_told(result, request, verbose) for result in results], default=0)


def _user(user: str | None, own: bool) -> str:
    if user is None:
        return my_name() if own else ""
    names = user_names(user)
    if len(names) != 1:
        fail(f"one user at a time: {user!r} names {len(names)}", status=2)
    return names[0]


def _told(result: JobResult, request: CancelJobs, verbose: bool) -> int:
    """Say one job's result, where there is something to say; give its exit status."""
    if not result.code:
        if verbose:
            done = f"{signal_name(request.signal)} sent" if request.signal else "cancelled"
            say("gcancel", f"job {result.job}: {result.text or done}")
        return 0
    error = from_code(result.code, result.text)
    text = error.text if str(result.job) in error.text else f"job {result.job}: {error.text}"
    if isinstance(error, Conflict) and not request.signal:
        say("gcancel", text)
        return 0
    say("gcancel", f"error: {text}")
    return error.exit_status


def main(argv: Sequence[str] | None = None) -> int:
    return run(gcancel, "gcancel", argv)
