"""What a command sees when the controller is away, comes back, or speaks another language."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gsched.client.blocking import Client, connect
from gsched.errors import Conflict, NoController, NotFound, NotPermitted, Unavailable, VersionMismatch
from gsched.protocol import frames
from gsched.protocol.hello import Hello
from gsched.protocol.messages import JobPage, ListJobs, Ping, Pong, ShowJob
from gsched.transport.unix import listen_unix
from gsched.values.ids import Instant, JobId

PONG = Pong(cluster="c", version="1", term=1, nodes_known=0, nodes_up=0, jobs=0, now=Instant(0))
Answer = Callable[[frames.Frame], bytes | None]


class Server:
    """A controller of a few lines: one thread, one connection at a time. `answer` gives None to hang up."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.connections = 0
        self.requests = 0
        self._answer = answer
        self._socket = listen_unix(path, 0o600)
        self._socket.setblocking(True)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._socket.accept()
                self.connections += 1
                with line, contextlib.suppress(ConnectionError):
                    self._talk(line)

    def _talk(self, line: socket.socket) -> None:
        decoder = frames.Decoder()
        while got := line.recv(65536):
            for frame in decoder.feed(got):
                if frame.kind == frames.REQUEST:
                    self.requests += 1
                    reply = self._answer(frame)
                    if reply is None:
                        return
                    line.sendall(reply)


@contextlib.contextmanager
def serving(path: Path, answer: Answer) -> Iterator[Server]:
    server = Server(path, answer)
    try:
        yield server
    finally:
        server.stop()


def _pong(frame: frames.Frame) -> bytes:
    return frames.encode(frames.REPLY, frame.id, PONG)


def test_a_call_gives_the_reply(short_dir: Path) -> None:
    with serving(short_dir / "s", _pong) as server, Client(str(short_dir / "s")) as client:
        assert client.call(Ping()) == PONG
        assert client.call(Ping()) == PONG
        client.close()
        assert server.connections == 1


def test_a_socket_that_does_not_exist_is_an_error_at_once_that_says_what_to_do(short_dir: Path) -> None:
    with pytest.raises(NoController, match=r"gschedd may not be running.*gsched up") as caught:
        Client(str(short_dir / "none")).call(Ping())
    assert str(short_dir / "none") in caught.value.text
    assert caught.value.exit_status == 69


def test_a_socket_of_another_user_is_named_as_such(short_dir: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may open every socket")
    (short_dir / "closed").mkdir(mode=0o000)
    with pytest.raises(NotPermitted, match="another user's"):
        Client(str(short_dir / "closed" / "s")).call(Ping())


def test_a_socket_that_refuses_is_tried_again_until_somebody_listens(short_dir: Path) -> None:
    listen_unix(short_dir / "s", 0o600).close()  # killed: the file is there, nobody listens
    started: list[Server] = []
    timer = threading.Timer(0.3, lambda: started.append(Server(short_dir / "s", _pong)))
    timer.start()
    try:
        with Client(str(short_dir / "s")) as client:
            assert client.call(Ping()) == PONG
    finally:
        timer.join()
        started[0].stop()


def test_after_the_time_for_retries_the_error_says_try_later(short_dir: Path) -> None:
    listen_unix(short_dir / "s", 0o600).close()
    with pytest.raises(Unavailable, match=r"connection refused.*try again later") as caught:
        Client(str(short_dir / "s"), retry_s=0.2).call(Ping())
    assert caught.value.exit_status == 75


def test_a_long_wait_is_told_once(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.client.blocking.PATIENCE_S", 0.1)
    listen_unix(short_dir / "s", 0o600).close()
    said: list[str] = []
    with pytest.raises(Unavailable):
        Client(str(short_dir / "s"), retry_s=0.6, say=said.append).call(Ping())
    assert len(said) == 1
    assert "waiting for the controller" in said[0]


def test_a_controller_that_takes_the_request_and_is_silent_is_told_of_once(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.client.blocking.PATIENCE_S", 0.05)
    monkeypatch.setattr("gsched.client.blocking.ANSWER_S", 0.2)
    said: list[str] = []
    silent = threading.Event()

    def nothing(_: frames.Frame) -> None:
        silent.wait(5)

    with serving(short_dir / "s", nothing), Client(str(short_dir / "s"), 5, said.append) as client:
        with pytest.raises(Unavailable, match="took the request but gave no answer"):
            client.call(Ping())
        silent.set()
    assert [text.partition(" at ")[0] for text in said] == ["waiting for the controller"]


def test_a_dropped_connection_is_made_again_and_the_request_sent_again(short_dir: Path) -> None:
    left = [2]

    def answer(frame: frames.Frame) -> bytes | None:
        left[0] -= 1
        return _pong(frame) if left[0] < 0 else None

    with serving(short_dir / "s", answer) as server:
        with Client(str(short_dir / "s")) as client:
            assert client.call(Ping()) == PONG
        assert server.requests == 3


def test_a_pipeline_that_breaks_asks_again_only_what_has_no_answer(short_dir: Path) -> None:
    broken = [False]

    def answer(frame: frames.Frame) -> bytes | None:
        if frame.id == 50 and not broken[0]:
            broken[0] = True
            return None
        return _pong(frame)

    with serving(short_dir / "s", answer) as server:
        with Client(str(short_dir / "s")) as client:
            assert client.pipeline([Ping()] * 300) == [PONG] * 300
        assert server.connections == 2
        assert server.requests <= 301


def test_an_error_is_raised_as_what_it_is(short_dir: Path) -> None:
    def answer(frame: frames.Frame) -> bytes:
        return frames.encode(frames.ERROR, frame.id, ("not_found", "no job 7"))

    with (
        serving(short_dir / "s", answer),
        Client(str(short_dir / "s")) as client,
        pytest.raises(NotFound, match="no job 7"),
    ):
        client.call(ShowJob(JobId(7)))


def test_another_version_is_an_error_not_a_retry(short_dir: Path) -> None:
    def answer(frame: frames.Frame) -> bytes:
        return frames.encode(frames.PUSH, 0, Hello(version=(9, 0))) + _pong(frame)

    with (
        serving(short_dir / "s", answer),
        Client(str(short_dir / "s")) as client,
        pytest.raises(VersionMismatch, match=r"9\.0"),
    ):
        client.call(Ping())


def test_an_unconfirmed_answer_is_warned_about_once(short_dir: Path) -> None:
    said: list[str] = []

    def answer(frame: frames.Frame) -> bytes:
        page = JobPage(rows=(), more=False, now=Instant(0), unconfirmed=True)
        return frames.encode(frames.REPLY, frame.id, page)

    with serving(short_dir / "s", answer), Client(str(short_dir / "s"), say=said.append) as client:
        client.call(ListJobs())
        client.call(ListJobs())
    assert len(said) == 1
    assert "may not survive a crash" in said[0]


def test_the_environment_names_the_socket(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_SOCKET", str(short_dir / "e"))
    assert connect().path == str(short_dir / "e")
    assert connect("/x").path == "/x"
    monkeypatch.delenv("GSCHED_SOCKET")
    assert connect().path == "/run/gsched/gschedd.sock"


def test_a_socket_that_somebody_serves_is_not_taken_over(short_dir: Path) -> None:
    with serving(short_dir / "s", _pong), pytest.raises(Conflict, match="another process listens"):
        listen_unix(short_dir / "s", 0o600)
