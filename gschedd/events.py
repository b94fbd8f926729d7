"""What goes into the machine and what comes out. Plain values; the shell makes and carries them out."""

from __future__ import annotations

from msgspec import Struct

from gsched.errors import GschedError
from gsched.protocol.link import AgentHello, ControllerMessage, Heartbeat, NeedWhole, RunReport, StepReport
from gsched.protocol.messages import UserReply, UserRequest
from gsched.values.ids import JobId, NodeName
from gsched.values.job import Request
from gschedd.core.inputs import PassInput, Plan, QueueInput
from gschedd.lifecycle.changes import Change

# --- in


class Call(Struct, frozen=True):
    """A user's request whose identity the shell has proved."""

    id: int
    uid: int
    gid: int
    user: str
    request: UserRequest
    node: NodeName | None = None  # the agent that passed it on


class AgentArrived(Struct, frozen=True):
    """A new session whose hello was read; `certified` is the node its certificate names."""

    session: int
    certified: NodeName
    hello: AgentHello


class AgentSaid(Struct, frozen=True):
    session: int
    message: Heartbeat | RunReport | StepReport | NeedWhole


class AgentLeft(Struct, frozen=True):
    session: int


class Planned(Struct, frozen=True):
    plan: Plan


class Tick(Struct, frozen=True):
    """Time has passed; sent at least each second."""


Event = Call | AgentArrived | AgentSaid | AgentLeft | Planned | Tick


# --- out


class Reply(Struct, frozen=True):
    call: int
    body: UserReply | GschedError


class Send(Struct, frozen=True):
    session: int
    message: ControllerMessage


class Close(Struct, frozen=True):
    session: int
    why: str


class WhyWaiting(Struct, frozen=True):
    """`gctl explain`."""

    job: QueueInput
    user: str
    reason: str  # why it may not start at all, if that is so
    detail: str


class Priorities(Struct, frozen=True):
    """`gctl show priority`."""

    users: dict[JobId, str]  # of the jobs asked for
    jobs: tuple[JobId, ...]  # () = all
    limit: int


class ExpectedStarts(Struct, frozen=True):
    """`gsub --test-only`."""

    job: QueueInput
    asks: tuple[tuple[str, Request], ...]  # the first is as asked
    note: str


class WholePass(Struct, frozen=True):
    """`gctl snapshot`."""


class Inquiry(Struct, frozen=True):
    """A question that takes some computing: answered in a thread, from values alone."""

    call: int
    given: PassInput
    question: WhyWaiting | Priorities | ExpectedStarts | WholePass
    unconfirmed: bool = False


class Outcome(Struct):
    """Filled while one event is handled. `changes` are applied in memory already; the rest leaves when they are
    durable."""

    changes: list[Change] = []
    replies: list[Reply] = []
    sends: list[Send] = []
    closes: list[Close] = []
    inquiries: list[Inquiry] = []
    plan: bool = False  # ask the planner for a pass
    fatal: str = ""  # stop serving: the store went back in time (rule 10)
