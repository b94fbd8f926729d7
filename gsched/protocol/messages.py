"""Requests of users and their replies: one request type, one reply type, one handler each.

A request that changes something carries `request_id`, made by the client: sent again, it gets the first answer.
"""

from __future__ import annotations

from msgspec import Struct

from gsched.values.explanation import Explanation, Priority
from gsched.values.ids import Instant, JobId, NodeName, RunNo, StepId
from gsched.values.job import Job, JobPayload, JobSpec
from gsched.values.node import Node, NodeState
from gsched.values.reservation import Reservation
from gsched.values.run import Run, Step
from gsched.values.states import JobState
from gsched.values.topology import Problem, Topology


class SubmitJob(Struct, tag="job.submit", frozen=True):
    """Take a job. Errors: request.bad, request.impossible, not_permitted, too_large."""

    spec: JobSpec
    payload: JobPayload
    request_id: str


class Submitted(Struct, tag="job.submitted", frozen=True):
    job: JobId
    note: str = ""  # something the user should know, e.g. that GPUs were spread over nodes


class CancelJobs(Struct, tag="job.cancel", frozen=True):
    """End jobs, or send them a signal. One result a job; permission is judged for each."""

    request_id: str
    jobs: tuple[JobId, ...] = ()
    user: str = ""  # all jobs of this user, if no ids are given; with ids: only if they are this user's
    states: tuple[JobState, ...] = ()  # only jobs in these states; () = any
    signal: int = 0  # 0 = cancel; else the signal for every process of the run
    batch_only: bool = False


class HoldJobs(Struct, tag="job.hold", frozen=True):
    request_id: str
    jobs: tuple[JobId, ...]
    release: bool = False


class JobResult(Struct, frozen=True):
    """What became of one job of a request about several. code "" = done."""

    job: JobId
    code: str = ""
    text: str = ""


class JobResults(Struct, tag="job.results", frozen=True):
    results: tuple[JobResult, ...]


class ListJobs(Struct, tag="job.list", frozen=True):
    """Jobs in memory (unfinished, and finished ones of the last min_job_age), a page in id order."""

    jobs: tuple[JobId, ...] = ()  # an unknown id is an error (not_found) if it is the only one
    user: str = ""
    states: tuple[JobState, ...] = ()  # () = unfinished ones; with `jobs` given: any state
    all_states: bool = False
    after: JobId = JobId(0)  # page: ids above this
    limit: int = 1000


class JobRow(Struct, frozen=True, array_like=True):
    """One line of gqueue, flat and small. Instants are ms; -1 = none."""

    id: JobId
    partition: str
    name: str
    user: str
    uid: int
    state: JobState
    reason: str
    detail: str
    submitted: Instant
    started: Instant
    ended: Instant
    planned: Instant  # expected start of a pending job, where the last pass planned one
    elapsed_s: int  # while running: as of the page's `now`
    time_limit_s: int
    nodes: tuple[NodeName, ...]
    nnodes: int
    ntasks: int
    cpus: int  # over all nodes
    mem_mib: int  # a node; 0 = the whole node, -1 = by share
    gpus: int  # over all nodes
    gpu_model: str
    restarts: int
    exit_code: int
    exit_signal: int
    chdir: str
    planned_nodes: tuple[NodeName, ...] = ()


class JobPage(Struct, tag="job.page", frozen=True):
    rows: tuple[JobRow, ...]
    more: bool
    now: Instant  # the controller's clock, for elapsed times
    missing: tuple[JobId, ...] = ()  # asked for by id and not known
    unconfirmed: bool = False  # the store does not answer: this may not survive a crash


class ShowJob(Struct, tag="job.show", frozen=True):
    job: JobId


class JobShown(Struct, tag="job.shown", frozen=True):
    job: Job
    runs: tuple[Run, ...]  # the live ones
    now: Instant
    planned: Instant | None = None
    script: bytes | None = None  # the owner's only
    unconfirmed: bool = False


