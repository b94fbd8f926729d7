"""A node: what its agent found, and what the controller knows and wants of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from gsched.values.ids import Instant, NodeName


class Gpu(Struct, frozen=True):
    """One device as NVML reports it."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    pci_bus_id: str = ""
    numa_node: int = 0
    minor: int = -1  # of its device node /dev/nvidiaMINOR; -1 = not known, or there is none


class Link(StrEnum):
    """How two GPUs are joined, worst last, in the words of `nvidia-smi topo -m`."""

    NVSWITCH = "NVS"
    NVLINK = "NV"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"


_NEARNESS: Final = (Link.PIX, Link.PXB, Link.PHB, Link.NODE)


def near_nics(cells: Sequence[str]) -> int:
    """Bitmask of the NICs that are nearest to a GPU, from its row of the topo matrix; 0 where all are SYS."""
    for link in _NEARNESS:
        if link in cells:
            return sum(1 << index for index, cell in enumerate(cells) if cell == link)
    return 0


class NumaNode(Struct, frozen=True):
    """One NUMA node: the cores and the memory that are near to each other."""

    index: int
    cpus: tuple[tuple[int, int], ...]  # ranges of cores, first and last
    memory_mib: int = 0  # 0 = not known

    @property
    def cores(self) -> tuple[int, ...]:
        return tuple(core for first, last in self.cpus for core in range(first, last + 1))


class Inventory(Struct, frozen=True, kw_only=True):
    """What a node has. Made by the agent; equal inventories have equal text."""

    cpus: int
    memory_mib: int
    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()  # (n_gpus, n_gpus) cells of the topo matrix: "X", "NV18", "PIX", ...
    nics: tuple[str, ...] = ()  # network adapters for jobs, by the kernel's names
    near_nics: tuple[int, ...] = ()  # for each GPU a bitmask of the NICs nearest to it; () = not known
    numa_nodes: tuple[NumaNode, ...] = ()  # () = not known
    nvlink_domain: str = ""  # of GPUs that are joined by NVLink over nodes (NVL72): cluster and clique; "" = in none
    port_first: int = 20000  # range of rendezvous ports this agent may give out
    port_last: int = 29999
    hostname: str = ""
    simulated: bool = False
    driver: str = ""
    os: str = ""


class NodeState(StrEnum):
    """What ginfo shows; Slurm's words."""

    IDLE = "IDLE"
    MIXED = "MIXED"
    ALLOCATED = "ALLOCATED"
    COMPLETING = "COMPLETING"
    RESERVED = "RESERVED"  # idle, and for a reservation's users only
    MAINT = "MAINT"  # idle, and reserved for maintenance
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    DOWN = "DOWN"
    UNKNOWN = "UNKNOWN"  # known, never reconciled since the controller started


class Node(Struct, frozen=True, kw_only=True):
    """What the controller keeps of a node."""

    name: NodeName
    inventory: Inventory
    address: str = ""  # host:port of the agent's stream server
    machine_id: str = ""
    boot_id: str = ""
    first_seen: Instant
    drained: bool = False
    drain_reason: str = ""
    drained_by: str = ""
    drained_at: Instant | None = None
    lost_at: Instant | None = None  # silent for longer than lost_after; its runs were declared lost
    failed_jobs: tuple[int, ...] = ()  # different jobs whose launch failed here since the last good launch
