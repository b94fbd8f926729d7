"""gqueue: what waits and what runs, in squeue's columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from msgspec.structs import replace

from gsched.cli._common import command, fail, run, warn
from gsched.cli._selection import job_states, my_name, user_names
from gsched.client.blocking import connect
from gsched.errors import NotFound
from gsched.protocol.messages import JobPage, JobRow, ListJobs
from gsched.render.columns import Format, parse_format
from gsched.render.jobs import DEFAULT, DEFAULT_SORT, LONG, START, START_SORT, job_columns, sort_jobs
from gsched.render.text import json_text
from gsched.values.ids import Instant, JobId
from gsched.values.states import JobState

UNKNOWN_JOB = 1  # squeue's status for one unknown id


@command("gqueue")
@click.option("-l", "--long", is_flag=True, help="Also the time limit, and states in full.")
@click.option("-h", "--noheader", is_flag=True, help="No header line.")
@click.option("-o", "--format", "form", metavar="FORMAT", help='Columns, e.g. "%.18i %.2t %R"; see the manual.')
@click.option("-t", "--states", metavar="LIST", help='States, e.g. "PD,RUNNING"; "all" adds what ended lately.')
@click.option("-j", "--jobs", metavar="LIST", help="These job ids only, in any state.")
@click.option("-u", "--user", metavar="LIST", help="Jobs of these users only.")
@click.option("--me", is_flag=True, help="My own jobs only.")
@click.option("-n", "--name", metavar="LIST", help="Jobs of these names only.")
@click.option("-p", "--partition", metavar="LIST", help="Jobs in these partitions only.")
@click.option("-S", "--sort", metavar="KEYS", help='Order, e.g. "P,-V"; default "P,t,i".')
@click.option("--start", is_flag=True, help="When waiting jobs are expected to start.")
@click.option("--json", "as_json", is_flag=True, help="All fields, for programs.")
def gqueue(
    long: bool,
    noheader: bool,
    form: str | None,
    states: str | None,
    jobs: str | None,
    user: str | None,
    me: bool,
    name: str | None,
    partition: str | None,
    sort: str | None,
    start: bool,
    as_json: bool,
) -> None:
    """Show jobs that wait, run or are ending."""
    layout = form if form is not None else START if start else LONG if long else DEFAULT
    parse_format(layout, job_columns(Instant(0)))  # a wrong format is refused before anything is asked
    order = sort or (START_SORT if start else DEFAULT_SORT)
    sort_jobs([], order)
    users = _users(user, me)
    page = _listed(_request(states, jobs, users, start))
    rows = _chosen(page.rows, users, _words(name), _words(partition))
    sort_jobs(rows, order)
    for job in page.missing:
        warn(f"job {job}: no such job, or it ended longer ago than the controller remembers (see gacct)")
    if as_json:
        from gsched.render.job_json import queue_json

        click.echo(json_text(queue_json(page, rows)))
        return
    table: Format[JobRow] = parse_format(layout, job_columns(page.now))
    text = "\n".join(table.lines(rows, header=not noheader))
    if text:
        click.echo(text)


def _users(user: str | None, me: bool) -> tuple[str, ...]:
    named = user_names(user) if user is not None else ()
    return (*named, my_name()) if me else named


def _request(states: str | None, jobs: str | None, users: tuple[str, ...], start: bool) -> ListJobs:
    ids: tuple[JobId, ...] = ()
    if jobs is not None:
        from gsched.spec.jobids import parse_job_ids  # here, because gqueue should feel instant

        ids = parse_job_ids([jobs])
    wanted, every = job_states(states) if states is not None else ((), False)
    if start and states is None:
        wanted = (JobState.PENDING,)
    return ListJobs(
        jobs=ids,
        user=users[0] if len(users) == 1 else "",
        states=wanted,
        all_states=every,
    )


def _listed(request: ListJobs) -> JobPage:
    """Ask for all pages; give them as one, with the last one's clock. Ends the command as squeue does on one bad id."""
    rows: list[JobRow] = []
    missing: dict[int, None] = {}
    try:
        with connect() as client:
            for page in client.pages(request):
                rows += page.rows
                missing |= dict.fromkeys(page.missing)
    except NotFound as error:
        fail(f"invalid job id specified: {error.text}", status=UNKNOWN_JOB)
    return replace(page, rows=tuple(rows), more=False, missing=tuple(missing))


def _chosen(
    rows: Iterable[JobRow], users: tuple[str, ...], names: frozenset[str], partitions: frozenset[str]
) -> list[JobRow]:
    """What the controller does not choose by: several users, names, partitions."""
    return [
        row
        for row in rows
        if (not users or row.user in users)
        and (not names or row.name in names)
        and (not partitions or row.partition in partitions)
    ]


def _words(text: str | None) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()


def main(argv: Sequence[str] | None = None) -> int:
    return run(gqueue, "gqueue", argv)
