"""Who is at the other end of a unix socket, as the kernel says; and what a uid is called here."""

from __future__ import annotations

import pwd
import socket
import struct
import threading
import time
from typing import Final, NamedTuple

_CREDENTIALS: Final = struct.Struct("iII")
_KEPT_S: Final = 60.0  # names change rarely, and a directory service may be slow
_KEPT: Final = 10_000  # names


class Peer(NamedTuple):
    """Kernel-proved at connect. The uid counts; the pid is only a hint, it may be another process by now."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The credentials of the process that connected to this unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))


class UserNames:
    """Names of uids, looked up once a minute at most. `find` may block (a directory service): call it in a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[int, tuple[float, str]] = {}

    def known(self, uid: int) -> str | None:
        """The name if it was looked up lately; never blocks for long."""
        with self._lock:
            at, name = self._names.get(uid, (-_KEPT_S, ""))
        return name if time.monotonic() - at < _KEPT_S and name else None

    def find(self, uid: int) -> str:
        """The name; a uid without one is called by its number."""
        known = self.known(uid)
        if known is not None:
            return known
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        with self._lock:
            if len(self._names) >= _KEPT:
                self._names.clear()
            self._names[uid] = (time.monotonic(), name)
        return name
