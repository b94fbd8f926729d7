"""Agents over TLS: who may come in, what is said, and what a bad one can do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gsched.auth.authority import issue, make_authority
from gsched.errors import GschedError, Unavailable
from gsched.protocol import frames
from gsched.protocol.link import (
    PROTOCOL_VERSION,
    AgentHello,
    ControllerMessage,
    Forward,
    Forwarded,
    Heartbeat,
    HeartbeatAck,
    Refused,
    Welcome,
)
from gsched.protocol.messages import ListNodes, NodePage, Ping, UserReply
from gsched.transport.conversation import Conversation
from gsched.transport.tls import client_context, require_role
from gsched.values.ids import NodeName, Term
from gsched.values.node import Inventory, NodeState
from tests.daemon import InThread, client, settings_in
from tests.waiting import until

T = TypeVar("T")


def hello(node: str = "n1", **changed: Any) -> AgentHello:
    given = {
        "node": NodeName(node),
        "version": PROTOCOL_VERSION,
        "machine_id": "m1",
        "boot_id": "b1",
        "highest_term": Term(0),
        "inventory": Inventory(cpus=8, memory_mib=8000),
        "stream_address": "127.0.0.1:1",
        "runs": (),
    }
    return AgentHello(**{**given, **changed})


class PretendedAgent:
    """Speaks for one node, as an agent does."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    async def say(self, message: Any) -> None:
        await self._conversation.send(frames.PUSH, 0, message)

    async def hear(self) -> ControllerMessage:
        frame = await asyncio.wait_for(self._conversation.receive(), 10)
        message: ControllerMessage = frames.check_body(frame.body, ControllerMessage)
        return message

    async def cut_off(self) -> str:
        """Wait until the controller hangs up; what was heard last is dropped."""
        while True:
            try:
                await self.hear()
            except Unavailable as error:
                return error.text


def as_node(running: InThread, tls: Path, talk: Callable[[PretendedAgent], Awaitable[T]]) -> T:
    """Dial the controller with the certificate in `tls` and talk."""

    async def dial() -> T:
        assert running.address is not None
        host, _, port = running.address.listen.rpartition(":")
        conversation = Conversation()
        loop = asyncio.get_running_loop()
        context = client_context(tls, "node")
        await loop.create_connection(lambda: conversation.channel, host, int(port), ssl=context)
        try:
            require_role(conversation.channel.transport.get_extra_info("ssl_object"), "controller")
            return await talk(PretendedAgent(conversation))
        finally:
            conversation.close("done")
            await asyncio.sleep(0.01)

    return asyncio.run(dial())


def certificate(directory: Path, node: str) -> Path:
    issue(directory / "state" / "tls", "node", node, directory / node)
    return directory / node


def test_an_agent_is_welcomed_and_its_node_is_known(short_dir: Path) -> None:
    async def talk(agent: PretendedAgent) -> Welcome:
        await agent.say(hello())
        welcome = await agent.hear()
        assert isinstance(welcome, Welcome)
        await agent.say(Heartbeat(7))
        assert await agent.hear() == HeartbeatAck(7)
        return welcome

    with InThread(settings_in(short_dir)) as running, client(short_dir) as c:
        welcome = as_node(running, certificate(short_dir, "n1"), talk)
        assert (welcome.cluster, welcome.owner_uid) == ("test", os.geteuid())
        (row,) = c.call(ListNodes()).rows
        assert row.node.name == "n1"
        until(lambda: not running.daemon.fleet.sessions, what="the session to be forgotten")


def test_an_agent_may_speak_only_of_the_node_in_its_certificate(short_dir: Path) -> None:
    async def talk(agent: PretendedAgent) -> None:
        await agent.say(hello("n2"))
        refused = await agent.hear()
        assert isinstance(refused, Refused)
        assert "n1" in refused.text
        await agent.cut_off()

    with InThread(settings_in(short_dir)) as running, client(short_dir) as c:
        as_node(running, certificate(short_dir, "n1"), talk)
        assert c.call(ListNodes()).rows == ()


