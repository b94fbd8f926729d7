"""Requests of users through a real socket, the machine, and a store on disk."""

from __future__ import annotations

import os
import select
import socket
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from gsched.errors import Conflict, GschedError, NotFound, NotPermitted, ProtocolError, Unavailable, VersionMismatch
from gsched.protocol import frames
from gsched.protocol.hello import Hello
from gsched.protocol.messages import Accounting, CancelJobs, JobPage, ListJobs, Ping, ShowJob, Submitted, UserReply
from gsched.values.ids import JobId
from gsched.values.states import JobState
from gschedd.core.inputs import PassLog, Plan, QueueInput
from gschedd.store.journal import StoreRefused, StoreUnavailable
from gschedd.store.sql import SqlStore
from tests.daemon import InThread, NoPlan, client, settings_in, submission
from tests.waiting import until


def raw(directory: Path) -> socket.socket:
    """A connection of a peer that speaks as it likes."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(5)
    line.connect(str(directory / "gschedd.sock"))
    return line


def all_of(line: socket.socket) -> list[frames.Frame]:
    """Every frame until the other side closes."""
    decoder, got = frames.Decoder(), []
    while data := line.recv(65536):
        got += decoder.feed(data)
    return got


def test_a_submitted_job_is_durable_when_the_reply_comes_and_listed(short_dir: Path) -> None:
    settings = settings_in(short_dir)
    with InThread(settings), client(short_dir) as c:
        reply = c.call(submission("first"))
        with SqlStore("", short_dir / "state")._reading.connect() as other:
            assert other.exec_driver_sql("select id from jobs").scalars().all() == [reply.job]
        (row,) = c.call(ListJobs()).rows
    assert (row.id, row.name, row.state, row.uid) == (reply.job, "first", JobState.PENDING, os.geteuid())


def test_two_hundred_pipelined_submits_all_get_their_own_job(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)) as running, client(short_dir) as c:
        replies = c.pipeline([submission(f"j{n}") for n in range(200)])
        ids = [reply.job for reply in replies if isinstance(reply, Submitted)]
        assert ids == sorted(set(ids))
        assert len(ids) == 200
        listed = [row.id for page in c.pages(ListJobs(limit=70)) for row in page.rows]
        assert listed == ids
        assert running.daemon.controller.vitals.batches < 100  # many went into one transaction


def test_a_submission_sent_twice_gives_the_first_job_again(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)), client(short_dir) as c:
        once = submission("once")
        first, second = c.pipeline([once, once])
        assert first == second
        assert len(c.call(ListJobs()).rows) == 1


def test_after_a_restart_every_acknowledged_job_is_there(short_dir: Path) -> None:
    settings = settings_in(short_dir)
    with InThread(settings) as first, client(short_dir) as c:
        jobs = [r.job for r in c.pipeline([submission() for _ in range(5)]) if isinstance(r, Submitted)]
        term = first.daemon.controller._machine.state.term  # type: ignore[attr-defined]  # the machine's, real here
    with InThread(settings), client(short_dir) as c:
        assert [row.id for row in c.call(ListJobs()).rows] == jobs
        assert c.call(Ping()).term == term + 1
        assert c.call(submission()).job == jobs[-1] + 1


def test_accounting_shows_what_was_acknowledged_a_moment_ago(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)), client(short_dir) as c:
        job = c.call(submission()).job
        answers = c.pipeline([CancelJobs(request_id="c1", jobs=(job,)), Accounting(jobs=(job,))])
        (row,) = answers[1].rows  # type: ignore[union-attr]  # a page
        assert row.job.state is JobState.CANCELLED  # type: ignore[union-attr]  # of accounting


def test_errors_come_back_as_what_they_are(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)), client(short_dir) as c, pytest.raises(NotFound):
        c.call(ShowJob(JobId(77)))


def test_another_uid_is_refused_by_name(short_dir: Path) -> None:
    with InThread(settings_in(short_dir, owner=os.geteuid() + 12345)), client(short_dir) as c:
        for request in (Ping(), ListJobs(), submission(), Accounting()):
            (answer,) = c.pipeline([request])
            assert isinstance(answer, NotPermitted)
            assert f"uid {os.geteuid()})" in answer.text
            assert f"uid {os.geteuid() + 12345}" in answer.text


def test_the_uid_is_the_kernels_word(short_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: becoming another user")
    short_dir.chmod(0o755)
    with InThread(settings_in(short_dir)):
        script = (
            "import os, sys; from gsched.client.blocking import Client; from gsched.protocol.messages import Ping\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "print(Client(sys.argv[1]).pipeline([Ping()])[0].text)"
        )
        command = [sys.executable, "-c", script, str(short_dir / "gschedd.sock")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "serves nobody else" in done.stdout
    assert "(uid 65534)" in done.stdout


def test_the_socket_is_open_to_all_and_the_kernel_names_them(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)):
        assert stat.S_IMODE((short_dir / "gschedd.sock").stat().st_mode) == 0o666
    assert not (short_dir / "gschedd.sock").exists()  # a clean stop leaves nothing that looks alive


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", ""),
        (struct.pack(">I", 1 << 31), ""),
        (struct.pack(">I", 1) + b"\xc1", ""),
        (frames.encode(frames.REQUEST, 1, Ping()), ProtocolError.code),
        (frames.encode(frames.PUSH, 0, Hello(version=(9, 9))), VersionMismatch.code),
        (frames.encode(frames.PUSH, 0, Hello()) + frames.encode(frames.REQUEST, 1, ("no", "request")), "protocol"),
        (frames.encode(frames.PUSH, 0, Hello()) + frames.encode(frames.PUSH, 0, Ping()), "protocol"),
    ],
)
def test_malformed_input_ends_that_connection_and_harms_nothing_else(short_dir: Path, sent: bytes, code: str) -> None:
    with InThread(settings_in(short_dir)), client(short_dir) as c, raw(short_dir) as line:
        assert c.call(Ping()).cluster == "test"
        line.sendall(sent)
        errors = [frame.body[0] for frame in all_of(line) if frame.kind == frames.ERROR]
        assert errors == ([code] if code else [])
        assert c.call(Ping()).cluster == "test"


def test_a_client_that_reads_nothing_holds_up_nobody(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)) as running, client(short_dir) as c, raw(short_dir) as line:
        c.pipeline([submission("x" * 900) for _ in range(200)])
        line.sendall(frames.encode(frames.PUSH, 0, Hello()))
        line.setblocking(False)
        asked = frames.encode(frames.REQUEST, 1, ListJobs())
        sent = 0
        while select.select([], [line], [], 0.3)[1] and sent < 50_000:
            sent += line.send(asked * 100) // len(asked)
        assert sent < 50_000, "it was read without end"
        assert c.call(Ping()).cluster == "test"
        assert running.daemon.dispatcher.waiting <= 256


class Broken:
    """A store whose writing side fails while `broken`; then the outcome of a write is unknown."""

    def __init__(self, store: SqlStore) -> None:
        self._write, self._last = store.write, store.last_batch
        self.broken = False
        store.write, store.last_batch = self.write, self.last_batch  # type: ignore[method-assign]  # a fault, planted

    def write(self, batch: object) -> None:
        if self.broken:
            raise StoreUnavailable("disk full")
        self._write(batch)  # type: ignore[arg-type]  # as it came

    def last_batch(self) -> object:
        if self.broken:
            raise StoreUnavailable("disk full")
        return self._last()


def _now(c: object, request: object) -> UserReply | GschedError:
    """One answer, without the client's own retries."""
    try:
        return c.call(request)  # type: ignore[attr-defined,no-any-return]  # a client
    except GschedError as error:
        return error