class ExplainJob(Struct, tag="job.explain", frozen=True):
    """Why one pending job waits. Errors: not_found, conflict (it does not wait)."""

    job: JobId


class Explained(Struct, tag="job.explained", frozen=True):
    explanation: Explanation
    priority: Priority | None  # None: held, or backing off after a failed launch
    unconfirmed: bool = False


class ListPriorities(Struct, tag="priority.list", frozen=True):
    """The factors of waiting jobs' priorities."""

    jobs: tuple[JobId, ...] = ()  # () = all that may start


class PriorityPage(Struct, tag="priority.page", frozen=True):
    rows: tuple[Priority, ...]  # in the queue's order
    left_out: int  # more rows than one answer holds
    weights: dict[str, int]  # of age, fair_share, qos, partition and size
    missing: tuple[JobId, ...] = ()  # asked for, and not among the jobs that may start
    unconfirmed: bool = False


class TryJob(Struct, tag="job.try", frozen=True):
    """When and where a job would start. Nothing is stored, no id is used. Errors as of job.submit."""

    spec: JobSpec
    alternatives: bool = False  # also for other sizes, GPU models and shorter times


class ExpectedStart(Struct, frozen=True):
    """When one request would start."""

    what: str  # "as asked", "1 node", "GPU model H100", "1:00:00 at most"
    start: Instant | None  # None = not known: it waits for what has no expected end
    nodes: tuple[NodeName, ...]
    node_count: int
    gpus: int  # over all nodes
    cpus: int  # over all nodes
    gpu_model: str
    partition: str
    time_limit_s: int
    reason: str  # why it would wait; "" = it would start at once
    detail: str = ""
    impossible: str = ""  # why no set of the known nodes could hold it; "" = it is possible


class JobTried(Struct, tag="job.tried", frozen=True):
    job: JobId  # the id that it would have
    expected: tuple[ExpectedStart, ...]  # the first one is as asked
    now: Instant
    note: str = ""
    unconfirmed: bool = False


class TakeSnapshot(Struct, tag="snapshot.take", frozen=True):
    """The scheduler's whole input, and its plan. Administrators only. Errors: too_large."""


class SnapshotTaken(Struct, tag="snapshot.taken", frozen=True):
    content: bytes  # of a file, for gsim replay-pass
    pending: int
    runs: int
    nodes: int
    unconfirmed: bool = False


class ListNodes(Struct, tag="node.list", frozen=True):
    nodes: tuple[NodeName, ...] = ()


class NodeRow(Struct, frozen=True):
    node: Node
    state: NodeState
    responding: bool
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    switches: tuple[str, ...]  # from the leaf up
    cpus_used: int
    mem_used_mib: int
    gpus_used: int  # bitmask
    jobs: tuple[JobId, ...]


class PartitionRow(Struct, frozen=True):
    name: str
    default: bool
    max_time_s: int  # 0 = no limit
    nodes: tuple[NodeName, ...]


class NodePage(Struct, tag="node.page", frozen=True):
    rows: tuple[NodeRow, ...]
    partitions: tuple[PartitionRow, ...]
    missing: tuple[NodeName, ...] = ()
    unconfirmed: bool = False


class ShowTopology(Struct, tag="topology.show", frozen=True):
    """Where the nodes hang, as the controller has it, and what is odd in that."""


class TopologyShown(Struct, tag="topology.shown", frozen=True):
    topology: Topology  # no levels = none is configured
    problems: tuple[Problem, ...]
    unconfirmed: bool = False


class DrainNode(Struct, tag="node.drain", frozen=True):
    request_id: str
    nodes: tuple[NodeName, ...]
    reason: str = ""
    undrain: bool = False


class NodeDead(Struct, tag="node.dead", frozen=True):
    """The administrator vouches that nothing runs on the silent node any more."""

    request_id: str
    node: NodeName


class NodeReplaced(Struct, tag="node.replaced", frozen=True):
    """Another machine stands behind the node's name from now on."""

    request_id: str
    node: NodeName


