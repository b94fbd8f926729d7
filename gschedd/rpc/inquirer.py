"""Answers inquiries in a thread of its own, one after the other: neither the loop nor the planner waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from gsched.errors import GschedError, Unavailable
from gsched.protocol.messages import UserReply
from gschedd.core.foresee import Decide
from gschedd.events import Inquiry, Reply
from gschedd.services.answers import answer

WAITING_MAX: Final = 64  # inquiries; each holds a whole input

log = structlog.get_logger("gschedd.rpc")


class Inquirer:
    """decide: one pass over whole values. tell: takes each answer, on the loop's thread."""

    def __init__(self, decide: Decide, tell: Callable[[Reply], None]) -> None:
        self._decide = decide
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inquirer")
        self._waiting = 0

    def ask(self, inquiry: Inquiry) -> None:
        """Answer one inquiry, later."""
        if self._waiting >= WAITING_MAX:
            busy = f"{self._waiting} questions about starts and priorities wait already: try again later"
            self._tell(Reply(inquiry.call, Unavailable(busy)))
            return
        self._waiting += 1

        def done(future: asyncio.Future[UserReply]) -> None:
            self._waiting -= 1
            self._tell(Reply(inquiry.call, _body(future)))

        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, answer, inquiry, self._decide).add_done_callback(done)

    def stop(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)


def _body(future: asyncio.Future[UserReply]) -> UserReply | GschedError:
    if future.cancelled():
        return Unavailable("the controller is stopping: try again later")
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, GschedError):
        return error
    log.error("inquiry.failed", exc_info=error)
    return GschedError("the question could not be answered; the controller's log says why")
