"""NCCL's topology files (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`): the same facts as of `nvidia-smi topo -m`.

PCI devices hang in bridges (class 0x0604) under CPUs, which are NUMA nodes. Two devices under one bridge are PIX, under
bridges of one bridge PXB, under one CPU NODE, else SYS. NVLinks count where the file lists them, GPU to GPU; files that
clouds ship for machines with NVSwitch do not. Python's XML parser is loaded on the first call; documents with a DTD are
refused, for entities can make a small text a huge one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gsched.errors import BadConfig
from gsched.topology.smi_matrix import Inside

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_GPU: Final = ("0x0302", "0x0300")  # 3D and VGA controllers
_NIC: Final = ("0x0207", "0x0200")  # InfiniBand and Ethernet
_BRIDGE: Final = "0x0604"


class _Device(Struct, frozen=True):
    bus: str
    path: tuple[str, ...]  # CPU, then bridges
    nvlinks: dict[str, int]  # bus id of the other end -> links


def read_nccl(text: str, source: str, gpus: Collection[str] = ()) -> Inside:
    """gpus: bus ids of GPUs, for files that leave out classes and let NCCL ask the machine. Raises BadConfig."""
    from xml.etree import ElementTree

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise BadConfig(f"{source}: expected plain XML, found a document type of its own")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise BadConfig(f"{source}: line {error.position[0]}: expected XML, found an error: {error}") from None
    if root.tag != "system":
        raise BadConfig(f"{source}: expected NCCL's <system>, found <{root.tag}>")
    found = _Reader(source, frozenset(gpus))
    for cpu in root.iter("cpu"):
        found.take_cpu(cpu)
    return found.inside()


class _Reader:
    """Collects the devices of each CPU."""

    def __init__(self, source: str, known: frozenset[str]) -> None:
        self._source, self._known = source, known
        self._gpus: list[_Device] = []
        self._nics: list[_Device] = []
        self._cpus: dict[str, tuple[tuple[int, int], ...]] = {}

    def take_cpu(self, cpu: Element) -> None:
        numa = cpu.get("numaid", "")
        if not numa.isdecimal():
            raise BadConfig(f"{self._source}: expected a number as numaid of each <cpu>, found {numa!r}")
        self._cpus[numa] = self._cores(cpu.get("affinity", ""))
        for child in cpu:
            self._take(child, (numa,))

    def _cores(self, affinity: str) -> tuple[tuple[int, int], ...]:
        """Hexadecimal words, the highest first."""
        words = affinity.replace(",", "")
        try:
            return mask_ranges(int(words, 16)) if words else ()
        except ValueError:
            raise BadConfig(f"{self._source}: expected hexadecimal words as affinity, found {affinity!r}") from None

    def _take(self, element: Element, path: tuple[str, ...]) -> None:
        if element.tag == "nic":  # of no PCI device that the file knows
            self._nics += [_Device(net.get("name", ""), path, {}) for net in element.iter("net")]
        if element.tag != "pci":
            return
        bus, kind = element.get("busid", ""), element.get("class", "")
        if kind.startswith(_BRIDGE) or (not kind and len(element.findall("pci"))):
            for child in element:
                self._take(child, (*path, bus))
        elif kind.startswith(_GPU) or bus in self._known or element.find("gpu") is not None:
            self._gpus.append(_Device(bus, path, dict(_nvlinks(element))))
        elif kind.startswith(_NIC):
            names = [net.get("name", "") for net in element.iter("net")]
            self._nics.append(_Device(names[0] if names else bus, path, {}))
        elif not kind and not self._known:
            raise BadConfig(
                f"{self._source}: expected a class of device {bus}, found none: say which bus ids are GPUs, as "
                "NCCL would ask the machine"
            )

    def inside(self) -> Inside:
        gpus = sorted(self._gpus, key=lambda gpu: gpu.bus.lower())  # NVML's order
        if not gpus:
            raise BadConfig(f"{self._source}: expected GPUs (PCI class 0x0302), found none")
        return Inside(
            links=tuple(tuple(_cell(a, b) for b in gpus) for a in gpus),
            nics=tuple(nic.bus for nic in self._nics),
            nic_links=tuple(tuple(_cell(gpu, nic) for nic in self._nics) for gpu in gpus),
            gpu_cpus=tuple(self._cpus[gpu.path[0]] for gpu in gpus),
            gpu_numa=tuple(int(gpu.path[0]) for gpu in gpus),
        )


def mask_ranges(mask: int) -> tuple[tuple[int, int], ...]:
    """0b1011 -> ((0, 1), (3, 3))."""
    found: list[tuple[int, int]] = []
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            if found and found[-1][1] == bit - 1:
                found[-1] = (found[-1][0], bit)
            else:
                found.append((bit, bit))
    return tuple(found)


def _nvlinks(pci: Element) -> Iterator[tuple[str, int]]:
    for link in pci.iter("nvlink"):
        count = link.get("count", "")
        if count.isdecimal() and link.get("target"):
            yield str(link.get("target")).lower(), int(count)


def _cell(a: _Device, b: _Device) -> str:
    if a is b:
        return "X"
    if count := a.nvlinks.get(b.bus.lower(), 0):
        return f"NV{count}"
    if a.path[0] != b.path[0]:
        return "SYS"
    if len(a.path) > 1 and len(b.path) > 1 and a.path[1] == b.path[1]:
        return "PIX" if a.path == b.path else "PXB"
    return "NODE"
