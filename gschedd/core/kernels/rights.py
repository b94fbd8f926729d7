"""Who may preempt whom.

A may preempt B if (i) A's rank is higher, or (ii) the ranks are equal, A's account stays within its guarantee after
the start, and B's account still has its guarantee after the loss. In a tree of accounts (ii) looks at the two branches
below the lowest account that A and B share: what is shared above changes hands inside. Age, fair-share and priority
never count. So the relation has no cycles: along (i) ranks fall, and an account that can reclaim has less than its
guarantee where one that can be reclaimed from has more.

Never: a run younger than `min_run`; one preempted `max_preempted` times, or of a QOS that says no, unless what it
borrowed is reclaimed.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.freed import (
    ACCOUNT_GROUPS,
    ACCOUNT_MINE,
    ACCOUNT_PARENT,
    ACCOUNT_WITHIN,
    GROUP_GUARANTEE,
    GROUP_ROWS,
    GROUP_USED,
    RUN_BORROWED,
    RUN_PREEMPTABLE,
    RUN_PREEMPTED,
    RUN_STARTED,
    UNIT_ACCOUNT,
    UNIT_HEAD,
    UNIT_RANK,
    UNIT_WAY,
    WAY_NONE,
    WAY_RANK,
    WAY_RECLAIM,
)


@kernel
def mark_branch_nb(accounts: Grid, account: int, needs: Grid) -> int:
    """Mark the preemptor's account and those above it; note at each whether the branch below it is within guarantees.

    needs: (2, groups): thousandths of a GPU that the start may take of each group of models; 1 where all of it is of
    that group for certain. Within: some account of the branch has a guarantee for such a group, and the start exceeds
    none. Returns that of the whole branch, for victims that share no account.
    """
    for a in range(accounts.shape[1]):
        accounts[ACCOUNT_MINE, a] = 0
    given = 0
    within = 1
    a = account
    while a >= 0:
        accounts[ACCOUNT_MINE, a] = 1
        accounts[ACCOUNT_WITHIN, a] = given & within
        for g in range(needs.shape[1]):
            row = ACCOUNT_GROUPS + GROUP_ROWS * g
            guarantee = accounts[row + GROUP_GUARANTEE, a]
            if guarantee < 0 or needs[0, g] == 0:
                continue
            given |= needs[1, g]
            if accounts[row + GROUP_USED, a] + needs[0, g] > guarantee:
                within = 0
        a = accounts[ACCOUNT_PARENT, a]
    return int(given & within)


@kernel
def rights_nb(units: Grid, accounts: Grid, rank: int, within: int, now: int, min_run: int, max_preempted: int) -> int:
    """Fill UNIT_WAY for a preemptor of this rank whose branch is marked; returns how many may go.

    within: what `mark_branch_nb` returned. min_run: ms. max_preempted: 0 = any number.
    What a set of victims may take from an account together is `loss_allowed_nb`'s.
    """
    count = 0
    for u in range(units.shape[1]):
        run = units[UNIT_HEAD, u]
        way = WAY_NONE
        spent = max_preempted > 0 and units[RUN_PREEMPTED, run] >= max_preempted
        safe = spent or not units[RUN_PREEMPTABLE, run]
        if now - units[RUN_STARTED, run] < min_run or units[UNIT_RANK, u] > rank:
            pass
        elif units[UNIT_RANK, u] < rank:
            way = WAY_NONE if safe else WAY_RANK
        elif units[RUN_BORROWED, run] or not safe:
            a = units[UNIT_ACCOUNT, u]
            while a >= 0 and not accounts[ACCOUNT_MINE, a]:
                a = accounts[ACCOUNT_PARENT, a]
            if accounts[ACCOUNT_WITHIN, a] if a >= 0 else within:
                way = WAY_RECLAIM
        units[UNIT_WAY, u] = way
        count += 1 if way != WAY_NONE else 0
    return count
