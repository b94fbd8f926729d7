"""Who is an administrator: root, and on a local cluster its owner."""

from __future__ import annotations

from gsched.errors import NotPermitted
from gschedd.events import Call
from gschedd.state import State


def is_admin(state: State, uid: int) -> bool:
    """Root, and on a local cluster its owner."""
    return uid == 0 or uid == state.settings.cluster.owner_uid


def admin_only(state: State, call: Call) -> None:
    """Raises NotPermitted for everybody else."""
    if not is_admin(state, call.uid):
        raise NotPermitted(f"user {call.user} is not an administrator of this cluster")
