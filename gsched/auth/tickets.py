"""Tickets for the streams of steps: signed by the controller, checked by one node's agent.

Each node has a key of its own, derived from the cluster's secret: a node can forge tickets for itself only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgpack
import msgspec
from msgspec import Struct

from gsched.errors import NotPermitted
from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo, StepId


class Ticket(Struct, frozen=True):
    """What its bearer may do: run one step's tasks, as `uid`, in one run, on one node, until `expires` (opening)."""

    job: JobId
    run: RunNo
    step: StepId
    node: NodeName
    uid: int
    expires: Instant
    ntasks: int

    @property
    def key(self) -> RunKey:
        return RunKey(self.job, self.run)


def node_key(secret: bytes, node: NodeName) -> bytes:
    """The key of one node, from the cluster's secret."""
    return hmac.new(secret, b"ticket:" + node.encode(), hashlib.sha256).digest()


def sign(key: bytes, ticket: Ticket) -> str:
    """Make the text a client shows to the agent."""
    body = msgpack.packb(msgspec.to_builtins(ticket))
    return base64.urlsafe_b64encode(hmac.new(key, body, hashlib.sha256).digest() + body).decode()


def verify(key: bytes, text: str, node: NodeName) -> Ticket:
    """Read a ticket back, signature and node checked; the caller judges `expires`. Raises NotPermitted."""
    try:
        raw = base64.urlsafe_b64decode(text.encode())
        if not hmac.compare_digest(raw[:32], hmac.new(key, raw[32:], hashlib.sha256).digest()):
            raise NotPermitted("this ticket was not signed for this node")
        ticket = msgspec.convert(msgpack.unpackb(raw[32:]), Ticket)
    except (ValueError, msgspec.ValidationError) as error:
        raise NotPermitted(f"not a ticket: {error}") from None
    if ticket.node != node:
        raise NotPermitted(f"this ticket is for node {ticket.node}, not {node}")
    return ticket
