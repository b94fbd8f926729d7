"""Plain twins of the kernels of `slices.py`, by looking at every placement; and every layout that a GPU can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gschedd.core.mig import MigModel, Profile


def place_slices_py(model: MigModel, profile: Profile, occupied: int) -> int:
    """The placement after which the most of the largest profiles fit; 0 if none is free."""
    free = [mask for mask in profile.placements if not mask & occupied]
    return min(free, key=lambda mask: ([-n for n in still_fits(model, occupied | mask)], mask), default=0)


def find_slices_py(
    models: Sequence[MigModel | None], profile: str, occupied: Sequence[int], gpus: int
) -> tuple[int, int] | None:
    """GPU and slices of an instance: on cut GPUs first, then the least loss, the fullest, the lowest."""
    choices = []
    for g, model in enumerate(models):
        found = model.profile(profile) if model is not None and gpus >> g & 1 else None
        if model is None or found is None:
            continue
        mask = place_slices_py(model, found, occupied[g])
        if mask:
            before, after = still_fits(model, occupied[g]), still_fits(model, occupied[g] | mask)
            loss = [a - b for a, b in zip(before, after, strict=True)]
            choices.append((occupied[g] == 0, loss, -occupied[g].bit_count(), g, mask))
    if not choices:
        return None
    *_, gpu, mask = min(choices)
    return gpu, mask


def still_fits(model: MigModel, occupied: int) -> list[int]:
    """How many instances of each profile fit beside what is occupied, by trying."""
    return [_most(profile.placements, occupied) for profile in model.profiles]


def _most(placements: Sequence[int], occupied: int) -> int:
    """The most of these that can stand beside each other."""
    best = 0
    for index, mask in enumerate(placements):
        if not mask & occupied:
            best = max(best, 1 + _most(placements[index + 1 :], occupied | mask))
    return best


def layouts(profiles: Sequence[Profile]) -> Iterator[frozenset[tuple[str, int]]]:
    """Every set of instances to which none of these profiles can be added."""
    places = sorted((mask & -mask, mask, profile.name) for profile in profiles for mask in profile.placements)

    def grow(at: int, occupied: int, chosen: tuple[tuple[str, int], ...]) -> Iterator[frozenset[tuple[str, int]]]:
        if at == len(places):
            if all(mask & occupied for _, mask, _ in places):
                yield frozenset(chosen)
            return
        _, mask, name = places[at]
        if not mask & occupied:
            yield from grow(at + 1, occupied | mask, (*chosen, (name, mask)))
        yield from grow(at + 1, occupied, chosen)

    return grow(0, 0, ())
