"""What goes into the agent's pure half and what comes out. Every effect is safe to repeat.

The life of a run here: Prepare -> Prepared | PrepareFailed; Start -> Opened; (first node) Exited; then, of itself after
Exited or after Stop, Cleaned: every process is gone and the record is on disk. Forget removes the record.
"""

from __future__ import annotations

from msgspec import Struct

from gsched.protocol.link import Acks, AgentMessage, Blame, HeartbeatAck, LaunchSpec, Orders, Welcome
from gsched.values.ids import Instant, RunKey, StepId, Term
from gsched.values.run import NodePhase

# --- in: the link


class Connected(Struct, frozen=True):
    """A connection to the controller stands; say hello."""


class Received(Struct, frozen=True):
    message: Welcome | Orders | Acks | HeartbeatAck


class Disconnected(Struct, frozen=True):
    pass


# --- in: the executor


class Prepared(Struct, frozen=True):
    """The supervisor stands, output files could be opened, ports are free; nothing of the user's runs."""

    key: RunKey


class PrepareFailed(Struct, frozen=True):
    """Prepare or Start failed, and all of it has been undone: nothing is left here."""

    key: RunKey
    blame: Blame
    text: str
    reason: str = ""  # a Reason's value for the job, where one fits


class Opened(Struct, frozen=True):
    """The run is open for steps; on the first node its script was started."""

    key: RunKey
    at: Instant


class Exited(Struct, frozen=True):
    """First node: the script has ended, its record is on disk; what is left of the run is being ended."""

    key: RunKey
    at: Instant
    exit_code: int
    exit_signal: int
    timed_out: bool
    elapsed_s: int
    oom_kills: int = 0  # processes of the run that the kernel killed here because its memory was used up


class Cleaned(Struct, frozen=True):
    """Nothing of the run is left alive here, and that is on disk."""

    key: RunKey
    at: Instant
    elapsed_s: int = 0
    timed_out: bool = False
    node_failed: bool = False  # the supervisor died without a record (the first node's exit status is unknown)
    oom_kills: int = 0


class StepDone(Struct, frozen=True):
    """All tasks of a step on this node have ended."""

    key: RunKey
    step: StepId
    at: Instant
    exit_code: int
    exit_signal: int


class Ticked(Struct, frozen=True):
    """Time has passed; unacknowledged reports are sent again when they are old."""


AgentEvent = (
    Connected | Received | Disconnected | Prepared | PrepareFailed | Opened | Exited | Cleaned | StepDone | Ticked
)


class FoundRun(Struct, frozen=True, kw_only=True):
    """A run found in the spool when the agent starts. The executor watches it already (adoption)."""

    key: RunKey
    phase: NodePhase  # ORDERED: a directory without more; READY, OPEN, EXITED, CLEAN as recorded
    first: bool  # this is the run's first node
    delivered_signals: int = 0
    exited: Exited | None = None
    cleaned: Cleaned | None = None
    failed: PrepareFailed | None = None
    steps: tuple[StepDone, ...] = ()  # steps whose end is recorded


class AgentMemory(Struct, frozen=True):
    """The few facts that must outlive the agent, besides the run directories."""

    highest_term: Term = Term(0)
    next_seq: int = 1  # reports carry numbers below this; saved ahead in blocks


# --- out


class Say(Struct, frozen=True):
    """Send to the controller, if connected; else drop (it will be said again)."""

    message: AgentMessage


class Save(Struct, frozen=True):
    """Write the memory, synced, before any effect after it is carried out."""

    memory: AgentMemory


class Prepare(Struct, frozen=True):
    """Make the run directory (test-and-set), start the supervisor, open output files, bind-test the port."""

    key: RunKey
    launch: LaunchSpec


class Start(Struct, frozen=True):
    key: RunKey


class Stop(Struct, frozen=True):
    """TERM to everything of the run, KILL after grace_s; ends in Cleaned."""

    key: RunKey
    grace_s: int


class Signal(Struct, frozen=True):
    """Deliver the number-th signal (from 0) that users sent; remember that it was delivered."""

    key: RunKey
    number: int
    signal: int


class Forget(Struct, frozen=True):
    """The controller has the record: remove the run directory."""

    key: RunKey


class Hangup(Struct, frozen=True):
    """Close the connection; dial again."""

    why: str


Effect = Say | Save | Prepare | Start | Stop | Signal | Forget | Hangup
