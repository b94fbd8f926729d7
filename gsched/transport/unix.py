"""Listening unix sockets: a stale one is replaced in one step, one that somebody listens on is left alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from gsched.errors import BadConfig, Conflict


def listen_unix(path: Path, mode: int) -> socket.socket:
    """Open a listening socket at `path` with permissions `mode`; give it to `loop.create_unix_server(sock=...)`.

    It is made beside `path` and renamed over it, so a client never finds the path missing while a daemon that was
    killed comes back. Raises Conflict if somebody listens there, BadConfig if the path cannot be used.
    """
    _refuse_if_alive(path)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    if len(os.fsencode(fresh)) > 107:
        raise BadConfig(f"socket path {path} is too long: a unix socket's path has at most 100 bytes or so")
    fresh.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(os.fspath(fresh))
        fresh.chmod(mode)
        server.listen(1024)
        fresh.replace(path)
    except OSError as error:
        server.close()
        fresh.unlink(missing_ok=True)
        raise BadConfig(f"cannot listen on {path}: {error.strerror or error}") from None
    server.setblocking(False)
    return server


def remove_unix(path: Path, made: os.stat_result) -> None:
    """Remove the socket at `path` if it is still the one that `made` describes."""
    try:
        now = path.stat()
        if (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino):
            path.unlink()
    except FileNotFoundError:
        pass


def _refuse_if_alive(path: Path) -> None:
    try:
        if not path.is_socket():
            if path.exists():
                raise BadConfig(f"cannot listen on {path}: it exists and is not a socket")
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(2.0)
            probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return
    except OSError as error:  # also: its backlog is full, so somebody is there
        raise Conflict(f"cannot listen on {path}: {error.strerror or error}") from None
    raise Conflict(f"cannot listen on {path}: another process listens there already; stop it first")
