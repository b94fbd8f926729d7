"""A node: what its agent found, and what the controller knows and wants of it."""

from __future__ import annotations

from enum import StrEnum

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


class Link(StrEnum):
    """How two GPUs are joined, worst last, in the words of `nvidia-smi topo -m`."""

    NVSWITCH = "NVS"
    NVLINK = "NV"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"


class Inventory(Struct, frozen=True, kw_only=True):
    """What a node has. Made by the agent; equal inventories have equal text."""

    cpus: int
    memory_mib: int
    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()  # (n_gpus, n_gpus) cells of the topo matrix: "X", "NV18", "PIX", ...
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
