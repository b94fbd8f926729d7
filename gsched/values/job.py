"""A job: what the user asked (spec), what that means here (request), and where it stands."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from gsched.values.ids import Instant, JobId, NodeName, RunNo
from gsched.values.states import JobState, Reason

DEFAULT_ACCOUNT: Final = "default"  # the one account there is yet


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A submission as written, after the command line, environment and script were merged. None = not said."""

    name: str
    partition: str = ""  # "" = the cluster's default
    nodes_min: int | None = None
    nodes_max: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    mem_mib: int | None = None  # per node; 0 = the whole node's
    time_limit_s: int | None = None  # 0 = no limit
    gpus: int | None = None  # over the whole job
    gpus_per_node: int | None = None
    gpu_model: str = ""  # part of the device's name, any case
    nodelist: tuple[NodeName, ...] = ()  # all of these must be in the allocation
    exclude: tuple[NodeName, ...] = ()
    constraint: str = ""  # features: `a&b`, `a|b`
    level: str = ""  # topology level that its nodes may not cross
    prefer_level: str = ""  # crossing levels up to this one costs nothing
    any_topology: bool = False
    switches: int = 0  # most leaf switches; 0 = any number
    switches_wait_s: int = 0  # for so long it waits for them; 0 = for ever
    segment: int = 0  # nodes come in groups of so many, each under one leaf switch; 0 = no groups
    reservation: str = ""
    nice: int = 0  # taken off its priority
    hold: bool = False
    requeue: bool = True
    chdir: str = ""
    output: str = ""  # pattern; "" = slurm-%j.out's equal in chdir
    error: str = ""  # "" = joins output
    open_append: bool = False
    comment: str = ""
    umask: int = 0o022
    submit_host: str = ""


class JobPayload(Struct, frozen=True):
    """What is needed to launch only: kept apart, in no listing, event or log."""

    script: bytes
    args: tuple[str, ...] = ()
    environment: dict[str, str] = {}


class MemoryRule(StrEnum):
    """How much of a node's memory a job takes."""

    EXACT = "exact"
    SHARE = "share"  # the node's memory by the share of its GPUs, or of its cores if it asks for none
    ALL = "all"


class NodeNeed(Struct, frozen=True):
    """What a job takes of each of its nodes. All nodes of a job get the same."""

    cpus: int
    gpus: int = 0
    mem_rule: MemoryRule = MemoryRule.SHARE
    mem_mib: int = 0  # with EXACT
    gpu_milli: int = 1000  # thousandths of the GPU's compute; below 1000 a fraction of one GPU, and `gpus` is 1
    gpu_mem_mib: int = 0  # of a fraction; 0 = the GPU's memory by `gpu_milli`
    mig_profile: str = ""  # "1g.10gb": `gpus` slices of that profile, whole GPUs otherwise


class Request(Struct, frozen=True, kw_only=True):
    """A spec resolved against the cluster at submit: what the scheduler places."""

    partition: str
    nodes_min: int
    nodes_max: int
    ntasks: int
    tasks_per_node: int  # most on one node; the last node may have fewer
    cpus_per_task: int
    need: NodeNeed
    gpu_model: str = ""
    nodelist: tuple[NodeName, ...] = ()
    exclude: tuple[NodeName, ...] = ()
    constraint: str = ""
    time_limit_s: int = 0  # 0 = no limit
    level: str = ""  # topology level that the job may not cross; "" = any
    prefer_level: str = ""  # crossing levels up to this one costs nothing
    any_topology: bool = False  # where the nodes are does not matter
    switches: int = 0  # most leaf switches wanted; 0 = any number
    switches_wait_s: int = 0  # for so long after it became eligible it waits for them; 0 = for ever
    segment: int = 0  # nodes come in groups of so many, each group under one lowest switch
    reservation: str = ""  # runs inside this administrator's reservation
    gpu_memory_mib: int = 0  # each GPU must have at least so much
    spread_note: str = ""  # said to the user when -G could not be put on fewer nodes


class Job(Struct, frozen=True, kw_only=True):
    """One job as everybody sees it. Changed by making a new one."""

    id: JobId
    uid: int
    gid: int
    user: str
    spec: JobSpec
    request: Request
    state: JobState = JobState.PENDING
    reason: Reason = Reason.NONE
    detail: str = ""  # what the reason is about, for people
    submitted: Instant
    eligible: Instant  # when it last began to wait without a hold
    started: Instant | None = None  # of the current or last run
    ended: Instant | None = None
    finished: Instant | None = None  # when its final state was reached: later than `ended` if nodes were out of sight
    elapsed_s: int = 0  # of the last run, as its supervisor measured it
    run: RunNo = RunNo(0)  # the last one made
    nodes: tuple[NodeName, ...] = ()  # of the current or last run, in rank order
    restarts: int = 0
    launch_failures: int = 0
    avoid: tuple[NodeName, ...] = ()  # nodes where a launch of it failed
    avoid_until: Instant = Instant(0)  # after this they are tried again
    not_before: Instant = Instant(0)  # launch back-off
    decided: JobState | None = None  # the final state, known while COMPLETING
    exit_code: int = 0
    exit_signal: int = 0
    cancelled_by: int | None = None  # uid

    @property
    def kept_from(self) -> Instant:
        """Since when a finished job is history: listings and retention count from here."""
        return self.finished or self.ended or self.submitted
