"""The controller's one front door: handle(event, now) -> Outcome. Synchronous, no clock, no thread, no I/O.

The daemon's loop and the simulation both feed this object. State is changed at once; the outcome leaves when the
batch with its changes is durable (gate.py).
"""

from __future__ import annotations

from typing import Final

from gsched.clock import Now
from gsched.config.settings import Settings
from gsched.errors import BadRequest, GschedError, NotPermitted
from gsched.protocol.frames import pack_body, unpack_body
from gsched.protocol.messages import (
    CancelJobs,
    CreateReservation,
    CreateStep,
    DeleteReservation,
    DrainNode,
    ExplainJob,
    HoldJobs,
    ListJobs,
    ListNodes,
    ListPriorities,
    ListReservations,
    NodeDead,
    NodeReplaced,
    Ping,
    ShowJob,
    ShowTopology,
    SubmitJob,
    TakeSnapshot,
    TryJob,
    UserReply,
    UserRequest,
)
from gsched.values.ids import Instant, JobId
from gschedd.core.inputs import PassInput, PassLog
from gschedd.events import AgentArrived, AgentLeft, AgentSaid, Call, Event, Inquiry, Outcome, Planned, Reply, Tick
from gschedd.lifecycle.changes import Loaded
from gschedd.services import (
    agents,
    inquiries,
    jobs,
    nodes,
    planning,
    reservations,
    steps,
    submit,
    topology,
    views,
)
from gschedd.state import State, StateChange

_REQUEST_ID_MAX: Final = 100


class Machine:
    """Everything the controller knows, and what each event makes of it."""

    def __init__(
        self, settings: Settings, loaded: Loaded, now: Now, ticket_secret: bytes = b"", ca_pem: bytes = b""
    ) -> None:
        self.state = State(settings, loaded, now)
        self._secret = ticket_secret
        self._ca_pem = ca_pem
        self._last_tick = now.boot
        self._coming_back = True

    @property
    def next_job_id(self) -> JobId:
        return self.state.next_job_id

    def pass_input(self, now: Now) -> PassInput:
        """All that a pass would be given now."""
        return planning.pass_input(self.state, now)

    def pass_log(self, now: Now) -> PassLog:
        """What the one planner is given, who replays it: all that has changed since the last call."""
        return planning.pass_log(self.state, now)

    def handle(self, event: Event, now: Now) -> Outcome:
        """Take one event. Errors of users become replies; anything else that is raised is our bug."""
        change = StateChange(self.state, now)
        match event:
            case Call():
                self._call(change, event)
            case AgentSaid():
                agents.said(change, event.session, event.message)
            case AgentArrived():
                agents.arrive(change, event.session, event.certified, event.hello, self._secret)
            case AgentLeft():
                agents.gone(change, event.session)
            case Planned():
                planning.take_plan(change, event.plan)
            case Tick():
                self._tick(change)
        agents.send_orders(change)
        return change.outcome

    def _tick(self, change: StateChange) -> None:
        state, now = self.state, change.now
        agents.tick(change, now.boot - self._last_tick)
        self._last_tick = now.boot
        reservations.tick(change)
        times = state.settings.times
        state.forget_ended(now.boot - 1000 * times.min_job_age_s)
        state.forget_answers(Instant(now.wall - 1000 * times.answers_kept_s))
        waited, self._coming_back = self._coming_back, state.coming_back(now)
        if state.due_again(now.boot) or (waited and not self._coming_back):
            change.ask_plan()

    # --- users

    def _call(self, change: StateChange, call: Call) -> None:
        try:
            self._admit(call)
            body = self._answer(change, call)
        except GschedError as error:
            if change.outcome.changes:
                raise AssertionError(f"{type(call.request).__name__} was refused after it changed something") from error
            change.outcome.replies.append(Reply(call.id, error))
        else:
            if isinstance(body, Inquiry):
                change.outcome.inquiries.append(body)
            else:
                change.outcome.replies.append(Reply(call.id, body))

    def _admit(self, call: Call) -> None:
        """An agent is believed only about uids with a live run on its node, for their own jobs (security)."""
        if call.node is None:
            return
        use = self.state.use.get(call.node)
        if use is None or not any(self.state.jobs[key.job].uid == call.uid for key in use.runs):
            raise NotPermitted(f"user {call.user} has no job on {call.node}: ask from a host of the cluster's own")

    def _answer(self, change: StateChange, call: Call) -> UserReply | Inquiry:
        """A request that changes something counts once: sent again, it gets the first answer (rule 3)."""
        request_id = getattr(call.request, "request_id", "")
        if not request_id:
            return self._ask(change, call, call.request) or self._act(change, call, call.request)
        if len(request_id) > _REQUEST_ID_MAX:
            raise BadRequest(f"a request id of {len(request_id)} characters: at most {_REQUEST_ID_MAX}")
        known = self.state.answers.get((call.uid, request_id))
        if known is not None:
            reply: UserReply = unpack_body(known, UserReply)
            return reply
        reply = self._act(change, call, call.request)
        change.put_answer(call.uid, request_id, pack_body(reply))
        return reply

    def _ask(self, change: StateChange, call: Call, request: UserRequest) -> Inquiry | None:
        """What takes computing and changes nothing; None for everything else."""
        given = self.pass_input
        match request:
            case ExplainJob():
                return inquiries.why_waiting(change, call, request, given)
            case ListPriorities():
                return inquiries.priorities(change, call, request, given)
            case TryJob():
                return inquiries.expected_starts(change, call, request, given)
            case TakeSnapshot():
                return inquiries.whole_pass(change, call, given)
        return None

    def _act(self, change: StateChange, call: Call, request: UserRequest) -> UserReply:
        state, now = self.state, change.now
        match request:
            case SubmitJob():
                return submit.submit(change, call, request)
            case CancelJobs():
                return jobs.cancel(change, call, request)
            case HoldJobs():
                return jobs.hold_jobs(change, call, request)
            case DrainNode():
                return nodes.drain(change, call, request)
            case NodeDead():
                return nodes.dead(change, call, request)
            case NodeReplaced():
                return nodes.replaced(change, call, request)
            case CreateReservation():
                return reservations.create(change, call, request)
            case DeleteReservation():
                return reservations.delete(change, call, request)
            case ListReservations():
                return reservations.show(state, request, now)
            case CreateStep():
                return steps.create_step(change, request, call.uid, self._secret, self._ca_pem)
            case ListJobs():
                return views.list_jobs(state, request, now)
            case ShowJob():
                return views.show_job(state, request, call.uid, now)
            case ListNodes():
                return views.list_nodes(state, request, now)
            case ShowTopology():
                return topology.show(state)
            case Ping():
                return views.ping(state, now)
        raise BadRequest(f"{type(request).__name__} is answered by the store, not here")
