"""Picks the reader: by the format that was said, or by what the text looks like. A gzipped file is unpacked first."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gsched.errors import BadConfig, BadRequest, TooLarge
from gsched.topology.ibnetdiscover import looks_like_ibnetdiscover, read_ibnetdiscover
from gsched.topology.own_yaml import read_own
from gsched.topology.slurm import looks_like_slurm, read_slurm
from gsched.topology.topograph import read_topograph
from gsched.values.topology import Topology

AUTO: Final = "auto"
FORMATS: Final[Mapping[str, Callable[[str, str], Topology]]] = {
    "slurm": read_slurm,
    "topograph": read_topograph,
    "ibnetdiscover": read_ibnetdiscover,
    "yaml": read_own,
}
BYTES_MAX: Final = 256 * 1024 * 1024  # unpacked


def read_topology(path: Path | str, format: str = AUTO) -> Topology:
    """Read a file. Raises BadConfig: file, line, what was expected; TooLarge; BadRequest for an unknown format."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(2)
            file.seek(0)
            packed = start == b"\x1f\x8b"
            body = gzip.GzipFile(fileobj=file).read(BYTES_MAX + 1) if packed else file.read(BYTES_MAX + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadConfig(f"{path}: cannot be unpacked: {error}") from None
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror}") from None
    if len(body) > BYTES_MAX:
        raise TooLarge(f"{path}: more than {BYTES_MAX >> 20} MiB of text")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: expected UTF-8, found another byte at offset {error.start}") from None
    return parse_topology(text, str(path), format)


def parse_topology(text: str, source: str, format: str = AUTO) -> Topology:
    """Read a text. Raises BadConfig, and BadRequest for an unknown format."""
    if format != AUTO and format not in FORMATS:
        raise BadRequest(f"no format is called {format!r}; there are {AUTO}, {', '.join(FORMATS)}")
    return FORMATS[guess(text, source) if format == AUTO else format](text, source)


def guess(text: str, source: str) -> str:
    """The format of a text. Raises BadConfig."""
    if looks_like_ibnetdiscover(text):
        return "ibnetdiscover"
    if looks_like_slurm(text):
        return "slurm"
    keys = set(re.findall(r"(?m)^([A-Za-z_]\w*):", text))
    if {"levels", "domains"} & keys:
        return "yaml"
    if {"blocks", "switches"} & keys:
        return "topograph"
    raise BadConfig(
        f"{source}: expected a topology: Slurm's (SwitchName=, BlockName=), topograph's model (switches:, blocks:), "
        f"the output of ibnetdiscover, or our own YAML (levels:, domains:); found none of these"
    )
