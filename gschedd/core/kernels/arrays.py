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

SOMEDAY: Final = 1 << 60
FOREVER: Final = SOMEDAY + 1  # the end of a window that also covers SOMEDAY
MEMORY_EXACT: Final = 0
MEMORY_SHARE: Final = 1
MEMORY_ALL: Final = 2
MAY: Final = 1  # the node meets the static constraints
MUST: Final = 2  # it is named: must be in
AVOIDED: Final = 4  # not now: a launch of the job failed there


class NodeArrays(NamedTuple):
    """Nodes in topology order. Level 0 is the leaf switch, the last level is everything."""

    up: Int64s  # (n,) 1 = may take something new
    cores: Int64s  # (n,) all of them
    memory: Int64s  # (n,)
    gpus: Int64s  # (n,) mask of all
    healthy: Int64s  # (n,) mask of those that may be offered
    free_cores: Int64s  # (n,) now
    free_memory: Int64s  # (n,)
    free_gpus: Int64s  # (n,) mask
    links: Int64s  # (n,) row in LinkArrays
    domain: Int64s  # (levels, n) number of the node's domain at a level
    first: Int64s  # (levels, n + 1) first node of a domain; the next domain's first is its end
    domains: Int64s  # (levels,) how many


class LinkArrays(NamedTuple):
    """For each subset (mask) of a kind of node's GPUs: how well it is joined. Smaller is better."""

    gpus: Int64s  # (kinds,) GPUs of the node
    offset: Int64s  # (kinds,) of mask 0 in `worst` and `rest`; -1 = too many GPUs for a table
    best_offset: Int64s  # (kinds,) of [mask 0, count 0] in `best`
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


class QueueArrays(NamedTuple):
    """Jobs in order."""

    job: Int64s  # (q,)
    cls: Int64s  # (q,)
    limit: Int64s  # (q,) milliseconds; SOMEDAY = none


class RunArrays(NamedTuple):
    """What live runs hold, one row per run and node."""

    node: Int64s  # (r,)
    end: Int64s  # (r,) expected; SOMEDAY = never
    cores: Int64s
    memory: Int64s
    gpus: Int64s  # mask


class Held(NamedTuple):
    """Workspace: what runs and this pass's starts hold, a chain of rows per node. -1 ends a chain."""

    head: Int64s  # (n,)
    used: Int64s  # (1,) rows in use
    link: Int64s
    end: Int64s
    cores: Int64s
    memory: Int64s
    gpus: Int64s


class Ahead(NamedTuple):
    """Workspace: planned starts, a chain of rows per node."""

    head: Int64s  # (n,)
    used: Int64s  # (1,)
    link: Int64s
    guard: Int64s  # from when lower jobs must keep out
    start: Int64s
    end: Int64s
    cores: Int64s
    memory: Int64s
    gpus: Int64s


class Scan(NamedTuple):
    """Workspace: what one class finds on each node in one window."""

    fits: Int64s  # (n,) 1 = holds one member
    gpus: Int64s  # (n,) mask of usable GPUs there
    cores: Int64s  # (n,) cores left there before the member takes its own
    late: Int64s  # (n,) 1 = room comes only SOMEDAY
    before: Int64s  # (n + 1,) prefix sum of fits
    must: Int64s  # (n + 1,) prefix sum of required nodes
    quota: Int64s  # (2, n) members each domain takes, at the level above and at this one
    key: Int64s  # (n,) sort keys
    when: Int64s  # (n,) when a node first has room, planned starts left aside; -1 = never
    times: Int64s  # (1 + n + rows of Held and Ahead,) instants to try
    chosen: Int64s  # (n,) 1 = in the placement


class Outcome(NamedTuple):
    """What the walk decided, job by job in queue order."""

    verdict: Int64s  # (q,) one of the VERDICT_ numbers
    found: Int64s  # (q,) nodes that hold a member now
    nodes: Int64s  # (q,) nodes started on or planned on
    at: Int64s  # (q,) row of its first share
    start: Int64s  # (q,) planned start; -1 = none
    share_node: Int64s
    share_gpus: Int64s
    share_memory: Int64s
    used: Int64s  # (1,) share rows in use


VERDICT_STARTED: Final = 0
VERDICT_RESOURCES: Final = 1  # too few nodes hold a member now
VERDICT_PRIORITY: Final = 2  # it would delay a job above, or nobody may pass
VERDICT_NOT_AVAILABLE: Final = 3  # only nodes that are drained, away or short of healthy GPUs could hold it
VERDICT_IMPOSSIBLE: Final = 4  # no set of the known nodes could
