"""What grun and an agent say on the agent's TLS stream port.

grun opens one connection a node, shows its ticket, and starts the step's tasks there (or, after a break, joins again
with the offsets it has). Output is read from files by offset, so a stream survives an agent's restart.
"""

from __future__ import annotations

from msgspec import Struct

from gsched.values.ids import StepId


class TaskSpec(Struct, frozen=True):
    rank: int  # SLURM_PROCID
    local: int  # SLURM_LOCALID
    environment: dict[str, str]  # what differs from the step's


def stream_name(rank: int, error: bool) -> str:
    """How a task's output (or error output) is called in OpenStep.offsets."""
    return f"{rank}.err" if error else f"{rank}.out"


class OpenStep(Struct, tag="step.open", frozen=True, kw_only=True):
    """Start a step's tasks on this node; the same step opened again is joined, never started twice."""

    ticket: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    chdir: str
    tasks: tuple[TaskSpec, ...]
    offsets: dict[str, int] = {}  # "RANK.out" / "RANK.err" -> bytes already received
    kill_on_bad_exit: bool = False


class SignalStep(Struct, tag="step.signal", frozen=True):
    signal: int


class StepOpened(Struct, tag="step.opened", frozen=True):
    step: StepId


class Output(Struct, tag="step.output", frozen=True):
    rank: int
    error: bool  # stderr
    offset: int
    data: bytes


class TaskEnded(Struct, tag="step.task_ended", frozen=True):
    """Sent after all output of that task."""

    rank: int
    exit_code: int
    exit_signal: int


class StepEnded(Struct, tag="step.ended", frozen=True):
    """Every task of this node has ended and all was sent."""


class StreamError(Struct, tag="step.error", frozen=True):
    code: str
    text: str


StreamRequest = OpenStep | SignalStep
StreamReply = StepOpened | Output | TaskEnded | StepEnded | StreamError
