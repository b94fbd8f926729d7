"""The first thing said on a connection: which version each side speaks.

The one who connects sends `Hello` as a push in the same write as its first request, so it costs no round trip; the
other side answers with its own before its first reply. Versions one minor apart work together; others are refused
with the code `protocol.version`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from gsched.errors import VersionMismatch

PROTOCOL_VERSION: Final = (0, 1)  # major, minor


class Hello(Struct, tag="hello", frozen=True):
    version: tuple[int, int] = PROTOCOL_VERSION
    software: str = ""  # for the log
    features: tuple[str, ...] = ()  # what the sender understands beyond its version; unknown ones are ignored


def require_compatible(theirs: tuple[int, int], ours: tuple[int, int] = PROTOCOL_VERSION) -> None:
    """Raises VersionMismatch, which names both versions and what to do."""
    if theirs[0] == ours[0] and abs(theirs[1] - ours[1]) <= 1:
        return
    raise VersionMismatch(
        f"protocol version {theirs[0]}.{theirs[1]} is not understood here: this side speaks {ours[0]}.{ours[1]}, "
        "and versions may be one minor apart; install the same release of gsched on both sides"
    )
