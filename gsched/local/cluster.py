"""Bringing a local cluster up: what is not running is started, then all of it is waited for."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gsched.client.blocking import Client, new_request_id
from gsched.config.settings import Settings
from gsched.errors import GschedError, NotPermitted, ProtocolError, Unavailable
from gsched.local import processes
from gsched.local.place import Place, make_place, open_place
from gsched.local.processes import Daemon
from gsched.local.settings_file import Wanted, node_names, read_settings, require_same, require_sensible, write_settings
from gsched.protocol.messages import DrainNode, ListNodes, NodePage
from gsched.values.ids import NodeName

CONTROLLER_S: Final = 600.0  # its very first start compiles the scheduling kernels: a minute, more on a busy machine
NODES_S: Final = 60.0  # after that
_PATIENCE_S: Final = 10.0  # then one line says what is waited for
STOP_S: Final = 10.0
WENT_DOWN: Final = "gsched down"  # reason of the drain that `down` makes and `up` takes back
_PAUSE_S: Final = 0.05

Say = Callable[[str], None]


class _Started(NamedTuple):
    daemon: Daemon
    child: subprocess.Popen[bytes]


class Up(NamedTuple):
    """A cluster of which every part runs."""

    place: Place
    settings: Settings
    started: tuple[str, ...]  # names of the daemons that this call had to start
    nodes: NodePage


def up(directory: Path, wanted: Wanted, say: Say, within_s: float | None = None) -> Up:
    """Make the cluster if there is none, start what does not run, wait until every node is registered.

    `within_s` bounds the wait for the controller and, after that, the wait for the nodes; None is CONTROLLER_S and
    NODES_S.
    Raises GschedError, after `say` was given the end of the log, if a daemon does not come up; what this call started
    is stopped again then.
    """
    require_sensible(wanted)
    place = make_place(directory, node_names(wanted.nodes or 1))
    with place.claimed():
        new = not place.settings.exists()
        if new:
            write_settings(place, wanted)
        try:
            settings = read_settings(place)
            if not new:
                require_same(place, settings, wanted)
            return _started(place, settings, say, within_s)
        except BaseException:
            if new:
                _unmake(place)
            raise


def _unmake(place: Place) -> None:
    """A cluster that never came up is not remembered: the next try may choose anew. Its logs stay."""
    place.settings.unlink(missing_ok=True)
    for folder in (place.state, place.directory / "nodes"):
        shutil.rmtree(folder, ignore_errors=True)


def find(directory: Path) -> tuple[Place, Settings]:
    """The cluster in a directory. Raises NotFound if there is none."""
    place = open_place(directory)
    return place, read_settings(place)


def controller(place: Place) -> Daemon:
    return Daemon(
        name="gschedd",
        argv=(
            processes.program("gschedd"),
            *("--config", str(place.settings)),
            *("--pid-file", str(place.pid_file)),
        ),
        pid_file=place.pid_file,
        log=place.logs / "gschedd.log",
    )


def agents(place: Place, settings: Settings) -> dict[NodeName, Daemon]:
    """The agent of each node, in the settings' order."""
    program = processes.program("gsched-agent")
    found = {}
    for local in settings.local_agents:
        node = local.name
        argv = [
            program,
            *("--config", str(place.settings)),
            *("--node", node),
            *("--controller", settings.controller.listen),
            *("--spool", str(place.spool(node))),
            *("--socket", str(place.agent_socket(node))),
            *("--listen", local.listen),
            *("--ports", local.ports),
            *("--pid-file", str(place.agent_pid_file(node))),
        ]
        if local.simulate:
            argv += ["--simulate", local.simulate]
        found[node] = Daemon(f"agent {node}", tuple(argv), place.agent_pid_file(node), place.logs / f"agent-{node}.log")
    return found


def _started(place: Place, settings: Settings, say: Say, within_s: float | None) -> Up:
    _certify(place, settings)
    everyone = (controller(place), *agents(place, settings).values())
    mine: list[_Started] = []
    try:
        for daemon in everyone:
            if not processes.set_right(daemon):
                mine.append(_Started(daemon, processes.start(daemon, place.directory)))
        page = _ready(place, settings, mine, say, within_s)
        page = _back_in_service(place, page)
    except BaseException:
        for daemon, child in reversed(mine):
            _take_back(daemon, child)
        raise
    return Up(place, settings, tuple(daemon.name for daemon, _ in mine), page)


