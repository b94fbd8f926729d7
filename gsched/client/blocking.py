"""The blocking client: a unix socket, requests one at a time or many in one write.

A request is sent again while the socket exists but refuses or drops the connection, or while the controller says that
it cannot answer now, for up to GSCHED_RETRY_S seconds (30); a request that changes something carries an id and counts
once. A socket that does not exist is an error at once: nobody will answer there.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Self, overload

import msgspec

from gsched.errors import BadRequest, GschedError, NoController, NotPermitted, ProtocolError, Unavailable, from_code
from gsched.protocol import frames
from gsched.protocol.hello import Hello, require_compatible
from gsched.protocol.messages import (
    Accounting,
    AcctPage,
    CancelJobs,
    CreateReservation,
    CreateStep,
    DeleteReservation,
    Done,
    DrainNode,
    Explained,
    ExplainJob,
    HoldJobs,
    JobPage,
    JobResults,
    JobShown,
    JobTried,
    ListJobs,
    ListNodes,
    ListPriorities,
    ListReservations,
    NodeDead,
    NodePage,
    NodeReplaced,
    Ping,
    Pong,
    PriorityPage,
    ReservationPage,
    ShowJob,
    ShowTopology,
    SnapshotTaken,
    StepCreated,
    SubmitJob,
    Submitted,
    TakeSnapshot,
    TopologyShown,
    TryJob,
    UserReply,
    UserRequest,
)

DEFAULT_SOCKET: Final = "/run/gsched/gschedd.sock"
RETRY_S: Final = 30.0
PATIENCE_S: Final = 2.0  # then one line says what is waited for
ANSWER_S: Final = 90.0  # a controller that took a request and is silent for so long is stuck
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)  # between tries; the last one repeats
_WINDOW: Final = 128  # pipelined requests without a reply; the controller takes more, so neither side waits for ever
_WINDOW_BYTES: Final = 96 * 1024  # less than a socket holds

Say = Callable[[str], None]


def new_request_id() -> str:
    """A new id for a request that changes something; the same request sent again keeps it."""
    return os.urandom(12).hex()


def connect(path: str | None = None, *, say: Say | None = None) -> Client:
    """A client for the socket `path`, else $GSCHED_SOCKET, else the system's. It connects at the first call."""
    return Client(path or os.environ.get("GSCHED_SOCKET") or DEFAULT_SOCKET, _retry_s(), say or _to_stderr)


class Client:
    """One connection, made when it is needed. Use it as a context manager; not for several threads at once.

    `say` gets the one line about a long wait, and the warning about unconfirmed answers.
    """

    def __init__(self, path: str, retry_s: float = RETRY_S, say: Say | None = None) -> None:
        self.path = path
        self._retry_s = retry_s
        self._say = say or _to_stderr
        self._line: _Line | None = None
        self._last_id = 0
        self._warned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    @overload
    def call(self, request: SubmitJob) -> Submitted: ...
    @overload
    def call(self, request: CancelJobs | HoldJobs) -> JobResults: ...
    @overload
    def call(self, request: ListJobs) -> JobPage: ...
    @overload
    def call(self, request: ShowJob) -> JobShown: ...
    @overload
    def call(self, request: ExplainJob) -> Explained: ...
    @overload
    def call(self, request: ListPriorities) -> PriorityPage: ...
    @overload
    def call(self, request: TryJob) -> JobTried: ...
    @overload
    def call(self, request: TakeSnapshot) -> SnapshotTaken: ...
    @overload
    def call(self, request: ListNodes) -> NodePage: ...
    @overload
    def call(self, request: ShowTopology) -> TopologyShown: ...
    @overload
    def call(self, request: DrainNode | NodeDead | NodeReplaced | CreateReservation | DeleteReservation) -> Done: ...
    @overload
    def call(self, request: ListReservations) -> ReservationPage: ...
    @overload
    def call(self, request: Accounting) -> AcctPage: ...
    @overload
    def call(self, request: CreateStep) -> StepCreated: ...
    @overload
    def call(self, request: Ping) -> Pong: ...
    def call(self, request: UserRequest) -> UserReply:
        """Ask once, wait for the reply. Raises the error that the controller gave, or Unavailable, NoController."""
        (answer,) = self.pipeline((request,))
        if isinstance(answer, GschedError):
            raise answer
        return answer

    def pipeline(self, requests: Sequence[UserRequest]) -> list[UserReply | GschedError]:
        """Ask many things without waiting in between; the answers come in the order of the requests.

        Raises only what concerns the connection: NoController, Unavailable, NotPermitted, ProtocolError.
        """
        calls = _Calls(requests, self._last_id)
        self._last_id += len(requests)
        retry = _Retry(self.path, self._retry_s, self._say)
        while True:
            try:
                if self._line is None:
                    self._line = _Line(self.path, self._say)
                calls.run(self._line)
                break
            except _Dropped as dropped:
                self.close()
                retry.wait(str(dropped))
            except BaseException:
                self.close()  # answers may be under way that nobody will take
                raise
            calls.again()
        return [self._checked(answer) for answer in calls.answers()]

    @overload
    def pages(self, request: ListJobs) -> Iterator[JobPage]: ...
    @overload
    def pages(self, request: Accounting) -> Iterator[AcctPage]: ...
    def pages(self, request: ListJobs | Accounting) -> Iterator[JobPage] | Iterator[AcctPage]:
        """Every page of a listing, asked for one after the other, in id order."""
        return self._pages(request)

    def _pages(self, request: Any) -> Iterator[Any]:
        while True:
            page: Any = self.call(request)
            yield page
            if not page.more or not page.rows:
                return
            last = page.rows[-1]
            request = msgspec.structs.replace(request, after=last.job.id if isinstance(page, AcctPage) else last.id)

    def _checked(self, answer: UserReply | GschedError) -> UserReply | GschedError:
        if getattr(answer, "unconfirmed", False) and not self._warned:
            self._warned = True
            self._say("warning: the controller cannot reach its store now; what it tells may not survive a crash")
        return answer


