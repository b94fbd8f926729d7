"""The arrays that kernels see, grouped by what they describe. All int64 except `eligible`.

Masks are over a node's GPU indices (at most 62). Instants are milliseconds, memory is MiB. `SOMEDAY` is the end of what
has no expected end: later than every instant.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Grid: TypeAlias = npt.NDArray[np.int64]  # two dimensions, rows by name
Tally: TypeAlias = npt.NDArray[np.int64]  # three: rows by name, levels, domains of a level

SOMEDAY: Final = 1 << 60
FOREVER: Final = SOMEDAY + 1  # the end of a window that also covers SOMEDAY
MEMORY_EXACT: Final = 0
MEMORY_SHARE: Final = 1
MEMORY_ALL: Final = 2
MAY: Final = 1  # the node meets the static constraints
MUST: Final = 2  # it is named: must be in
AVOIDED: Final = 4  # not now: a launch of the job failed there


class NodeArrays(NamedTuple):
    """Nodes in topology order."""

    up: Int64s  # (n,) 1 = may take something new
    cores: Int64s  # (n,) all of them
    memory: Int64s  # (n,)
    gpus: Int64s  # (n,) mask of all
    healthy: Int64s  # (n,) mask of those that may be offered
    free_cores: Int64s  # (n,) now
    free_memory: Int64s  # (n,)
    free_gpus: Int64s  # (n,) mask
    links: Int64s  # (n,) column of Links.kinds


class Tree(NamedTuple):
    """The topology. Level 0 is the leaf switch, the last level is everything; a domain is a contiguous range."""

    domain: Int64s  # (levels, n) number of the node's domain at a level
    first: Int64s  # (levels, n + 1) first node of a domain; the next domain's first is its end
    domains: Int64s  # (levels,) how many


class Links(NamedTuple):
    """For each subset (mask) of a kind of node's GPUs: how well it is joined. Smaller is better."""

    kinds: Int64s  # (LINK_, kinds)
    worst: Int64s  # class of the worst link inside the subset
    rest: Int64s  # sum over sizes of the best class still to be had from the subset
    best: Int64s  # [mask, count]: class of the best subset of that size within mask


class ClassArrays(NamedTuple):
    """A class: requests equal in all that placement reads, except the time limit."""

    least: Int64s  # (c,) nodes
    most: Int64s  # (c,)
    cores: Int64s  # (c,) per node, as the next ones
    gpus: Int64s  # (c,)
    memory_rule: Int64s  # (c,)
    memory: Int64s  # (c,)
    row: Int64s  # (c,) row in `eligible`
    gpu_row: Int64s  # (c,) row in `usable`
    required: Int64s  # (c,) how many nodes must be in
    eligible: Bytes  # (rows, n) 0 = never, else bits: MAY, MUST, AVOIDED
    usable: Int64s  # (gpu_rows, n) mask of GPUs of the wanted model


class ShapeArrays(NamedTuple):
    """Of each class: where its nodes may be, and inside what. Names are numbers of `Snapshot.shape_names`; 0 = none."""

    level: Int64s  # (c,) name of the highest level that it may cross
    prefer: Int64s  # (c,) name of the level up to which crossing costs nothing
    anywhere: Int64s  # (c,) 1 = where its nodes are does not matter
    switches: Int64s  # (c,) most leaf switches; 0 = any number
    wait: Int64s  # (c,) ms that it waits for them; SOMEDAY = for ever
    segment: Int64s  # (c,) nodes under one leaf switch each; 0 = any
    reservation: Int64s  # (c,) name of what it runs in


class QueueArrays(NamedTuple):
    """Jobs; in the order of the pass once `order.ordered` has seen them."""

    job: Int64s  # (q,)
    cls: Int64s  # (q,)
    limit: Int64s  # (q,) milliseconds; SOMEDAY = none
    rank: Int64s  # (q,) of its QOS
    account: Int64s  # (q,) number of its name in Snapshot.account_names
    preempts: Int64s  # (q,) 1 = may look for victims
    row: Int64s  # (q,) its row in FactorArrays


class FactorArrays(NamedTuple):
    """What the priority is made of, and what few jobs are asked for; never put in order: see QueueArrays.row."""

    eligible: Int64s  # (q,) instant
    qos: Int64s  # (q,) thousandths, as the next
    partition: Int64s  # (q,)
    nice: Int64s  # (q,)
    uid: Int64s  # (q,)


