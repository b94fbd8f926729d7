"""gsched.toml to Settings. Every mistake is a BadConfig that names file, key, what was expected and what was found.

    [cluster] [controller] [agent] [times] [limits] [scheduler] [topology]    the fields of their classes in settings.py
    [scheduler.weights]                                             the same
    [[partition]] name nodes default max_time_s default_time_s      nodes as a list: "n[1-4]", or ["n[1-4]", "x1"]
    [[node]]      name features                                     name as a list: one entry may declare many nodes
    [[switch]]    name nodes | switches                             a leaf names nodes, the others name switches
    [[local_agent]] name listen ports simulate                      what `gsched up` starts; written by it

What is left out has its default. `checks.py` holds the rules between keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import msgspec

from gsched.config.checks import check
from gsched.config.settings import (
    AgentSettings,
    ClusterSettings,
    ControllerSettings,
    LimitSettings,
    LocalAgentSettings,
    NodeSettings,
    PartitionSettings,
    SchedulerSettings,
    Settings,
    SwitchSettings,
    TimeSettings,
    TopologySettings,
    WeightSettings,
)
from gsched.errors import BadConfig, BadRequest
from gsched.spec.nodelists import expand
from gsched.values.ids import NodeName

SECTIONS: Final = ("cluster", "controller", "agent", "times", "limits", "scheduler", "topology")
LISTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "partition": PartitionSettings,
    "node": NodeSettings,
    "switch": SwitchSettings,
    "local_agent": LocalAgentSettings,
}

_S = TypeVar("_S", bound=msgspec.Struct)
_WORDS: Final[Mapping[Any, str]] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def load(path: Path | str) -> Settings:
    """Read a file. Raises BadConfig."""
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: expected UTF-8, found another byte at offset {error.start}") from None
    return parse(text, str(path))


def parse(text: str, source: str = "gsched.toml") -> Settings:
    """Read a text; `source` is the file's name for errors. Raises BadConfig."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{source}: expected TOML, found: {error}") from None
    _known_keys(source, "", tables, [*SECTIONS, *LISTS])
    partitions = tuple(_partition(source, at, entry) for at, entry in _entries(source, "partition", tables))
    settings = Settings(
        cluster=_section(source, "cluster", tables, ClusterSettings),
        controller=_section(source, "controller", tables, ControllerSettings),
        agent=_section(source, "agent", tables, AgentSettings),
        times=_section(source, "times", tables, TimeSettings),
        limits=_section(source, "limits", tables, LimitSettings),
        scheduler=_scheduler(source, tables),
        topology=_section(source, "topology", tables, TopologySettings),
        partitions=_with_default(partitions) or Settings().partitions,
        nodes=tuple(node for at, entry in _entries(source, "node", tables) for node in _nodes(source, at, entry)),
        switches=tuple(_switch(source, at, entry) for at, entry in _entries(source, "switch", tables)),
        local_agents=tuple(
            _struct(source, at, entry, LocalAgentSettings) for at, entry in _entries(source, "local_agent", tables)
        ),
    )
    check(settings, source)
    return settings


def _section(source: str, name: str, tables: Mapping[str, Any], kind: type[_S]) -> _S:
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise BadConfig(f"{source}: {name}: expected a section [{name}], found {_shown(found)}")
    return _struct(source, name, found, kind)


def _scheduler(source: str, tables: Mapping[str, Any]) -> SchedulerSettings:
    """[scheduler], with a section of its own inside."""
    found = tables.get("scheduler", {})
    if not isinstance(found, dict) or "weights" not in found:
        return _section(source, "scheduler", tables, SchedulerSettings)
    rest = {key: value for key, value in found.items() if key != "weights"}
    weights = _section(source, "scheduler.weights", {"scheduler.weights": found["weights"]}, WeightSettings)
    return msgspec.structs.replace(_struct(source, "scheduler", rest, SchedulerSettings), weights=weights)


