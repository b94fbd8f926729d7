"""What the kernel says of this machine."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import socket
from pathlib import Path

from msgspec import Struct

from gsched.topology.smi_matrix import ranges
from gsched.values.node import NumaNode


class Host(Struct, frozen=True):
    """The machine without its GPUs."""

    cpus: int  # that this process may use
    memory_mib: int
    hostname: str
    os: str
    numa_nodes: tuple[NumaNode, ...] = ()


def read_host() -> Host:
    """Read cores, memory, name and system."""
    return Host(len(os.sched_getaffinity(0)), _memory_mib(), socket.gethostname(), _system(), read_numa())


def read_numa(root: Path = Path("/sys/devices/system/node")) -> tuple[NumaNode, ...]:
    """The NUMA nodes that have cores; () where the kernel shows none. GPU memory may be a node without cores."""
    found: list[NumaNode] = []
    for path in root.glob("node[0-9]*"):
        try:
            cpus = (path / "cpulist").read_text().strip()
            meminfo = re.search(r"MemTotal:\s+(\d+) kB", (path / "meminfo").read_text())
        except OSError:
            continue
        if cpus and meminfo:
            found.append(NumaNode(int(path.name.removeprefix("node")), ranges(cpus), int(meminfo[1]) // 1024))
    return tuple(sorted(found, key=lambda node: node.index))


def boot_id() -> str:
    """Names this boot: after a restart of the machine it is another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def machine_id() -> str:
    """Names this machine for good. Where no system has given it an id, one is made from its host name and hardware."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if found := Path(path).read_text().strip():
                return found
        except OSError:
            continue
    hardware = []
    for path in ("/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/board_serial"):
        try:
            hardware.append(Path(path).read_text().strip())
        except OSError:
            continue
    return hashlib.sha256("\n".join([socket.gethostname(), *hardware]).encode()).hexdigest()[:32]


def _memory_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    raise OSError("/proc/meminfo has no MemTotal")


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    return f"{name or platform.system()}, Linux {platform.release()}"
