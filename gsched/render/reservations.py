"""Reservations as `gctl reservation show` prints them, in scontrol's words."""

from __future__ import annotations

from typing import Any

from gsched.protocol.messages import ReservationRow
from gsched.render.records import Pairs
from gsched.render.times import moment
from gsched.spec.durations import sacct_style
from gsched.spec.nodelists import fold
from gsched.values.reservation import Reservation


def reservation_record(row: ReservationRow) -> list[Pairs]:
    """One reservation as lines of Key=Value."""
    found = row.reservation
    length = "UNLIMITED" if found.end is None else sacct_style((found.end - found.start) // 1000)
    return [
        [
            ("ReservationName", found.name),
            ("StartTime", moment(found.start)),
            ("EndTime", moment(found.end, "UNLIMITED")),
            ("Duration", length),
        ],
        [("Nodes", fold([hold.node for hold in found.holds])), ("NodeCnt", len(found.holds)), ("Gpus", _gpus(found))],
        [
            ("Users", ",".join(found.users) or "(null)"),
            ("Accounts", ",".join(found.accounts) or "(null)"),
            ("Flags", "MAINT" if found.maint else "(null)"),
        ],
        [
            ("State", "ACTIVE" if row.active else "INACTIVE"),
            ("CreatedBy", found.created_by or "(null)"),
            ("CreateTime", moment(found.created)),
        ],
    ]


def _gpus(found: Reservation) -> str:
    """`all`, or the indices on each node: `n1:0-3`."""
    if all(hold.gpus < 0 for hold in found.holds):
        return "all"
    return ";".join(
        f"{hold.node}:{'all' if hold.gpus < 0 else ','.join(map(str, _indices(hold.gpus)))}" for hold in found.holds
    )


def _indices(mask: int) -> list[int]:
    return [index for index in range(mask.bit_length()) if mask >> index & 1]


def reservation_json(row: ReservationRow) -> dict[str, Any]:  # Any: a tree of plain JSON values
    """Stable: fields are added, never renamed. *_ms is since the epoch; null = until it is deleted, all GPUs."""
    found = row.reservation
    return {
        "name": found.name,
        "active": row.active,
        "start_ms": found.start,
        "end_ms": found.end,
        "nodes": [{"node": hold.node, "gpus": None if hold.gpus < 0 else _indices(hold.gpus)} for hold in found.holds],
        "users": found.users,
        "uids": found.uids,
        "accounts": found.accounts,
        "maint": found.maint,
        "created_by": found.created_by,
        "created_ms": found.created,
    }
