"""What goes into the machine and what comes out. Plain values; the shell makes and carries them out."""

from __future__ import annotations

from msgspec import Struct

from gsched.errors import GschedError
from gsched.protocol.link import AgentHello, ControllerMessage, Heartbeat, NeedWhole, RunReport, StepReport
from gsched.protocol.messages import UserReply, UserRequest
from gsched.values.ids import NodeName
from gschedd.core.inputs import Plan
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


class Outcome(Struct):
    """Filled while one event is handled. `changes` are applied in memory already; the rest leaves when they are
    durable."""

    changes: list[Change] = []
    replies: list[Reply] = []
    sends: list[Send] = []
    closes: list[Close] = []
    plan: bool = False  # ask the planner for a pass
    fatal: str = ""  # stop serving: the store went back in time (rule 10)
