"""The directory of a local cluster: what lies where, who may own it, and who works in it now."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from gsched.errors import BadRequest, Conflict, NotFound, NotPermitted
from gsched.values.ids import NodeName

SOCKET_PATH_MAX: Final = 107  # bytes; struct sockaddr_un holds 108 with the final zero
_KEPT: Final = frozenset({".lock", "log"})  # what is left of a cluster that never came up


class Place(NamedTuple):
    """Names everything in the directory. Made by `open_place` and `make_place`, which check it."""

    directory: Path

    @property
    def settings(self) -> Path:
        return self.directory / "gsched.toml"

    @property
    def socket(self) -> Path:
        return self.directory / "gschedd.sock"

    @property
    def pid_file(self) -> Path:
        return self.directory / "gschedd.pid"

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def logs(self) -> Path:
        return self.directory / "log"

    def spool(self, node: NodeName) -> Path:
        return self.directory / "nodes" / node

    def agent_socket(self, node: NodeName) -> Path:
        return self.spool(node) / "agent.sock"

    def agent_pid_file(self, node: NodeName) -> Path:
        return self.directory / f"agent-{node}.pid"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other `up` and `down` out meanwhile. Raises Conflict if one is at work."""
        handle = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"another `gsched up` or `gsched down` is at work in {self.directory}: wait until it has ended"
                ) from None
            yield
        finally:
            os.close(handle)


def default_directory() -> Path:
    """$GSCHED_DIR, else ~/.gsched/local."""
    named = os.environ.get("GSCHED_DIR")
    return Path(named) if named else Path.home() / ".gsched" / "local"


def open_place(directory: Path) -> Place:
    """Give the place of a cluster that exists. Raises NotFound, or NotPermitted if it is not this user's alone."""
    place = Place(directory.absolute())
    if not _exists(place.settings):
        raise NotFound(f"no cluster in {place.directory}: `gsched up --dir {place.directory}` makes one")
    _require_private(place.directory)
    return place


def make_place(directory: Path, node_names: tuple[NodeName, ...]) -> Place:
    """Make the directory, or take one that is empty or a cluster's already.

    Raises NotPermitted if it is not this user's alone, BadRequest if other things lie there or if the path is too long
    for the sockets in it.
    """
    place = Place(directory.absolute())
    _require_short(place, node_names)
    try:
        place.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.directory.mkdir(0o700)
    except FileExistsError:
        _require_private(place.directory)
        if not place.settings.exists() and any(entry.name not in _KEPT for entry in place.directory.iterdir()):
            raise BadRequest(
                f"{place.directory} is not empty and holds no cluster: give a directory of its own, "
                "one that does not exist yet will do"
            ) from None
    except OSError as error:
        raise BadRequest(f"cannot make {place.directory}: {os.strerror(error.errno or 0)}") from None
    return place


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        raise NotPermitted(f"no permission to look into {path.parent}: it is another user's") from None


def _require_private(directory: Path) -> None:
    """Sockets, certificates and jobs' files lie in it: others must not get in."""
    try:
        found = directory.stat()
    except OSError as error:
        raise BadRequest(f"cannot look at {directory}: {os.strerror(error.errno or 0)}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise BadRequest(f"{directory} is not a directory")
    if found.st_uid != os.getuid():
        raise NotPermitted(
            f"{directory} belongs to uid {found.st_uid}, you are uid {os.getuid()}: give a directory of your own"
        )
    if found.st_mode & 0o077:
        raise NotPermitted(
            f"{directory} has mode {stat.S_IMODE(found.st_mode):04o}: others could get at the cluster; "
            f"`chmod 700 {directory}` if that was not meant, or give another directory"
        )


def _require_short(place: Place, node_names: tuple[NodeName, ...]) -> None:
    longest = max([place.socket, *map(place.agent_socket, node_names)], key=lambda path: len(os.fsencode(path)))
    length = len(os.fsencode(longest))
    if length > SOCKET_PATH_MAX:
        raise BadRequest(
            f"the path of the socket {longest} has {length} bytes, a unix socket's can have {SOCKET_PATH_MAX}: "
            "give a shorter --dir, for example below /tmp"
        )
    try:
        os.fsencode(place.directory).decode()
    except UnicodeDecodeError:
        raise BadRequest(f"the name of the directory is not UTF-8: {place.directory!r}") from None
