"""gsched.toml of a local cluster: written once, with what was chosen then, and edited by its owner after that."""

from __future__ import annotations

import json
import os
import random
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gsched.config.load import load
from gsched.config.settings import LocalAgentSettings, Settings
from gsched.errors import BadConfig, BadRequest
from gsched.local.place import Place
from gsched.values.ids import NodeName

NODES_MAX: Final = 100
RENDEZVOUS: Final = range(20000, 30000)  # outside the ephemeral ports, divided among the agents of this machine
_LISTEN: Final = range(10000, 20000)  # where listening ports are looked for: neither ephemeral nor a rendezvous port
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_SIMULATE: Final = re.compile(r"[1-9][0-9]{0,2}x[A-Za-z0-9._-]{1,60}")


class Wanted(Struct, frozen=True):
    """What `gsched up` was told; None = not said."""

    nodes: int | None = None
    simulate: str | None = None
    name: str | None = None


def node_names(count: int) -> tuple[NodeName, ...]:
    return tuple(NodeName(f"n{number}") for number in range(1, count + 1))


def require_sensible(wanted: Wanted) -> None:
    """Raises BadRequest for what no local cluster can be."""
    if wanted.nodes is not None and not 1 <= wanted.nodes <= NODES_MAX:
        raise BadRequest(f"--nodes {wanted.nodes}: a local cluster has 1 to {NODES_MAX} nodes")
    if wanted.name is not None and not _NAME.fullmatch(wanted.name):
        raise BadRequest(f"--name {wanted.name!r}: expected letters, digits, - and _, at most 40")
    if wanted.simulate is not None and not _SIMULATE.fullmatch(wanted.simulate):
        raise BadRequest(f'--simulate {wanted.simulate!r}: expected COUNTxMODEL, for example "8xH100-SXM"')


def write_settings(place: Place, wanted: Wanted) -> None:
    """Choose ports and write the file. Raises BadRequest."""
    count = wanted.nodes or 1
    text = _text(place, wanted.name or "local", node_names(count), wanted.simulate or "", free_ports(count + 1))
    draft = place.settings.with_suffix(".new")
    draft.write_text(text)
    draft.rename(place.settings)


def read_settings(place: Place) -> Settings:
    """Read the file and see that it is this directory's. Raises BadConfig, which names what is wrong."""
    settings = load(place.settings)
    if Path(settings.controller.socket) != place.socket:
        raise BadConfig(
            f"{place.settings}: controller.socket is {settings.controller.socket!r}, in this directory it must be "
            f"{str(place.socket)!r}; was the directory moved? Then put the new path there and in state_dir"
        )
    if not settings.local_agents:
        raise BadConfig(f"{place.settings}: no [[local_agent]]: a local cluster has at least one")
    names = [agent.name for agent in settings.local_agents]
    for name in names:
        if names.count(name) > 1:
            raise BadConfig(f"{place.settings}: [[local_agent]] {name} is there {names.count(name)} times")
        if not _NAME.fullmatch(name):
            raise BadConfig(f"{place.settings}: [[local_agent]]: not a node's name: {name!r}")
    return settings


def require_same(place: Place, settings: Settings, wanted: Wanted) -> None:
    """See that what was told now is what the file says. Raises BadRequest: a running cluster is not made anew."""
    simulated = {agent.simulate for agent in settings.local_agents}
    told = (
        ("--nodes", wanted.nodes, len(settings.local_agents)),
        ("--simulate", wanted.simulate, simulated.pop() if len(simulated) == 1 else "different for each node"),
        ("--name", wanted.name, settings.cluster.name),
    )
    for option, now, before in told:
        if now is not None and now != before:
            raise BadRequest(
                f"{option} {now}: the cluster in {place.directory} was made with {before or 'none'}; leave the option "
                f"out, edit {place.settings}, or make another cluster with another --dir"
            )


def free_ports(count: int) -> list[int]:
    """Different ports on which nothing listens on 127.0.0.1 now. Raises BadRequest if there are too few."""
    found: list[int] = []
    # Any start will do: clusters that are made side by side should not all try the same ports.
    for port in random.sample(_LISTEN, len(_LISTEN)):
        if len(found) == count:
            break
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise BadRequest(f"{count} free ports are needed in {_LISTEN.start}-{_LISTEN.stop - 1}, {len(found)} are free")
    return found


# --- the text


