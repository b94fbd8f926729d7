"""Taking the inventory: the machine as it is, or the one that it pretends to be."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from agent.inventory.host import read_host
from agent.inventory.nvml import read_gpus
from agent.inventory.simulated import simulate
from gsched.errors import BadRequest
from gsched.values.ids import NodeName
from gsched.values.node import Inventory

PORT_MAX: Final = 65535


def take_inventory(node: NodeName, simulated: str = "", ports: tuple[int, int] = (20000, 29999)) -> Inventory:
    """What this node offers. simulated: `COUNTxMODEL` or "". Raises BadRequest. Blocks: the driver may be slow."""
    host = read_host()
    if simulated:
        inventory = replace(simulate(simulated, node), os=host.os)
    else:
        found = read_gpus()
        inventory = Inventory(
            cpus=host.cpus,
            memory_mib=host.memory_mib,
            gpus=found.gpus,
            links=found.links,
            numa_nodes=host.numa_nodes,
            nvlink_domain=found.nvlink_domain,
            hostname=host.hostname,
            driver=found.driver,
            os=host.os,
        )
    return replace(inventory, port_first=ports[0], port_last=ports[1])


def parse_ports(text: str) -> tuple[int, int]:
    """Read "20000-22499". Raises BadRequest."""
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal() and 1024 <= int(first) <= int(last) <= PORT_MAX):
        raise BadRequest(f"not a range of ports: {text!r} (write FIRST-LAST, between 1024 and {PORT_MAX})")
    return int(first), int(last)