def test_while_the_store_is_away_changes_are_refused_and_queries_flagged(short_dir: Path) -> None:
    running = InThread(settings_in(short_dir))
    fault = Broken(running.daemon.store)
    with running, client(short_dir) as c, client(short_dir) as hasty:
        hasty._retry_s = 0.0
        before = c.call(submission("before")).job
        fault.broken = True
        with raw(short_dir) as line:  # a change whose outcome is unknown, and a question behind it
            line.sendall(
                frames.encode(frames.PUSH, 0, Hello()) + frames.encode(frames.REQUEST, 1, submission("during"))
            )
            line.sendall(frames.encode(frames.REQUEST, 2, ListJobs()))
            decoder = frames.Decoder()
            got: list[frames.Frame] = []
            while not [f for f in got if f.id == 2]:
                got += decoder.feed(line.recv(65536))
            assert got[-1].body["unconfirmed"] is True  # it did not wait for the store
            assert isinstance(_now(hasty, submission("refused")), Unavailable)
            assert "disk full" in _now(hasty, submission("refused")).text  # type: ignore[union-attr]  # an error
            page = hasty.call(ListJobs())
            assert isinstance(page, JobPage)
            assert page.unconfirmed
            fault.broken = False
            while not [f for f in got if f.id == 1]:
                got += decoder.feed(line.recv(65536))
            assert got[-1].body["job"] == before + 1
        page = c.call(ListJobs())
        assert not page.unconfirmed
        assert [row.name for row in page.rows] == ["before", "during"]


