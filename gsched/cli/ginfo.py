"""ginfo: partitions, nodes and GPUs, in sinfo's columns."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gsched.cli._common import command, fail, run
from gsched.client.blocking import connect
from gsched.errors import NotFound
from gsched.protocol.messages import ListNodes, NodePage
from gsched.render import nodes as views
from gsched.render.columns import parse_format
from gsched.render.text import json_text
from gsched.spec.nodelists import expand


@command("ginfo")
@click.option("-N", "--Node", "by_node", is_flag=True, help="A line a node.")
@click.option("-l", "--long", is_flag=True, help="More columns.")
@click.option("-R", "--list-reasons", "reasons", is_flag=True, help="Why nodes are drained, who did it, when.")
@click.option("--gpus", is_flag=True, help="A line a node: its GPUs, and which are free.")
@click.option("-h", "--noheader", is_flag=True, help="No header line.")
@click.option("-o", "--format", "form", metavar="FORMAT", help='Columns, e.g. "%P %.6D %t %N"; see the manual.')
@click.option("-n", "--nodes", "names", metavar="LIST", help='These nodes only, e.g. "n[1-4]".')
@click.option("-p", "--partition", metavar="LIST", help="These partitions only.")
@click.option("--json", "as_json", is_flag=True, help="All fields, for programs.")
def ginfo(
    by_node: bool,
    long: bool,
    reasons: bool,
    gpus: bool,
    noheader: bool,
    form: str | None,
    names: str | None,
    partition: str | None,
    as_json: bool,
) -> None:
    """Show partitions and nodes. A `*` after a state: the node does not answer."""
    if reasons + gpus + by_node > 1:
        fail("one view at a time: -N, -R or --gpus", status=2)
    layout = form if form is not None else _layout(by_node, long, reasons, gpus)
    table = parse_format(layout, views.node_columns())
    with connect() as client:
        page = client.call(ListNodes(nodes=expand(names) if names is not None else ()))
    if page.missing:
        raise NotFound(f"no such node: {', '.join(page.missing)}")
    page = _in_partitions(page, partition)
    if as_json:
        click.echo(json_text(views.cluster_json(page)))
        return
    groups = _groups(page, by_node, long, reasons, gpus, narrowed=names is not None)
    text = "\n".join(table.lines(groups, header=not noheader))
    if text:
        click.echo(text)


def _layout(by_node: bool, long: bool, reasons: bool, gpus: bool) -> str:
    if reasons:
        return views.REASONS
    if gpus:
        return views.GPU_LINES
    if by_node:
        return views.BY_NODE_LONG if long else views.BY_NODE
    return views.LONG if long else views.DEFAULT


def _groups(
    page: NodePage, by_node: bool, long: bool, reasons: bool, gpus: bool, narrowed: bool
) -> list[views.NodeGroup]:
    if reasons:
        return views.reason_groups(page)
    if gpus:
        return views.nodes_once(page)
    if by_node:
        return views.single_nodes(page)
    groups = views.group_nodes(page, long)
    return [group for group in groups if group.rows] if narrowed else groups


def _in_partitions(page: NodePage, wanted: str | None) -> NodePage:
    """Keep the partitions named and their nodes. Raises NotFound, which lists those there are."""
    if wanted is None:
        return page
    names = wanted.split(",")
    known = {partition.name: partition for partition in page.partitions}
    for name in names:
        if name not in known:
            raise NotFound(f"no such partition: {name!r}; there are {', '.join(known) or 'none'}")
    members = {node for name in names for node in known[name].nodes}
    rows = tuple(row for row in page.rows if row.node.name in members or set(names) & set(row.partitions))
    return NodePage(rows=rows, partitions=tuple(known[name] for name in names), unconfirmed=page.unconfirmed)


def main(argv: Sequence[str] | None = None) -> int:
    return run(ginfo, "ginfo", argv)
