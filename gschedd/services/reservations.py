"""Administrators' reservations: made, deleted, shown; who may submit into one; what runs may not be in its way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gsched.clock import Now
from gsched.errors import BadRequest, Conflict, NotFound, NotPermitted, TooLarge
from gsched.protocol.messages import (
    CreateReservation,
    DeleteReservation,
    Done,
    ListReservations,
    ReservationPage,
    ReservationRow,
)
from gsched.values.ids import Instant, NodeName
from gsched.values.job import DEFAULT_ACCOUNT, Job, JobSpec
from gsched.values.reservation import Reservation, ReservedShare
from gsched.values.run import NodeShare
from gschedd.core.features import all_gpus
from gschedd.core.inputs import Bookable, ReservationInput
from gschedd.events import Call
from gschedd.services.nodes import find_node
from gschedd.services.rights import admin_only
from gschedd.state import State, StateChange

_NAME_MAX = 100  # characters
_MOST = 1000  # reservations


def create(change: StateChange, call: Call, request: CreateReservation) -> Done:
    """Make a reservation, or with `replace` change one as a whole. What runs on its nodes goes on."""
    state = change.state
    admin_only(state, call)
    _check_name(request.name)
    old = state.reservations.get(request.name)
    if old is not None and not request.replace:
        raise Conflict(f"reservation {request.name} is there already: --replace changes it, or take another name")
    if old is None and len(state.reservations) >= _MOST:
        raise TooLarge(f"there are {_MOST} reservations, the most: delete some")
    start = request.start or change.at
    _check_times(start, request.end, change.at)
    if not (request.users or request.accounts or request.maint):
        raise BadRequest("who may use the reservation: give users or accounts, or make it one for maintenance")
    others = [r for r in state.reservations.values() if r.name != request.name and r.meets(start, request.end)]
    made = Reservation(
        name=request.name,
        holds=tuple(_holds(state, request, others)),
        start=start,
        end=request.end,
        users=request.users,
        uids=request.uids,
        accounts=request.accounts,
        maint=request.maint,
        created_by=call.user,
        created=change.at,
    )
    change.put_reservation(made)
    change.note("reservation.changed" if old is not None else "reservation.created", uid=call.uid, text=made.name)
    change.ask_plan()
    return Done(_in_the_way(state, made))


def _check_name(name: str) -> None:
    if not name or len(name) > _NAME_MAX or not name.isprintable() or set(name) & set(" ,="):
        raise BadRequest(f"not a reservation's name: {name!r} (1 to {_NAME_MAX} characters, no space, comma or =)")


def _check_times(start: Instant, end: Instant | None, now: Instant) -> None:
    if end is not None and end <= start:
        raise BadRequest("the reservation would end before it begins: give a later end, or a duration")
    if end is not None and end <= now:
        raise BadRequest("the reservation would be over already: give a later end")


def _holds(state: State, request: CreateReservation, others: Sequence[Reservation]) -> Iterable[ReservedShare]:
    """What it would hold. Raises NotFound for an unknown node, Conflict for what another one has at that time."""
    if not request.nodes and not request.gpus:
        raise BadRequest("what to reserve: give nodes, or GPUs as N@NODES")
    named = [*request.nodes, *(node for _, nodes in request.gpus for node in nodes)]
    if len(set(named)) < len(named):
        twice = next(node for at, node in enumerate(named) if node in named[:at])
        raise BadRequest(f"node {twice} is named twice")
    taken: dict[NodeName, dict[str, int]] = {}
    for other in others:
        for hold in other.holds:
            taken.setdefault(hold.node, {})[other.name] = hold.gpus
    for name in request.nodes:
        find_node(state, name)
        if name in taken:
            raise Conflict(f"node {name} is in reservation {next(iter(taken[name]))} at that time")
        yield ReservedShare(name)
    for count, nodes in request.gpus:
        for name in nodes:
            yield ReservedShare(name, _some_gpus(all_gpus(find_node(state, name).inventory), count, name, taken))


def _some_gpus(mask: int, count: int, name: NodeName, taken: dict[NodeName, dict[str, int]]) -> int:
    """The lowest `count` GPUs of a node that no other reservation has at that time."""
    has = mask.bit_count()
    if not 1 <= count <= has:
        raise BadRequest(f"{count} GPUs of node {name} asked: it has {has}")
    for other in taken.get(name, {}).values():
        mask &= 0 if other < 0 else ~other
    free = [index for index in range(mask.bit_length()) if mask >> index & 1]
    if len(free) < count:
        names = ", ".join(sorted(taken[name]))
        raise Conflict(
            f"{count} GPUs of node {name} asked: reservations there ({names}) leave {len(free)} at that time"
        )
    return sum(1 << index for index in free[:count])


def _in_the_way(state: State, made: Reservation) -> str:
    """Words for runs that may still be there when it begins; "" = none."""
    nodes = {hold.node for hold in made.holds}
    jobs = set()
    for run in state.runs.values():
        end = None if not run.time_limit_s else Instant((run.started or run.created) + 1000 * run.time_limit_s)
        if made.meets(run.created, end) and any(part.share.node in nodes for part in run.parts):
            jobs.add(run.job)
    if not jobs:
        return ""
    few = ", ".join(str(job) for job in sorted(jobs)[:8])
    return f"jobs run there that may go on after it begins: {few}{' and more' if len(jobs) > 8 else ''}"


def delete(change: StateChange, call: Call, request: DeleteReservation) -> Done:
    """End a reservation. Jobs that wait for it go on waiting, and say so."""
    admin_only(change.state, call)
    found = _find(change.state, request.name)
    change.put_reservation(replace(found, closed=change.at))
    change.note("reservation.deleted", uid=call.uid, text=found.name)
    change.ask_plan()
    return Done()


def _find(state: State, name: str) -> Reservation:
    found = state.reservations.get(name)
    if found is None:
        known = ", ".join(sorted(state.reservations)[:8]) or "none"
        raise NotFound(f"reservation {name}: not known; there {'are' if known != 'none' else 'is'} {known}")
    return found


def show(state: State, request: ListReservations, now: Now) -> ReservationPage:
    """All reservations, or those named, in the order of their starts."""
    at = Instant(now.wall)
    found = [_find(state, name) for name in request.names] or list(state.reservations.values())
    found.sort(key=lambda r: (r.start, r.name))
    return ReservationPage(tuple(ReservationRow(r, r.active(at)) for r in found), at)


def tick(change: StateChange) -> None:
    """Close what is over, and ask for a pass when one begins or ends."""
    state = change.state
    for found in list(state.reservations.values()):
        if found.end is not None and found.end <= change.at:
            change.put_reservation(replace(found, closed=change.at))
            change.note("reservation.ended", text=found.name)
            change.ask_plan()
        elif found.active(change.at) and found.name not in state.reservations_begun:
            state.reservations_begun.add(found.name)
            change.ask_plan()


def inputs(state: State) -> tuple[ReservationInput, ...]:
    """What a pass is told of them, in the order of their names."""
    return tuple(
        ReservationInput(
            name=r.name,
            holds=tuple(Bookable(hold.node, hold.gpus) for hold in r.holds),
            start=r.start,
            end=r.end,
            uids=r.uids,
            accounts=r.accounts,
            maint=r.maint,
        )
        for _, r in sorted(state.reservations.items())
    )


def check_allowed(state: State, spec: JobSpec, uid: int, user: str) -> Reservation | None:
    """The reservation that a spec names. Raises NotFound or NotPermitted."""
    if not spec.reservation:
        return None
    found = _find(state, spec.reservation)
    if found.maint:
        raise NotPermitted(f"reservation {found.name} is for maintenance: nobody's job runs in it")
    if uid not in found.uids and DEFAULT_ACCOUNT not in found.accounts:
        raise NotPermitted(f"user {user} may not use reservation {found.name}")
    return found


def in_the_way(state: State, job: Job, shares: Iterable[NodeShare], now: Instant) -> bool:
    """Whether a start now would use what is reserved for others while it runs."""
    limit_s = job.request.time_limit_s
    end = Instant(now + 1000 * limit_s) if limit_s else None
    for other in state.reservations.values():
        if other.meets(now, end) and (other.maint or other.name != job.request.reservation):
            held = {hold.node: hold.gpus for hold in other.holds}
            if any(share.node in held and (held[share.node] < 0 or held[share.node] & share.gpus) for share in shares):
                return True
    return False
