"""The planning thread: one pass at a time; whatever happens during a pass asks for exactly one more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gschedd.core.inputs import PassInput, Plan

_PAUSE_MIN_S: Final = 0.001  # lets requests that arrive together be planned together
_PAUSE_MAX_S: Final = 0.5
_PAUSE_OF_PASS: Final = 0.5  # a pause of half the last pass leaves the core to others for a third of the time


class Planner:
    """Runs `decide` in a thread of its own.

    read: gives a pass its input, on the loop's thread. tell: takes the plan, or the bug that `decide` raised.
    """

    def __init__(
        self,
        read: Callable[[], PassInput],
        decide: Callable[[PassInput], Plan],
        tell: Callable[[Plan | BaseException], None],
    ) -> None:
        self._read = read
        self._decide = decide
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
            given = self._read()
        except Exception as error:  # a bug: whoever is told ends the daemon
            self._tell(error)
            return

        def ended(future: asyncio.Future[Plan]) -> None:
            self.last_pass_s = loop.time() - began
            self._ended(future)

        loop.run_in_executor(self._thread, self._decide, given).add_done_callback(ended)

    def _ended(self, future: asyncio.Future[Plan]) -> None:
        if self._stopped or future.cancelled():
            return
        self.passes += 1
        self._pause(min(_PAUSE_MAX_S, max(_PAUSE_MIN_S, self.last_pass_s * _PAUSE_OF_PASS)))
        error = future.exception()
        self._tell(error if error is not None else future.result())