def _certify(place: Place, settings: Settings) -> None:
    """Give the controller and each node a certificate of the cluster's own authority, where one is missing."""
    # One authority for all: its key lies in the state directory, which is this user's alone.
    authority = place.state / "tls"
    parties = [("controller", settings.cluster.name, authority)]
    parties += [("node", local.name, place.spool(local.name) / "tls") for local in settings.local_agents]
    missing = [
        (role, name, out)
        for role, name, out in parties
        if not all((out / file).exists() for file in (f"{role}.key", f"{role}.pem", "ca.pem"))
    ]
    if not missing:
        return
    from gsched.auth.authority import issue, make_authority  # cryptography: slow to import, needed once

    for folder in (place.state, place.directory / "nodes"):
        folder.mkdir(mode=0o700, exist_ok=True)
    make_authority(authority, settings.cluster.name)
    for role, name, out in missing:
        issue(authority, "controller" if role == "controller" else "node", name, out, ["127.0.0.1", "localhost"])


def _take_back(daemon: Daemon, child: subprocess.Popen[bytes]) -> None:
    """Stop what this call started; as its parent we need no pid file for that."""
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    daemon.pid_file.unlink(missing_ok=True)


# --- readiness


def _ready(place: Place, settings: Settings, mine: Sequence[_Started], say: Say, within_s: float | None) -> NodePage:
    """Wait until the controller answers, then until every node of the settings is registered and answers."""
    waits = _Waits(say, "gschedd; its very first start compiles for a minute", within_s or CONTROLLER_S)
    while (page := ask_nodes(place)) is None:
        _require_alive(mine, say)
        if waits.over():
            raise _failed(controller(place), f"it gave no answer within {waits.limit_s:g} s", say)
    names = [local.name for local in settings.local_agents]
    waits = _Waits(say, "the nodes to register", within_s or NODES_S)
    while waiting := [name for name in names if not _registered(place, page, name)]:
        _require_alive(mine, say)
        if waits.over():
            raise _failed(agents(place, settings)[waiting[0]], f"it did not register within {waits.limit_s:g} s", say)
        page = ask_nodes(place) or page
    return page


class _Waits:
    """One wait with a limit, in small pauses; says once what it is for if it takes long."""

    def __init__(self, say: Say, what: str, limit_s: float) -> None:
        self.limit_s = limit_s
        self._say = say
        self._what = what
        self._began = time.monotonic()
        self._said = False

    def over(self) -> bool:
        """Pause; say whether the time is over."""
        waited = time.monotonic() - self._began
        if waited > _PATIENCE_S and not self._said:
            self._said = True
            self._say(f"waiting for {self._what}")
        time.sleep(_PAUSE_S)
        return waited > self.limit_s


def _require_alive(mine: Sequence[_Started], say: Say) -> None:
    for daemon, child in mine:
        if child.poll() is not None:
            raise _failed(daemon, _how_it_ended(child.returncode), say)


def ask_nodes(place: Place) -> NodePage | None:
    """The controller's nodes; None while it does not answer."""
    with Client(str(place.socket), retry_s=0) as client:
        try:
            return client.call(ListNodes())
        except (Unavailable, ProtocolError):
            return None


def _registered(place: Place, page: NodePage, name: NodeName) -> bool:
    """Whether the controller hears the node, and commands inside its jobs would reach its agent."""
    heard = any(row.node.name == name and row.responding for row in page.rows)
    return heard and place.agent_socket(name).is_socket()


def _failed(daemon: Daemon, why: str, say: Say) -> GschedError:
    tail = processes.log_tail(daemon)
    if tail:
        say(f"the end of {daemon.log}:")
        for line in tail:
            say(f"  {line}")
    return GschedError(
        f"{daemon.name} did not start: {why}; its log {daemon.log} {'says more' if tail else 'is empty'}. "
        "Mend what it names (a port that is taken by now can be changed in gsched.toml) and say `gsched up` again"
    )


def _how_it_ended(status: int) -> str:
    return f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"


def _back_in_service(place: Place, page: NodePage) -> NodePage:
    """Take back the drain with which `gsched down` kept waiting jobs from starting."""
    drained = tuple(row.node.name for row in page.rows if row.node.drained and row.node.drain_reason == WENT_DOWN)
    if not drained:
        return page
    with Client(str(place.socket)) as client:
        client.call(DrainNode(request_id=new_request_id(), nodes=drained, undrain=True))
        return client.call(ListNodes())


def require_outside(place: Place) -> None:
    """Refuse to end a cluster from inside one of its own jobs. Raises NotPermitted."""
    socket = os.environ.get("GSCHED_SOCKET", "")
    if socket.startswith(f"{place.directory / 'nodes'}/"):
        raise NotPermitted("this is a job of the cluster itself, which would end with it: say it outside of its jobs")