class RunArrays(NamedTuple):
    """What live runs hold, one row per run and node."""

    node: Int64s  # (r,)
    end: Int64s  # (r,) expected; SOMEDAY = never
    cores: Int64s
    memory: Int64s
    gpus: Int64s  # mask
    run: Int64s  # row of the run in HoldArrays
    milli: Int64s  # of the one GPU; 0 = the GPUs are held whole, or it is slices
    mib: Int64s  # of the one GPU
    slices: Int64s  # MIG: mask of memory slices of the one GPU


class HoldArrays(NamedTuple):
    """Live runs; a row whose job is -1 is nobody's."""

    job: Int64s  # (h,)
    no: Int64s  # (h,) number of the run among its job's
    rank: Int64s  # (h,) of its QOS
    account: Int64s  # (h,) number of its name in Snapshot.account_names
    preemptable: Int64s  # (h,) 0 or 1, as the next
    in_guarantee: Int64s  # (h,)
    started: Int64s  # (h,) instant; -1 = not yet
    checkpoint: Int64s  # (h,) instant; -1 = none
    preempted: Int64s  # (h,) times
    elastic_least: Int64s  # (h,) nodes
    predicted: Int64s  # (h,) instant; -1 = no end is predicted


# Within a pass the columns stand as rows of one Grid per subject: a kernel that takes few arrays compiles in a
# fraction of the time that one takes which is handed every column. Each row is contiguous.
class Classes(NamedTuple):
    """`ClassArrays` within a pass."""

    columns: Grid  # (CLASS_, classes)
    eligible: Bytes
    usable: Int64s
    may: Grid  # (rows, words) bitmaps of nodes: those that meet the static constraints of a row of `eligible`
    must: Grid  # (rows, words) of these, the named ones
    avoided: Grid  # (rows, words) of these, those to keep off now


# Rows of the nodes' grid: those of NodeArrays, then the first row of the node's chains; -1 = none.
NODE_UP: Final = 0
NODE_CORES: Final = 1
NODE_MEMORY: Final = 2
NODE_GPUS: Final = 3
NODE_HEALTHY: Final = 4
NODE_FREE_CORES: Final = 5
NODE_FREE_MEMORY: Final = 6
NODE_FREE_GPUS: Final = 7
NODE_LINKS: Final = 8
NODE_RUNS: Final = 9  # in the grid of what is held
NODE_AHEAD: Final = 10  # in the grid of planned starts
# What the rows of planned starts, reservations and claims on the node come to: for tests that need not walk the chain.
NODE_AHEAD_GUARD: Final = 11  # the least guard; FOREVER = no rows
NODE_AHEAD_GPUS: Final = 12  # union of their masks
NODE_AHEAD_CORES: Final = 13  # sum
NODE_AHEAD_MEMORY: Final = 14  # sum
NODE_AHEAD_LAST: Final = 15  # the latest end; 0 = no rows
NODE_ROWS: Final = 16

# Rows of bitmaps of nodes (see bits.py).
BITS_UP: Final = 0  # may take something new
BITS_AHEAD: Final = 1  # has rows of planned starts, reservations or claims
BITS_FITS: Final = 2  # of the current search: holds one member through the window
BITS_UNPLANNED: Final = 3  # of the current search: would hold one now if nothing were planned
BITS_LATE: Final = 4  # of the current search: room comes only SOMEDAY
BITS_CHOSEN: Final = 5  # of the current search: in the placement
BITS_GE: Final = 6  # row BITS_GE + j: has at least j wholly free GPUs now; j up to MOST_GE
MOST_GE: Final = 16  # a job of more GPUs a node starts from the last row
BITS_ROWS: Final = BITS_GE + MOST_GE + 1

# Rows of Links.kinds.
LINK_GPUS: Final = 0  # GPUs of the node
LINK_OFFSET: Final = 1  # of mask 0 in `worst` and `rest`; -1 = too many GPUs for a table
LINK_BEST_OFFSET: Final = 2  # of [mask 0, count 0] in `best`

# Rows of Classes.columns.
CLASS_LEAST: Final = 0
CLASS_MOST: Final = 1
CLASS_CORES: Final = 2
CLASS_GPUS: Final = 3
CLASS_MEMORY_RULE: Final = 4
CLASS_MEMORY: Final = 5
CLASS_ROW: Final = 6
CLASS_GPU_ROW: Final = 7
CLASS_REQUIRED: Final = 8
CLASS_OWN: Final = 9  # AHEAD_OWNER of its reservation's rows; -1 = it has none
CLASS_LEVEL: Final = 10  # the highest level that it may cross
CLASS_PREFER: Final = 11  # crossing levels up to this one costs nothing
CLASS_ANYWHERE: Final = 12  # 1 = where its nodes are does not matter
CLASS_SWITCHES: Final = 13  # most leaf switches; 0 = any number
CLASS_SWITCHES_WAIT: Final = 14  # ms from when it became eligible; then any number will do; SOMEDAY = never
CLASS_SEGMENT: Final = 15  # its nodes come in groups of so many under one leaf switch
CLASS_PART: Final = 16  # class of the part to be placed together with this one; -1 = it is the last
CLASS_OTHER: Final = 17  # class to try when this one does not fit; -1 = none
CLASS_ROWS: Final = 18

