"""grun's connections: one TLS connection to each node of a step, in one plain loop over selectors.

Each door is opened with its node's ticket. A connection that breaks is made again and the step joined with the
offsets already received, for up to RETRY_S. Nothing is read while output cannot be written, so memory stays small.
"""

from __future__ import annotations

import os
import random
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from errno import EINPROGRESS
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import TYPE_CHECKING, Final

import msgspec

from gsched.client.step_relay import Piece, Relay
from gsched.errors import GschedError, ProtocolError, Unavailable, from_code
from gsched.protocol import frames
from gsched.protocol.hello import Hello, require_compatible
from gsched.protocol.stream import (
    OpenStep,
    Output,
    SignalStep,
    StepEnded,
    StepOpened,
    StreamError,
    StreamReply,
    TaskEnded,
)
from gsched.transport.keepalive import keep_alive
from gsched.values.ids import NodeName

if TYPE_CHECKING:
    import ssl

RETRY_S: Final = 30.0
ATTEMPT_S: Final = 5.0  # one connection must stand by then
SECOND_INTERRUPT_S: Final = 1.0
GRACE_S: Final = 5.0  # between TERM and KILL, where grun itself ends the step
READ_BYTES: Final = 64 * 1024
READS_A_TURN: Final = 16  # then the other nodes have theirs


class _State(Enum):
    WAITING = auto()  # until `retry_at`
    CONNECTING = auto()
    SHAKING_HANDS = auto()
    OPENING = auto()
    OPEN = auto()
    DONE = auto()


class Door:
    """One node's part of the step."""

    def __init__(self, node: NodeName, address: str, request: OpenStep, ranks: range) -> None:
        host, _, port = address.rpartition(":")
        self.node = node
        self.host, self.port = host.strip("[]"), int(port)
        self.request = request
        self.ranks = ranks
        self.state = _State.WAITING
        self.retry_at = 0.0
        self.attempt_ends = 0.0
        self.give_up_at = 0.0
        self.tries = 0
        self.fault = ""
        self.plain: socket.socket | None = None
        self.secure: ssl.SSLSocket | None = None
        self.decoder = frames.Decoder()
        self.out = bytearray()
        self.unsent: list[int] = []  # signals that came while the connection was away
        self.kill = False
        self.asked = False  # the request may have reached the node: tasks may run there
        self.ended: set[int] = set()

    @property
    def socket(self) -> socket.socket | None:
        return self.secure or self.plain


