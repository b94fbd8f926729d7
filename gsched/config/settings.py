"""The cluster's settings as frozen values; `load.py` reads them from gsched.toml."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gsched.values.ids import NodeName
from gsched.values.topology import Topology


class ClusterSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str = "cluster"
    owner_uid: int | None = None  # a local cluster: jobs of this uid only
    allow_root: bool = False  # jobs may run as root


class ControllerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    socket: str = "/run/gsched/gschedd.sock"
    listen: str = "0.0.0.0:6815"  # agents dial this, TLS
    url: str = ""  # what agents dial; "" = `listen`
    state_dir: str = "/var/lib/gsched"
    database: str = ""  # SQLAlchemy URL; "" = sqlite in state_dir
    cache_dir: str = ""  # compiled kernels; "" = state_dir/cache


class Cgroups(StrEnum):
    """Whether an agent holds runs in control groups."""

    AUTO = "auto"  # as far as it can; it says what it cannot
    REQUIRED = "required"  # an agent that cannot does not start
    OFF = "off"


class AgentSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    socket: str = "/run/gsched/agent.sock"
    listen: str = "0.0.0.0:6816"  # streams of steps, TLS
    spool: str = "/var/spool/gsched"
    cgroups: Cgroups = Cgroups.AUTO
    pids_per_run: int = 16384  # processes and threads of a run on one node; 0 = no limit


class TimeSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Seconds; see reliability: node_timeout, lost_after, kill grace."""

    heartbeat_s: int = 15
    node_timeout_s: int = 60
    lost_after_s: int = 300
    prepare_timeout_s: int = 120
    kill_grace_s: int = 30
    min_job_age_s: int = 300
    answers_kept_s: int = 7 * 24 * 3600


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    script_bytes: int = 4 * 1024 * 1024
    environment_bytes: int = 1024 * 1024
    jobs: int = 1_000_000  # unfinished jobs in the queue
    drain_after_launch_failures: int = 3  # different jobs
    node_launch_failures: int = 3  # the same fault on so many nodes is the job's


class WeightSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of the multifactor priority: what each factor adds where it is at its most."""

    age: int = 1000
    fair_share: int = 0
    qos: int = 0
    partition: int = 0
    size: int = 0
    age_max_s: int = 7 * 24 * 3600  # an older job gains no more
    size_small_first: bool = False


class SchedulerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    planned_starts: int = 50
    shortest_first: bool = False  # expected GPU time, aged, instead of the multifactor priority
    weights: WeightSettings = WeightSettings()


class TopologySettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where nodes hang: a file of any form that `gsched/topology` reads, or [[switch]] tables; not both."""

    file: str = ""  # relative to gsched.toml; "" = [[switch]]
    format: str = "auto"  # or slurm, topograph, ibnetdiscover, yaml
    levels: tuple[str, ...] = ()  # other names of its levels, from the lowest up; () = the file's


class PartitionSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    nodes: tuple[NodeName, ...] = ()  # () = every node
    default: bool = False
    max_time_s: int = 0  # 0 = no limit
    default_time_s: int = 0  # 0 = max_time


class NodeSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: NodeName
    features: tuple[str, ...] = ()


class SwitchSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A switch of the tree: a leaf names nodes, the others name switches."""

    name: str
    nodes: tuple[NodeName, ...] = ()
    switches: tuple[str, ...] = ()


class LocalAgentSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One node of a local cluster: the agent that `gsched up` starts on this machine. Read by nothing else."""

    name: NodeName
    listen: str  # 127.0.0.1:PORT, streams of steps
    ports: str = "20000-29999"  # rendezvous ports that this agent may give out
    simulate: str = ""  # "8xH100-SXM"; "" = what this machine has


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    cluster: ClusterSettings = ClusterSettings()
    controller: ControllerSettings = ControllerSettings()
    agent: AgentSettings = AgentSettings()
    times: TimeSettings = TimeSettings()
    limits: LimitSettings = LimitSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    topology: TopologySettings = TopologySettings()
    partitions: tuple[PartitionSettings, ...] = (PartitionSettings(name="main", default=True),)
    nodes: tuple[NodeSettings, ...] = ()  # declared nodes; others may join
    switches: tuple[SwitchSettings, ...] = ()
    local_agents: tuple[LocalAgentSettings, ...] = ()
    fabric: Topology | None = None  # what [topology] file holds, put here by fabric.py where it is wanted