def test_a_bug_in_the_machine_ends_the_daemon(short_dir: Path) -> None:
    running = InThread(settings_in(short_dir))

    def handle(*_: object) -> None:
        raise RuntimeError("a bug")

    with running:
        running.daemon.controller._machine.handle = handle  # type: ignore[method-assign,assignment]  # planted
        with client(short_dir) as c:
            c._retry_s = 0.0
            with pytest.raises(GschedError):
                c.call(Ping())
        assert isinstance(running.ended(), RuntimeError)


def test_a_bug_in_a_pass_ends_the_daemon(short_dir: Path) -> None:
    class Broken(NoPlan):
        def decide(self, log: PassLog) -> Plan:
            raise RuntimeError(f"a bug in a pass after {len(log.changes)} changes")

    running = InThread(settings_in(short_dir), Broken())
    with running:
        assert isinstance(running.ended(), RuntimeError)


def test_a_second_controller_on_the_same_state_is_refused(short_dir: Path) -> None:
    with InThread(settings_in(short_dir)), pytest.raises(StoreRefused, match="in use by another gschedd"):
        InThread(settings_in(short_dir))


def test_a_port_that_is_taken_is_named(short_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = settings_in(short_dir)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        controller = type(settings.controller)(
            socket=settings.controller.socket, listen=address, state_dir=settings.controller.state_dir
        )
        running = InThread(type(settings)(cluster=settings.cluster, controller=controller))
        with running:
            error = running.ended()
    assert isinstance(error, Conflict)
    assert address in error.text
    assert "controller.listen" in error.text


def test_passes_follow_one_another_and_never_overlap(short_dir: Path) -> None:
    class Slow(NoPlan):
        running = most = 0
        jobs: ClassVar[set[int]] = set()

        def decide(self, log: PassLog) -> Plan:
            self.running += 1
            self.most = max(self.most, self.running)
            threading.Event().wait(0.02)  # a pass takes its time
            self.running -= 1
            self.jobs.update(change.job for change in log.changes if isinstance(change, QueueInput))
            return Plan()

    slow = Slow()
    with InThread(settings_in(short_dir), slow) as running, client(short_dir) as c:
        for _ in range(20):
            c.call(submission())
        until(lambda: len(slow.jobs) == 20, what="passes that were told of all jobs")
        assert slow.most == 1
        assert running.daemon.controller.vitals.events > 20
