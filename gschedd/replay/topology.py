"""gsim topology: show a topology file's levels and domains, check it against a cluster's settings, convert it."""

from __future__ import annotations

import click

from gsched.cli import _common
from gsched.config.fabric import with_topology
from gsched.config.layout import Layout
from gsched.config.load import load
from gsched.config.settings import Settings
from gsched.render.text import json_text, shown
from gsched.spec.nodelists import expand
from gsched.topology.compare import compare
from gsched.topology.own_yaml import own_yaml
from gsched.topology.read import AUTO, FORMATS, read_topology
from gsched.topology.write import topology_json, topology_table
from gsched.values.ids import NodeName


@_common.command("topology")
@click.option("--from", "file", metavar="FILE", help="The topology, of any known format; may be gzipped.")
@click.option(
    "--format", "form", type=click.Choice([AUTO, *FORMATS]), default=AUTO, show_default=True, help="Of that file."
)
@click.option("--nodes", metavar="LIST", help="The nodes that there are, as n[1-64]: what differs is reported.")
@click.option(
    "--to", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True, help="What to print."
)
@click.option(
    "--check", metavar="GSCHED_TOML", help="Settings whose nodes, and without --from whose topology, to take."
)
def command(file: str | None, form: str, nodes: str | None, to: str, check: str | None) -> int:
    """Show a cluster's topology: levels, domains, how many nodes, and what is odd in it.

    Problems are printed on stderr and make the exit status 1.
    """
    if file is None and check is None:
        _common.fail("say which topology: --from FILE, or --check GSCHED_TOML", status=2)
    settings = with_topology(load(check), check) if check is not None else None
    topology = read_topology(file, form) if file is not None else Layout(settings or Settings()).topology
    known = _known(nodes, settings)
    problems = topology.problems if known is None else compare(topology, known)
    if to == "yaml":
        if not topology.levels:
            _common.fail("there are no levels to write: the settings name no switches and no topology file")
        click.echo(own_yaml(topology), nl=False)
    elif to == "json":
        click.echo(json_text(topology_json(topology, problems)))
    else:
        for line in topology_table(topology):
            click.echo(shown(line))
    for problem in problems:
        _common.warn(problem.text)
    return 1 if problems else 0


def _known(nodes: str | None, settings: Settings | None) -> set[NodeName] | None:
    """Nodes to compare with: those listed and those declared; None where neither is said."""
    listed = set(expand(nodes)) if nodes else set()
    declared = {node.name for node in settings.nodes} if settings is not None else set()
    return listed | declared or None