def test_another_clusters_agent_gets_no_word(short_dir: Path) -> None:
    async def talk(agent: PretendedAgent) -> str:
        await agent.say(hello())
        return await agent.cut_off()

    with InThread(settings_in(short_dir)) as running, client(short_dir) as c:
        make_authority(short_dir / "other", "test")
        issue(short_dir / "other", "node", "n1", short_dir / "n1")
        (short_dir / "n1" / "ca.pem").write_bytes((short_dir / "state" / "tls" / "ca.pem").read_bytes())
        with pytest.raises((GschedError, OSError)):
            raise Unavailable(as_node(running, short_dir / "n1", talk))
        assert c.call(ListNodes()).rows == ()


def test_the_controllers_own_certificate_is_not_a_nodes(short_dir: Path) -> None:
    async def talk(agent: PretendedAgent) -> str:
        return await agent.cut_off()

    with InThread(settings_in(short_dir)) as running, client(short_dir) as c:
        issue(short_dir / "state" / "tls", "controller", "evil", short_dir / "n1")
        for kind in ("key", "pem"):
            (short_dir / "n1" / f"controller.{kind}").rename(short_dir / "n1" / f"node.{kind}")
        as_node(running, short_dir / "n1", talk)
        assert running.daemon.fleet.sessions == {}
        assert c.call(Ping()).nodes_known == 0


def test_a_message_before_the_hello_or_a_second_hello_ends_the_session(short_dir: Path) -> None:
    async def too_early(agent: PretendedAgent) -> None:
        await agent.say(Heartbeat(1))
        await agent.cut_off()

    async def twice(agent: PretendedAgent) -> None:
        await agent.say(hello())
        await agent.hear()
        await agent.say(hello())
        await agent.cut_off()

    with InThread(settings_in(short_dir)) as running, client(short_dir) as c:
        tls = certificate(short_dir, "n1")
        as_node(running, tls, too_early)
        as_node(running, tls, twice)
        assert c.call(Ping()).nodes_known == 1


def test_an_agent_that_says_nothing_is_cut_off(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gschedd.fleet.sessions.HELLO_S", 0.1)
    with InThread(settings_in(short_dir)) as running:
        as_node(running, certificate(short_dir, "n1"), lambda agent: agent.cut_off())


def test_a_users_request_that_an_agent_passes_on_is_answered_through_it(short_dir: Path) -> None:
    def forward(call: int, body: bytes) -> Forward:
        return Forward(call, os.geteuid(), os.getegid(), "somebody", body)

    async def talk(agent: PretendedAgent) -> list[ControllerMessage]:
        await agent.say(hello())
        await agent.hear()
        await agent.say(forward(1, frames.pack_body(ListNodes())))
        await agent.say(forward(2, b"\xc1"))
        await agent.say(Heartbeat(1))
        return [await agent.hear() for _ in range(3)]

    with InThread(settings_in(short_dir)) as running:
        said = as_node(running, certificate(short_dir, "n1"), talk)
    answers = {message.call: message for message in said if isinstance(message, Forwarded)}
    assert answers[1].code == "not_permitted"  # no job of that user is on the node
    assert answers[2].code == "protocol"  # the user's fault: the session went on
    assert HeartbeatAck(1) in said


def test_a_node_that_obeyed_a_later_term_ends_the_daemon(short_dir: Path) -> None:
    async def talk(agent: PretendedAgent) -> None:
        await agent.say(hello(highest_term=Term(99)))
        await agent.cut_off()

    running = InThread(settings_in(short_dir))
    with running:
        as_node(running, certificate(short_dir, "n1"), talk)
        error = running.ended()
    assert isinstance(error, GschedError)
    assert "term 99" in error.text


def test_a_nodes_state_is_unknown_until_it_came_back(short_dir: Path) -> None:
    async def talk(agent: PretendedAgent) -> None:
        await agent.say(hello())
        assert isinstance(await agent.hear(), Welcome)

    with InThread(settings_in(short_dir)) as running:
        as_node(running, certificate(short_dir, "n1"), talk)
    with InThread(settings_in(short_dir)), client(short_dir) as c:
        page: UserReply = c.call(ListNodes())
        assert isinstance(page, NodePage)
        assert page.rows[0].state is NodeState.UNKNOWN
