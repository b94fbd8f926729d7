"""What if these runs were gone? Units are let go and taken back, one at a time; sums of a domain follow.

A *unit* is what can be let go at once: all of a run, or, of an elastic run, what it holds of one node. Letting go sets
the ends of its held rows to now, so the room it leaves is counted as free; taking back restores them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gschedd.core.kernels.arrays import (
    AHEAD_CORES,
    AHEAD_END,
    AHEAD_GPUS,
    AHEAD_GUARD,
    AHEAD_LINK,
    AHEAD_MEMORY,
    AHEAD_OWNER,
    AHEAD_START,
    HELD_CORES,
    HELD_END,
    HELD_GPUS,
    HELD_LINK,
    HELD_MEMORY,
    Grid,
    Int64s,
)
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import kernel


class Search(NamedTuple):
    """All that one search reads and writes. Few arrays: compile time grows with their number."""

    places: Grid  # (PLACE_ + levels, nodes + 1) nodes and domains as the blocked job sees them
    held: Grid  # (HELD_, rows) of the pass; ends are changed and restored
    ahead: Grid  # (AHEAD_, rows) of the pass
    units: Grid  # (UNIT_ + groups of models, units) numbered by job, run and node, as nothing may depend on slots
    parts: Grid  # (PART_, held rows, or more): held rows of units stand together; beside them the orders' buckets
    accounts: Grid  # (ACCOUNT_ + 3 groups, accounts); parents come before their children
    ask: Int64s  # (ASK_SIZE,) the job, the domain in hand, the cheapest set so far


# Rows of Search.places: nodes,
PLACE_OPEN: Final = 0  # 1 = meets the job's constraints and may take something new
PLACE_FITS: Final = 1  # 1 = holds a member, once what is let go is gone
PLACE_MUST: Final = 2  # 1 = a required node
PLACE_GPUS: Final = 3  # mask of the healthy GPUs of the wanted model
PLACE_CORES: Final = 4  # all of them, less what a member needs
PLACE_MEMORY: Final = 5  # the same
PLACE_RUNS: Final = 6  # first row of its chain in `held`
PLACE_AHEAD: Final = 7  # first row of its chain in `ahead`
PLACE_DOMAIN: Final = 8  # of the level that was asked for
# domains of that level,
PLACE_FIRST: Final = 9  # first node; the next domain's is its end
PLACE_FITS_NOW: Final = 10  # nodes that hold a member before anybody is let go
PLACE_MUST_NOW: Final = 11  # required ones among these
PLACE_BUCKET: Final = 12  # its first entry in the buckets
PLACE_FILL: Final = 13
# and for each lower level, from the lowest, the number of the node's domain.
PLACE_LEVELS: Final = 14

# Rows of Search.units. What is said of a run is right in the column of its first unit.
UNIT_HEAD: Final = 0  # first unit of its run; the others follow it
UNIT_FIRST: Final = 1  # its first part
UNIT_END: Final = 2
UNIT_LOST: Final = 3  # GPU-seconds since the checkpoint
UNIT_WAY: Final = 4  # one of the WAY_ numbers, for this preemptor
UNIT_GONE: Final = 5  # 1 = let go; 2 and 3 = on trial
UNIT_BEST: Final = 6  # 1 = in the cheapest set so far
UNIT_RANK: Final = 7
UNIT_ACCOUNT: Final = 8  # -1 = none that has guarantees
UNIT_LEAST: Final = 9  # nodes an elastic run can go on with; 0 = it goes whole
RUN_UNITS: Final = 10
RUN_GONE: Final = 11  # of its units, how many are let go
RUN_HOLD: Final = 12  # row of the run in the snapshot
RUN_STARTED: Final = 13
RUN_PREEMPTED: Final = 14  # times
RUN_PREEMPTABLE: Final = 15  # 0 = its QOS says no: then only what it borrowed can be reclaimed
RUN_BORROWED: Final = 16
UNIT_ORDER: Final = 17  # not a unit's: the units by price; by price per GPU; by the cheapest node they sit on
UNIT_USES: Final = 20  # thousandths of a GPU that each group of models gets back

WAY_NONE: Final = 0  # may not be preempted by this job
WAY_RANK: Final = 1  # its rank is lower
WAY_RECLAIM: Final = 2  # its account borrows what the preemptor's account is guaranteed

ORDERS: Final = 3

# Rows of Search.parts.
PART_HELD: Final = 0
PART_NODE: Final = 1
PART_ENDS: Final = 2  # what HELD_END was
PART_BUCKET: Final = 3  # the orders, each cut by domain
PART_STACK: Final = 6  # of the exact search
PART_ROWS: Final = 7

# Rows of Search.accounts.
ACCOUNT_PARENT: Final = 0  # -1 = under the root
ACCOUNT_MINE: Final = 1  # 1 = the preemptor's account or above it
ACCOUNT_WITHIN: Final = 2  # of these: 1 = the branch below it stays within its guarantees
ACCOUNT_RECLAIMED: Final = 3  # units let go because this account borrows
ACCOUNT_GROUPS: Final = 4  # then, for each group of models:
GROUP_GUARANTEE: Final = 0  # thousandths of a GPU; -1 = none is given
GROUP_USED: Final = 1
GROUP_LOST: Final = 2  # by what is let go
GROUP_ROWS: Final = 3

# Search.ask.
ASK_LEAST: Final = 0  # nodes
ASK_REQUIRED: Final = 1  # required nodes
ASK_GPUS: Final = 2  # a node
ASK_NOW: Final = 3
ASK_CLOSE: Final = 4  # end of the window
ASK_ROW: Final = 5  # of the job in the queue
ASK_SCALE: Final = 6  # more than there are runs
ASK_DOMAINS: Final = 7  # of the level
ASK_LEVEL: Final = 8
ASK_DOMAIN: Final = 9  # in hand
ASK_FITS: Final = 10  # nodes of it that hold a member
ASK_MUST: Final = 11  # required ones among these
ASK_FIRST: Final = 12  # its bucket
ASK_LAST: Final = 13
ASK_BOUND: Final = 14  # the highest rank that is let go
ASK_MARK: Final = 15  # whom to take back: units with at least this UNIT_GONE
ASK_WORK: Final = 16  # steps that swaps may still take; set by who asks
ASK_EXACT: Final = 17  # up to so many candidates in a domain all sets are tried; set by who asks
BEST_FOUND: Final = 18  # 1 = there is one
BEST_RANK: Final = 19  # the highest of a victim
BEST_LOST: Final = 20  # GPU-seconds
BEST_VICTIMS: Final = 21  # runs
BEST_UNITS: Final = 22
BEST_LEVEL: Final = 23  # of the lowest domain that then holds the job
BEST_DOMAIN: Final = 24  # of the level that was asked for
ASK_SETS: Final = 25  # steps that the exact search may still take; set by who asks
ASK_SIZE: Final = 26


@kernel
def free_gpus_nb(s: Search, n: int) -> int:
    """Mask of the GPUs free for a member on node n through the window, once what is let go is gone; -1 = none fits.

    What is planned there is kept whole.

    Runs only give back, so cores and memory are least now and where something planned begins.
    """
    places, held, ahead, now = s.places, s.held, s.ahead, s.ask[ASK_NOW]
    gpus = places[PLACE_GPUS, n]
    t = now
    after = places[PLACE_AHEAD, n]
    while True:
        cores, memory = places[PLACE_CORES, n], places[PLACE_MEMORY, n]
        row = places[PLACE_RUNS, n]
        while row >= 0:
            if held[HELD_END, row] > t:
                cores -= held[HELD_CORES, row]
                memory -= held[HELD_MEMORY, row]
            if held[HELD_END, row] > now:
                gpus &= ~held[HELD_GPUS, row]
            row = held[HELD_LINK, row]
        row = places[PLACE_AHEAD, n]
        while row >= 0:
            if _counts_nb(s, row):
                gpus &= ~ahead[AHEAD_GPUS, row]
                if ahead[AHEAD_START, row] <= t and ahead[AHEAD_END, row] > t:
                    cores -= ahead[AHEAD_CORES, row]
                    memory -= ahead[AHEAD_MEMORY, row]
            row = ahead[AHEAD_LINK, row]
        if cores < 0 or memory < 0 or popcount_nb(gpus) < s.ask[ASK_GPUS]:
            return -1
        while after >= 0 and not _counts_nb(s, after):
            after = ahead[AHEAD_LINK, after]
        if after < 0:
            return int(gpus)
        t = max(ahead[AHEAD_START, after], now)
        after = ahead[AHEAD_LINK, after]


@kernel
def _counts_nb(s: Search, row: int) -> bool:
    """Whether what is planned meets the window, and is not the job's own nor a lower job's."""
    ahead, ask = s.ahead, s.ask
    meets = ahead[AHEAD_GUARD, row] < ask[ASK_CLOSE] and ahead[AHEAD_END, row] > ask[ASK_NOW]
    return bool(meets and ahead[AHEAD_OWNER, row] < ask[ASK_ROW])


@kernel
def enough_nb(s: Search) -> bool:
    """Whether the domain in hand holds the least number of nodes, and all required ones."""
    return bool(s.ask[ASK_FITS] >= s.ask[ASK_LEAST] and s.ask[ASK_MUST] >= s.ask[ASK_REQUIRED])


@kernel
def flip_nb(s: Search, u: int) -> None:
    """Let unit u go, or take it back if it is gone, in any order of units; count the domain in hand."""
    units, places, parts, ask = s.units, s.places, s.parts, s.ask
    sign = 1 - 2 * min(units[UNIT_GONE, u], 1)
    units[UNIT_GONE, u] = 1 if sign > 0 else 0
    units[RUN_GONE, units[UNIT_HEAD, u]] += sign
    first, last = places[PLACE_FIRST, ask[ASK_DOMAIN]], places[PLACE_FIRST, ask[ASK_DOMAIN] + 1]
    for p in range(units[UNIT_FIRST, u], units[UNIT_END, u]):
        s.held[HELD_END, parts[PART_HELD, p]] = ask[ASK_NOW] if sign > 0 else parts[PART_ENDS, p]
        n = parts[PART_NODE, p]
        if first <= n < last and places[PLACE_OPEN, n] and (places[PLACE_FITS, n] == 0) == (sign > 0):
            more = (1 if free_gpus_nb(s, n) >= 0 else 0) - places[PLACE_FITS, n]
            places[PLACE_FITS, n] += more
            ask[ASK_FITS] += more
            ask[ASK_MUST] += more * places[PLACE_MUST, n]
    a = units[UNIT_ACCOUNT, u]
    while a >= 0 and not s.accounts[ACCOUNT_MINE, a]:
        for g in range(units.shape[0] - UNIT_USES):
            s.accounts[ACCOUNT_GROUPS + GROUP_ROWS * g + GROUP_LOST, a] += sign * units[UNIT_USES + g, u]
        s.accounts[ACCOUNT_RECLAIMED, a] += sign if units[UNIT_WAY, u] == WAY_RECLAIM else 0
        a = s.accounts[ACCOUNT_PARENT, a]


@kernel
def loss_allowed_nb(s: Search, u: int) -> bool:
    """Whether the accounts of unit u keep their guarantees, where anything is reclaimed from them.

    Sets that are allowed stay so when somebody is taken back.
    """
    accounts = s.accounts
    a = s.units[UNIT_ACCOUNT, u]
    while a >= 0 and not accounts[ACCOUNT_MINE, a]:
        for row in range(ACCOUNT_GROUPS, accounts.shape[0], GROUP_ROWS):
            left = accounts[row + GROUP_USED, a] - accounts[row + GROUP_LOST, a]
            if accounts[ACCOUNT_RECLAIMED, a] > 0 and left < accounts[row + GROUP_GUARANTEE, a]:
                return False
        a = accounts[ACCOUNT_PARENT, a]
    return True


@kernel
def run_allowed_nb(s: Search, head: int) -> bool:
    """Whether what is let go of a run leaves nothing, or enough for an elastic run to go on."""
    left = s.units[RUN_UNITS, head] - s.units[RUN_GONE, head]
    return bool(s.units[UNIT_LEAST, head] == 0 or left == 0 or left >= s.units[UNIT_LEAST, head])
