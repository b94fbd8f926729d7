"""A control group for each run: how much memory, how many processes, what share of the cores, which GPUs.

One directory a run in each hierarchy that has one of the controllers, below `gsched/SPOOL` at the top, where SPOOL
stands for the agent's spool: several agents on one machine do not meet, and the next agent finds what this one made.
What of a run is alive is what its group lists, whatever became of its parents and its environment.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from agent.isolation.devices import allow_only
from agent.isolation.hierarchies import CONTROLLERS, MOUNTS, Hierarchies, find_hierarchies
from gsched.config.settings import AgentSettings, Cgroups
from gsched.errors import BadConfig
from gsched.values.ids import RunKey

log = structlog.get_logger()

DEVICES: Final = "devices"  # GPUs' device nodes, by a program in the kernel
WANTED: Final = (*CONTROLLERS, DEVICES)
SUPERVISOR_MIB: Final = 32  # on top of a run's memory: its supervisor is in the group too
_SHARES: Final = 1024  # version 1, of one core
_WEIGHT: Final = 100  # version 2, of one core
_WEIGHT_MAX: Final = 10_000
_REMOVE_S: Final = 5.0  # a supervisor is gone a moment after its last word
_PAUSE_S: Final = 0.01
_MIB: Final = 1024 * 1024


class Limits(Struct, frozen=True):
    """What one run may use of this node."""

    memory_mib: int = 0  # 0 = no limit
    pids: int = 0  # processes and threads; 0 = no limit
    cpus: int = 1  # its share when cores are short
    cores: tuple[int, ...] = ()  # by number; () = any
    gpu_minors: tuple[int, ...] | None = None  # device nodes of its GPUs; None = every one may be opened


class RunGroups(Struct, frozen=True):
    """What a supervisor must know of its run's groups."""

    procs: tuple[str, ...] = ()  # writing a pid there moves that process into the group
    oom: str = ""  # a file with a line `oom_kill N`
    pids: str = ""  # writing 0 there lets nothing fork any more


