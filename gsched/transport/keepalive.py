"""Noticing that the other side's machine is gone: a quiet TCP connection would stand for hours."""

from __future__ import annotations

import socket
from typing import Final

IDLE_S: Final = 15
EVERY_S: Final = 5
PROBES: Final = 3


def keep_alive(sock: socket.socket) -> None:
    """Break the connection when its other end is silent for half a minute. A listener's connections inherit it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