class CreateReservation(Struct, tag="reservation.create", frozen=True):
    """Administrators only. Errors: request.bad, not_found (a node), conflict (the name, or another reservation)."""

    request_id: str
    name: str
    nodes: tuple[NodeName, ...] = ()  # whole
    gpus: tuple[tuple[int, tuple[NodeName, ...]], ...] = ()  # so many GPUs of each of these nodes
    start: Instant = Instant(0)  # 0 = now
    end: Instant | None = None  # None = until it is deleted
    users: tuple[str, ...] = ()
    uids: tuple[int, ...] = ()  # of `users`, in their order
    accounts: tuple[str, ...] = ()
    maint: bool = False
    replace: bool = False  # one of that name, if there is one


class DeleteReservation(Struct, tag="reservation.delete", frozen=True):
    request_id: str
    name: str


class ListReservations(Struct, tag="reservation.list", frozen=True):
    names: tuple[str, ...] = ()  # () = all; an unknown name is an error


class ReservationRow(Struct, frozen=True):
    reservation: Reservation
    active: bool  # it has begun


class ReservationPage(Struct, tag="reservation.page", frozen=True):
    rows: tuple[ReservationRow, ...]  # in the order of their starts
    now: Instant
    unconfirmed: bool = False


class Done(Struct, tag="done", frozen=True):
    note: str = ""


class Accounting(Struct, tag="acct.list", frozen=True):
    """Jobs, runs and steps from the store, a page in id order. Others' jobs are listed too, as in Slurm."""

    jobs: tuple[JobId, ...] = ()
    user: str = ""
    since: Instant = Instant(0)  # ended (or still alive) at or after; ignored with `jobs`
    until: Instant = Instant(0)  # submitted before; 0 = now
    states: tuple[JobState, ...] = ()
    duplicates: bool = False  # also runs before the last one
    steps: bool = True
    after: JobId = JobId(0)
    limit: int = 1000


class AcctJob(Struct, frozen=True):
    job: Job
    runs: tuple[Run, ...]  # oldest first; only the last one unless duplicates were asked for
    steps: tuple[Step, ...]


class AcctPage(Struct, tag="acct.page", frozen=True):
    rows: tuple[AcctJob, ...]
    more: bool
    now: Instant
    unconfirmed: bool = False


class CreateStep(Struct, tag="step.create", frozen=True):
    """grun: open a step on a running job's nodes. Owner only."""

    job: JobId
    name: str
    ntasks: int
    nnodes: int = 0  # 0 = all of the job's nodes
    request_id: str = ""


class StepNode(Struct, frozen=True):
    """Where a part of a step goes, and the ticket that opens the door there."""

    node: NodeName
    address: str  # host:port, TLS
    ticket: str
    share_gpus: tuple[str, ...]  # UUIDs of the run's GPUs there
    cpus: int


class StepCreated(Struct, tag="step.created", frozen=True):
    step: StepId
    run: RunNo
    nodes: tuple[StepNode, ...]  # in rank order
    ca_pem: bytes
    job_ntasks: int
    job_tasks_per_node: int


class Ping(Struct, tag="ping", frozen=True):
    pass


class Pong(Struct, tag="pong", frozen=True):
    cluster: str
    version: str
    term: int
    nodes_known: int
    nodes_up: int
    jobs: int
    now: Instant
    unconfirmed: bool = False


UserRequest = (
    SubmitJob
    | CancelJobs
    | HoldJobs
    | ListJobs
    | ShowJob
    | ExplainJob
    | ListPriorities
    | TryJob
    | TakeSnapshot
    | ListNodes
    | ShowTopology
    | DrainNode
    | NodeDead
    | NodeReplaced
    | CreateReservation
    | DeleteReservation
    | ListReservations
    | Accounting
    | CreateStep
    | Ping
)
UserReply = (
    Submitted
    | JobResults
    | JobPage
    | JobShown
    | Explained
    | PriorityPage
    | JobTried
    | SnapshotTaken
    | NodePage
    | TopologyShown
    | ReservationPage
    | Done
    | AcctPage
    | StepCreated
    | Pong
)
