"""Values into and out of a pass. `snapshot.py` turns the inputs into arrays; `Plan` is made of plain values again."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gsched.values.ids import Instant, JobId, NodeName, RunKey
from gsched.values.job import Request
from gsched.values.node import Inventory
from gsched.values.run import NodeShare
from gsched.values.states import Reason
from gschedd.core.waits import Waits


class Availability(StrEnum):
    UP = "up"
    DRAINED = "drained"  # nothing new; what runs there goes on; has no future in planned starts
    AWAY = "away"  # known, but silent, or not reconciled yet


class NodeInput(Struct, frozen=True):
    """A known node."""

    name: NodeName
    inventory: Inventory
    partitions: tuple[str, ...]
    features: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()  # from the leaf switch up to the root; () = all under one
    availability: Availability = Availability.UP
    gpus_out: int = 0  # bitmask of GPUs that may not be offered
    tier: int = 0  # 0 reserved, 1 on demand, 2 spot
    price: int = 0  # thousandths of the site's currency a GPU hour


class HoldInput(Struct, frozen=True):
    """A live run: what it holds, and when it is expected to give it back (None = unknown or never)."""

    key: RunKey
    shares: tuple[NodeShare, ...]  # only parts that are not clean yet
    expected_end: Instant | None
    account: str = ""
    rank: int = 0  # of its QOS: a higher one may preempt a lower one
    preemptable: bool = False
    in_guarantee: bool = False  # as it was started; False = borrowed
    started: Instant | None = None
    checkpoint: Instant | None = None  # the last one acknowledged
    preempted: int = 0  # times
    elastic_least: int = 0  # nodes it can go on with; 0 = all of them
    predicted_end: Instant | None = None  # each time that it passes, the run is taken to last twice as long


class Factors(Struct, frozen=True):
    """What the multifactor priority is made of. Each is in thousandths of its most, but `eligible` and `nice`."""

    eligible: Instant = Instant(0)  # since when it waits: its age
    qos: int = 0
    partition: int = 0
    nice: int = 0  # taken off the priority


class QueueInput(Struct, frozen=True):
    """A job that may start now.

    Not obeyed by the pass yet: `counts`, `alternatives`, `beside`, and fractions and MIG profiles in the request.
    """

    job: JobId
    request: Request
    avoid: tuple[NodeName, ...] = ()
    factors: Factors = Factors()
    rank: int = 0  # of its QOS; higher ranks come first
    account: str = ""
    uid: int = -1
    counts: tuple[tuple[str, int], ...] = ()  # counters it would use, and how much of each
    alternatives: tuple[tuple[Request, ...], ...] = ()  # tried in order after (request,); each is its parts
    beside: tuple[NodeName, ...] = ()  # replaces a lost node of a gang on these: same `request.level` domain
    preempts: bool = False  # may look for victims


class Bookable(Struct, frozen=True):
    """What a reservation holds of a node."""

    node: NodeName
    gpus: int = -1  # bitmask; -1 = the whole node with its cores and memory


class ReservationInput(Struct, frozen=True):
    """An administrator's reservation: nobody else's job may overlap it."""

    name: str
    holds: tuple[Bookable, ...]
    start: Instant
    end: Instant | None = None  # None = until it is deleted
    uids: tuple[int, ...] = ()  # who may use it
    accounts: tuple[str, ...] = ()
    maint: bool = False  # for maintenance: nobody's job runs inside


class ClaimInput(Struct, frozen=True):
    """Held for a job until an instant: for a preemptor, or in place of a gang's lost node."""

    job: JobId
    shares: tuple[NodeShare, ...]
    until: Instant


class AccountInput(Struct, frozen=True):
    """One account of the tree. Amounts are thousandths of a GPU, by group of models ("" = every model)."""

    name: str
    parent: str = ""
    guarantee: tuple[tuple[str, int], ...] = ()
    limit: tuple[tuple[str, int], ...] = ()
    fair_share: int = 0  # thousandths; 1000 = has used nothing of its share


class CounterInput(Struct, frozen=True):
    """A limit that is not a node's: licences, an array's throttle, a user's or QOS's GPUs."""

    name: str
    limit: int
    used: int
    reason: Reason = Reason.RESOURCES


class Weights(Struct, frozen=True):
    """Of the multifactor priority."""

    age: int = 1000
    fair_share: int = 0
    qos: int = 0
    partition: int = 0
    size: int = 0
    age_max_s: int = 7 * 24 * 3600  # an older job gains no more
    size_small_first: bool = False


