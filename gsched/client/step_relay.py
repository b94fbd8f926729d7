"""What grun does with what the tasks of a step say: put output in its place, keep count of ends. No I/O.

Output comes as (rank, stream, offset, bytes). After a broken connection a part may come twice: the offsets tell.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gsched.errors import ProtocolError
from gsched.protocol.stream import Output, TaskEnded, stream_name

STDOUT: Final = 1
STDERR: Final = 2
LONGEST_LINE: Final = 64 * 1024  # bytes; a labelled line without an end is cut there, so memory is bounded


class Piece(NamedTuple):
    """Bytes to be written to a descriptor of grun."""

    fd: int
    data: bytes


def exit_status(exit_code: int, exit_signal: int) -> int:
    """A task's end as a shell would show it."""
    return 128 + exit_signal if exit_signal else exit_code


class Relay:
    """Keeps the offsets and, with labels, the lines that are not whole yet."""

    def __init__(self, ntasks: int, label: bool = False) -> None:
        self._label = label
        self._width = len(str(max(ntasks - 1, 0)))
        self._partial: dict[tuple[int, bool], bytes] = {}
        self._offsets: dict[str, int] = {}
        self.worst = 0  # exit status of the step so far

    def offsets(self, ranks: range) -> dict[str, int]:
        """How much of these ranks' output is already here."""
        names = (stream_name(rank, error) for rank in ranks for error in (False, True))
        return {name: self._offsets[name] for name in names if name in self._offsets}

    def output(self, output: Output) -> list[Piece]:
        """Take a piece of output; give what can be written now. Raises ProtocolError where bytes are missing."""
        name = stream_name(output.rank, output.error)
        known = self._offsets.get(name, 0)
        if output.offset > known:
            raise ProtocolError(f"output of task {output.rank} is missing: bytes {known} to {output.offset}")
        fresh = output.data[known - output.offset :]
        self._offsets[name] = known + len(fresh)
        fd = STDERR if output.error else STDOUT
        if not fresh:
            return []
        if not self._label:
            return [Piece(fd, fresh)]
        return self._labelled(fd, output.rank, output.error, fresh)

    def ended(self, end: TaskEnded) -> list[Piece]:
        """Count a task's end; give what is left of its last lines."""
        self.worst = max(self.worst, exit_status(end.exit_code, end.exit_signal))
        left = []
        for error, fd in ((False, STDOUT), (True, STDERR)):
            rest = self._partial.pop((end.rank, error), b"")
            if rest:
                left.append(Piece(fd, self._prefix(end.rank) + rest + b"\n"))
        return left

    def _labelled(self, fd: int, rank: int, error: bool, fresh: bytes) -> list[Piece]:
        text = self._partial.pop((rank, error), b"") + fresh
        *whole, rest = text.split(b"\n")
        if len(rest) > LONGEST_LINE:
            whole.append(rest)
            rest = b""
        if rest:
            self._partial[rank, error] = rest
        prefix = self._prefix(rank)
        lines = b"".join(prefix + line + b"\n" for line in whole)
        return [Piece(fd, lines)] if lines else []

    def _prefix(self, rank: int) -> bytes:
        return f"{rank:>{self._width}}: ".encode()
