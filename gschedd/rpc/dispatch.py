"""Where every request of a user passes: rights, limits and errors, once for all roads.

The machine answers with `Reply(call, ...)` when the cause is durable; accounting is answered by the store's reader in
a thread, after everything that was applied at the moment of asking is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import structlog
from msgspec.structs import replace

from gsched.errors import GschedError, NotPermitted, Unavailable
from gsched.protocol.messages import Accounting, AcctPage, Ping, Pong, UserReply, UserRequest
from gsched.values.ids import NodeName
from gschedd.events import Call, Reply

Answer = Callable[[UserReply | GschedError], None]

_READERS: Final = 2  # threads that answer accounting
_READS_WAITING: Final = 64

log = structlog.get_logger("gschedd.rpc")


class Caller(NamedTuple):
    """Whose request it is, proved by the kernel, or said by the agent of `node`."""

    uid: int
    gid: int
    user: str
    node: NodeName | None = None


class Dispatcher:
    """Makes a `Call` of each request and finds the way back for its answer.

    feed: takes the event. accounting: the store's reader, called in a thread. owner: (uid, name) of a local cluster's
    only user, or None.
    """

    def __init__(
        self,
        feed: Callable[[Call], None],
        accounting: Callable[[Accounting], AcctPage],
        owner: tuple[int, str] | None,
    ) -> None:
        self._feed = feed
        self._accounting = accounting
        self._owner = owner
        self._last_call = 0
        self._open: dict[int, Answer] = {}
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="accounting")
        self._reads = 0

    @property
    def waiting(self) -> int:
        """Requests without an answer."""
        return len(self._open)

    def ask(self, caller: Caller, request: UserRequest, answer: Answer) -> None:
        """Answer one request, now or later, exactly once (never, if the daemon ends before)."""
        if self._owner is not None and caller.uid != self._owner[0]:
            answer(_not_the_owner(self._owner, caller))
        elif isinstance(request, Accounting):
            # The machine judges the caller, and its answer comes when what it had applied by now is durable.
            self._call(caller, Ping(), lambda pong: self._read(request, pong, answer))
        else:
            self._call(caller, request, answer)

    def answered(self, reply: Reply) -> None:
        """The answer to a call may leave."""
        answer = self._open.pop(reply.call, None)
        if answer is not None:
            answer(reply.body)

    def stop(self) -> None:
        self._readers.shutdown(wait=True, cancel_futures=True)

    def _call(self, caller: Caller, request: UserRequest, answer: Answer) -> None:
        self._last_call += 1
        self._open[self._last_call] = answer
        self._feed(Call(self._last_call, caller.uid, caller.gid, caller.user, request, caller.node))

    def _read(self, request: Accounting, pong: UserReply | GschedError, answer: Answer) -> None:
        if isinstance(pong, GschedError):
            answer(pong)
            return
        if self._reads >= _READS_WAITING:
            answer(Unavailable(f"{self._reads} questions about accounting wait already: try again later"))
            return
        self._reads += 1
        unconfirmed = isinstance(pong, Pong) and pong.unconfirmed

        def done(future: asyncio.Future[AcctPage]) -> None:
            self._reads -= 1
            answer(_page(future, unconfirmed))

        asyncio.get_running_loop().run_in_executor(self._readers, self._accounting, request).add_done_callback(done)


def _page(future: asyncio.Future[Any], unconfirmed: bool) -> AcctPage | GschedError:
    if future.cancelled():
        return Unavailable("the controller is stopping: try again later")
    error = future.exception()
    if error is None:
        page: AcctPage = future.result()
        return replace(page, unconfirmed=True) if unconfirmed else page
    if isinstance(error, GschedError):
        return error
    log.error("accounting.failed", exc_info=error)
    return GschedError("the accounting store could not be read; the controller's log says why")


def _not_the_owner(owner: tuple[int, str], caller: Caller) -> NotPermitted:
    return NotPermitted(
        f"this is the local cluster of {owner[1]} (uid {owner[0]}) and serves nobody else: "
        f"{caller.user} (uid {caller.uid}) may start one with `gsched up`"
    )