class StepStreams:
    """Runs the doors until every node's part has ended. `say` takes one line for people."""

    def __init__(
        self,
        doors: Sequence[Door],
        context: ssl.SSLContext,
        relay: Relay,
        write: Callable[[int, bytes, Callable[[], None]], None],
        say: Callable[[str], None],
        wake: socket.socket,
        kill_on_bad_exit: bool = False,
    ) -> None:
        self._doors = doors
        self._context = context
        self._relay = relay
        self._write = write
        self._say = say
        self._wake = wake  # the read end of signal.set_wakeup_fd
        self._kill_on_bad_exit = kill_on_bad_exit
        self._selector = selectors.DefaultSelector()
        self._last_interrupt = -SECOND_INTERRUPT_S - 1
        self._failure: GschedError | None = None
        self._lost_output: OSError | None = None
        self._kill_at: float | None = None

    def run(self) -> int:
        """Give the worst exit status of all tasks. Raises what kept a node's part from running."""
        self._selector.register(self._wake, selectors.EVENT_READ)
        for door in self._doors:
            door.give_up_at = time.monotonic() + RETRY_S
        try:
            hungry: list[Door] = []
            while any(door.state is not _State.DONE for door in self._doors):
                hungry = self._turn(hungry)
        finally:
            for door in self._doors:
                self._drop(door)
            self._selector.close()
        if isinstance(self._lost_output, BrokenPipeError):
            raise self._lost_output
        if self._lost_output is not None:
            raise GschedError(f"output could not be written ({self._lost_output.strerror}): the step was ended")
        if self._failure is not None:
            raise self._failure
        return self._relay.worst

    def _turn(self, hungry: list[Door]) -> list[Door]:
        """One round. Gives the doors that have more to read at once (TLS may hold bytes that select cannot see)."""
        now = time.monotonic()
        self._timers(now)
        ready = {door: 0 for door in hungry if door.state in (_State.OPENING, _State.OPEN)}
        for key, mask in self._selector.select(0 if ready else self._sleep_s(now)):
            if key.fileobj is self._wake:
                self.take_signals()
            else:
                ready[key.data] = mask
        return [door for door in ready if self._advance(door)]

    def _sleep_s(self, now: float) -> float | None:
        times = [] if self._kill_at is None else [self._kill_at]
        for door in self._doors:
            if door.state is _State.WAITING:
                times.append(door.retry_at)
            elif door.state in (_State.CONNECTING, _State.SHAKING_HANDS, _State.OPENING):
                times.append(door.attempt_ends)
        return max(0.0, min(times) - now) if times else None

    def _timers(self, now: float) -> None:
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self.signal_all(SIGKILL)
        for door in self._doors:
            if door.state in (_State.DONE, _State.OPEN):
                continue
            if now >= door.give_up_at:
                why = f": {door.fault}" if door.fault else ""
                self._fail(door, Unavailable(f"no connection to node {door.node} for {RETRY_S:.0f} s{why}"))
            elif door.state is _State.WAITING and now >= door.retry_at:
                self._dial(door, now)
            elif door.state is not _State.WAITING and now >= door.attempt_ends:
                self._broken(door, f"{door.host}:{door.port} did not answer within {ATTEMPT_S:.0f} s")

    # --- one door

    def _dial(self, door: Door, now: float) -> None:
        door.attempt_ends = now + ATTEMPT_S
        door.decoder = frames.Decoder()
        request = msgspec.structs.replace(door.request, offsets=self._relay.offsets(door.ranks))
        door.out = bytearray(frames.encode(frames.PUSH, 0, Hello()) + frames.encode(frames.REQUEST, 1, request))
        try:
            family, kind, proto, _, address = socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM)[0]
            door.plain = socket.socket(family, kind, proto)
            door.plain.setblocking(False)
            at_once = door.plain.connect_ex(address)
            if at_once not in (0, EINPROGRESS):  # else its fate is read when the socket is writable
                raise OSError(at_once, os.strerror(at_once))
        except OSError as error:
            if door.plain is not None:
                door.plain.close()
                door.plain = None
            self._broken(door, f"{door.host}:{door.port}: {error.strerror or error}")
            return
        door.state = _State.CONNECTING
        self._selector.register(door.plain, selectors.EVENT_WRITE, door)

    def _advance(self, door: Door) -> bool:
        """Do what the door's socket allows. True: call again without waiting."""
        import ssl

        from gsched.transport.tls import require_role

        try:
            if door.state is _State.CONNECTING:
                self._connected(door)
            if door.state is _State.SHAKING_HANDS and door.secure is not None:
                door.secure.do_handshake()
                require_role(door.secure, "node", door.node)
                door.state = _State.OPENING
                door.asked = True
            if door.state in (_State.OPENING, _State.OPEN):
                self._flush(door)
                return self._read(door)
        except ssl.SSLWantReadError:
            self._watch(door, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(door, selectors.EVENT_READ | selectors.EVENT_WRITE)
        except ssl.SSLCertVerificationError as error:
            text = f"node {door.node} at {door.host}:{door.port} did not prove who it is: {error.verify_message}"
            self._fail(door, ProtocolError(text))
        except OSError as error:
            self._broken(door, error.strerror or str(error))
        except GschedError as error:
            self._fail(door, error)
        return False

    def _connected(self, door: Door) -> None:
        plain = door.plain
        assert plain is not None
        errno = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if errno:
            raise OSError(errno, f"{door.host}:{door.port}: {os.strerror(errno)}")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(plain)
        self._selector.unregister(plain)
        door.secure = self._context.wrap_socket(plain, do_handshake_on_connect=False)
        door.plain = None
        self._selector.register(door.secure, selectors.EVENT_READ, door)
        door.state = _State.SHAKING_HANDS

    def _flush(self, door: Door) -> None:
        assert door.secure is not None
        while door.out:
            sent = door.secure.send(door.out[:READ_BYTES])
            del door.out[:sent]
        self._watch(door, selectors.EVENT_READ)

    def _read(self, door: Door) -> bool:
        for _ in range(READS_A_TURN):
            if door.secure is None:  # it ended or broke while a frame was handled
                return False
            received = door.secure.recv(READ_BYTES)
            if not received:
                raise OSError(0, "the node closed the connection")
            for frame in door.decoder.feed(received):
                self._take(door, frame)
        return True

    def _take(self, door: Door, frame: frames.Frame) -> None:
        if frame.kind == frames.ERROR:
            error = _refusal(frame.body, door.node)
            if error.retryable:
                self._broken(door, error.text)
                return
            raise error
        message = frames.check_body(frame.body, Hello | StreamReply)
        match message:
            case Hello():
                require_compatible(message.version)
            case StepOpened():
                self._opened(door)
            case Output():
                self._put(self._relay.output(message))
            case TaskEnded():
                self._task_ended(door, message)
            case StepEnded():
                self._drop(door)
                door.state = _State.DONE
            case StreamError():
                raise from_code(message.code, f"node {door.node}: {message.text}")

    def _opened(self, door: Door) -> None:
        door.state = _State.OPEN
        door.tries = 0
        door.fault = ""
        signals, door.unsent = door.unsent, []
        for signal in signals:
            self._signal(door, signal)
        if door.kill and SIGKILL not in signals:
            self._signal(door, SIGKILL)

    def _task_ended(self, door: Door, end: TaskEnded) -> None:
        if end.rank in door.ended:
            return  # told again after a break
        door.ended.add(end.rank)
        self._put(self._relay.ended(end))
        if not (end.exit_code or end.exit_signal):
            return
        self._say(f"error: {door.node}: task {end.rank}: {_how(end)}")
        if self._kill_on_bad_exit and self._kill_at is None:
            self._end_all()

    def _put(self, pieces: Sequence[Piece]) -> None:
        """Write output. When nobody takes it any more, the step is ended, as a program in a pipe would be."""
        for piece in pieces:
            if self._lost_output is not None:
                return
            try:
                self._write(piece.fd, piece.data, self.take_signals)
            except OSError as error:
                self._lost_output = error
                self._end_all()

    # --- signals

    def take_signals(self) -> None:
        """Pass on the signals that arrived. May be called while output waits to be written."""
        try:
            arrived = self._wake.recv(64)
        except BlockingIOError:
            return
        for number in arrived:
            now = time.monotonic()
            if number == SIGINT:
                if now - self._last_interrupt <= SECOND_INTERRUPT_S:
                    self._say("interrupted twice: killing the step")
                    number = SIGKILL
                else:
                    self._say("interrupt passed on to the tasks; once more within 1 s kills them")
                self._last_interrupt = now
            self.signal_all(number)
        for door in self._doors:
            # At once: the caller may be waiting for its own output to be taken. What fails is seen when reading.
            if door.state is _State.OPEN:
                with suppress(OSError):
                    self._flush(door)

    def signal_all(self, signal: int) -> None:
        """Send a signal to all tasks that are left."""
        for door in self._doors:
            if door.state is not _State.DONE:
                door.kill = door.kill or signal == SIGKILL
                self._signal(door, signal)

    def _end_all(self) -> None:
        """TERM now, KILL in a while."""
        self._kill_at = time.monotonic() + GRACE_S
        self.signal_all(SIGTERM)

    def _signal(self, door: Door, signal: int) -> None:
        if door.state is not _State.OPEN:
            door.unsent.append(signal)
            return
        door.out += frames.encode(frames.PUSH, 0, SignalStep(int(signal)))
        self._watch(door, selectors.EVENT_READ | selectors.EVENT_WRITE)

    # --- ends

    def _watch(self, door: Door, events: int) -> None:
        if door.socket is not None:
            self._selector.modify(door.socket, events, door)

    def _drop(self, door: Door) -> None:
        if door.socket is not None:
            self._selector.unregister(door.socket)
            door.socket.close()
        door.plain = door.secure = None

    def _broken(self, door: Door, why: str) -> None:
        """The connection is gone: try again soon (full jitter), the step goes on meanwhile."""
        self._drop(door)
        now = time.monotonic()
        if door.state is _State.OPEN:
            door.give_up_at = now + RETRY_S
        door.state = _State.WAITING
        door.fault = why
        door.retry_at = now + random.uniform(0.02, min(1.0, 0.1 * 2**door.tries))
        door.tries += 1

    def _fail(self, door: Door, error: GschedError) -> None:
        """This node's part is lost: end the others, and say why at the end."""
        self._drop(door)
        door.state = _State.DONE
        if self._failure is None:
            self._failure = error
        for other in self._doors:
            if not other.asked and other.state is not _State.DONE:  # nothing runs there: nothing to end
                self._drop(other)
                other.state = _State.DONE
        self.signal_all(SIGKILL)


def _refusal(body: object, node: NodeName) -> GschedError:
    try:
        code, text = msgspec.convert(body, tuple[str, str])
    except msgspec.ValidationError:
        return ProtocolError(f"node {node}: malformed refusal")
    return from_code(code, f"node {node}: {text}")


def _how(end: TaskEnded) -> str:
    if not end.exit_signal:
        return f"exited with code {end.exit_code}"
    try:
        return f"killed by signal {end.exit_signal} ({Signals(end.exit_signal).name})"
    except ValueError:
        return f"killed by signal {end.exit_signal}"
