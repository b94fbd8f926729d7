"""The key that stream tickets are checked with, kept so that a step can be joined while the controller is away."""

from __future__ import annotations

import os
from pathlib import Path


class TicketKey:
    """A file in the spool; the key in it is the one that the last welcome brought."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._key: bytes | None = path.read_bytes()
        except FileNotFoundError:
            self._key = None

    def __call__(self) -> bytes | None:
        """None before the first welcome."""
        return self._key

    def keep(self, key: bytes) -> None:
        """Replace it, if it is another one. Not synced: lost in a power cut, it comes with the next welcome."""
        if key == self._key:
            return
        fresh = self._path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key)
        fresh.replace(self._path)
        self._key = key
