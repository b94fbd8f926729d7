"""Sets of victims compared: the cost of what is let go, the cheapest so far, and all sets where there are few."""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.freed import (
    ASK_DOMAIN,
    ASK_FIRST,
    ASK_GPUS,
    ASK_LAST,
    ASK_LEAST,
    ASK_LEVEL,
    ASK_REQUIRED,
    ASK_SCALE,
    ASK_SETS,
    BEST_DOMAIN,
    BEST_FOUND,
    BEST_LEVEL,
    BEST_LOST,
    BEST_RANK,
    BEST_UNITS,
    BEST_VICTIMS,
    PART_BUCKET,
    PART_STACK,
    PLACE_FIRST,
    PLACE_FITS,
    PLACE_LEVELS,
    PLACE_MUST,
    UNIT_BEST,
    UNIT_GONE,
    UNIT_HEAD,
    UNIT_LEAST,
    UNIT_LOST,
    UNIT_RANK,
    Search,
    enough_nb,
    flip_nb,
    loss_allowed_nb,
    run_allowed_nb,
)

NO_RANK: Final = -(1 << 60)
TIED_UNITS: Final = 12  # up to so many candidates, sets of equal cost are told apart by what comes after it


@kernel
def note_nb(s: Search) -> None:
    """Keep what is let go of the bucket in hand if it is allowed and cheaper than the best so far."""
    units, parts, ask = s.units, s.parts, s.ask
    rank, lost, victims, count = NO_RANK, 0, 0, 0
    for i in range(ask[ASK_FIRST], ask[ASK_LAST]):
        u = parts[PART_BUCKET, i]
        if not units[UNIT_GONE, u]:
            continue
        if not run_allowed_nb(s, units[UNIT_HEAD, u]) or not loss_allowed_nb(s, u):
            return
        rank = max(rank, units[UNIT_RANK, u])
        lost += units[UNIT_LOST, u]
        count += 1
        v = units[UNIT_HEAD, u]
        while not units[UNIT_GONE, v]:
            v += 1
        victims += 1 if v == u else 0
    if ask[BEST_FOUND]:
        was = ask[BEST_RANK], ask[BEST_LOST], ask[BEST_VICTIMS], ask[BEST_UNITS]
        if (rank, lost, victims, count) > was:
            return
        if (rank, lost, victims, count) == was:
            level = _level_nb(s)
            if level > ask[BEST_LEVEL] or (level == ask[BEST_LEVEL] and not _sooner_nb(s)):
                return
    ask[BEST_FOUND], ask[BEST_RANK], ask[BEST_LOST], ask[BEST_VICTIMS] = 1, rank, lost, victims
    ask[BEST_UNITS], ask[BEST_LEVEL], ask[BEST_DOMAIN] = count, _level_nb(s), ask[ASK_DOMAIN]
    for u in range(units.shape[1]):
        units[UNIT_BEST, u] = 0
    for i in range(ask[ASK_FIRST], ask[ASK_LAST]):
        u = parts[PART_BUCKET, i]
        units[UNIT_BEST, u] = 1 if units[UNIT_GONE, u] else 0


@kernel
def _sooner_nb(s: Search) -> bool:
    """Of two sets in one domain that cost the same: whether the one let go has the first unit that only one has."""
    units, parts, ask = s.units, s.parts, s.ask
    if ask[BEST_DOMAIN] != ask[ASK_DOMAIN]:
        return False
    for i in range(ask[ASK_FIRST], ask[ASK_LAST]):
        u = parts[PART_BUCKET, i]
        gone = units[UNIT_GONE, u] > 0
        if gone != (units[UNIT_BEST, u] > 0):
            return bool(gone)
    return False


@kernel
def _level_nb(s: Search) -> int:
    """The lowest level of which one domain, inside that in hand, holds the job."""
    places, ask = s.places, s.ask
    least, required, level = ask[ASK_LEAST], ask[ASK_REQUIRED], ask[ASK_LEVEL]
    if least == 1 or ask[ASK_GPUS] == 0:
        return 0
    for row in range(PLACE_LEVELS, PLACE_LEVELS + level):
        before, fits, must = -1, 0, 0
        for n in range(places[PLACE_FIRST, ask[ASK_DOMAIN]], places[PLACE_FIRST, ask[ASK_DOMAIN] + 1]):
            if places[row, n] != before:
                before, fits, must = places[row, n], 0, 0
            fits += places[PLACE_FITS, n]
            must += places[PLACE_FITS, n] * places[PLACE_MUST, n]
            if fits >= least and must >= required:
                return row - PLACE_LEVELS
    return int(level)


@kernel
def exact_nb(s: Search) -> None:
    """Try all sets of the bucket in hand: from all gone, take each back or keep it, dearest first (branch and bound).

    What the job does not fit without, no part of it does; a set that already costs more than the best is left.
    """
    parts, ask, units = s.parts, s.ask, s.units
    first, last = ask[ASK_FIRST], ask[ASK_LAST]
    for i in range(first, last):
        flip_nb(s, parts[PART_BUCKET, i])
    kept = 0  # what is kept gone costs: lost, then victims
    depth = 0 if enough_nb(s) else -1
    parts[PART_STACK, first] = 0  # 0 = not looked at, 1 = taken back, 2 = kept
    while depth >= 0 and ask[ASK_SETS] > 0:
        ask[ASK_SETS] -= 1
        if depth == last - first:
            note_nb(s)
            depth -= 1
            continue
        u = parts[PART_BUCKET, last - 1 - depth]
        state = parts[PART_STACK, first + depth]
        if state == 2:
            kept -= _price_nb(s, u, depth)
            depth -= 1
            continue
        flip_nb(s, u)
        if state == 0 and enough_nb(s):
            parts[PART_STACK, first + depth] = 1
        else:
            if state == 0:
                flip_nb(s, u)
            kept += _price_nb(s, u, depth)
            limit = ask[BEST_LOST] * ask[ASK_SCALE] + ask[BEST_VICTIMS]
            parts[PART_STACK, first + depth] = 2
            if ask[BEST_FOUND] and (kept > limit or (last - first > TIED_UNITS and kept == limit)):
                continue
        depth += 1
        if depth < last - first:
            parts[PART_STACK, first + depth] = 0
    for i in range(first, last):
        if units[UNIT_GONE, parts[PART_BUCKET, i]]:
            flip_nb(s, parts[PART_BUCKET, i])


@kernel
def _price_nb(s: Search, u: int, depth: int) -> int:
    """What keeping u gone adds: its loss, and one victim unless a unit of its run is kept gone already."""
    units, parts, ask = s.units, s.parts, s.ask
    victim = 1
    if units[UNIT_LEAST, u] > 0:
        for k in range(depth):
            other = parts[PART_BUCKET, ask[ASK_LAST] - 1 - k]
            if parts[PART_STACK, ask[ASK_FIRST] + k] == 2 and units[UNIT_HEAD, other] == units[UNIT_HEAD, u]:
                victim = 0
    return int(units[UNIT_LOST, u] * ask[ASK_SCALE] + victim)
