"""Where the store lives: a directory of its own on a local disk, held by one gschedd at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from gschedd.store.journal import StoreRefused, StoreUnavailable

# Their locks and shared memory don't reach other machines: SQLite's WAL is not safe there (sqlite.org/wal.html).
# 9p is not among them: sandboxes show their own local disk as 9p.
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "pvfs2", "glusterfs"}
    | {"gfs2", "ocfs2", "panfs", "wekafs", "coda", "ncpfs", "orangefs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.s3fs", "fuse.rclone"}
    | {"fuse.moosefs", "fuse.lizardfs", "fuse.seaweedfs", "fuse.gcsfuse", "fuse.davfs"}
)


def file_system_of(path: Path, mountinfo: str | None = None) -> str:
    """Give the type of the file system that `path` is on, as /proc/self/mountinfo names it; "" if it can't be told."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    real = path.resolve()
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = fields[4].encode("latin-1", "replace").decode("unicode_escape") if "\\" in fields[4] else fields[4]
        depth = len(Path(point).parts)
        if depth >= best and real.is_relative_to(point):  # of two mounts at one place the later hides the earlier
            best, kind = depth, right.split(" ")[0]
    return kind


def refuse_network_file_system(path: Path) -> None:
    """Raise StoreRefused if `path` is on a file system that other machines share."""
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreRefused(
            f"{path} is on a network file system ({kind}), where SQLite can't keep its promises: "
            "set controller.state_dir to a directory on a local disk"
        )


class DirectoryLock:
    """Keeps a second gschedd out of the state directory for as long as this object holds it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "gschedd.lock"
        self._fd = -1

    def take(self) -> None:
        """Lock, or raise StoreRefused that names the process which has it. Once taken, does nothing."""
        if self._fd >= 0:
            return
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            raise StoreRefused(
                f"{self._path.parent} is in use by another gschedd (process {holder or 'unknown'}): stop that one "
                "first, or give this one a state directory of its own"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
