"""gacct: what became of jobs, in sacct's fields. Answers come from the store, so also of jobs that ended long ago."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import click

from gsched.cli._common import command, fail, run, warn
from gsched.cli._moments import parse_moment, start_of_today
from gsched.cli._selection import job_states, my_name, user_names
from gsched.client.blocking import connect
from gsched.errors import NotFound
from gsched.protocol.messages import Accounting, AcctJob
from gsched.render.accounting import DEFAULT, FIELDS, Line, json_of, lines_of
from gsched.render.sacct_table import Shown, bar_lines, fixed_lines, parse_fields
from gsched.render.text import json_text
from gsched.spec.jobids import parse_job_ids
from gsched.values.ids import Instant, JobId

NEEDS_STEPS = "DerivedExitCode"


@command("gacct")
@click.option("-j", "--jobs", metavar="LIST", help="These job ids only, of any day and user.")
@click.option("-X", "--allocations", is_flag=True, help="Jobs only, not their steps.")
@click.option("-P", "--parsable2", is_flag=True, help=r"Bars between values, nothing cut; a bar in a value is \x7c.")
@click.option("-p", "--parsable", is_flag=True, help="As -P, with a bar at the end of the line too.")
@click.option("-n", "--noheader", is_flag=True, help="No header lines.")
@click.option("-o", "--format", "form", metavar="FIELDS", help='E.g. "jobid,state%20,elapsed"; -e lists the fields.')
@click.option("-u", "--user", metavar="LIST", help="Jobs of these users; default: your own (root: all).")
@click.option("-a", "--allusers", is_flag=True, help="Jobs of all users.")
@click.option("-S", "--starttime", metavar="TIME", help="Jobs not ended before this; default: today's midnight.")
@click.option("-E", "--endtime", metavar="TIME", help="Jobs submitted before this; default: now.")
@click.option("-s", "--state", metavar="LIST", help='Jobs in these states now, e.g. "CD,FAILED".')
@click.option("-D", "--duplicates", is_flag=True, help="Also earlier runs of jobs that ran again.")
@click.option("-e", "--helpformat", is_flag=True, help="List the fields that -o takes.")
@click.option("--json", "as_json", is_flag=True, help="All fields, for programs.")
def gacct(
    jobs: str | None,
    allocations: bool,
    parsable2: bool,
    parsable: bool,
    noheader: bool,
    form: str | None,
    user: str | None,
    allusers: bool,
    starttime: str | None,
    endtime: str | None,
    state: str | None,
    duplicates: bool,
    helpformat: bool,
    as_json: bool,
) -> None:
    """Show what became of jobs and their steps: today's, or those you name."""
    if helpformat:
        click.echo("\n".join(field.name for field in FIELDS))
        return
    columns = parse_fields(form or DEFAULT)
    users = _users(user, allusers, named=jobs is not None)
    chosen = _Choice(jobs, users, starttime, endtime, state)
    steps = not allocations or as_json or any(column.field.name == NEEDS_STEPS for column in columns)
    rows, now = _rows(chosen, duplicates, steps)
    lines = (line for row in rows for line in lines_of(row, now, steps=not allocations, earlier=duplicates))
    if as_json:
        click.echo(json_text(json_of(lines, now)))
        return
    for text in _table(columns, lines, not noheader, bars=parsable or parsable2, last_bar=parsable and not parsable2):
        click.echo(text)


class _Choice:
    """Which jobs: the request, and what the controller does not choose by."""

    def __init__(
        self, jobs: str | None, users: tuple[str, ...], since: str | None, until: str | None, states: str | None
    ) -> None:
        now = Instant(time.time_ns() // 1_000_000)
        self.jobs: tuple[JobId, ...] = parse_job_ids([jobs]) if jobs is not None else ()
        self.since = parse_moment(since, now) if since is not None else Instant(0)
        self.until = parse_moment(until, now) if until is not None else Instant(0)
        if not self.jobs and since is None:
            self.since = min(start_of_today(now), self.until or now)
        if self.until and self.since > self.until:
            fail(f"the start {since!r} is after the end {until!r}", status=2)
        self.states = job_states(states)[0] if states is not None else ()
        self.users = users

    def request(self, duplicates: bool, steps: bool) -> Accounting:
        return Accounting(
            jobs=self.jobs,
            user=self.users[0] if len(self.users) == 1 else "",
            since=self.since,
            until=self.until,
            states=self.states,
            duplicates=duplicates,
            steps=steps,
        )

    def takes(self, row: AcctJob) -> bool:
        """The controller knows one user, and no times beside ids."""
        job = row.job
        ended = job.ended if job.state.final and job.ended is not None else None
        return (
            (not self.users or job.user in self.users)
            and (ended is None or ended >= self.since)
            and (not self.until or job.submitted < self.until)
        )


def _users(user: str | None, everyone: bool, named: bool) -> tuple[str, ...]:
    """Whose jobs; () = everyone's. As sacct: jobs named by id are shown whoever has them, and root sees all."""
    if user is not None:
        return user_names(user)
    return () if everyone or named or os.getuid() == 0 else (my_name(),)


def _rows(chosen: _Choice, duplicates: bool, steps: bool) -> tuple[list[AcctJob], Instant]:
    """Ask for all pages. Ids that nothing is known of are told on stderr; if there are no others, that is an error."""
    rows: list[AcctJob] = []
    now = Instant(0)
    with connect() as client:
        for page in client.pages(chosen.request(duplicates, steps)):
            rows += page.rows
            now = page.now
    found = {row.job.id for row in rows}
    missing = [id for id in chosen.jobs if id not in found]
    if missing and not chosen.states and not chosen.users:
        text = f"no such job: {', '.join(map(str, missing[:20]))}{', ...' if len(missing) > 20 else ''}"
        if not found:
            fail(text, status=NotFound.exit_status)
        warn(text)
    return [row for row in rows if chosen.takes(row)], now


def _table(
    columns: tuple[Shown, ...], lines: Iterator[Line], header: bool, *, bars: bool, last_bar: bool
) -> Iterator[str]:
    if bars:
        return bar_lines(columns, lines, header, last_bar=last_bar)
    return fixed_lines(columns, lines, header)


def main(argv: Sequence[str] | None = None) -> int:
    return run(gacct, "gacct", argv)
