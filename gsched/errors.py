"""What gsched raises on purpose: one tree; each class has a public code and an exit status.

The code goes over the wire and into the manual, the exit status to scripts, the text to people: it says what was
asked, what was found and what to do.

    GschedError
    ├── BadRequest            the request itself is wrong
    │   ├── Impossible        well formed, but no set of known nodes could ever hold it
    │   └── BadConfig         a configuration file is wrong
    ├── NotFound              no such job, node, partition
    ├── NotPermitted          not the caller's, or not the caller's right
    ├── Conflict              not in this state
    ├── TooLarge              over a stated limit
    ├── Unavailable           try again later (retryable)
    │   └── NoController      nothing listens there
    └── ProtocolError         the other side does not speak as agreed
        └── VersionMismatch   it speaks another version
"""

from __future__ import annotations

from typing import ClassVar


class GschedError(Exception):
    """Root of what we raise on purpose."""

    code: ClassVar[str] = "internal"
    exit_status: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    @property
    def text(self) -> str:
        return str(self.args[0]) if self.args else self.code


class BadRequest(GschedError):
    """The request is wrong as written; sending it again will not help."""

    code = "request.bad"
    exit_status = 2


class Impossible(BadRequest):
    """Well formed, but no set of the known nodes could ever hold it."""

    code = "request.impossible"
    exit_status = 3


class BadConfig(BadRequest):
    """A configuration file is wrong; the text names file, key and what was expected."""

    code = "config.bad"
    exit_status = 4


class NotFound(GschedError):
    """No such job, node or partition."""

    code = "not_found"
    exit_status = 5


class NotPermitted(GschedError):
    """The caller may not do this."""

    code = "not_permitted"
    exit_status = 6


class Conflict(GschedError):
    """Right in itself, but not in the state the thing is in."""

    code = "conflict"
    exit_status = 7


class TooLarge(GschedError):
    """Over a limit; the text names the limit and the value."""

    code = "too_large"
    exit_status = 8


class Unavailable(GschedError):
    """The controller cannot answer now; the same request may be sent again (EX_TEMPFAIL)."""

    code = "unavailable"
    exit_status = 75
    retryable = True


class NoController(Unavailable):
    """Nothing listens at the address, or there is no such socket."""

    code = "no_controller"
    exit_status = 69


class ProtocolError(GschedError):
    """The other side sent what the protocol does not allow."""

    code = "protocol"
    exit_status = 76


class VersionMismatch(ProtocolError):
    """The two sides' versions are more than one minor apart."""

    code = "protocol.version"
    exit_status = 77


def _tree(root: type[GschedError]) -> dict[str, type[GschedError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_code(code: str, text: str) -> GschedError:
    """Make the error that `code` names; an unknown code (of a newer peer) becomes a plain GschedError."""
    return _tree(GschedError).get(code, GschedError)(text)
