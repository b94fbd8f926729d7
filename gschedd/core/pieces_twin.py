"""Twins of pieces.py: fractions and MIG instances, by looking at every GPU of every node."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from gsched.values.job import Request
from gsched.values.node import Gpu
from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import FOREVER, MUST, SOMEDAY
from gschedd.core.mig import mig_model
from gschedd.core.room_twin import Room, RoomTwin
from gschedd.core.slices_twin import place_slices_py, still_fits
from gschedd.core.snapshot import Snapshot


class Left(Struct):
    """What is left of one GPU that is cut."""

    milli: int
    mib: int
    slices: int = 0  # taken


class Piece(NamedTuple):
    """One choice; the least is taken."""

    key: tuple[object, ...]
    free_gpus: int
    free_cores: int
    node: int
    gpu: int
    milli: int
    mib: int
    slices: int


class PiecesTwin(RoomTwin):
    """What pieces take, beside what `held` says of whole GPUs."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        super().__init__(snapshot, policy, now)
        self.cut: dict[tuple[int, int], Left] = {}
        runs = snapshot.runs
        for row in range(runs.node.size):
            if runs.milli[row] or runs.slices[row]:
                n, g = int(runs.node[row]), int(runs.gpus[row]).bit_length() - 1
                left = self.cut.setdefault((n, g), Left(1000, self.gpu(n, g).memory_mib))
                left.milli -= int(runs.milli[row])
                left.mib -= int(runs.mib[row])
                left.slices |= int(runs.slices[row])

    def gpu(self, n: int, g: int) -> Gpu:
        return next(gpu for gpu in self.s.gpu_sets[int(self.s.gpu_set[n])] if gpu.index == g)

    def start_pieces_py(self, j: int, c: int, limit: int) -> tuple[list[Piece], int]:
        """(a piece for each member, nodes with room if nothing were planned); nothing is taken of too few."""
        least, most = int(self.s.classes.least[c]), int(self.s.classes.most[c])
        before = {key: Left(left.milli, left.mib, left.slices) for key, left in self.cut.items()}
        taken: list[Piece] = []
        while len(taken) < most:
            end = self.now + limit if len(taken) < least and limit < SOMEDAY else FOREVER
            roomy = self._roomy(c, taken)
            choices = [piece for n in roomy for piece in self._pieces(c, j, n, end)]
            if not choices:
                if len(taken) < least:
                    self.cut = before
                    for piece in taken:
                        self.held[piece.node].pop()
                    return [], len(taken) + len(roomy)
                break
            taken.append(self._take(c, min(choices), limit))
        return taken, 0

    def _roomy(self, c: int, taken: list[Piece]) -> list[int]:
        """Nodes where a member would have room if nothing were planned."""
        used = {piece.node for piece in taken}
        must = len(taken) < self.s.classes.required[c]
        row = self.s.classes.eligible[int(self.s.classes.row[c])]
        return [
            n
            for n in range(self.size)
            if n not in used
            and self.takes_new(c, n)
            and (not must or row[n] & MUST)
            and self.member_fits_py(c, n, (self._gpus_with_room(c, n), *self.running_room_py(n, self.now)[1:]))
        ]

    def _gpus_with_room(self, c: int, n: int) -> int:
        return sum(1 << gpu.index for gpu in self.s.gpu_sets[int(self.s.gpu_set[n])] if self._piece(c, n, gpu))

    def _pieces(self, c: int, j: int, n: int, end: int) -> list[Piece]:
        """The choices on one node through the window."""
        gpus, cores, memory = self._gpus_with_room(c, n), *self.running_room_py(n, self.now)[1:]
        gpus, cores, memory = self._clear(c, j, n, end, (gpus, cores, memory))
        if not self.member_fits_py(c, n, (gpus, cores, memory)):
            return []
        choices = [self._piece(c, n, gpu) for gpu in self.s.gpu_sets[int(self.s.gpu_set[n])] if gpus >> gpu.index & 1]
        return [piece for piece in choices if piece is not None]

    def _clear(self, c: int, j: int, n: int, end: int, room: Room) -> Room:
        """What of that room, free now, job j may use until `end`, rows ahead kept whole."""
        rows = self.ahead[n]
        if all(end <= guard for guard, _, _ in rows) or all(self.now >= span[1] for _, span, _ in rows):
            return room
        gpus, cores, memory = room
        for _, (_, _, takes), _ in rows:
            gpus, cores, memory = gpus & ~takes[0], cores - takes[1], memory - takes[2]
        if self.member_fits_py(c, n, (gpus, cores, memory)):
            return gpus, cores, memory
        gpus = room[0]
        for guard, (_, last, takes), owner in rows:
            if guard < end and last > self.now and owner != j:
                gpus &= ~takes[0]
        _, cores, memory = self.room_py(n, self.now, end, j, self.owns[c])
        return gpus, cores, memory

    def _piece(self, c: int, n: int, gpu: Gpu) -> Piece | None:
        """What a member would take of a GPU."""
        whole, cores, _ = self.running_room_py(n, self.now)
        left = self.cut.get((n, gpu.index))
        healthy = int(self.s.nodes.healthy[n]) & int(self.s.classes.usable[int(self.s.classes.gpu_row[c]), n])
        if not healthy >> gpu.index & 1 or (left is None and not whole >> gpu.index & 1):
            return None
        fresh = left is None
        left = left or Left(1000, gpu.memory_mib)
        request = self.s.requests[c]
        if request.need.mig_profile:
            found = _instance(request.need.mig_profile, gpu, left)
        else:
            found = _fraction(request, gpu, left)
        if found is None:
            return None
        key, milli, mib, slices = found
        return Piece((fresh, *key), whole.bit_count(), cores, n, gpu.index, milli, mib, slices)

    def _take(self, c: int, piece: Piece, limit: int) -> Piece:
        gpu = self.gpu(piece.node, piece.gpu)
        left = self.cut.setdefault((piece.node, piece.gpu), Left(1000, gpu.memory_mib))
        left.milli -= piece.milli
        left.mib -= piece.mib
        left.slices |= piece.slices
        end = SOMEDAY if limit >= SOMEDAY else self.now + limit
        takes = 1 << piece.gpu, int(self.s.classes.cores[c]), self.memory_need_py(c, piece.node)
        self.held[piece.node].append((self.now, end, takes))
        return piece


_Found = tuple[tuple[object, ...], int, int, int]  # key, thousandths, MiB, slices


def _fraction(request: Request, gpu: Gpu, left: Left) -> _Found | None:
    milli = request.need.gpu_milli
    mib = request.need.gpu_mem_mib or gpu.memory_mib * milli // 1000
    if left.slices or left.milli < milli or left.mib < mib:
        return None
    return (left.milli - milli,), milli, mib, 0


def _instance(name: str, gpu: Gpu, left: Left) -> _Found | None:
    model = mig_model(gpu)
    profile = model.profile(name) if model is not None else None
    if model is None or profile is None or left.milli < 1000:
        return None
    mask = place_slices_py(model, profile, left.slices)
    if not mask:
        return None
    before, after = still_fits(model, left.slices), still_fits(model, left.slices | mask)
    loss = [a - b for a, b in zip(before, after, strict=True)]
    return (loss, -left.slices.bit_count()), 0, 0, mask