def _entries(source: str, kind: str, tables: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """The [[kind]] entries with what to call each of them in an error."""
    found = tables.get(kind, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BadConfig(f"{source}: {kind}: expected entries [[{kind}]], with two brackets, found {_shown(found)}")
    for number, entry in enumerate(found, start=1):
        name = entry.get("name")
        at = f'[[{kind}]] "{name}"' if isinstance(name, str) else f"[[{kind}]] number {number}"
        _known_keys(source, at, entry, LISTS[kind].__struct_fields__)
        if "name" not in entry:
            raise BadConfig(f"{source}: {at}: name: expected a text, found nothing")
        yield at, entry


def _partition(source: str, at: str, entry: dict[str, Any]) -> PartitionSettings:
    return _struct(source, at, _with_lists(source, at, entry, "nodes"), PartitionSettings)


def _nodes(source: str, at: str, entry: dict[str, Any]) -> Iterable[NodeSettings]:
    names = _names(source, at, "name", entry["name"])
    rest = {key: value for key, value in entry.items() if key != "name"}
    made = _struct(source, at, {**rest, "name": names[0]}, NodeSettings)
    return (msgspec.structs.replace(made, name=name) for name in names)


def _switch(source: str, at: str, entry: dict[str, Any]) -> SwitchSettings:
    return _struct(source, at, _with_lists(source, at, entry, "nodes", "switches"), SwitchSettings)


def _with_lists(source: str, at: str, entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    expanded = {key: _names(source, at, key, entry[key]) for key in keys if key in entry}
    return {**entry, **expanded}


def _names(source: str, at: str, key: str, found: Any) -> list[NodeName]:
    """A list of names given as one text or several: each may be folded."""
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise BadConfig(f'{source}: {at}: {key}: expected a list of names, as "n[1-4]", found {_shown(found)}')
    try:
        return [name for text in texts for name in expand(text)]
    except BadRequest as error:
        raise BadConfig(f"{source}: {at}: {key}: {error.text}") from None


def _with_default(partitions: tuple[PartitionSettings, ...]) -> tuple[PartitionSettings, ...]:
    """The only partition is the default without being called so."""
    if len(partitions) == 1:
        return (msgspec.structs.replace(partitions[0], default=True),)
    return partitions


def _struct(source: str, at: str, table: dict[str, Any], kind: type[_S]) -> _S:
    """Make a settings value from a table, key by key, so that an error can name the key."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    _known_keys(source, at, table, fields)
    values = {}
    for key, found in table.items():
        try:
            values[key] = msgspec.convert(found, fields[key].type)
        except msgspec.ValidationError:
            expected = _expected(fields[key].type)
            raise BadConfig(f"{source}: {_key(at, key)}: expected {expected}, found {_shown(found)}") from None
    return kind(**values)


def _known_keys(source: str, at: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            from difflib import get_close_matches  # only on the way out

            near = get_close_matches(key, list(known), n=1)
            hint = f" (did you mean {near[0]}?)" if near else f" (known: {', '.join(known)})"
            raise BadConfig(f"{source}: {_key(at, key)}: no such {'key' if at else 'section'}{hint}")


def _key(at: str, key: str) -> str:
    if not at:
        return key
    return f"{at}: {key}" if at.startswith("[[") else f"[{at}] {key}"


def _expected(kind: Any) -> str:
    """What a value of this type is called in an error."""
    kinds = [k for k in get_args(kind) if k is not type(None)]
    if kinds and kind not in _WORDS:
        return "a list of texts" if str(kind).startswith("tuple") else _expected(kinds[0])
    return _WORDS.get(kind, "a text")


def _shown(found: Any) -> str:
    """A value as TOML would write it, with its kind where the text alone could mislead."""
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, str):
        return f'the text "{found}"'
    if isinstance(found, dict):
        return "a table"
    if isinstance(found, list):
        return f"the list [{', '.join(_shown(item) for item in found[:3])}{', ...' if len(found) > 3 else ''}]"
    return str(found)
