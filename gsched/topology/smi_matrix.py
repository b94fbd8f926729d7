"""`nvidia-smi topo -m` (or -mp): how GPUs and NICs of one node are joined, and which cores are near each GPU.

Taken as it is printed by various drivers: tabs or blanks, NICs called NIC0 or mlx5_0, with or without rows of NICs (or
with some of them cut off), with or without columns for NUMA nodes, with or without a legend.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from gsched.errors import BadConfig
from gsched.topology.tree import refuse
from gsched.values.node import NumaNode, near_nics

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_CELL: Final = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS")
_RANGES: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_NIC_NAME: Final = re.compile(r"\s*(NIC\d+):\s+(\S+)\s*")


class Inside(Struct, frozen=True):
    """What joins the parts of one node. Rows and columns are in the order of the GPUs' and NICs' numbers."""

    links: tuple[tuple[str, ...], ...]  # (gpus, gpus): "X", "NV18", "PIX", ...
    nics: tuple[str, ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()  # (gpus, nics)
    gpu_cpus: tuple[tuple[tuple[int, int], ...], ...] = ()  # ranges of cores near each GPU; () = not printed
    gpu_numa: tuple[int, ...] = ()  # NUMA node of each GPU, -1 = not printed

    @property
    def near_nics(self) -> tuple[int, ...]:
        """For each GPU a bitmask of the NICs nearest to it; 0 where all are across the sockets."""
        return tuple(near_nics(row) for row in self.nic_links)

    @property
    def numa_nodes(self) -> tuple[NumaNode, ...]:
        """The NUMA nodes that have GPUs, with their cores."""
        known = {numa: cpus for numa, cpus in zip(self.gpu_numa, self.gpu_cpus, strict=True) if numa >= 0 and cpus}
        return tuple(NumaNode(numa, cpus) for numa, cpus in sorted(known.items()))


def ranges(text: str) -> tuple[tuple[int, int], ...]:
    """`0-55,112` -> ((0, 55), (112, 112)). The text is known to be of that form."""
    pairs = [part.partition("-") for part in text.split(",")]
    return tuple((int(first), int(last or first)) for first, _, last in pairs)


def read_matrix(text: str, source: str) -> Inside:
    """Raises BadConfig with file and line."""
    devices: list[str] = []
    tail: list[str] = []
    rows: dict[str, tuple[list[str], list[str]]] = {}  # device -> cells, what follows them
    names: dict[str, str] = {}
    legend = False
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _ESCAPES.sub("", raw)
        legend = legend or line.strip() in ("Legend:", "NIC Legend:")
        if found := _NIC_NAME.fullmatch(line):
            names[found[1]] = found[2]
        if legend or not line.strip() or line.startswith("#"):
            continue
        if not devices:
            devices, tail = _header(line, number, source)
            continue
        first, *cells = line.split()
        if first not in devices or first in rows:
            refuse(source, number, "a row for each device of the header", repr(first))
        rows[first] = _row(cells, len(devices), number, source)
    if not devices:
        raise BadConfig(f"{source}: expected what `nvidia-smi topo -m` prints, found no line of GPU0, GPU1, ...")
    return _inside(devices, tail, rows, names, source)


def _header(line: str, number: int, source: str) -> tuple[list[str], list[str]]:
    """The devices, and which columns follow them."""
    words = line.split()
    devices = words[: words.index("CPU")] if "CPU" in words else words
    if not devices or not re.fullmatch(r"GPU\d+", devices[0]) or len(set(devices)) < len(devices):
        refuse(source, number, "a header of devices, GPU0 first", repr(line.strip()[:60]))
    return devices, [name for name in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID") if name in " ".join(words)]


def _row(cells: list[str], count: int, number: int, source: str) -> tuple[list[str], list[str]]:
    if len(cells) < count:
        refuse(source, number, f"{count} cells", f"{len(cells)}")
    for cell in cells[:count]:
        if not _CELL.fullmatch(cell):
            refuse(source, number, "X, NV with a number, PIX, PXB, PHB, NODE or SYS", repr(cell))
    return cells[:count], cells[count:]


def _inside(
    devices: list[str],
    tail: list[str],
    rows: dict[str, tuple[list[str], list[str]]],
    names: dict[str, str],
    source: str,
) -> Inside:
    gpus = sorted((d for d in devices if re.fullmatch(r"GPU\d+", d)), key=lambda d: int(d[3:]))
    nics = [d for d in devices if d not in gpus]
    column = {device: at for at, device in enumerate(devices)}

    def cell(a: str, b: str) -> str:
        if a == b:
            return "X"
        for row, other in ((a, b), (b, a)):  # one of the two rows may be missing
            if row in rows:
                return rows[row][0][column[other]]
        raise BadConfig(f"{source}: expected a row of {a} or of {b}, found neither")

    after = [dict(zip(tail, rows[gpu][1] if gpu in rows else (), strict=False)) for gpu in gpus]
    cpus = [row.get("CPU Affinity", "") for row in after]
    numa = [row.get("NUMA Affinity", "") for row in after]
    return Inside(
        links=tuple(tuple(cell(a, b) for b in gpus) for a in gpus),
        nics=tuple(names.get(nic, nic) for nic in nics),
        nic_links=tuple(tuple(cell(gpu, nic) for nic in nics) for gpu in gpus),
        gpu_cpus=tuple(ranges(text) if _RANGES.fullmatch(text) else () for text in cpus),
        gpu_numa=tuple(ranges(text)[0][0] if _RANGES.fullmatch(text) else -1 for text in numa),
    )
