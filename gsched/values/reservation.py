"""An administrator's reservation: nodes or GPUs that for a time are some users' only, or nobody's."""

from __future__ import annotations

from msgspec import Struct

from gsched.values.ids import Instant, NodeName


class ReservedShare(Struct, frozen=True):
    """What it holds of one node."""

    node: NodeName
    gpus: int = -1  # bitmask; -1 = the whole node with its cores and memory


class Reservation(Struct, frozen=True, kw_only=True):
    name: str
    holds: tuple[ReservedShare, ...]
    start: Instant
    end: Instant | None = None  # None = until it is deleted
    users: tuple[str, ...] = ()  # who may use it, in the order of `uids`
    uids: tuple[int, ...] = ()
    accounts: tuple[str, ...] = ()
    maint: bool = False  # for maintenance: nobody's job runs inside
    created_by: str = ""
    created: Instant = Instant(0)
    closed: Instant | None = None  # deleted, or over

    def active(self, now: Instant) -> bool:
        return self.closed is None and self.start <= now and (self.end is None or now < self.end)

    def meets(self, start: Instant, end: Instant | None) -> bool:
        """Whether it and the time from `start` to `end` (None = for ever) overlap."""
        return (end is None or self.start < end) and (self.end is None or start < self.end)
