"""Values into and out of a pass. `snapshot.py` turns the inputs into arrays; `Plan` is made of plain values again."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gsched.values.ids import Instant, JobId, NodeName, RunKey
from gsched.values.job import Request
from gsched.values.node import Inventory
from gsched.values.run import NodeShare
from gsched.values.states import Reason


class Availability(StrEnum):
    UP = "up"
    DRAINED = "drained"  # nothing new; what runs there goes on; has no future in planned starts
    AWAY = "away"  # known, but silent, or not reconciled yet


class NodeInput(Struct, frozen=True):
    """A known node."""

    name: NodeName
    inventory: Inventory
    partitions: tuple[str, ...]
    features: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()  # from the leaf switch up to the root; () = all under one
    availability: Availability = Availability.UP
    gpus_out: int = 0  # bitmask of GPUs that may not be offered


class HoldInput(Struct, frozen=True):
    """A live run: what it holds, and when it is expected to give it back (None = unknown or never)."""

    key: RunKey
    shares: tuple[NodeShare, ...]  # only parts that are not clean yet
    expected_end: Instant | None


class QueueInput(Struct, frozen=True):
    """A job that may start now. The order of the queue is the order of the sequence handed over."""

    job: JobId
    request: Request
    avoid: tuple[NodeName, ...] = ()


class Policy(Struct, frozen=True):
    """What an administrator may tune in a pass."""

    planned_starts: int = 1  # how many blocked jobs get one; later jobs may not delay them
    strict_order: bool = False  # no job passes one that waits (while nodes are still coming back after a start)
    seed: int = 0
    kill_time_s: int = 60  # an expected end that has passed counts as this long from now


class Start(Struct, frozen=True):
    job: JobId
    shares: tuple[NodeShare, ...]  # in rank order; `port` is 0 here, given at commit


class PlannedStart(Struct, frozen=True):
    job: JobId
    at: Instant
    nodes: tuple[NodeName, ...]


class Wait(Struct, frozen=True):
    job: JobId
    reason: Reason
    detail: str = ""


class Plan(Struct, frozen=True):
    """What one pass decided: starts in the order they were decided, planned starts, and why the others wait."""

    starts: tuple[Start, ...] = ()
    planned: tuple[PlannedStart, ...] = ()
    waits: tuple[Wait, ...] = ()


class PassInput(Struct, frozen=True):
    """Everything one pass needs, as plain values: made on the loop's thread, turned into arrays on the planner's."""

    nodes: tuple[NodeInput, ...]
    holds: tuple[HoldInput, ...]
    queue: tuple[QueueInput, ...]
    policy: Policy
    now: Instant