# Rows of the queue's grid.
QUEUE_CLS: Final = 0
QUEUE_LIMIT: Final = 1
QUEUE_BINDS: Final = 2  # bits of what still binds it: BINDS_SWITCHES
QUEUE_ROWS: Final = 3

BINDS_SWITCHES: Final = 1  # it waits for few switches still
BINDS_ALL: Final = 2  # how many combinations there are

# Rows of what runs and this pass's starts hold: a chain per node.
HELD_LINK: Final = 0  # next in the chain; -1 = the last
HELD_END: Final = 1
HELD_CORES: Final = 2
HELD_MEMORY: Final = 3
HELD_GPUS: Final = 4
HELD_RUN: Final = 5  # number of the run among the holds; -1 = a start of this pass
HELD_NODE: Final = 6
HELD_ROWS: Final = 7

# Rows of planned starts: a chain per node.
AHEAD_LINK: Final = 0
AHEAD_GUARD: Final = 1  # from when lower jobs must keep out
AHEAD_START: Final = 2
AHEAD_END: Final = 3
AHEAD_CORES: Final = 4
AHEAD_MEMORY: Final = 5
AHEAD_GPUS: Final = 6
AHEAD_OWNER: Final = 7  # row of the job in the queue; -2 - number of a reservation; -1 = nobody
AHEAD_NODE: Final = 8
AHEAD_ROWS: Final = 9

# Rows of the workspace: what one class finds on each node in one window.
SCAN_GPUS: Final = 0  # mask of usable GPUs there
SCAN_LEFT: Final = 1  # free GPUs left there once the member has its own
SCAN_CORES: Final = 2  # cores left there then
SCAN_KEY: Final = 3  # sort keys
SCAN_ROWS: Final = 4

# Rows of the tally: for each level (next index) and domain of it (last index).
TALLY_FITS: Final = 0  # members that it takes
TALLY_MUST: Final = 1  # required nodes among them, in whole segments
TALLY_QUOTA: Final = 2  # members that it is given
TALLY_ROWS: Final = 3

# Rows of what was decided for each job.
OUT_VERDICT: Final = 0  # one of the VERDICT_ numbers
OUT_FOUND: Final = 1  # nodes that hold a member now
OUT_NODES: Final = 2  # nodes started on or planned on
OUT_AT: Final = 3  # its first share
OUT_START: Final = 4  # planned start; -1 = none
OUT_CLASS: Final = 5  # started: the class of the alternative that it was
OUT_ROWS: Final = 6

# Rows of what starts take and where planned starts are.
SHARE_NODE: Final = 0
SHARE_GPUS: Final = 1
SHARE_MEMORY: Final = 2
SHARE_CLASS: Final = 3
SHARE_ROWS: Final = 4

# Rows of what is known of a class.
MEMO_OUTLOOK: Final = 0  # 0 = not judged yet, else 1 + a verdict: could it ever run, could it run on what is up
MEMO_LIMIT: Final = 1  # the least limit that failed
MEMO_VERDICT: Final = 2  # then
MEMO_FOUND: Final = 3  # then
MEMO_ROWS: Final = 4

# How many rows are in use.
USED_HELD: Final = 0
USED_AHEAD: Final = 1
USED_SHARES: Final = 2
USED_BOOKED: Final = 3  # rows ahead that are reservations' or claims'
USED_ROWS: Final = 4

VERDICT_STARTED: Final = 0
VERDICT_RESOURCES: Final = 1  # too few nodes hold a member now
VERDICT_PRIORITY: Final = 2  # it would delay a job above
VERDICT_RESERVATION: Final = 3  # it would run into a reservation, or may not use its own yet
VERDICT_NOT_AVAILABLE: Final = 4  # only nodes that are drained, away or short of healthy GPUs could hold it
VERDICT_IMPOSSIBLE: Final = 5  # no set of the known nodes could
VERDICT_BEHIND: Final = 6  # nobody may pass a job above
VERDICTS: Final = 7
