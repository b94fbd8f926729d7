"""What of a local cluster runs, and how a shell comes to use it."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from gsched.client.blocking import Client
from gsched.errors import ProtocolError, Unavailable
from gsched.local import processes
from gsched.local.cluster import agents, controller, find
from gsched.local.place import Place
from gsched.local.settings_file import read_settings
from gsched.protocol.messages import ListJobs, ListNodes, NodePage
from gsched.values.states import LIVE, JobState


class NodeReport(Struct, frozen=True):
    name: str
    pid: int | None  # null = its agent does not run
    state: str  # IDLE, MIXED, ...; "" = not registered, or the controller does not answer
    responding: bool


class ClusterReport(Struct, frozen=True):
    """All that `gsched status --json` prints. Stable: fields are added, never renamed."""

    cluster: str
    directory: str
    socket: str
    settings: str
    logs: str
    complete: bool  # every part runs and answers
    pid: int | None  # gschedd's; null = it does not run
    answers: bool
    nodes: tuple[NodeReport, ...]
    running_jobs: int
    waiting_jobs: int


def report(directory: Path) -> ClusterReport:
    """Look at every part. Raises NotFound if there is no cluster."""
    place, settings = find(directory)
    page, running, waiting = _asked(place)
    rows = {row.node.name: row for row in page.rows} if page is not None else {}
    nodes = tuple(
        NodeReport(
            name=name,
            pid=processes.running_pid(daemon),
            state=rows[name].state.value if name in rows else "",
            responding=name in rows and rows[name].responding,
        )
        for name, daemon in agents(place, settings).items()
    )
    pid = processes.running_pid(controller(place))
    return ClusterReport(
        cluster=settings.cluster.name,
        directory=str(place.directory),
        socket=str(place.socket),
        settings=str(place.settings),
        logs=str(place.logs),
        complete=pid is not None and page is not None and all(n.pid is not None and n.responding for n in nodes),
        pid=pid,
        answers=page is not None,
        nodes=nodes,
        running_jobs=running,
        waiting_jobs=waiting,
    )


def _asked(place: Place) -> tuple[NodePage | None, int, int]:
    """The nodes, how many jobs run, how many wait; None and zeros while the controller does not answer."""
    try:
        with Client(str(place.socket), retry_s=0) as client:
            page = client.call(ListNodes())
            states = [row.state for jobs in client.pages(ListJobs()) for row in jobs.rows]
    except (Unavailable, ProtocolError):
        return None, 0, 0
    return page, sum(state in LIVE for state in states), states.count(JobState.PENDING)


def running_parts(place: Place) -> set[str]:
    """Names of the daemons that run now."""
    everyone = (controller(place), *agents(place, read_settings(place)).values())
    return {daemon.name for daemon in everyone if processes.running_pid(daemon) is not None}


def command_path() -> Path | None:
    """The folder of our commands, if PATH does not lead there already."""
    folder = Path(processes.program("gqueue")).parent
    listed = os.environ.get("PATH", "").split(os.pathsep)
    return None if str(folder) in listed and _first_with(listed, "gqueue") == folder else folder


def _first_with(folders: list[str], name: str) -> Path | None:
    return next((Path(folder) for folder in folders if folder and os.access(Path(folder) / name, os.X_OK)), None)
