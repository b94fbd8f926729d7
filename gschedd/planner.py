"""The planning thread: one pass at a time; whatever happens during a pass asks for exactly one more.

The thread has arrays of its own. The loop hands over what has changed since the last time and never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from gschedd.core.inputs import PassLog, Plan

_PAUSE_MIN_S: Final = 0.001  # lets requests that arrive together be planned together
_PAUSE_MAX_S: Final = 0.5
_PAUSE_OF_PASS: Final = 0.5  # a pause of half the last pass leaves the core to others for a third of the time

T = TypeVar("T")


class DeskLike(Protocol):
    """What works in the thread; it is told every log once, in order."""

    def replay(self, log: PassLog) -> None: ...

    def decide(self, log: PassLog) -> Plan: ...


class Planner:
    """Runs a desk in a thread of its own.

    read: gives what has changed since its last call, on the loop's thread. tell: takes the plan, or the bug that
    `desk` raised.
    """

    def __init__(
        self, read: Callable[[], PassLog], desk: DeskLike, tell: Callable[[Plan | BaseException], None]
    ) -> None:
        self._read = read
        self._desk = desk
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="planner")
        self._wanted = False
        self._busy = False  # a pass runs, or its pause
        self._stopped = False
        self.passes = 0
        self.last_pass_s = 0.0

    def want(self) -> None:
        """Ask for a pass over the state as it is now or later."""
        self._wanted = True
        if not self._busy and not self._stopped:
            self._pause(_PAUSE_MIN_S)

    def inquire(self, question: Callable[[PassLog], T], answer: Callable[[T | BaseException], None]) -> None:
        """Ask something of the desk as of now, after the pass that runs; `answer` is called on the loop's thread.

        question: runs in the thread once the desk was told all; it is given the log for its policy and instant.
        """
        log = self._read()

        def ask() -> T:
            self._desk.replay(log)
            return question(log)

        def told(future: asyncio.Future[T]) -> None:
            if not self._stopped and not future.cancelled():
                error = future.exception()
                answer(error if error is not None else future.result())

        asyncio.get_running_loop().run_in_executor(self._thread, ask).add_done_callback(told)

    def stop(self) -> None:
        """Wait for the pass that runs; its plan is not told."""
        self._stopped = True
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _pause(self, pause_s: float) -> None:
        self._busy = True
        asyncio.get_running_loop().call_later(pause_s, self._begin)

    def _begin(self) -> None:
        self._busy = False
        if self._stopped or not self._wanted:
            return
        self._busy, self._wanted = True, False
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            log = self._read()
        except Exception as error:  # a bug: whoever is told ends the daemon
            self._tell(error)
            return

        def ended(future: asyncio.Future[Plan]) -> None:
            self.last_pass_s = loop.time() - began
            self._ended(future)

        loop.run_in_executor(self._thread, self._desk.decide, log).add_done_callback(ended)

    def _ended(self, future: asyncio.Future[Plan]) -> None:
        if self._stopped or future.cancelled():
            return
        self.passes += 1
        self._pause(min(_PAUSE_MAX_S, max(_PAUSE_MIN_S, self.last_pass_s * _PAUSE_OF_PASS)))
        error = future.exception()
        self._tell(error if error is not None else future.result())
