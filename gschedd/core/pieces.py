"""What is left of the GPUs that are cut, as grids for a pass, and what its starts take of them as values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from gsched.values.job import Request
from gsched.values.node import Gpu
from gsched.values.run import NodeShare
from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.pieces import (
    FRACTION,
    INSTANCE,
    LEFT_COLUMNS,
    LEFT_CUT,
    LEFT_GPU,
    LEFT_MIB,
    LEFT_MILLI,
    LEFT_SLICES,
    WANT_KIND,
    WANT_MIB,
    WANT_MILLI,
    WANT_PROFILE,
    WANT_ROWS,
    WHOLE_GPUS,
    WHOLE_MILLI,
    Pieces,
)
from gschedd.core.kernels.slices import NOT_CUT, PLACE_COLUMNS, PLACE_MASK
from gschedd.core.mig import MASKS, MODELS, keeps, mig_model
from gschedd.core.snapshot import Snapshot

_Kind = tuple[str, int]  # a GPU's model and memory


def piece_kind(request: Request) -> int:
    """WHOLE_GPUS, FRACTION or INSTANCE."""
    if request.need.mig_profile:
        return INSTANCE
    return FRACTION if request.need.gpus and request.need.gpu_milli < WHOLE_MILLI else WHOLE_GPUS


def make_pieces(snapshot: Snapshot) -> Pieces:
    """The grids of one pass."""
    wants = _wants(snapshot.requests)
    if not wants[WANT_KIND].any():
        return Pieces(_zeros(1, 1), wants, _zeros(1, 1), _zeros(1, 1)[0], _zeros(1, 1), _zeros(1, 1), _zeros(1, 1))
    numbers: dict[_Kind, int] = {}
    most = max((gpu.index + 1 for gpus in snapshot.gpu_sets for gpu in gpus), default=1)
    sets = _zeros(max(len(snapshot.gpu_sets), 1), most)
    for row, gpus in enumerate(snapshot.gpu_sets):
        for gpu in gpus:
            sets[row, gpu.index] = numbers.setdefault((gpu.model, gpu.memory_mib), len(numbers))
    kinds = sets[snapshot.gpu_set]
    memories = np.array([memory for _, memory in numbers] or [0], dtype=np.int64)
    profiles = sorted({request.need.mig_profile for request in snapshot.requests} - {""})
    for c, request in enumerate(snapshot.requests):
        if request.need.mig_profile:
            wants[WANT_PROFILE, c] = profiles.index(request.need.mig_profile)
    rows, places = _places(profiles, list(numbers))
    return Pieces(_left(snapshot, kinds, memories), wants, kinds, memories, rows, places, _keeps())


def piece_share(share: NodeShare, pieces: Pieces, c: int, n: int, slices: int) -> NodeShare:
    """The share with what it takes of its one GPU."""
    if pieces.wants[WANT_KIND, c] == INSTANCE:
        return replace(share, slices=slices)
    milli, mib = int(pieces.wants[WANT_MILLI, c]), int(pieces.wants[WANT_MIB, c])
    memory = int(pieces.memories[pieces.kinds[n, share.gpu_indices[0]]])
    return replace(share, gpu_milli=milli, gpu_mem_mib=mib or memory * milli // WHOLE_MILLI)


def _wants(requests: Sequence[Request]) -> Grid:
    """(WANT_, classes), but for the profiles."""
    wants = _zeros(WANT_ROWS, max(len(requests), 1))
    for c, request in enumerate(requests):
        if kind := piece_kind(request):
            wants[WANT_KIND, c] = kind
            wants[WANT_MILLI, c] = request.need.gpu_milli
            wants[WANT_MIB, c] = request.need.gpu_mem_mib
    return wants


def _left(snapshot: Snapshot, kinds: Grid, memories: Grid) -> Grid:
    """Everything of every GPU, less what runs hold of those that are cut."""
    nodes, gpus = kinds.shape
    left = _zeros(nodes, LEFT_GPU + LEFT_COLUMNS * gpus)
    left[:, LEFT_GPU + LEFT_MILLI :: LEFT_COLUMNS] = WHOLE_MILLI
    left[:, LEFT_GPU + LEFT_MIB :: LEFT_COLUMNS] = memories[kinds]
    runs = snapshot.runs
    for row in np.flatnonzero((runs.milli > 0) | (runs.slices > 0)).tolist():
        n, mask = int(runs.node[row]), int(runs.gpus[row])
        at = LEFT_GPU + LEFT_COLUMNS * (mask.bit_length() - 1)
        left[n, LEFT_CUT] |= mask & snapshot.nodes.healthy[n]
        left[n, at + LEFT_MILLI] -= runs.milli[row]
        left[n, at + LEFT_MIB] -= runs.mib[row]
        left[n, at + LEFT_SLICES] |= runs.slices[row]
    return left


def _places(profiles: Sequence[str], kinds: Sequence[_Kind]) -> tuple[Grid, Grid]:
    """(rows of `places` by profile and kind, places)."""
    rows = np.full((max(len(profiles), 1), max(len(kinds), 1)), NOT_CUT, dtype=np.int64)
    places: list[list[int]] = []
    for p, name in enumerate(profiles):
        for k, (model_name, memory_mib) in enumerate(kinds):
            model = mig_model(Gpu(0, "", model_name, memory_mib))
            profile = model.profile(name) if model is not None else None
            if model is None or profile is None:
                continue
            rows[p, k] = len(places)
            masks = profile.placements
            empty = [0] * (PLACE_COLUMNS - PLACE_MASK - len(masks))
            places.append([MODELS.index(model), len(masks), *masks, *empty])
    return rows, np.array(places or [[0] * PLACE_COLUMNS], dtype=np.int64)


def _keeps() -> Grid:
    table = np.array([keeps(model) for model in MODELS], dtype=np.int64)
    assert table.shape == (len(MODELS), MASKS)
    return table


def _zeros(rows: int, columns: int) -> Grid:
    return np.zeros((rows, columns), dtype=np.int64)
