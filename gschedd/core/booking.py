"""Reservations and claims as numbers: what they keep of each node, and what their own jobs may use.

A job of a reservation runs only inside what it holds, and within its time. A reservation for maintenance, and one that
is not there, keep it waiting. Whether a user may use one is asked when the job is submitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gsched.values.ids import NodeName
from gsched.values.job import Request
from gschedd.core.inputs import ReservationInput
from gschedd.core.kernels.arrays import FOREVER, Grid, Int64s
from gschedd.core.kernels.book import BOOK_ROWS
from gschedd.core.kernels.events import OPEN_CLAIM, OPEN_FROM, OPEN_ROWS, OPEN_UNTIL
from gschedd.core.snapshot import Snapshot


class Booked(Struct, frozen=True):
    """What is booked of one node; the same as the BOOK_ rows."""

    node: int
    start: int  # -1 = as soon as runs leave the room
    end: int
    cores: int
    memory: int
    gpus: int
    owner: int


def owner_of(reservation: int) -> int:
    """AHEAD_OWNER of a reservation's rows."""
    return -2 - reservation


def booked_rows(snapshot: Snapshot, now: int) -> list[Booked]:
    """All that is not over; nodes that are not known are passed over."""
    if not snapshot.reservations and not snapshot.claims:
        return []
    nodes, jobs = snapshot.nodes, claim_rows(snapshot)
    index = {name: n for n, name in enumerate(snapshot.names)}
    rows = []
    for number, reservation in enumerate(snapshot.reservations):
        end = FOREVER if reservation.end is None else reservation.end
        for n, mask in sorted(held_masks(reservation, index).items()):
            whole = mask < 0
            gpus = int(nodes.gpus[n]) if whole else mask & int(nodes.gpus[n])
            cores, memory = (int(nodes.cores[n]), int(nodes.memory[n])) if whole else (0, 0)
            if end > now:
                rows.append(Booked(n, max(reservation.start, 0), end, cores, memory, gpus, owner_of(number)))
    for claim in snapshot.claims:
        owner = jobs.get(claim.job, -1)
        for share in claim.shares:
            if share.node in index and claim.until > now:
                rows.append(Booked(index[share.node], -1, claim.until, share.cpus, share.mem_mib, share.gpus, owner))
    return rows


def held_masks(reservation: ReservationInput, index: Mapping[NodeName, int]) -> dict[int, int]:
    """GPUs that it holds of each node; -1 = the whole node."""
    masks: dict[int, int] = {}
    for hold in reservation.holds:
        if hold.node in index:
            n = index[hold.node]
            masks[n] = -1 if hold.gpus < 0 else masks.get(n, 0) | hold.gpus
    return masks


def booked_grid(rows: Sequence[Booked]) -> Grid:
    """The rows as the kernels take them."""
    grid = np.zeros((BOOK_ROWS, len(rows)), dtype=np.int64)
    for i, row in enumerate(rows):
        grid[:, i] = row.node, row.start, row.end, row.cores, row.memory, row.gpus, row.owner
    return grid


def reservation_of(request: Request, reservations: Sequence[ReservationInput]) -> int:
    """Number of the reservation that a request names; that of what is barred if there is none; -1 = it names none."""
    if not request.reservation:
        return -1
    names = [reservation.name for reservation in reservations]
    return names.index(request.reservation) if request.reservation in names else len(names)


def inside_reservations(snapshot: Snapshot) -> Snapshot:
    """The snapshot, where a request that names a reservation may use only what that holds."""
    numbers = _reservations(snapshot)
    if numbers.max(initial=-1) < 0:
        return snapshot
    classes, index = snapshot.classes, {name: n for n, name in enumerate(snapshot.names)}
    row, gpu_row = classes.row.copy(), classes.gpu_row.copy()
    eligible, usable = [*classes.eligible], [*classes.usable]
    for c, number in enumerate(numbers.tolist()):
        if 0 <= number < len(snapshot.reservations):
            kept = np.zeros(len(snapshot.names), dtype=np.int64)
            for n, mask in held_masks(snapshot.reservations[number], index).items():
                kept[n] = mask
            eligible.append(np.where(kept != 0, eligible[row[c]], 0).astype(np.uint8))
            usable.append(usable[gpu_row[c]] & kept)
            row[c], gpu_row[c] = len(eligible) - 1, len(usable) - 1
    return replace(
        snapshot,
        classes=classes._replace(row=row, gpu_row=gpu_row, eligible=np.stack(eligible), usable=np.stack(usable)),
    )


def owners(snapshot: Snapshot) -> Int64s:
    """CLASS_OWN of each class: whose rows ahead do not stand in its way; -1 = it names no reservation."""
    numbers = _reservations(snapshot)
    return np.where(numbers < 0, -1, owner_of(0) - numbers)


def _reservations(snapshot: Snapshot) -> Int64s:
    """`reservation_of` each class."""
    known = {reservation.name: number for number, reservation in enumerate(snapshot.reservations)}
    numbers = [known.get(name, len(known)) if name else -1 for name in snapshot.shape_names]
    return np.array(numbers, dtype=np.int64)[snapshot.shapes.reservation]


def openings(snapshot: Snapshot) -> Grid:
    """(OPEN_, q): when each job may run, and whether a claim is held for it; no columns if nothing is special."""
    numbers = _reservations(snapshot)
    if not snapshot.claims and not (numbers >= 0).any():
        return np.zeros((OPEN_ROWS, 0), dtype=np.int64)
    queue = snapshot.queue
    grid = np.zeros((OPEN_ROWS, queue.job.size), dtype=np.int64)
    grid[OPEN_UNTIL] = FOREVER
    grid[OPEN_CLAIM] = np.isin(queue.job, [claim.job for claim in snapshot.claims])
    for j in np.flatnonzero(numbers[queue.cls] >= 0).tolist():
        number = int(numbers[queue.cls[j]])
        grid[[OPEN_FROM, OPEN_UNTIL], j] = FOREVER, 0
        if number < len(snapshot.reservations):
            reservation = snapshot.reservations[number]
            if not reservation.maint:
                end = FOREVER if reservation.end is None else reservation.end
                grid[[OPEN_FROM, OPEN_UNTIL], j] = reservation.start, end
    return grid


def claim_rows(snapshot: Snapshot) -> dict[int, int]:
    """Row in the queue of each job that a claim is held for."""
    claimed = np.array([claim.job for claim in snapshot.claims], dtype=np.int64)
    return {int(snapshot.queue.job[j]): j for j in np.flatnonzero(np.isin(snapshot.queue.job, claimed)).tolist()}
