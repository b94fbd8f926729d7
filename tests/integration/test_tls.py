"""Both sides of the wire are proved by the cluster's own certificates; there is no way in without one."""

from __future__ import annotations

import asyncio
import ssl
import stat
from pathlib import Path

import pytest

from gsched.auth.authority import issue, make_authority, role_of
from gsched.errors import BadConfig, BadRequest, GschedError, NotPermitted
from gsched.protocol import frames
from gsched.protocol.messages import Ping
from gsched.transport.conversation import Conversation
from gsched.transport.tls import client_context, peer_role, require_role, server_context, ticket_context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """authority/, controller/, n1/ of one cluster, and other/ and stranger/ of another one."""
    root = tmp_path_factory.mktemp("tls")
    make_authority(root / "authority", "ours")
    issue(root / "authority", "controller", "ours", root / "controller", ["127.0.0.1", "localhost"])
    issue(root / "authority", "node", "n1", root / "n1")
    make_authority(root / "other", "ours")
    issue(root / "other", "node", "n1", root / "stranger")
    return root


async def _meet(server: ssl.SSLContext, client: ssl.SSLContext, as_client: str) -> tuple[tuple[str, str], str]:
    """Connect, send a frame each way; give (role, name) the server saw, and the name the client checked."""
    theirs = Conversation()

    async def answer() -> tuple[str, str]:
        frame = await theirs.receive()
        await theirs.send(frame.kind, frame.id, Ping())
        return peer_role(theirs.channel.transport.get_extra_info("ssl_object"))

    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: theirs.channel, "127.0.0.1", 0, ssl=server)
    answering = loop.create_task(answer())
    ours = Conversation()
    try:
        port = listener.sockets[0].getsockname()[1]
        await loop.create_connection(lambda: ours.channel, "127.0.0.1", port, ssl=client)
        name = require_role(ours.channel.transport.get_extra_info("ssl_object"), as_client)
        await ours.send(frames.PUSH, 0, Ping())
        await asyncio.wait_for(ours.receive(), 5)
        return await answering, name
    finally:
        answering.cancel()
        listener.close()
        for conversation in (ours, theirs):
            conversation.close("done")
        await asyncio.sleep(0)


def test_an_agent_and_the_controller_know_each_other_by_name(certificates: Path) -> None:
    server = server_context(certificates / "controller", "controller")
    client = client_context(certificates / "n1", "node")
    assert asyncio.run(_meet(server, client, "controller")) == (("node", "n1"), "ours")


def test_an_agent_of_another_cluster_is_refused(certificates: Path) -> None:
    server = server_context(certificates / "controller", "controller")
    client = client_context(certificates / "stranger", "node")
    client.load_verify_locations(certificates / "authority" / "ca.pem")  # so that it is the server who refuses
    with pytest.raises((GschedError, OSError)):
        asyncio.run(_meet(server, client, "controller"))


def test_a_client_without_a_certificate_is_refused_by_the_controller(certificates: Path) -> None:
    server = server_context(certificates / "controller", "controller")
    client = ticket_context((certificates / "authority" / "ca.pem").read_bytes())
    with pytest.raises((GschedError, OSError)):
        asyncio.run(_meet(server, client, "controller"))


def test_a_node_cannot_pass_itself_off_as_the_controller(certificates: Path) -> None:
    server = server_context(certificates / "n1", "node")
    client = client_context(certificates / "n1", "node")
    with pytest.raises(NotPermitted, match=r"expected the certificate of controller .* is of node n1"):
        asyncio.run(_meet(server, client, "controller"))


def test_a_users_client_proves_the_node_by_the_authority_alone(certificates: Path) -> None:
    server = server_context(certificates / "n1", "node", verify_client=False)
    client = ticket_context((certificates / "authority" / "ca.pem").read_bytes())
    assert asyncio.run(_meet(server, client, "node")) == (("", ""), "n1")


def test_a_users_client_refuses_a_server_of_another_authority(certificates: Path) -> None:
    server = server_context(certificates / "stranger", "node", verify_client=False)
    client = ticket_context((certificates / "authority" / "ca.pem").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_meet(server, client, "node"))


def test_an_older_tls_is_refused(certificates: Path) -> None:
    server = server_context(certificates / "controller", "controller")
    client = client_context(certificates / "n1", "node")
    client.minimum_version = ssl.TLSVersion.TLSv1_2
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, OSError)):
        asyncio.run(_meet(server, client, "controller"))


def test_keys_are_readable_by_their_owner_only(certificates: Path) -> None:
    for key in (certificates / "authority" / "ca.key", certificates / "n1" / "node.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_key_that_others_can_read_is_refused(certificates: Path, tmp_path: Path) -> None:
    issue(certificates / "authority", "node", "n2", tmp_path)
    (tmp_path / "node.key").chmod(0o644)
    with pytest.raises(BadConfig, match="can be read by others"):
        client_context(tmp_path, "node")


def test_the_authority_is_made_once(certificates: Path) -> None:
    before = (certificates / "authority" / "ca.pem").read_bytes()
    make_authority(certificates / "authority", "ours")
    assert (certificates / "authority" / "ca.pem").read_bytes() == before


def test_the_role_and_name_are_in_the_certificate(certificates: Path) -> None:
    assert role_of((certificates / "n1" / "node.pem").read_bytes()) == ("node", "n1")
    assert role_of((certificates / "authority" / "ca.pem").read_bytes()) == ("", "")


@pytest.mark.parametrize("name", ["", "a:b", "a b", "né", "a/b"])
def test_a_name_that_could_be_taken_for_another_gets_no_certificate(certificates: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="node name"):
        issue(certificates / "authority", "node", name, certificates / "bad")