def _text(place: Place, name: str, nodes: Sequence[NodeName], simulate: str, ports: Sequence[int]) -> str:
    parts = [
        _HEAD,
        _cluster(name),
        _controller(place, ports[0]),
        _PARTITION,
        _nodes(nodes),
        _switches(nodes),
        _agents(nodes, simulate, ports[1:]),
    ]
    return "\n".join(parts)


_HEAD: Final = """\
# The local cluster in this directory, written by `gsched up` once. Edit it as you like; `gsched down` and `gsched up`
# make changes count. Keys that are not here have their defaults: see the commented example, conf/gsched.toml.
"""

_PARTITION: Final = """\
# Partitions; without `nodes` a partition has all of them. More: another [[partition]].
[[partition]]
name = "main"
default = true
# nodes = ["n1", "n2"]
# max_time_s = 3600        # 0 = no limit
# default_time_s = 600     # for jobs that do not say -t
"""


def _cluster(name: str) -> str:
    uid = os.getuid()
    if uid == 0:
        root = (
            "# root made this cluster, so its jobs run as root, with all that root may do. Only for a machine or a\n"
            "# container of your own; with false every job here is refused.\n"
            "allow_root = true\n"
        )
    else:
        root = "allow_root = false\n"
    return (
        f"[cluster]\nname = {_quoted(name)}\n"
        "# Jobs of this user only: everything here runs as this user and cannot become another.\n"
        f"owner_uid = {uid}\n{root}"
    )


def _controller(place: Place, port: int) -> str:
    text = (
        f"[controller]\nsocket = {_quoted(place.socket)}\nstate_dir = {_quoted(place.state)}\n"
        "# Agents dial this port, with TLS. Chosen when the cluster was made, because it was free.\n"
        f'listen = "127.0.0.1:{port}"\n'
    )
    cache = _cache_directory()
    if cache is not None:
        text += f"# Compiled scheduling kernels, shared by all clusters of this user.\ncache_dir = {_quoted(cache)}\n"
    return text


def _cache_directory() -> Path | None:
    """This user's cache, if there is a home for it; else the state directory's own will do."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(named if named and named.startswith("/") else Path.home() / ".cache") / "gsched"
    except RuntimeError:
        return None


def _nodes(nodes: Sequence[NodeName]) -> str:
    tables = "\n".join(f"[[node]]\nname = {_quoted(node)}\nfeatures = []\n" for node in nodes)
    return f'# Features are words for `gsub -C`, for example features = ["ib", "new"].\n{tables}'


def _switches(nodes: Sequence[NodeName]) -> str:
    """A tree of two levels: two nodes a leaf. With one node there is nothing to tell apart."""
    if len(nodes) < 2:
        return '# A tree of switches would be [[switch]] with name and nodes = ["n1"], or name and switches = [...].\n'
    pairs = [nodes[at : at + 2] for at in range(0, len(nodes), 2)]
    leaves = "\n".join(
        f"[[switch]]\nname = {_quoted(f'leaf{number}')}\nnodes = {_quoted(list(pair))}\n"
        for number, pair in enumerate(pairs, 1)
    )
    names = [f"leaf{number}" for number in range(1, len(pairs) + 1)]
    spine = f'\n[[switch]]\nname = "spine"\nswitches = {_quoted(names)}\n' if len(pairs) > 1 else ""
    return (
        "# The tree of switches: gangs are placed under the lowest one that holds them. A leaf names nodes, the\n"
        f"# others name switches. Pretended here, like the GPUs.\n{leaves}{spine}"
    )


def _agents(nodes: Sequence[NodeName], simulate: str, ports: Sequence[int]) -> str:
    share = len(RENDEZVOUS) // len(nodes)
    tables = []
    for at, (node, port) in enumerate(zip(nodes, ports, strict=True)):
        first = RENDEZVOUS.start + at * share
        agent = LocalAgentSettings(
            name=node, listen=f"127.0.0.1:{port}", ports=f"{first}-{first + share - 1}", simulate=simulate
        )
        tables.append(
            f"[[local_agent]]\nname = {_quoted(agent.name)}\nlisten = {_quoted(agent.listen)}\n"
            f"ports = {_quoted(agent.ports)}\nsimulate = {_quoted(agent.simulate)}\n"
        )
    return (
        "# The agents that `gsched up` starts, one a node. listen: the output of steps, with TLS. ports: for the\n"
        '# rendezvous of jobs. simulate: pretended GPUs, for example "8xH100-SXM"; "" is what this machine has.\n'
        + "\n".join(tables)
    )


def _quoted(value: object) -> str:
    """A TOML string or list of strings: JSON's spelling is TOML's too."""
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
