"""Frames: four bytes of length (big endian), then one msgpack value `[kind, id, body]`.

kind: 0 request (id chosen by the sender), 1 reply (the request's id), 2 error (the request's id; body [code, text]),
3 push (id 0). `body` is a tagged message as a map. Sans-I/O: feed bytes, take messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

import msgpack
import msgspec

from gsched.errors import ProtocolError, TooLarge

MAX_FRAME: Final = 8 * 1024 * 1024  # bytes; script 4 MiB + environment 1 MiB + room
REQUEST: Final = 0
REPLY: Final = 1
ERROR: Final = 2
PUSH: Final = 3

_LENGTH = struct.Struct(">I")
_FRAME = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw])
# What msgpack raises on bytes that are not msgpack; TypeError: a list or a map as the key of a map
_UNREADABLE: Final = (ValueError, TypeError, OverflowError, msgpack.UnpackException)


class Frame(NamedTuple):
    """One frame taken apart; the body is still packed."""

    kind: int
    id: int
    packed: bytes

    def read(self, expected: Any) -> Any:
        """The body as the message type (or union) `expected`. Raises ProtocolError."""
        return unpack_body(self.packed, expected)

    @property
    def body(self) -> Any:
        """The body as plain msgpack types. Raises ProtocolError."""
        try:
            return _unpack(self.packed)
        except _UNREADABLE as error:
            raise ProtocolError(f"not msgpack: {error}") from None


def _pack(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)  # the same bytes, five times faster
    except UnicodeEncodeError:
        # surrogateescape: names and variables that are not UTF-8 come back as the same bytes
        plain = msgspec.to_builtins(value, builtin_types=(bytes,))
        return bytes(msgpack.packb(plain, unicode_errors="surrogateescape"))


def _unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape")


@cache
def _decoder(expected: Any) -> msgspec.msgpack.Decoder[Any]:
    """Made once for each type: looking into a union takes ten times as long as reading a message."""
    return msgspec.msgpack.Decoder(expected)


def pack_body(message: Any) -> bytes:
    """Pack one message alone, without a frame (for bodies carried inside other messages)."""
    return _pack(message)


def unpack_body(data: bytes, expected: Any) -> Any:
    """Unpack what pack_body made and check it against the type `expected`. Raises ProtocolError."""
    # names that are not UTF-8 take the slower way, which also words the error
    with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
        return _decoder(expected).decode(data)
    try:
        return check_body(_unpack(data), expected)
    except _UNREADABLE as error:
        raise ProtocolError(f"not msgpack: {error}") from None


def check_body(body: Any, expected: Any) -> Any:
    """Turn plain types into the message type (or union) `expected`. Raises ProtocolError."""
    try:
        return msgspec.convert(body, expected)
    except (msgspec.ValidationError, UnicodeError) as error:  # the latter: a tag or key that is not UTF-8
        raise ProtocolError(f"malformed message: {error}") from None


def encode(kind: int, id: int, message: Any) -> bytes:
    """Make one frame. Raises TooLarge, which names the limit and the size."""
    data = _pack([kind, id, message])
    if len(data) > MAX_FRAME:
        raise TooLarge(f"message of {len(data)} bytes: at most {MAX_FRAME} fit in one frame")
    return _LENGTH.pack(len(data)) + data


class Decoder:
    """Collects bytes and gives whole frames. After a ProtocolError the connection must be closed.

    A caller may stop in the middle of `feed`; `feed(b"")` goes on with what is left.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._max = max_frame

    def keep(self, data: bytes) -> None:
        """Take received bytes; their frames come with the next `feed`."""
        self._buffer += data

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take received bytes; give each frame that is now whole."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= 4:
                (size,) = _LENGTH.unpack_from(self._buffer, start)
                if size > self._max:
                    raise ProtocolError(f"frame of {size} bytes: at most {self._max} are taken")
                if len(self._buffer) - start - 4 < size:
                    break
                body = bytes(self._buffer[start + 4 : start + 4 + size])
                start += 4 + size  # before the frame is given away: a caller may stop here and go on later
                yield _frame(body)
        finally:
            del self._buffer[:start]


def _frame(data: bytes) -> Frame:
    try:
        kind, id, body = _FRAME.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame holds [kind, id, body]: {error}") from None
    if not REQUEST <= kind <= PUSH:
        raise ProtocolError(f"a frame of kind {kind}: there are {REQUEST} to {PUSH}")
    return Frame(kind, id, bytes(body))
