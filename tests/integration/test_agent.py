"""The agent as a process: start and stop, its link to the controller, its socket for commands of jobs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.client.blocking import Client
from gsched.errors import NotFound, Unavailable
from gsched.protocol import frames
from gsched.protocol.hello import Hello
from gsched.protocol.messages import Ping, ShowJob
from gsched.values.ids import JobId
from gsched.values.run import NodePhase
from tests.integration.agents import Cluster, cluster
from tests.waiting import until


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    with cluster("n1") as made:
        yield made


def failed_start(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stderr


def test_a_request_is_passed_on_as_that_user_and_answered(one: Cluster) -> None:
    with Client(str(one.agents["n1"].socket)) as client:
        assert client.call(Ping()).cluster == "test"
        with pytest.raises(NotFound, match="does not know ShowJob"):
            client.call(ShowJob(JobId(1)))
    assert {forward.uid for forward in one.controller.forwards} == {os.geteuid()}


def test_many_requests_on_one_connection_are_answered_each_by_its_own(one: Cluster) -> None:
    with Client(str(one.agents["n1"].socket)) as client:
        answers = client.pipeline([Ping(), ShowJob(JobId(1))] * 100)
    assert [type(answer).__name__ for answer in answers] == ["Pong", "NotFound"] * 100


def test_what_is_not_a_request_ends_that_connection_and_harms_no_other(one: Cluster) -> None:
    path = str(one.agents["n1"].socket)
    with socket.socket(socket.AF_UNIX) as rude:
        rude.settimeout(10)
        rude.connect(path)
        rude.sendall(b"\x00\x00\x00\x05hello, this is not msgpack")
        while rude.recv(4096):
            pass
    with Client(path) as client:
        assert client.call(Ping()).cluster == "test"


def test_without_a_controller_requests_are_told_to_come_again_and_the_link_returns_within_a_second(
    one: Cluster,
) -> None:
    one.controller.stop()
    with Client(str(one.agents["n1"].socket), retry_s=0.1) as client, pytest.raises(Unavailable, match="no connection"):
        client.call(Ping())
    before = len(one.controller.hellos)
    one.controller.restart()
    until(lambda: len(one.controller.hellos) > before, within_s=2, what="the agent's return")
    assert one.controller.hellos[-1].highest_term == one.controller.term - 1
    with Client(str(one.agents["n1"].socket)) as client:
        assert client.call(Ping()).term == one.controller.term


def test_a_controller_that_does_not_answer_heartbeats_loses_the_session(one: Cluster) -> None:
    before = len(one.controller.hellos)
    one.controller.answers_heartbeats = False
    try:
        until(lambda: len(one.controller.hellos) > before, within_s=8, what="a new session")
    finally:
        one.controller.answers_heartbeats = True


def test_sigterm_stops_the_agent_only_and_the_next_one_adopts_its_runs(one: Cluster) -> None:
    key = one.gang("echo begun; exec sleep 1000")
    agent = one.agents["n1"]
    assert agent.kill(signal.SIGTERM) == 0
    assert not agent.socket.exists()
    agent.start()
    hello = one.controller.hellos[-1]
    assert [(run.key, run.phase) for run in hello.runs] == [(key, NodePhase.OPEN)]
    one.controller.end(["n1"], key)
    assert one.output(key) == "begun\n"


def test_a_second_agent_on_one_spool_is_refused(one: Cluster) -> None:
    status, text = failed_start(one.agents["n1"].command())
    assert status == 7
    assert (
        text
        == f"gsched-agent: error: another gsched-agent works on the spool {one.agents['n1'].spool}: stop it first\n"
    )


def test_what_is_wrong_at_the_start_is_said_in_one_line(one: Cluster, tmp_path: Path) -> None:
    command = one.agents["n1"].command()
    command[command.index("--spool") + 1] = f"{tmp_path}/spool"
    status, text = failed_start(command)
    assert status == 4
    assert f"{tmp_path}/spool/tls/node.key: there is no such file" in text.splitlines()[-1]
    command[command.index("--spool") + 1] = "/proc/nowhere"
    status, text = failed_start(command)
    assert (status, text.count("\n")) == (4, 1)
    assert "spool /proc/nowhere cannot be used" in text


def test_a_port_in_use_and_a_malformed_address_are_named(one: Cluster, tmp_path: Path) -> None:
    base = one.agents["n1"].command(listen="127.0.0.1:x")
    base[base.index("--spool") + 1] = f"{tmp_path}/spool"
    assert (
        failed_start(base)[1]
        == "gsched-agent: error: --listen '127.0.0.1:x': expected HOST:PORT, such as 10.0.0.1:6816\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        base[base.index("--listen") + 1] = address
        status, text = failed_start(base)
    assert status == 4
    assert f"cannot listen on {address}: Address already in use" in text


def test_a_client_that_leaves_early_cancels_nothing(one: Cluster) -> None:
    before = len(one.controller.forwards)
    with socket.socket(socket.AF_UNIX) as hasty:
        hasty.connect(str(one.agents["n1"].socket))
        hasty.sendall(frames.encode(frames.PUSH, 0, Hello()) + frames.encode(frames.REQUEST, 1, Ping()))
    until(lambda: len(one.controller.forwards) == before + 1, what="the request at the controller")
