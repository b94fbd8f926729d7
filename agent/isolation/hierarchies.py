"""Where this machine's control groups are mounted, read from the kernel's own list."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

CONTROLLERS: Final = ("memory", "pids", "cpu", "cpuset")  # those that a run is held by
MOUNTS: Final = Path("/proc/self/mountinfo")


class Hierarchies(Struct, frozen=True):
    """version1: controller -> where it is mounted; unified: version 2, with the controllers that it has."""

    version1: dict[str, Path] = {}
    unified: Path | None = None
    unified_has: frozenset[str] = frozenset()

    def of(self, controller: str) -> tuple[Path, int] | None:
        """(mount point, version) of the hierarchy that has a controller; None if no hierarchy does."""
        if controller in self.version1:
            return self.version1[controller], 1
        if self.unified is not None and controller in self.unified_has:
            return self.unified, 2
        return None


def read_mounts(mountinfo: str) -> tuple[dict[str, Path], Path | None]:
    """(version 1 by controller, version 2) of the text of /proc/PID/mountinfo; of several mounts the first."""
    version1: dict[str, Path] = {}
    unified: Path | None = None
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not dash or len(fields) < 5 or len(kind) < 3:
            continue
        place = Path(fields[4].encode().decode("unicode_escape"))
        if kind[0] == "cgroup2" and unified is None:
            unified = place
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                if option in CONTROLLERS:
                    version1.setdefault(option, place)
    return version1, unified


def find_hierarchies(mounts: Path = MOUNTS) -> Hierarchies:
    """What this machine has. Raises OSError if /proc cannot be read."""
    version1, unified = read_mounts(mounts.read_text())
    has: frozenset[str] = frozenset()
    if unified is not None:
        has = frozenset((unified / "cgroup.controllers").read_text().split())
    return Hierarchies(version1, unified, has & frozenset(CONTROLLERS))
