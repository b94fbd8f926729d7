"""What an agent and the controller say to each other, over one connection that the agent dials.

The controller keeps no queue of orders: it tells changes of a node's wanted set. The agent acts towards the set and
reports what it confirmed. Orders are numbered within a session; a gap makes the agent ask for the whole set again.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gsched.protocol.hello import PROTOCOL_VERSION as PROTOCOL_VERSION
from gsched.values.ids import Instant, NodeName, RunKey, StepId, Term
from gsched.values.node import Inventory
from gsched.values.run import NodePhase, WantedPhase

# --- agent to controller


class ActualRun(Struct, frozen=True):
    """A run as an agent has it when it connects."""

    key: RunKey
    phase: NodePhase


class AgentHello(Struct, tag="agent.hello", frozen=True):
    node: NodeName
    version: tuple[int, int]
    machine_id: str
    boot_id: str
    highest_term: Term
    inventory: Inventory
    stream_address: str  # host:port of its stream server
    runs: tuple[ActualRun, ...]


class Heartbeat(Struct, tag="agent.heartbeat", frozen=True):
    number: int


class Blame(StrEnum):
    """Whose failure a launch failure is (reliability rule 4)."""

    NODE = "node"  # avoid this node for this job; drain it after several jobs
    JOB = "job"  # the job fails with that reason
    SHARED = "shared"  # back off, nobody is blamed


class RunReport(Struct, tag="agent.report", frozen=True, kw_only=True):
    """One confirmed fact about one run on one node; sent again until it is acknowledged."""

    node: NodeName
    boot_id: str
    seq: int  # grows within one boot id of one node; the agent keeps it on disk
    key: RunKey
    phase: NodePhase  # READY, OPEN, EXITED or CLEAN
    at: Instant
    # With EXITED (first node), or CLEAN where no EXITED was sent:
    exit_code: int = 0
    exit_signal: int = 0
    timed_out: bool = False
    elapsed_s: int = 0  # CLOCK_BOOTTIME, by the supervisor
    node_failed: bool = False  # with CLEAN: the run was lost here after its start (its supervisor died)
    oom_kills: int = 0  # with EXITED and CLEAN: processes that the kernel killed here for the run's memory limit
    # Where the launch failed (the phase is then CLEAN: all was undone here):
    blame: Blame | None = None
    reason: str = ""  # a Reason's value for the job: "OutputFile", "" ...
    text: str = ""


class StepReport(Struct, tag="agent.step", frozen=True, kw_only=True):
    """The tasks of a step have all ended on one node. Acknowledged and repeated as RunReport is."""

    node: NodeName
    boot_id: str
    seq: int
    key: RunKey
    step: StepId
    at: Instant
    exit_code: int
    exit_signal: int


class Forward(Struct, tag="agent.forward", frozen=True):
    """A local user's request, passed on as "uid U on this node". `body` is a UserRequest, packed."""

    call: int
    uid: int
    gid: int
    user: str
    body: bytes


class NeedWhole(Struct, tag="agent.need_whole", frozen=True):
    """Orders went missing: send the whole wanted set."""


# --- controller to agent


class Welcome(Struct, tag="ctl.welcome", frozen=True):
    term: Term
    cluster: str
    heartbeat_s: int
    ticket_key: bytes  # this node's: it checks stream tickets with it
    owner_uid: int | None = None  # a local cluster's: jobs of no other uid
    comeback_s: float = 1.0  # after an outage agents come back with full jitter over up to so many seconds
    whole: tuple[WantedRun, ...] = ()  # the wanted set; what is not in it is purged


class Refused(Struct, tag="ctl.refused", frozen=True):
    code: str
    text: str


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """All that an agent needs to prepare and start its part of a run."""

    uid: int
    gid: int
    user: str
    job_name: str
    cluster: str
    partition: str
    node_index: int  # 0 = the first node, where the script runs
    nodes: tuple[NodeName, ...]
    addresses: tuple[str, ...]  # host names or addresses of the nodes, for rendezvous
    cpus: int
    mem_mib: int
    gpu_uuids: tuple[str, ...]
    gpu_indices: tuple[int, ...]
    port: int
    master_port: int  # the first node's `port`
    ntasks: int
    tasks_per_node: int
    ntasks_per_node_asked: int | None
    cpus_per_task: int
    cpus_per_task_asked: bool
    gpus_per_node_asked: int | None
    gpus_asked: int | None
    mem_asked_mib: int | None
    time_limit_s: int
    grace_s: int
    restarts: int
    script: bytes = b""  # first node only
    args: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    chdir: str = ""
    output: str = ""
    error: str = ""
    open_append: bool = False
    umask: int = 0o022
    submit_dir: str = ""
    submit_host: str = ""


class WantedRun(Struct, frozen=True, kw_only=True):
    """One run in a node's wanted set."""

    key: RunKey
    phase: WantedPhase
    signals: tuple[int, ...] = ()  # all sent so far, delivered once each; negative = to the script's process only
    grace_s: int = 30  # with STOP: between TERM and KILL
    launch: LaunchSpec | None = None  # until the node has confirmed READY
    launch_follows: bool = False  # `launch` would not fit here: it comes in an order of its own


class Orders(Struct, tag="ctl.orders", frozen=True):
    """A change of the wanted set. seq: 1, 2, ... within the session."""

    term: Term
    seq: int
    put: tuple[WantedRun, ...] = ()
    drop: tuple[RunKey, ...] = ()
    whole: bool = False  # `put` is the whole set


class Acks(Struct, tag="ctl.acks", frozen=True):
    """Reports that are durable (or were repeated, or count for nothing): the agent may forget them."""

    seqs: tuple[int, ...]


class HeartbeatAck(Struct, tag="ctl.heartbeat", frozen=True):
    """Answers a heartbeat; `orders` is the number of the last Orders sent, so that a lost last one is noticed."""

    number: int
    orders: int = 0


class Forwarded(Struct, tag="ctl.forwarded", frozen=True):
    """The answer to a Forward: a packed UserReply, or an error."""

    call: int
    body: bytes = b""
    code: str = ""
    text: str = ""


AgentMessage = AgentHello | Heartbeat | RunReport | StepReport | Forward | NeedWhole
ControllerMessage = Welcome | Refused | Orders | Acks | HeartbeatAck | Forwarded
