"""Pretended machines: `8xH100-SXM` is a node with eight GPUs as that machine's description says. Jobs on it are real.

A description is a file of `machines/`, named after its model; it says where its facts come from.
"""

from __future__ import annotations

import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from gsched.errors import BadRequest
from gsched.topology.smi_matrix import ranges
from gsched.values.node import Gpu, Inventory, NumaNode, near_nics

_MACHINES: Final = Path(__file__).parent / "machines"
_NAMESPACE: Final = uuid.UUID("3f1c1f5e-6f0c-5a52-8d3b-9c0a7f2d4e11")


class Machine(Struct, frozen=True, forbid_unknown_fields=True):
    """One description. Rows of `links` are as `nvidia-smi topo -m` prints them."""

    model: str  # the name that NVML prints
    gpu_memory_mib: int
    cpus: int  # cores
    memory_mib: int
    links: tuple[str, ...]
    numa_nodes: tuple[int, ...]
    pci_bus_ids: tuple[str, ...] = ()  # () = made up, in order
    nics: tuple[str, ...] = ()
    nic_links: tuple[str, ...] = ()  # a row for each GPU, a cell for each NIC
    numa_cpus: tuple[str, ...] = ()  # cores of NUMA node 0, 1, ...
    driver: str = ""

    @property
    def gpus(self) -> int:
        return len(self.numa_nodes)


def known_models() -> tuple[str, ...]:
    """The models that have a description."""
    return tuple(sorted(path.stem for path in _MACHINES.glob("*.toml")))


def load_machine(model: str) -> Machine:
    """Read one description. Raises BadRequest for an unknown model, with those that exist."""
    if model not in known_models():
        raise BadRequest(f"no machine with GPUs of model {model!r} can be simulated; known: {_known()}")
    with (_MACHINES / f"{model}.toml").open("rb") as file:
        return msgspec.convert(tomllib.load(file), Machine)


def simulate(text: str, node: str) -> Inventory:
    """The inventory of a pretended node, `COUNTxMODEL`. Raises BadRequest: form, model, count."""
    count_text, _, model = text.partition("x")
    if not count_text.isascii() or not count_text.isdecimal() or not model:
        raise BadRequest(f"cannot simulate {text!r}: write COUNTxMODEL, as 8xH100-SXM; models: {_known()}")
    machine = load_machine(model)
    count = int(count_text)
    if not 1 <= count <= machine.gpus:
        raise BadRequest(f"cannot simulate {text!r}: a {model} machine has 1 to {machine.gpus} GPUs")
    gpus = tuple(_gpu(machine, model, node, index) for index in range(count))
    links = tuple(tuple(row.split()[:count]) for row in machine.links[:count])
    return Inventory(
        cpus=machine.cpus,
        memory_mib=machine.memory_mib,
        gpus=gpus,
        links=links,
        hostname=node,
        simulated=True,
        driver=machine.driver,
        nics=machine.nics,
        near_nics=tuple(near_nics(row.split()) for row in machine.nic_links[:count]),
        numa_nodes=tuple(_numa_nodes(machine)),
    )


def _numa_nodes(machine: Machine) -> Iterator[NumaNode]:
    """Memory is dealt out evenly."""
    for index, cpus in enumerate(machine.numa_cpus):
        yield NumaNode(index, ranges(cpus), machine.memory_mib // len(machine.numa_cpus))


def _gpu(machine: Machine, model: str, node: str, index: int) -> Gpu:
    bus_id = machine.pci_bus_ids[index] if machine.pci_bus_ids else f"00000000:{16 * (index + 1):02X}:00.0"
    name = uuid.uuid5(_NAMESPACE, f"{node}/{model}/{index}")  # the same node has the same GPUs after a restart
    return Gpu(
        index=index,
        uuid=f"GPU-{name}",
        model=machine.model,
        memory_mib=machine.gpu_memory_mib,
        pci_bus_id=bus_id,
        numa_node=machine.numa_nodes[index],
    )


def _known() -> str:
    return ", ".join(f"{load_machine(name).gpus}x{name}" for name in known_models())
