"""Sends the output of a step's tasks, as their files grow, and how each ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from agent.logs.steps import Steps
from gsched.errors import GschedError, NotFound
from gsched.protocol.stream import Output, StepEnded, TaskEnded, stream_name
from gsched.values.ids import RunKey, StepId

PIECE: Final = 64 * 1024  # bytes of a file in one message
# How long to wait before looking at quiet files again. The kernel could tell (inotify), at the price of ctypes.
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.1

Send = Callable[[Output | TaskEnded | StepEnded], Awaitable[None]]


class _File:
    """One stream of one task, read from an offset on."""

    def __init__(self, path: os.PathLike[str], rank: int, error: bool, offset: int) -> None:
        self._path = path
        self._fd = -1
        self.rank = rank
        self.error = error
        self.offset = offset

    def read(self) -> bytes:
        """What is there beyond the offset, at most PIECE bytes; b"" at the end, or before there is a file.

        Raises GschedError if the file is there and cannot be read.
        """
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            return os.pread(self._fd, PIECE, self.offset)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise GschedError(f"output of task {self.rank} cannot be read: {error.strerror}") from None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Follower:
    """Follows one step for one client. `send` waits while the client does not read."""

    def __init__(self, steps: Steps, key: RunKey, step: StepId, send: Send) -> None:
        self._steps = steps
        self._key = key
        self._step = step
        self._send = send
        self._files: dict[int, tuple[_File, _File]] = {}

    async def run(self, ranks: Sequence[int], offsets: Mapping[str, int]) -> None:
        """Until every task has ended and all was sent. offsets: "RANK.out" and "RANK.err" to bytes not wanted again.

        Raises NotFound if the run was removed before the ends were known.
        """
        changed = self._steps.on_step_change(self._key, self._step)
        for rank in ranks:
            self._files[rank] = (self._file(rank, False, offsets), self._file(rank, True, offsets))
        try:
            await self._follow(changed)
        finally:
            for pair in self._files.values():
                for file in pair:
                    file.close()
        await self._send(StepEnded())

    def _file(self, rank: int, error: bool, offsets: Mapping[str, int]) -> _File:
        offset = offsets.get(stream_name(rank, error), 0)
        return _File(self._steps.step_output(self._key, self._step, rank, error), rank, error, offset)

    async def _follow(self, changed: asyncio.Event) -> None:
        ends: dict[int, tuple[int, int]] = {}
        pause = _FIRST_PAUSE_S
        while self._files:
            changed.clear()
            ends |= self._steps.task_ends(self._key, self._step)  # before reading: all they wrote is there by then
            moved = False
            for rank in list(self._files):
                moved |= await self._task(rank, ends.get(rank))
            if moved:
                pause = _FIRST_PAUSE_S
            elif self._files:
                pause = await self._rest(changed, pause)

    async def _rest(self, changed: asyncio.Event, pause: float) -> float:
        """Wait for an end, or until it is time to look again; give the next pause."""
        if not self._steps.has_step(self._key, self._step):
            raise NotFound(f"step {self._key}.{self._step} is over and was removed from this node")
        try:
            async with asyncio.timeout(pause):
                await changed.wait()
        except TimeoutError:
            return min(_LONGEST_PAUSE_S, pause * 1.5)
        return pause

    async def _task(self, rank: int, end: tuple[int, int] | None) -> bool:
        """Send what one task has to say; True if there was something. Its end follows its last byte."""
        moved = False
        for file in self._files[rank]:
            piece = file.read()
            if piece:
                await self._send(Output(rank, file.error, file.offset, piece))
                file.offset += len(piece)
                moved = True
        if moved or end is None:
            return moved
        for file in self._files.pop(rank):
            file.close()
        await self._send(TaskEnded(rank, *end))
        return True