class _Dropped(Exception):
    """The connection was refused or lost, or the controller cannot answer now: worth another try."""


class _Retry:
    """Decides how long a call is tried again, and says so once."""

    def __init__(self, path: str, limit_s: float, say: Say) -> None:
        self._path = path
        self._limit_s = limit_s
        self._say = say
        self._began = time.monotonic()
        self._tries = 0
        self._said = False

    def wait(self, why: str) -> None:
        """Sleep before the next try. Raises Unavailable when the time is over."""
        pause = _PAUSES_S[min(self._tries, len(_PAUSES_S) - 1)]
        self._tries += 1
        waited = time.monotonic() - self._began
        if waited + pause > self._limit_s:
            raise Unavailable(
                f"the controller at {self._path} gave no answer for {waited:.0f} s ({why}); nothing is known to be "
                "lost, try again later"
            )
        if waited >= PATIENCE_S and not self._said:
            self._said = True
            self._say(f"waiting for the controller at {self._path} ({why}), up to {self._limit_s:g} s")
        time.sleep(pause)


class _Calls:
    """The requests of one pipeline: packed once, sent in a window, answers collected by id."""

    def __init__(self, requests: Sequence[UserRequest], last_id: int) -> None:
        self._ids = range(last_id + 1, last_id + 1 + len(requests))
        self._packed = {id: frames.encode(frames.REQUEST, id, r) for id, r in zip(self._ids, requests, strict=True)}
        self._expected = {id: REPLY_OF[type(r)] for id, r in zip(self._ids, requests, strict=True)}
        self._answers: dict[int, UserReply | GschedError] = {}
        self._to_send = deque(self._ids)

    def again(self) -> None:
        """Prepare to send again what has no answer yet."""
        self._to_send = deque(id for id in self._ids if id not in self._answers)

    def answers(self) -> list[UserReply | GschedError]:
        return [self._answers[id] for id in self._ids]

    def run(self, line: _Line) -> None:
        """Send and receive until every request has its answer. Raises _Dropped."""
        under_way: dict[int, int] = {}
        postponed = ""
        while self._to_send or under_way:
            room = _WINDOW_BYTES - sum(under_way.values())
            batch: list[bytes] = []
            while self._to_send and len(under_way) < _WINDOW and (room > 0 or not under_way):
                id = self._to_send.popleft()
                batch.append(self._packed[id])
                under_way[id] = len(self._packed[id])
                room -= under_way[id]
            if batch:
                line.send(b"".join(batch))
            for frame in line.receive():
                if under_way.pop(frame.id, None) is None:
                    raise ProtocolError(f"an answer to request {frame.id}, which was not asked")
                answer = self._read(frame)
                if isinstance(answer, GschedError) and answer.retryable:
                    postponed = answer.text
                else:
                    self._answers[frame.id] = answer
        if postponed:
            raise _Dropped(postponed)

    def _read(self, frame: frames.Frame) -> UserReply | GschedError:
        if frame.kind == frames.ERROR:
            return _error(frame)
        reply: UserReply = frame.read(self._expected[frame.id])
        return reply


