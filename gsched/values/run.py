"""A run: one try of a job on granted nodes; and a step: one grun inside it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo, StepId
from gsched.values.states import RunOutcome


class NodePhase(StrEnum):
    """How far one node of a run is, as its agent confirmed it to the controller."""

    ORDERED = "ordered"  # in the wanted set, nothing confirmed
    READY = "ready"  # prepared; nothing of the user's runs
    OPEN = "open"  # open for steps; on the first node the script was started
    EXITED = "exited"  # first node: the script has ended, clean-up goes on
    CLEAN = "clean"  # nothing of the run is left there; the share is free
    LOST = "lost"  # the node is silent; the end is not certain


class WantedPhase(StrEnum):
    """What the controller wants of a run on a node. Not wanted at all = purge."""

    PREPARE = "prepare"
    START = "start"
    STOP = "stop"


class NodeShare(Struct, frozen=True):
    """What a run holds of one node."""

    node: NodeName
    cpus: int
    mem_mib: int
    gpus: int = 0  # bitmask over the node's GPU indices
    port: int = 0  # rendezvous port reserved for the run on this node
    gpu_milli: int = 0  # a fraction: thousandths taken of the one GPU in `gpus`; 0 = `gpus` are held whole
    gpu_mem_mib: int = 0  # a fraction: memory taken of it
    slices: int = 0  # MIG: bitmask of memory slices taken of the one GPU in `gpus`

    @property
    def gpu_indices(self) -> tuple[int, ...]:
        return tuple(i for i in range(self.gpus.bit_length()) if self.gpus >> i & 1)


class NodeRun(Struct, frozen=True):
    """One node's part of a run."""

    share: NodeShare
    phase: NodePhase = NodePhase.ORDERED
    boot_id: str = ""  # the boot on which the agent confirmed it
    report_seq: int = 0  # of the last report that counted


class Run(Struct, frozen=True, kw_only=True):
    """One try of a job. Live until every node has confirmed that it is clean."""

    job: JobId
    no: RunNo
    parts: tuple[NodeRun, ...]  # in rank order; the script runs on the first
    created: Instant
    started: Instant | None = None
    ended: Instant | None = None  # when its end was decided
    wanted: WantedPhase = WantedPhase.PREPARE  # for the first node; the others are told START before it
    others_started: bool = False
    signals: tuple[int, ...] = ()  # what users sent, in order; negative = to the script's process only
    outcome: RunOutcome | None = None
    closed: bool = False  # every part is clean
    exit_code: int = 0
    exit_signal: int = 0
    elapsed_s: int = 0
    time_limit_s: int = 0
    grace_s: int = 30
    text: str = ""
    next_step: StepId = StepId(0)

    @property
    def key(self) -> RunKey:
        return RunKey(self.job, self.no)


class Step(Struct, frozen=True, kw_only=True):
    """One grun (or the batch script) within a run, for accounting."""

    job: JobId
    run: RunNo
    id: StepId  # BATCH_STEP = the script
    name: str
    ntasks: int
    nodes: tuple[NodeName, ...]
    cpus: int = 0
    started: Instant
    ended: Instant | None = None
    done: tuple[NodeName, ...] = ()  # nodes that reported their end
    exit_code: int = 0
    exit_signal: int = 0
