"""The tidy end of a local cluster: its jobs first, then its daemons, then whatever is still there.

Waiting jobs stay in the store and start after the next `gsched up`. So that they do not start while running ones end,
the nodes are drained first, for a reason that `up` knows and takes back.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

from gsched.client.blocking import Client, new_request_id
from gsched.config.settings import Settings
from gsched.errors import Conflict, ProtocolError, Unavailable
from gsched.local import leftovers, processes
from gsched.local.cluster import STOP_S, WENT_DOWN, Say, agents, controller, find, require_outside
from gsched.local.place import Place
from gsched.protocol.messages import CancelJobs, DrainNode, JobRow, ListJobs, ListNodes
from gsched.values.states import LIVE, JobState

_PAUSE_S: Final = 0.1
_CLEAN_S: Final = 15.0  # beyond the grace between TERM and KILL


class Down(NamedTuple):
    """What `gsched down` found and did."""

    stopped: tuple[str, ...]  # names of the daemons that ran
    ended_jobs: int
    kept_jobs: int
    waiting_jobs: int
    killed: int  # processes that no daemon knew of any more


def down(directory: Path, say: Say, keep_jobs: bool = False) -> Down:
    """Stop the cluster in a directory. Raises NotFound if there is none, Conflict if jobs will not end."""
    place, settings = find(directory)
    require_outside(place)
    with place.claimed():
        running, waiting = _jobs(place)
        ended = 0
        if running and not keep_jobs:
            say(f"ending {_count(len(running), 'running job')}")
            _end_jobs(place, settings, say)
            ended = len(running)
        stopped = _stop_daemons(place, settings, say)
        killed = 0
        if not keep_jobs:
            killed = leftovers.end_all(place, settings.times.kill_grace_s + STOP_S)
        return Down(stopped, ended, len(running) - ended, len(waiting), killed)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _jobs(place: Place) -> tuple[list[JobRow], list[JobRow]]:
    """Jobs that run, and jobs that wait, as the controller tells; none of either if it does not answer."""
    try:
        with Client(str(place.socket), retry_s=0) as client:
            rows = [row for page in client.pages(ListJobs()) for row in page.rows]
    except (Unavailable, ProtocolError):
        return [], []
    live = [row for row in rows if row.state in LIVE]
    return live, [row for row in rows if row.state is JobState.PENDING]


def _end_jobs(place: Place, settings: Settings, say: Say) -> None:
    """Cancel what runs and wait until its nodes are clean."""
    deadline = time.monotonic() + settings.times.kill_grace_s + _CLEAN_S
    cancelled: set[int] = set()
    try:
        with Client(str(place.socket)) as client:
            free = [row.node.name for row in client.call(ListNodes()).rows if not row.node.drained]
            if free:
                client.call(DrainNode(request_id=new_request_id(), nodes=tuple(free), reason=WENT_DOWN))
            while live := _jobs(place)[0]:
                # A launch that was under way may still bring one up: each is cancelled when it is seen.
                ids = tuple(row.id for row in live if row.id not in cancelled and row.state is not JobState.COMPLETING)
                if ids:
                    client.call(CancelJobs(request_id=new_request_id(), jobs=ids))
                    cancelled.update(ids)
                if time.monotonic() > deadline:
                    raise Conflict(_not_ended(live))
                time.sleep(_PAUSE_S)
    except (Unavailable, ProtocolError) as error:
        say(f"the controller went away meanwhile ({error.text}); what still runs is ended without it")


def _not_ended(live: list[JobRow]) -> str:
    names = ", ".join(str(row.id) for row in live[:8])
    return (
        f"{_count(len(live), 'job')} did not end in time: {names}; see `gctl show job {live[0].id}` and the logs, "
        "say `gsched down` again to wait longer, or `gsched down --keep-jobs` to leave them running"
    )


def _stop_daemons(place: Place, settings: Settings, say: Say) -> tuple[str, ...]:
    """Agents first, so that the controller is there for their last reports."""
    stopped = []
    for daemon in (*agents(place, settings).values(), controller(place)):
        how = processes.stop(daemon, STOP_S)
        if how:
            stopped.append(daemon.name)
        if how == "killed":
            say(f"{daemon.name} did not end within {STOP_S:g} s of SIGTERM and was killed; see {daemon.log}")
    return tuple(stopped)