class _Line:
    """One connected socket: bytes out, frames in."""

    def __init__(self, path: str, say: Say) -> None:
        self._path = path
        self._say = say
        self._patience_s = PATIENCE_S  # of the first wait for an answer; then it is said what is waited for
        self._socket = _dial(path)
        self._decoder = frames.Decoder()
        self._greeting = frames.encode(frames.PUSH, 0, Hello(software="gsched client"))

    def close(self) -> None:
        self._socket.close()

    def send(self, packed: bytes) -> None:
        packed, self._greeting = self._greeting + packed, b""
        self._socket.settimeout(ANSWER_S)
        try:
            self._socket.sendall(packed)
        except TimeoutError:
            raise _silent() from None
        except OSError as error:
            # It may have said why before it closed: that counts for more than the broken pipe.
            for _ in self.receive():
                pass
            raise _Dropped(_why(error)) from None

    def receive(self) -> Iterator[frames.Frame]:
        """Wait for bytes; give the replies and errors in them. Raises _Dropped, or an error about the connection."""
        try:
            got = self._read()
        except TimeoutError:
            raise _silent() from None
        except OSError as error:
            raise _Dropped(_why(error)) from None
        if not got:
            raise _Dropped("the connection was closed")
        for frame in self._decoder.feed(got):
            if frame.kind == frames.PUSH:
                require_compatible(frame.read(Hello).version)
            elif frame.kind == frames.ERROR and frame.id == 0:  # about the connection, not about a request
                told = _error(frame)
                raise _Dropped(told.text) if told.retryable else told
            elif frame.kind in (frames.REPLY, frames.ERROR):
                yield frame

    def _read(self) -> bytes:
        """Raises TimeoutError after ANSWER_S without a byte."""
        self._socket.settimeout(self._patience_s)
        try:
            return self._socket.recv(256 * 1024)
        except TimeoutError:
            if self._patience_s == ANSWER_S:
                raise
        self._say(f"waiting for the controller at {self._path} (connected, no answer yet), up to {ANSWER_S:g} s")
        left, self._patience_s = ANSWER_S - self._patience_s, ANSWER_S
        self._socket.settimeout(left)
        return self._socket.recv(256 * 1024)


def _dial(path: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(ANSWER_S)
    try:
        line.connect(path)
    except (FileNotFoundError, NotADirectoryError):
        line.close()
        raise NoController(
            f"no controller at {path}: there is no such socket. gschedd may not be running on this machine, or "
            "GSCHED_SOCKET may be wrong: start it (`systemctl start gschedd`, or `gsched up --dir DIR`) or set "
            "GSCHED_SOCKET"
        ) from None
    except PermissionError:
        line.close()
        raise NotPermitted(f"no permission to open {path}: the cluster behind it is another user's") from None
    except OSError as error:
        line.close()
        if error.errno in (errno.ECONNREFUSED, errno.EAGAIN, errno.ECONNRESET, errno.EINTR, errno.ETIMEDOUT):
            raise _Dropped(_why(error)) from None
        raise NoController(f"cannot reach the controller at {path}: {_why(error)}") from None
    return line


def _why(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _silent() -> Unavailable:
    return Unavailable(
        f"the controller took the request but gave no answer for {ANSWER_S:.0f} s; see its log, try again later"
    )


def _error(frame: frames.Frame) -> GschedError:
    body = frame.body
    if not (isinstance(body, list) and len(body) == 2 and all(isinstance(part, str) for part in body)):
        raise ProtocolError("an error holds [code, text]")
    return from_code(body[0], body[1])


def _retry_s() -> float:
    text = os.environ.get("GSCHED_RETRY_S")
    if not text:
        return RETRY_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise BadRequest(f"GSCHED_RETRY_S is {text!r}: expected seconds from 0 to 86400")
    return seconds


def _to_stderr(text: str) -> None:
    name = sys.argv[0].rpartition("/")[2] or "gsched"
    sys.stderr.write(f"{name}: {text}\n")
    sys.stderr.flush()


REPLY_OF: Final[dict[type, Any]] = {
    SubmitJob: Submitted,
    CancelJobs: JobResults,
    HoldJobs: JobResults,
    ListJobs: JobPage,
    ShowJob: JobShown,
    ExplainJob: Explained,
    ListPriorities: PriorityPage,
    TryJob: JobTried,
    TakeSnapshot: SnapshotTaken,
    ListNodes: NodePage,
    ShowTopology: TopologyShown,
    DrainNode: Done,
    NodeDead: Done,
    NodeReplaced: Done,
    CreateReservation: Done,
    DeleteReservation: Done,
    ListReservations: ReservationPage,
    Accounting: AcctPage,
    CreateStep: StepCreated,
    Ping: Pong,
}
