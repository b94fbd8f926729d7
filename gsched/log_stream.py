"""Where a daemon's log lines go: standard error, whatever becomes of the disk behind it.

A line that cannot be written is lost. It must never be an error: it would come up in the middle of the work that was
to be told of, and leave that half done.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import TextIO, cast


def log_stream(fd: int = 2) -> TextIO:
    """A text file on the descriptor (standard error's) for structlog's WriteLogger."""
    return cast("TextIO", _LogStream(fd))


class _LogStream(io.TextIOBase):
    """Writes each text at once, without a buffer; never raises OSError."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        return len(text)
