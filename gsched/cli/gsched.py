"""gsched: a cluster of one's own on this machine: up, down, status, env."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click import option

from gsched.cli._common import group, run, say
from gsched.render.text import json_text, shown

if TYPE_CHECKING:
    from gsched.local.cluster import Up
    from gsched.local.place import Place
    from gsched.local.report import ClusterReport

NOT_ALL_RUNS = 1  # `gsched status`


def _tell(text: str) -> None:
    say("gsched", text)


def _directory(text: str | None) -> Path:
    from gsched.local.place import default_directory

    return Path(text).absolute() if text is not None else default_directory()


def _with_directory(function: Any) -> Any:  # Any: click's decorators take and give any function
    return option("--dir", "directory", metavar="DIR", help="Its directory; default $GSCHED_DIR or ~/.gsched/local.")(
        function
    )


@group("gsched")
def gsched() -> None:
    """A cluster of your own on this machine, for trying and for tests."""


@gsched.command("up")
@option("-d", "--detach", is_flag=True, help="Come back when all nodes are registered; the cluster stays.")
@_with_directory
@option("--nodes", type=int, metavar="N", help="How many nodes; default 1. Remembered.")
@option("--simulate", metavar="COUNTxMODEL", help='Pretended GPUs on each node, e.g. "8xH100-SXM". Remembered.')
@option("--name", metavar="NAME", help='The cluster\'s name; default "local". Remembered.')
@option("--timeout", type=float, default=None, metavar="S", help="Seconds to wait for gschedd, then for all nodes.")
def up(
    detach: bool,
    directory: str | None,
    nodes: int | None,
    simulate: str | None,
    name: str | None,
    timeout: float | None,
) -> None:
    """Start a cluster, or what of it is not running.

    Without -d it stays in front and ends the cluster, with its running jobs, on Ctrl-C.
    """
    from gsched.local.cluster import up as bring_up
    from gsched.local.settings_file import Wanted

    wanted = Wanted(nodes=nodes, simulate=simulate, name=name)
    made = bring_up(_directory(directory), wanted, _tell, timeout)
    click.echo(_ready_text(made))
    if not detach:
        _stay(made.place)


def _ready_text(made: Up) -> str:
    rows = made.nodes.rows
    gpus = sum(len(row.node.inventory.gpus) for row in rows)
    pretended = " (pretended)" if gpus and all(row.node.inventory.simulated for row in rows) else ""
    started = ", ".join(made.started) if made.started else "nothing: all of it was running"
    at = shlex.quote(str(made.place.directory))
    return "\n".join(
        [
            f"cluster {made.settings.cluster.name} is ready: {len(rows)} nodes, {gpus} GPUs{pretended}",
            f"started: {started}",
            f'  use it:    eval "$(gsched env --dir {at})"    then ginfo, gsub, gqueue',
            f"  look:      gsched status --dir {at}",
            f"  settings:  {shown(str(made.place.settings))}",
            f"  logs:      {shown(str(made.place.logs))}",
            f"  end it:    gsched down --dir {at}",
        ]
    )


def _stay(place: Place) -> None:
    """Wait in front for Ctrl-C or TERM, say when a daemon ends, and take the cluster down."""
    from gsched.local.report import running_parts

    stop = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    click.echo("Ctrl-C ends it.")
    sys.stdout.flush()
    known = running_parts(place)
    while signal.sigtimedwait(stop, 1.0) is None:
        now = running_parts(place)
        for name in sorted(known - now):
            _tell(f"{name} has ended; `gsched up -d --dir {place.directory}` starts it again")
        known = now
        if not known:
            _tell("nothing of the cluster runs any more")
            return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop)  # a second Ctrl-C interrupts the tidy end
    _down(place.directory, keep_jobs=False)


@gsched.command("down")
@_with_directory
@option("--keep-jobs", is_flag=True, help="Leave running jobs running; the next `gsched up` finds them again.")
def down(directory: str | None, keep_jobs: bool) -> None:
    """End a cluster: its running jobs, then its daemons. Waiting jobs stay and start after the next `up`."""
    _down(_directory(directory), keep_jobs)


def _down(directory: Path, keep_jobs: bool) -> None:
    from gsched.local.ending import down as take_down

    done = take_down(directory, _tell, keep_jobs)
    if not (done.stopped or done.killed):
        click.echo(f"no part of the cluster in {shown(str(directory))} was running")
        return
    parts = [f"stopped {', '.join(done.stopped) or 'no daemon'}"]
    if done.ended_jobs:
        parts.append(f"{_jobs(done.ended_jobs, 'running job')} ended")
    if done.kept_jobs:
        parts.append(f"running on: {_jobs(done.kept_jobs, 'job')}")
    if done.waiting_jobs:
        parts.append(f"waiting for the next `gsched up`: {_jobs(done.waiting_jobs, 'job')}")
    if done.killed:
        parts.append(f"{done.killed} processes of jobs, which no daemon watched any more, were ended")
    click.echo("; ".join(parts))


def _jobs(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


@gsched.command("status")
@_with_directory
@option("--json", "as_json", is_flag=True, help="For programs.")
def status(directory: str | None, as_json: bool) -> int:
    """Show which parts of a cluster run. Exit status 0 if all do, 1 if not."""
    from gsched.local.report import report

    told = report(_directory(directory))
    click.echo(json_text(told) if as_json else "\n".join(_status_lines(told)))
    return 0 if told.complete else NOT_ALL_RUNS


def _status_lines(told: ClusterReport) -> list[str]:
    lines = [f"cluster {told.cluster} in {shown(told.directory)}"]
    answers = "answers" if told.answers else "does not answer"
    lines.append(f"  {'gschedd':<12} {_process(told.pid)} {answers}")
    for node in told.nodes:
        state = node.state.lower() + ("" if node.responding else "*") if node.state else "not registered"
        lines.append(f"  {'agent ' + node.name:<12} {_process(node.pid)} {state}")
    if told.answers:
        lines.append(f"  jobs: {told.running_jobs} running, {told.waiting_jobs} waiting")
    return lines


def _process(pid: int | None) -> str:
    return f"{'running':<12} pid {pid:<8}" if pid is not None else f"{'not running':<12} {'':<12}"


@gsched.command("env")
@_with_directory
def env(directory: str | None) -> None:
    """Print what makes a shell use this cluster: eval "$(gsched env --dir DIR)"."""
    from gsched.local.place import open_place
    from gsched.local.report import command_path

    place = open_place(_directory(directory))
    click.echo(f"export GSCHED_SOCKET={shlex.quote(str(place.socket))}")
    click.echo(f"export GSCHED_DIR={shlex.quote(str(place.directory))}")
    folder = command_path()
    if folder is not None:
        click.echo(f'export PATH={shlex.quote(str(folder))}"${{PATH:+:$PATH}}"')


def main(argv: Sequence[str] | None = None) -> int:
    return run(gsched, "gsched", argv)
