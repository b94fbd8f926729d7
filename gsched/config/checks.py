"""The rules between keys of the settings: names are unique, times are in order, switches are a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn

from gsched.config.settings import PartitionSettings, Settings, SwitchSettings, TimeSettings, WeightSettings
from gsched.errors import BadConfig
from gsched.spec.constraints import is_feature
from gsched.topology.read import AUTO, FORMATS
from gsched.values.ids import NodeName

_MOST: Final = 10**9  # 31 years, or a GiB: beyond it is a slip of the finger
_MOST_WEIGHT: Final = 10**6
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):([0-9]{1,5})", re.ASCII)


def check(settings: Settings, source: str) -> None:
    """Raises BadConfig for the first rule that is broken."""
    if not _NAME.fullmatch(settings.cluster.name):
        _refuse(source, "[cluster] name", "letters, digits, dot, dash and underscore", f'"{settings.cluster.name}"')
    owner = settings.cluster.owner_uid
    if owner is not None and owner < 0:
        _refuse(source, "[cluster] owner_uid", "a user's number", owner)
    for section, struct in (("times", settings.times), ("limits", settings.limits)):
        for field in struct.__struct_fields__:
            _within(source, f"[{section}] {field}", getattr(struct, field), 1)
    _within(source, "[scheduler] planned_starts", settings.scheduler.planned_starts, 0)
    _check_weights(settings.scheduler.weights, source)
    _check_times(settings.times, source)
    _check_addresses(settings, source)
    declared = [node.name for node in settings.nodes]
    _unique(source, "node", declared)
    for node in settings.nodes:
        for feature in node.features:
            if not is_feature(feature):
                _refuse(source, f'[[node]] "{node.name}": features', "words of letters and digits", f'"{feature}"')
    _check_partitions(settings.partitions, declared, source)
    _check_switches(settings.switches, set(declared), source)
    _check_topology(settings, source)


def _check_weights(weights: WeightSettings, source: str) -> None:
    """Wide enough for every taste, and a priority still is an exact number."""
    for field in ("age", "fair_share", "qos", "partition", "size"):
        _within(source, f"[scheduler.weights] {field}", getattr(weights, field), 0, _MOST_WEIGHT)
    _within(source, "[scheduler.weights] age_max_s", weights.age_max_s, 1)


def _check_times(times: TimeSettings, source: str) -> None:
    if times.node_timeout_s <= times.heartbeat_s:
        _refuse(source, "[times] node_timeout_s", f"more than heartbeat_s ({times.heartbeat_s})", times.node_timeout_s)
    if times.lost_after_s < times.node_timeout_s:
        expected = f"at least node_timeout_s ({times.node_timeout_s})"
        _refuse(source, "[times] lost_after_s", expected, times.lost_after_s)


def _check_addresses(settings: Settings, source: str) -> None:
    controller, agent = settings.controller, settings.agent
    addresses = {"[controller] listen": controller.listen, "[agent] listen": agent.listen}
    if controller.url:
        addresses["[controller] url"] = controller.url
    for key, address in addresses.items():
        found = _ADDRESS.fullmatch(address)
        if not found or int(found[2]) > 65535:
            _refuse(source, key, "HOST:PORT", f'"{address}"')
    paths = {"[controller] socket": controller.socket, "[agent] socket": agent.socket}
    paths |= {"[controller] state_dir": controller.state_dir, "[agent] spool": agent.spool}
    for key, path in paths.items():
        if not path.startswith("/"):
            _refuse(source, key, "an absolute path", f'"{path}"')


def _check_partitions(partitions: tuple[PartitionSettings, ...], declared: list[NodeName], source: str) -> None:
    _unique(source, "partition", [partition.name for partition in partitions])
    defaults = [partition.name for partition in partitions if partition.default]
    if len(defaults) != 1:
        found = f"default = true in {' and '.join(defaults)}" if defaults else "none"
        raise BadConfig(f"{source}: [[partition]]: expected one default partition, found {found}")
    known = set(declared)
    for partition in partitions:
        at = f'[[partition]] "{partition.name}"'
        if not _NAME.fullmatch(partition.name):
            _refuse(source, f"{at}: name", "letters, digits, dot, dash and underscore", f'"{partition.name}"')
        _within(source, f"{at}: max_time_s", partition.max_time_s, 0)
        _within(source, f"{at}: default_time_s", partition.default_time_s, 0)
        if partition.max_time_s and partition.default_time_s > partition.max_time_s:
            expected = f"at most max_time_s ({partition.max_time_s})"
            _refuse(source, f"{at}: default_time_s", expected, partition.default_time_s)
        strange = [name for name in partition.nodes if name not in known]
        if known and strange:  # where no node is declared, nodes are known only when they join
            _refuse(source, f"{at}: nodes", "declared nodes ([[node]])", f'"{strange[0]}"')


def _check_switches(switches: tuple[SwitchSettings, ...], declared: set[NodeName], source: str) -> None:
    """A forest: each switch and each node hangs on one switch at most, and no switch hangs on itself."""
    _unique(source, "switch", [switch.name for switch in switches])
    names = {switch.name for switch in switches}
    above: dict[str, str] = {}
    for switch in switches:
        at = f'[[switch]] "{switch.name}"'
        if not _NAME.fullmatch(switch.name):
            _refuse(source, f"{at}: name", "letters, digits, dot, dash and underscore", f'"{switch.name}"')
        if bool(switch.nodes) == bool(switch.switches):
            found = "both" if switch.nodes else "neither"
            _refuse(source, at, "either nodes (a leaf) or switches", found)
        for kind, key, below, known in (
            ("node", "nodes", switch.nodes, declared),
            ("switch", "switches", switch.switches, names),
        ):
            for name in below:
                if name not in known:
                    _refuse(source, f"{at}: {key}", f"a name that a [[{kind}]] declares", f'"{name}"')
                child = f"{kind} {name}"
                if child in above:
                    raise BadConfig(
                        f'{source}: {at}: {child} hangs on "{above[child]}" already; it can be on one switch'
                    )
                above[child] = switch.name
    for name in names:
        _check_no_cycle(name, above, source)


def _check_topology(settings: Settings, source: str) -> None:
    topology = settings.topology
    if topology.file and settings.switches:
        _refuse(source, "[topology] file", "either a file or [[switch]] tables", "both")
    forms = (AUTO, *FORMATS)
    if topology.format not in forms:
        _refuse(source, "[topology] format", f"one of {', '.join(forms)}", f'"{topology.format}"')
    for name in topology.levels:
        if not _NAME.fullmatch(name):
            _refuse(source, "[topology] levels", "names of letters, digits, dot, dash and underscore", f'"{name}"')
    if len(set(topology.levels)) < len(topology.levels):
        _refuse(source, "[topology] levels", "each name once", ", ".join(topology.levels))


def _check_no_cycle(name: str, above: dict[str, str], source: str) -> None:
    path = [name]
    while (parent := above.get(f"switch {path[-1]}")) is not None:
        path.append(parent)
        if parent == name:
            raise BadConfig(f"{source}: [[switch]]: expected a tree, found a circle: {' < '.join(path)}")
        if len(path) > len(above) + 1:
            return  # a circle further up: found from a switch that is on it


def _unique(source: str, kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadConfig(f'{source}: [[{kind}]] "{name}": there are two of this name')
        seen.add(name)


def _within(source: str, key: str, found: int, least: int, most: int = _MOST) -> None:
    if found < least:
        _refuse(source, key, f"{least} or more", found)
    if found > most:
        _refuse(source, key, f"{most} or less", found)


def _refuse(source: str, key: str, expected: str, found: object) -> NoReturn:
    raise BadConfig(f"{source}: {key}: expected {expected}, found {found}")
