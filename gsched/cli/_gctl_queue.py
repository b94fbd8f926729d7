"""gctl explain and gctl show priority: why jobs wait, and in which order."""

from __future__ import annotations

import click
from click import argument, option

from gsched.cli._common import warn
from gsched.client.blocking import connect
from gsched.errors import NotFound
from gsched.protocol.messages import ExplainJob, ListPriorities
from gsched.render.explanation import explanation_json, explanation_text, priority_lines
from gsched.render.text import json_text
from gsched.spec.jobids import parse_job_ids


@click.command("explain")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
@option("--json", "as_json", is_flag=True, help="For programs.")
def explain(jobs: tuple[str, ...], as_json: bool) -> None:
    """Say why waiting jobs wait: what each needs, what there is, who has it, and when there would be enough."""
    with connect() as client:
        found = [client.call(ExplainJob(job)) for job in parse_job_ids(jobs)]
    if as_json:
        click.echo(json_text({"jobs": [explanation_json(each) for each in found]}))
    else:
        click.echo("\n\n".join(explanation_text(each) for each in found))


@click.command("priority")
@argument("jobs", nargs=-1, metavar="[JOB]...")
@option("-h", "--noheader", is_flag=True, help="No header line.")
@option("--json", "as_json", is_flag=True, help="For programs; with the factors as they are, in thousandths.")
def show_priority(jobs: tuple[str, ...], noheader: bool, as_json: bool) -> None:
    """Show what the waiting jobs' places are made of, the first to start first."""
    ids = parse_job_ids(jobs) if jobs else ()
    with connect() as client:
        page = client.call(ListPriorities(ids))
    if page.missing and not page.rows:
        raise NotFound(f"not among the jobs that may start: {', '.join(map(str, page.missing))}")
    for job in page.missing:
        warn(f"job {job}: not among the jobs that may start")
    if page.left_out:
        warn(f"{page.left_out} more jobs wait after these: name those that you want to see")
    if as_json:
        click.echo(json_text(page))
    else:
        for line in priority_lines(page, header=not noheader):
            click.echo(line)