class Policy(Struct, frozen=True):
    """What an administrator may tune in a pass."""

    planned_starts: int = 50  # how many blocked jobs get one; later jobs may not delay them
    weights: Weights = Weights()
    shortest_first: bool = False  # expected GPU time, aged, instead of the multifactor priority: see order.py
    settle_gpu_s: int = 200_000  # then: jobs of less GPU time than this go nearly by age alone
    no_limit_s: int = 24 * 3600  # then: what a job without a limit is taken to last
    preemptors: int = 8  # blocked jobs that may look for victims in one pass
    min_run_s: int = 0  # a run is not preempted before
    max_preemptions: int = 0  # 0 = any number
    claim_time_s: int = 600
    strict_order: bool = False  # no job passes one that waits (while nodes are still coming back after a start)
    seed: int = 0
    kill_time_s: int = 60  # an expected end that has passed counts as this long from now


class Start(Struct, frozen=True):
    job: JobId
    shares: tuple[NodeShare, ...]  # in rank order; `port` is 0 here, given at commit
    in_order: bool = False  # no job above it waits: it passes none
    alternative: int = 0  # which it was: 0 = the request, else the number in QueueInput.alternatives plus 1
    parts: tuple[int, ...] = ()  # nodes of each part, if it has several


class PlannedStart(Struct, frozen=True):
    """A promise: the next pass keeps it unless the job can start earlier."""

    job: JobId
    at: Instant
    nodes: tuple[NodeName, ...]
    until: Instant | None = None  # when the job's limit ends then; None = no limit
    made: Instant = Instant(0)  # by the pass of this instant


class MoveCause(StrEnum):
    """Why a planned start moved later; there are no other reasons."""

    ORDER = "a job of higher order"
    NODE = "a lost or drained node"
    LIMIT = "a raised limit"
    ADMIN = "an administrator"
    OVERRUN = "a run that outlasted its expected end"


class Moved(Struct, frozen=True):
    """A promise that was not kept."""

    job: JobId
    was: Instant
    at: Instant | None  # None = no instant can be told any more
    cause: MoveCause


class Preemption(Struct, frozen=True):
    """A run to be stopped so that a job can start."""

    victim: RunKey
    preemptor: JobId
    cost: tuple[int, ...]  # as compared: highest rank, GPU seconds lost, victims
    keep: int = 0  # nodes an elastic victim keeps; 0 = it goes whole


class Plan(Struct, frozen=True):
    """What one pass decided: starts in the order they were decided, planned starts, and why the others wait."""

    starts: tuple[Start, ...] = ()
    planned: tuple[PlannedStart, ...] = ()
    waits: Waits = Waits()
    preemptions: tuple[Preemption, ...] = ()
    claims: tuple[ClaimInput, ...] = ()
    moved: tuple[Moved, ...] = ()  # promises of the last pass that were not kept


class PassInput(Struct, frozen=True):
    """Everything one pass needs, as plain values: made on the loop's thread, turned into arrays on the planner's."""

    nodes: tuple[NodeInput, ...]
    holds: tuple[HoldInput, ...]
    queue: tuple[QueueInput, ...]
    policy: Policy
    now: Instant
    levels: tuple[str, ...] = ()  # names of the topology levels, from the lowest switch up
    reservations: tuple[ReservationInput, ...] = ()
    claims: tuple[ClaimInput, ...] = ()
    accounts: tuple[AccountInput, ...] = ()
    counters: tuple[CounterInput, ...] = ()
    planned: tuple[PlannedStart, ...] = ()  # of the last pass


class NodeGone(Struct, frozen=True):
    name: NodeName


class HoldGone(Struct, frozen=True):
    key: RunKey


class JobGone(Struct, frozen=True):
    """It may not start any more, or not yet."""

    job: JobId


BoardChange = NodeInput | HoldInput | QueueInput | NodeGone | HoldGone | JobGone


class PassLog(Struct, frozen=True):
    """The same for one who was told all that went before: what has changed since; what there is little of, whole."""

    changes: tuple[BoardChange, ...]
    policy: Policy
    now: Instant
    levels: tuple[str, ...] = ()
    reservations: tuple[ReservationInput, ...] = ()
    claims: tuple[ClaimInput, ...] = ()
    accounts: tuple[AccountInput, ...] = ()
    counters: tuple[CounterInput, ...] = ()
    planned: tuple[PlannedStart, ...] = ()