class RunCgroups:
    """Makes and removes the groups of this agent's runs; without hierarchies it makes none."""

    def __init__(self, hierarchies: Hierarchies, spool: Path) -> None:
        name = hashlib.sha256(os.fsencode(spool)).hexdigest()[:12]
        self._bases: dict[Path, tuple[int, list[str]]] = {}  # our directory -> (version, its controllers)
        self.controllers: list[str] = []
        for controller in CONTROLLERS:
            if (found := hierarchies.of(controller)) is not None:
                mount, version = found
                self._bases.setdefault(mount / "gsched" / name, (version, []))[1].append(controller)
                self.controllers.append(controller)
        self._unified: Path | None = None  # our directory of version 2: only there can device nodes be shut
        if hierarchies.unified is not None:
            self._unified = hierarchies.unified / "gsched" / name
            self._bases.setdefault(self._unified, (2, []))

    def prepare(self) -> None:
        """Make our directory in each hierarchy. Raises OSError if this process may not."""
        for base, (version, controllers) in self._bases.items():
            base.mkdir(parents=True, exist_ok=True)
            if version == 2 and controllers:
                # A controller counts in a directory when every directory above passes it on.
                for above in (base.parent.parent, base.parent, base):
                    _write(above / "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))
            if version == 1 and "cpuset" in controllers:
                for place in (base.parent, base):
                    _inherit_cores(place)

    def make(self, key: RunKey, limits: Limits) -> RunGroups:
        """Make a run's groups, with its limits; again the same. Raises OSError."""
        procs: list[str] = []
        oom = pids = ""
        for base, (version, controllers) in self._bases.items():
            group = base / str(key)
            group.mkdir(exist_ok=True)
            procs.append(str(group / "cgroup.procs"))
            if "memory" in controllers:
                _limit_memory(group, version, limits)
                oom = str(group / ("memory.oom_control" if version == 1 else "memory.events"))
            if "pids" in controllers:
                pids = str(group / "pids.max")
                _write(group / "pids.max", str(limits.pids) if limits.pids else "max")
            if "cpu" in controllers:
                _share_cores(group, version, limits)
            if "cpuset" in controllers:
                _pin(group, version, limits.cores)
            if base == self._unified and DEVICES in self.controllers and limits.gpu_minors is not None:
                allow_only(group, limits.gpu_minors)
        return RunGroups(tuple(procs), oom, pids)

    def shuts_devices(self) -> bool:
        """Try whether this kernel and this process can shut device nodes; only where version 2 is mounted."""
        if self._unified is None:
            return False
        trial = self._unified / "trial"
        try:
            trial.mkdir(exist_ok=True)
            allow_only(trial, ())
        except OSError:
            return False
        finally:
            with suppress(OSError):
                trial.rmdir()
        return True

    def kill(self, key: RunKey) -> bool:
        """One round of KILL to all that is in a run's groups; True if nothing was. Its supervisor must be dead."""
        found = {pid for base in self._bases for pid in _members(base / str(key))}
        for base, (_, controllers) in self._bases.items():
            if "pids" in controllers and found:
                with suppress(OSError):
                    _write(base / str(key) / "pids.max", "0")
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    def remove(self, name: str) -> None:
        """Remove a run's groups; waits a little for the last process to be gone. For a thread of its own."""
        deadline = time.monotonic() + _REMOVE_S
        for base in self._bases:
            group = base / name
            while not _removed(group):
                if time.monotonic() > deadline:
                    log.error("cgroup.not_removed", path=str(group), members=sorted(_members(group)))
                    break
                time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Remove our own directories where no run is left in them."""
        for base in self._bases:
            with suppress(OSError):
                base.rmdir()

    def names(self) -> set[str]:
        """Every run that has groups here, of this agent or one before it."""
        return {entry.name for base in self._bases if base.exists() for entry in base.iterdir() if entry.is_dir()}


def set_up(settings: AgentSettings, spool: Path, mounts: Path = MOUNTS) -> RunCgroups:
    """The groups as the settings want them. Says what cannot be enforced; raises BadConfig if that is required."""
    none = RunCgroups(Hierarchies(), spool)
    if settings.cgroups is Cgroups.OFF:
        log.warning("isolation.off", why="[agent] cgroups is off: memory and processes of jobs are not limited")
        return none
    try:
        groups = RunCgroups(find_hierarchies(mounts), spool)
        groups.prepare()
    except OSError as error:
        why = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        return _without(settings, none, why)
    if groups.shuts_devices():
        groups.controllers.append(DEVICES)
    missing = [name for name in WANTED if name not in groups.controllers]
    if missing:
        return _without(settings, groups, f"this machine has no control group for {', '.join(missing)}")
    log.info("isolation.on", controllers=",".join(groups.controllers))
    return groups


def _without(settings: AgentSettings, groups: RunCgroups, why: str) -> RunCgroups:
    if settings.cgroups is Cgroups.REQUIRED:
        raise BadConfig(
            f'[agent] cgroups is "required", but {why}; run the agent as root on a machine with control groups for '
            f'{", ".join(WANTED)}, or set it to "auto"'
        )
    lost = [name for name in WANTED if name not in groups.controllers]
    log.warning("isolation.partly", not_enforced=",".join(lost), why=why)
    return groups


def _limit_memory(group: Path, version: int, limits: Limits) -> None:
    total = (limits.memory_mib + SUPERVISOR_MIB) * _MIB
    if version == 2:
        _write(group / "memory.max", str(total) if limits.memory_mib else "max")
        with suppress(FileNotFoundError):  # where the kernel counts no swap
            _write(group / "memory.swap.max", "0" if limits.memory_mib else "max")
        return
    if not limits.memory_mib:
        return
    with suppress(FileNotFoundError):  # first up to the new limit with swap, if there was a lower one
        _write(group / "memory.memsw.limit_in_bytes", "-1")
    _write(group / "memory.limit_in_bytes", str(total))
    with suppress(FileNotFoundError):
        _write(group / "memory.memsw.limit_in_bytes", str(total))


def _share_cores(group: Path, version: int, limits: Limits) -> None:
    if version == 2:
        _write(group / "cpu.weight", str(min(_WEIGHT * limits.cpus, _WEIGHT_MAX)))
    else:
        _write(group / "cpu.shares", str(_SHARES * limits.cpus))


def _inherit_cores(group: Path) -> None:
    """Version 1: a group without cores and memory nodes of its own lets no process in."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (group / name).exists() or not (group / name).read_text().strip():
            _write(group / name, (group.parent / name).read_text())


def _pin(group: Path, version: int, cores: tuple[int, ...]) -> None:
    if version == 1:
        _inherit_cores(group)
    if cores:
        _write(group / "cpuset.cpus", ",".join(str(core) for core in cores))


def _members(group: Path) -> set[int]:
    """Processes in a group and in the groups that a job made below it."""
    found: set[int] = set()
    for place in (group, *(path for path in group.rglob("*") if path.is_dir())):
        with suppress(OSError):
            found |= {int(pid) for pid in (place / "cgroup.procs").read_text().split()}
    return found


def _removed(group: Path) -> bool:
    try:
        below = sorted((path for path in group.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
        for path in (*below, group):
            path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
