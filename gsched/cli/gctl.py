"""gctl: look at one thing whole, hold and release jobs, drain nodes. scontrol's words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import click
from click import argument, option

from gsched.cli._common import fail, group, run, say
from gsched.cli._gctl_queue import explain, show_priority
from gsched.cli._gctl_reservation import reservation
from gsched.cli._gctl_snapshot import snapshot
from gsched.client.blocking import Client, connect, new_request_id
from gsched.errors import BadRequest, NotFound, from_code
from gsched.protocol.messages import (
    DrainNode,
    HoldJobs,
    JobShown,
    ListJobs,
    ListNodes,
    NodeDead,
    NodeReplaced,
    Ping,
    ShowJob,
    ShowTopology,
)
from gsched.render.nodes import node_json, partition_json
from gsched.render.records import Pairs, job_record, node_record, partition_record, record
from gsched.render.text import json_text, shown
from gsched.spec.jobids import parse_job_ids
from gsched.spec.nodelists import expand, fold
from gsched.topology.write import topology_json, topology_table
from gsched.values.ids import JobId, NodeName


@group("gctl")
def gctl() -> None:
    """Look at jobs, nodes and partitions, and change them."""


# --- show


@gctl.group("show", cls=type(gctl))  # the same answer to a wrong word
def show() -> None:
    """Show a job, node or partition whole, or fold and unfold node lists."""


@show.command("job")
@argument("jobs", nargs=-1, metavar="[JOB]...")
@option("-o", "--oneliner", is_flag=True, help="One line a job.")
@option("--json", "as_json", is_flag=True, help="For programs; with the script, if it is yours.")
def show_job(jobs: tuple[str, ...], oneliner: bool, as_json: bool) -> None:
    """Show jobs; without ids all that the controller remembers."""
    with connect() as client:
        ids = parse_job_ids(jobs) if jobs else _all_jobs(client)
        found = [client.call(ShowJob(id)) for id in ids]
    if as_json:
        click.echo(json_text({"jobs": [_job_json(job) for job in found]}))
    else:
        _print((job_record(job) for job in found), oneliner, none="No jobs in the system")


def _all_jobs(client: Client) -> list[JobId]:
    return [row.id for page in client.pages(ListJobs(all_states=True)) for row in page.rows]


def _job_json(found: JobShown) -> dict[str, Any]:  # Any: a tree of plain JSON values
    script = None if found.script is None else found.script.decode("utf-8", "surrogateescape")
    return {"job": found.job, "runs": found.runs, "now": found.now, "planned": found.planned, "script": script}


@show.command("node")
@argument("nodes", nargs=-1, metavar="[NODES]...")
@option("-o", "--oneliner", is_flag=True, help="One line a node.")
@option("--json", "as_json", is_flag=True, help="For programs.")
def show_node(nodes: tuple[str, ...], oneliner: bool, as_json: bool) -> None:
    """Show nodes; without names all."""
    with connect() as client:
        page = client.call(ListNodes(nodes=_node_names(nodes)))
    if page.missing:
        raise NotFound(f"no such node: {', '.join(page.missing)}")
    if as_json:
        click.echo(json_text({"nodes": [node_json(row) for row in page.rows]}))
    else:
        _print((node_record(row) for row in page.rows), oneliner, none="No nodes in the system")


@show.command("partition")
@argument("partitions", nargs=-1, metavar="[PARTITION]...")
@option("-o", "--oneliner", is_flag=True, help="One line a partition.")
@option("--json", "as_json", is_flag=True, help="For programs.")
def show_partition(partitions: tuple[str, ...], oneliner: bool, as_json: bool) -> None:
    """Show partitions; without names all."""
    with connect() as client:
        known = {partition.name: partition for partition in client.call(ListNodes()).partitions}
    for name in partitions:
        if name not in known:
            raise NotFound(f"no such partition: {name!r}; there are {', '.join(known) or 'none'}")
    chosen = [known[name] for name in dict.fromkeys(partitions)] if partitions else list(known.values())
    if as_json:
        click.echo(json_text({"partitions": [partition_json(partition) for partition in chosen]}))
    else:
        _print((partition_record(partition) for partition in chosen), oneliner, none="No partitions in the system")


@show.command("topology")
@option("--json", "as_json", is_flag=True, help="For programs.")
def show_topology(as_json: bool) -> None:
    """Show where the nodes hang: levels, domains, and what is odd in them."""
    with connect() as client:
        found = client.call(ShowTopology())
    if as_json:
        click.echo(json_text(topology_json(found.topology, found.problems)))
        return
    for line in topology_table(found.topology):
        click.echo(shown(line))
    for problem in found.problems:
        click.echo(f"Problem: {shown(problem.text)}")


@show.command("hostnames")
@argument("nodes", required=False)
def show_hostnames(nodes: str | None) -> None:
    """Unfold a node list, a name a line; without one that of the job around it."""
    folded = nodes if nodes is not None else os.environ.get("SLURM_JOB_NODELIST")
    if folded is None:
        raise BadRequest("say which list to unfold: SLURM_JOB_NODELIST, which stands for it inside a job, is not set")
    for name in expand(folded):
        click.echo(name)


@show.command("hostlist")
@argument("nodes", required=False)
def show_hostlist(nodes: str | None) -> None:
    """Fold node names with commas between; without any those of the job around it."""
    names = nodes if nodes is not None else os.environ.get("SLURM_JOB_NODELIST")
    if names is None:
        raise BadRequest("say which names to fold: SLURM_JOB_NODELIST, which stands for them inside a job, is not set")
    click.echo(fold(expand(names)))


gctl.add_command(explain)
gctl.add_command(reservation)
gctl.add_command(snapshot)
show.add_command(show_priority)


def _print(records: Iterable[Sequence[Pairs]], oneliner: bool, none: str) -> None:
    texts = [record(lines, oneliner) for lines in records]
    click.echo(("\n" if oneliner else "\n\n").join(texts) if texts else none)


def _node_names(words: Iterable[str]) -> tuple[NodeName, ...]:
    return tuple(dict.fromkeys(name for word in words for name in expand(word)))


# --- jobs


@gctl.command("hold")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
def hold(jobs: tuple[str, ...]) -> int:
    """Keep waiting jobs from starting, until they are released."""
    return _hold(jobs, release=False)


@gctl.command("release")
@argument("jobs", nargs=-1, required=True, metavar="JOB...")
def release(jobs: tuple[str, ...]) -> int:
    """Let held jobs start again."""
    return _hold(jobs, release=True)


def _hold(jobs: tuple[str, ...], release: bool) -> int:
    request = HoldJobs(request_id=new_request_id(), jobs=parse_job_ids(jobs), release=release)
    with connect() as client:
        results = client.call(request).results
    status = 0
    for result in results:
        if result.code:
            error = from_code(result.code, result.text)
            text = error.text if str(result.job) in error.text else f"job {result.job}: {error.text}"
            say("gctl", f"error: {text}")
            status = max(status, error.exit_status)
    return status


# --- nodes


@gctl.command("drain")
@argument("nodes", nargs=-1, required=True, metavar="NODES...")
@option("--reason", "-r", metavar="TEXT", help="Why, for whoever meets the drained node. Required.")
def drain(nodes: tuple[str, ...], reason: str | None) -> None:
    """Place no more jobs on nodes; those that run there go on."""
    if reason is None or not reason.strip():
        fail("say why with --reason=TEXT: others will ask", status=2)
    _drain(nodes, reason, undrain=False)


@gctl.command("undrain")
@argument("nodes", nargs=-1, required=True, metavar="NODES...")
def undrain(nodes: tuple[str, ...]) -> None:
    """Give drained nodes back to the scheduler."""
    _drain(nodes, "", undrain=True)


def _drain(nodes: tuple[str, ...], reason: str, undrain: bool) -> None:
    _told(DrainNode(request_id=new_request_id(), nodes=_node_names(nodes), reason=reason, undrain=undrain))


@gctl.group("node", cls=type(gctl))
def node() -> None:
    """Tell what only a person can know about a node."""


@node.command("dead")
@argument("name")
def node_dead(name: str) -> None:
    """Vouch that nothing runs on a silent node any more, so that its jobs may run elsewhere.

    If that is wrong, a job runs twice: pull the power first.
    """
    _told(NodeDead(request_id=new_request_id(), node=_one_node(name)))


@node.command("replace")
@argument("name")
def node_replace(name: str) -> None:
    """Let another machine come under a node's name, after the one behind it was changed."""
    _told(NodeReplaced(request_id=new_request_id(), node=_one_node(name)))


def _one_node(name: str) -> NodeName:
    names = expand(name)
    if len(names) != 1:
        raise BadRequest(f"one node at a time: {name!r} names {len(names)}")
    return names[0]


def _told(request: DrainNode | NodeDead | NodeReplaced) -> None:
    with connect() as client:
        done = client.call(request)
    if done.note:
        click.echo(shown(done.note))


@gctl.command("ping")
@option("--json", "as_json", is_flag=True, help="For programs.")
def ping(as_json: bool) -> None:
    """Ask whether the controller answers, and what it has."""
    with connect() as client:
        pong = client.call(Ping())
    if as_json:
        click.echo(json_text(pong))
        return
    click.echo(
        f"gschedd of cluster {shown(pong.cluster)} at {shown(client.path)} is UP: version {pong.version}, "
        f"term {pong.term}, {pong.nodes_up} of {pong.nodes_known} nodes answer, {pong.jobs} jobs"
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run(gctl, "gctl", argv)
