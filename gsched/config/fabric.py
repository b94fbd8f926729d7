"""The topology that settings name: read once, by those who place jobs. Agents and commands need it not."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gsched.config.settings import Settings
from gsched.topology.read import read_topology
from gsched.topology.tree import renamed


def with_topology(settings: Settings, path: Path | str) -> Settings:
    """The settings with their topology file read. path: of gsched.toml. Raises BadConfig."""
    wanted = settings.topology
    if not wanted.file:
        return settings
    file = Path(path).parent / wanted.file
    found = read_topology(file, wanted.format)
    return replace(settings, fabric=renamed(found, wanted.levels, f"{path}: [topology] levels"))
