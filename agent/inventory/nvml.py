"""What NVIDIA's driver says, GPU by GPU: one that fails hides no other.

`pynvml` loads libnvidia-ml.so.1; where that is missing the node has no GPUs for us. Calls may take milliseconds on
hardware: run `read_gpus` in a thread.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Final

import pynvml
import structlog
from msgspec import Struct

from gsched.values.node import Gpu, Link

log = structlog.get_logger()

_ANCESTORS: Final = {  # nvmlGpuTopologyLevel_t
    0: Link.PIX,  # two GPUs on one board
    10: Link.PIX,
    20: Link.PXB,
    30: Link.PHB,
    40: Link.NODE,
    50: Link.SYS,
}
_MIB: Final = 1024 * 1024


class Found(Struct, frozen=True):
    """The node's GPUs in NVML's order, the matrix of their links, and the driver."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()
    nvlink_domain: str = ""  # "" = NVLinks end inside the node
    driver: str = ""
    bad: tuple[str, ...] = ()  # GPUs that could not be read, and why


def read_gpus() -> Found:
    """Ask the driver. Without its library: nothing, and a line in the log."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.info("nvml.absent", error=str(error), effect="this node offers no GPUs")
        return Found()
    try:
        return _read()
    finally:
        pynvml.nvmlShutdown()


def _read() -> Found:
    handles: dict[int, Any] = {}
    gpus: list[Gpu] = []
    bad: list[str] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(_read_gpu(index, handle))
            handles[index] = handle
        except pynvml.NVMLError as error:
            bad.append(f"GPU {index}: {error}")
            log.error("nvml.gpu_unreadable", index=index, error=str(error))
    nvlinks = {gpu.index: _nvlinks(handles[gpu.index]) for gpu in gpus}
    links = tuple(tuple(_cell(a, b, handles, nvlinks) for b in gpus) for a in gpus)
    domains = {_nvlink_domain(handles[gpu.index]) for gpu in gpus}
    return Found(tuple(gpus), links, domains.pop() if len(domains) == 1 else "", _driver(), tuple(bad))


def _read_gpu(index: int, handle: Any) -> Gpu:
    bus_id = pynvml.nvmlDeviceGetPciInfo(handle).busId
    return Gpu(
        index=index,
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        model=_text(pynvml.nvmlDeviceGetName(handle)),
        memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB,
        pci_bus_id=_text(bus_id),
        numa_node=_numa_node(_text(bus_id)),
        minor=_minor(handle),
    )


def _cell(a: Gpu, b: Gpu, handles: dict[int, Any], nvlinks: dict[int, dict[str, int]]) -> str:
    """One cell of the matrix, as `nvidia-smi topo -m` prints it."""
    if a.index == b.index:
        return "X"
    direct = nvlinks[a.index].get(b.pci_bus_id.lower(), 0)
    switched = min(nvlinks[a.index].get("switch", 0), nvlinks[b.index].get("switch", 0))
    if direct or switched:
        return f"{Link.NVLINK}{direct or switched}"
    try:
        level = pynvml.nvmlDeviceGetTopologyCommonAncestor(handles[a.index], handles[b.index])
    except pynvml.NVMLError as error:
        log.warning("nvml.topology", gpus=(a.index, b.index), error=str(error))
        return Link.SYS
    return _ANCESTORS.get(level, Link.SYS)


def _nvlinks(handle: Any) -> dict[str, int]:
    """How many active NVLinks lead where: to a GPU by its bus id, or to the "switch"."""
    found: dict[str, int] = {}
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) != pynvml.NVML_FEATURE_ENABLED:
                continue
            if pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                peer = "switch"
            else:
                peer = _text(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower()
        except pynvml.NVMLError:
            break  # past the last link, or none at all: the driver says so with various errors
        found[peer] = found.get(peer, 0) + 1
    return found


def _nvlink_domain(handle: Any) -> str:
    """Cluster and clique that the fabric manager has put the GPU in, as CLUSTER.CLIQUE; "" where it has not."""
    found = pynvml.c_nvmlGpuFabricInfo_t()
    try:
        pynvml.nvmlDeviceGetGpuFabricInfo(handle, pynvml.byref(found))
    except pynvml.NVMLError:
        return ""  # a driver or a GPU that knows no fabric
    cluster = bytes(found.clusterUuid)
    ready = found.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and found.status == pynvml.NVML_SUCCESS
    return f"{uuid.UUID(bytes=cluster)}.{found.cliqueId}" if ready and any(cluster) else ""


def _minor(handle: Any) -> int:
    try:
        return int(pynvml.nvmlDeviceGetMinorNumber(handle))
    except pynvml.NVMLError:
        return -1


def _numa_node(bus_id: str) -> int:
    """From sysfs, which writes the domain with four digits; 0 where it does not say."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        return max(0, int(Path(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node").read_text()))
    except (OSError, ValueError):
        return 0


def _driver() -> str:
    try:
        return _text(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return ""


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
