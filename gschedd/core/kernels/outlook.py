"""Could the known nodes hold a class if all were idle? Those that are up? And at best under how low a switch?"""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    BITS_FITS,
    BITS_UP,
    CLASS_LEAST,
    CLASS_LEVEL,
    CLASS_REQUIRED,
    CLASS_ROW,
    CLASS_SEGMENT,
    CLASS_SWITCHES,
    CLASS_SWITCHES_WAIT,
    NODE_CORES,
    NODE_GPUS,
    NODE_HEALTHY,
    NODE_MEMORY,
    SOMEDAY,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_STARTED,
    Classes,
    Grid,
    Tally,
    Tree,
)
from gschedd.core.kernels.bits import ctz_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.place import capacity_nb
from gschedd.core.kernels.room import member_fits_nb


@kernel
def outlook_nb(nodes: Grid, bits: Grid, tree: Tree, classes: Classes, c: int, tally: Tally) -> int:
    """VERDICT_STARTED if the nodes that are up could hold class c when idle, else why not."""
    for up in range(1, -1, -1):
        if _holds_nb(nodes, bits, tree, classes, c, up, tally):
            return VERDICT_STARTED if up else VERDICT_NOT_AVAILABLE
    return VERDICT_IMPOSSIBLE


@kernel
def _holds_nb(nodes: Grid, bits: Grid, tree: Tree, classes: Classes, c: int, up: int, tally: Tally) -> bool:
    """Whether the idle nodes could hold class c; only those that are up, or all."""
    least, ceiling = classes.columns[CLASS_LEAST, c], classes.columns[CLASS_LEVEL, c]
    switches = classes.columns[CLASS_SWITCHES, c] if classes.columns[CLASS_SWITCHES_WAIT, c] >= SOMEDAY else 0
    if (
        ceiling == tree.domains.shape[0] - 1
        and not switches
        and classes.columns[CLASS_SEGMENT, c] <= 1
        and not classes.columns[CLASS_REQUIRED, c]
    ):
        return bool(_idle_nb(nodes, bits, classes, c, up, least) >= least)
    _idle_nb(nodes, bits, classes, c, up, nodes.shape[1])
    return bool(capacity_nb(bits, int(BITS_FITS), tree, classes, c, ceiling, switches, tally) >= least)


@kernel
def _idle_nb(nodes: Grid, bits: Grid, classes: Classes, c: int, up: int, enough: int) -> int:
    """Put the nodes that would hold a member of class c when idle into BITS_FITS, until enough are there; count."""
    row = classes.columns[CLASS_ROW, c]
    found = 0
    for w in range(bits.shape[1]):
        word = classes.may[row, w]
        if up:
            word &= bits[BITS_UP, w] & ~classes.avoided[row, w]
        fits = 0
        while word and found < enough:
            bit = word & -word
            word ^= bit
            n = (w << 6) + ctz_nb(bit)
            gpus = nodes[NODE_GPUS, n]
            if up:
                gpus &= nodes[NODE_HEALTHY, n]
            if member_fits_nb(nodes, classes, c, n, gpus, nodes[NODE_CORES, n], nodes[NODE_MEMORY, n]):
                fits |= bit
                found += 1
        bits[BITS_FITS, w] = fits
        if found >= enough:
            break
    return found
