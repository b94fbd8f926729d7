"""What the preemptor is to have: its nodes and GPUs among what is free and what its victims leave."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    CLASS_CORES,
    HELD_CORES,
    HELD_END,
    HELD_GPUS,
    HELD_LINK,
    HELD_MEMORY,
    HELD_NODE,
    HELD_RUN,
    NODE_LINKS,
    NODE_RUNS,
    SOMEDAY,
    Classes,
    Grid,
    Links,
    Tree,
)
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.freed import (
    ACCOUNT_GROUPS,
    ACCOUNT_PARENT,
    ASK_DOMAIN,
    ASK_GPUS,
    ASK_LEAST,
    ASK_LEVEL,
    ASK_REQUIRED,
    BEST_DOMAIN,
    BEST_LEVEL,
    GROUP_ROWS,
    GROUP_USED,
    PART_ENDS,
    PLACE_FILL,
    PLACE_FIRST,
    PLACE_FITS,
    PLACE_LEVELS,
    PLACE_MUST,
    UNIT_ACCOUNT,
    UNIT_BEST,
    UNIT_END,
    UNIT_FIRST,
    UNIT_USES,
    Search,
    flip_nb,
    free_gpus_nb,
)
from gschedd.core.kernels.links import subset_class_nb, subset_nb
from gschedd.core.kernels.room import memory_need_nb
from gschedd.core.kernels.sort import sort_nb
from gschedd.core.kernels.victims import turn_to_nb


@kernel
def claim_nb(s: Search, nodes: Grid, tree: Tree, links: Links, classes: Classes, c: int, row: int) -> None:
    """Let the cheapest set go for good, and give the job its nodes: `held` rows from `row` on, without an end."""
    turn_to_nb(s, s.ask[BEST_DOMAIN])
    for u in range(s.units.shape[1]):
        if s.units[UNIT_BEST, u]:
            _let_go_for_good_nb(s, u)
    first, last = _domain_nb(s, tree)
    count = 0
    for n in range(first, last):
        if s.places[PLACE_FITS, n]:
            gpus = free_gpus_nb(s, n)
            key = 1 - s.places[PLACE_MUST, n]
            key = key << 6 | min(subset_class_nb(links, nodes[NODE_LINKS, n], gpus, s.ask[ASK_GPUS]), 63)
            key = key << 6 | min(popcount_nb(gpus) - s.ask[ASK_GPUS], 63)
            s.places[PLACE_FILL, count] = key << 20 | n
            count += 1
    sort_nb(s.places, int(PLACE_FILL), count)
    for i in range(s.ask[ASK_LEAST]):
        n = s.places[PLACE_FILL, i] & 0xFFFFF
        gpus = subset_nb(links, nodes[NODE_LINKS, n], free_gpus_nb(s, n), s.ask[ASK_GPUS])
        s.held[HELD_LINK, row], nodes[NODE_RUNS, n] = nodes[NODE_RUNS, n], row
        s.held[HELD_END, row], s.held[HELD_RUN, row], s.held[HELD_NODE, row] = SOMEDAY, -1, n
        s.held[HELD_CORES, row] = classes.columns[CLASS_CORES, c]
        s.held[HELD_MEMORY, row] = memory_need_nb(nodes, classes, c, n)
        s.held[HELD_GPUS, row] = gpus
        row += 1


@kernel
def _let_go_for_good_nb(s: Search, u: int) -> None:
    """Nobody takes it back; its accounts do not use it any more."""
    flip_nb(s, u)
    for p in range(s.units[UNIT_FIRST, u], s.units[UNIT_END, u]):
        s.parts[PART_ENDS, p] = 0
    a = s.units[UNIT_ACCOUNT, u]
    while a >= 0:
        for g in range(s.units.shape[0] - UNIT_USES):
            s.accounts[ACCOUNT_GROUPS + GROUP_ROWS * g + GROUP_USED, a] -= s.units[UNIT_USES + g, u]
        a = s.accounts[ACCOUNT_PARENT, a]


@kernel
def _domain_nb(s: Search, tree: Tree) -> tuple[int, int]:
    """Nodes, from and to, of the domain to take: of the lowest level that holds the job, the one where fewest fit."""
    d, level = s.ask[ASK_DOMAIN], s.ask[BEST_LEVEL]
    first, last = s.places[PLACE_FIRST, d], s.places[PLACE_FIRST, d + 1]
    if level == s.ask[ASK_LEVEL] or s.ask[ASK_LEAST] == 1 or s.ask[ASK_GPUS] == 0:
        return int(first), int(last)
    best_first, best_last, best = first, last, last - first + 1
    for e in range(s.places[PLACE_LEVELS + level, first], s.places[PLACE_LEVELS + level, last - 1] + 1):
        fits, must = 0, 0
        for n in range(tree.first[level, e], tree.first[level, e + 1]):
            fits += s.places[PLACE_FITS, n]
            must += s.places[PLACE_FITS, n] * s.places[PLACE_MUST, n]
        if fits >= s.ask[ASK_LEAST] and must >= s.ask[ASK_REQUIRED] and fits < best:
            best_first, best_last, best = tree.first[level, e], tree.first[level, e + 1], fits
    return int(best_first), int(best_last)
