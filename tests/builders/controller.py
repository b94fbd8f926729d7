"""A controller without a shell: the machine, some nodes, and short ways to say what happens."""

from __future__ import annotations

from typing import Any

from gsched.clock import Now
from gsched.config.settings import ClusterSettings, Settings
from gsched.errors import GschedError
from gsched.protocol.link import AgentHello, Blame, Orders, RunReport, WantedRun, Welcome
from gsched.protocol.messages import SubmitJob, UserReply, UserRequest
from gsched.values.ids import BatchNo, Instant, JobId, NodeName, RunKey, RunNo, Term
from gsched.values.job import Job, JobPayload, JobSpec
from gsched.values.node import Gpu, Inventory
from gsched.values.run import NodePhase, Run, WantedPhase
from gschedd.build import decide
from gschedd.core.desk import Desk
from gschedd.core.inputs import Plan
from gschedd.events import AgentArrived, AgentLeft, AgentSaid, Call, Event, Outcome, Planned, Tick
from gschedd.lifecycle.changes import Loaded
from gschedd.machine import Machine
from gschedd.services.answers import answer

EPOCH = 1_700_000_000_000
UID = 1000


def inventory(
    gpus: int = 8, cpus: int = 64, memory_mib: int = 512_000, model: str = "NVIDIA H100 80GB HBM3"
) -> Inventory:
    """A node's inventory."""
    found = tuple(Gpu(i, f"GPU-{i}", model, 81_559) for i in range(gpus))
    return Inventory(cpus=cpus, memory_mib=memory_mib, gpus=found)


class Controller:
    """The machine with `nodes` nodes that have arrived; time moves only when told."""

    def __init__(
        self, nodes: int = 4, gpus: int = 8, settings: Settings | None = None, loaded: Loaded | None = None
    ) -> None:
        self.now = Now(EPOCH, 1_000_000)
        self.settings = settings or Settings(cluster=ClusterSettings(name="test"))
        start = loaded or Loaded(term=Term(1), batch=BatchNo(0), next_job_id=JobId(1))
        self.machine = Machine(self.settings, start, self.now, b"secret", b"CA")
        self.desk = Desk()
        self.told: dict[str, list[WantedRun]] = {}  # what each node was told, in order
        self._calls = 0
        self._requests = 0
        self._seq = 0
        self.sessions: dict[str, int] = {}
        for number in range(1, nodes + 1):
            self.arrive(f"n{number}", inventory(gpus))

    def feed(self, event: Event) -> Outcome:
        """Hand over one event; note what nodes were told."""
        outcome = self.machine.handle(event, self.now)
        for send in outcome.sends:
            if isinstance(send.message, Orders | Welcome):
                name = next((n for n, s in self.sessions.items() if s == send.session), "?")
                entries = send.message.put if isinstance(send.message, Orders) else send.message.whole
                self.told.setdefault(name, []).extend(entries)
        return outcome

    def arrive(
        self, name: str, found: Inventory, *, boot: str = "boot1", runs: Any = (), machine: str = "m"
    ) -> Outcome:
        """An agent connects and says hello."""
        self.sessions[name] = len(self.sessions) + 100 * (1 + sum(name == n for n in self.told))
        hello = AgentHello(NodeName(name), (0, 1), machine, boot, Term(0), found, "127.0.0.1:1", tuple(runs))
        return self.feed(AgentArrived(self.sessions[name], NodeName(name), hello))

    def leave(self, name: str) -> None:
        self.feed(AgentLeft(self.sessions[name]))

    def wait(self, seconds: int) -> None:
        """Let time pass, a tick each second; connected agents are heard of all the while."""
        for _ in range(seconds):
            self.now = Now(self.now.wall + 1000, self.now.boot + 1000)
            for name, session in self.sessions.items():
                presence = self.machine.state.presence.get(NodeName(name))
                if presence is not None and presence.session == session:
                    presence.heard = self.now.boot
            self.feed(Tick())

    def ask(self, request: UserRequest, uid: int = UID, node: str | None = None) -> UserReply:
        """A user's request; its error is raised."""
        self._calls += 1
        where = NodeName(node) if node is not None else None
        outcome = self.feed(Call(self._calls, uid, uid, f"user{uid}", request, where))
        body = outcome.replies[0].body
        if isinstance(body, GschedError):
            raise body
        return body

    def inquire(self, request: UserRequest, uid: int = UID) -> Any:  # Any: each request has its own reply
        """A question that takes computing, answered as the daemon's thread would."""
        self._calls += 1
        outcome = self.feed(Call(self._calls, uid, uid, f"user{uid}", request, None))
        if outcome.replies:
            assert isinstance(outcome.replies[0].body, GschedError)
            raise outcome.replies[0].body
        return answer(outcome.inquiries[0], decide)

    def submit(self, uid: int = UID, **spec: Any) -> JobId:
        """Submit a job; give its id."""
        self._requests += 1
        given = JobSpec(**{"name": "job", **spec})
        reply = self.ask(SubmitJob(given, JobPayload(b"#!/bin/sh\n"), f"request{self._requests}"), uid)
        return reply.job

    def plan(self) -> None:
        """One pass, carried out."""
        self.feed(Planned(self.decided()))

    def decided(self) -> Plan:
        """What one pass decides; the same that a fresh board makes of the whole input."""
        whole = self.machine.pass_input(self.now)
        plan = self.desk.decide(self.machine.pass_log(self.now))
        assert plan == decide(whole)
        return plan

    def job(self, job: int) -> Job:
        return self.machine.state.jobs[JobId(job)]

    def run(self, job: int) -> Run:
        return self.machine.state.live_runs(JobId(job))[-1]

    def wanted(self, name: str, job: int) -> WantedPhase | None:
        """What the node was last told about a job."""
        told = [entry for entry in self.told.get(name, ()) if entry.key.job == job]
        return told[-1].phase if told else None

    def report(
        self,
        name: str,
        job: int,
        phase: NodePhase,
        run: int = 0,
        boot: str = "boot1",
        at: int | None = None,
        **facts: Any,
    ) -> Outcome:
        """An agent reports a fact of a run (the job's latest unless said), of this moment unless said."""
        self._seq += 1
        key = RunKey(JobId(job), RunNo(run or self.job(job).run))
        when = Instant(self.now.wall if at is None else at)
        message = RunReport(node=NodeName(name), boot_id=boot, seq=self._seq, key=key, phase=phase, at=when, **facts)
        return self.feed(AgentSaid(self.sessions[name], message))

    def fail_launch(self, name: str, job: int, blame: Blame, text: str = "no") -> None:
        self.report(name, job, NodePhase.CLEAN, blame=blame, text=text)

    def started(self, job: int) -> None:
        """Bring a granted job to RUNNING with its script started."""
        nodes = [part.share.node for part in self.run(job).parts]
        if len(nodes) > 1:
            for name in nodes:
                self.report(name, job, NodePhase.READY)
        for name in [*nodes[1:], nodes[0]]:
            self.report(name, job, NodePhase.OPEN)

    def ended(self, job: int, **facts: Any) -> None:
        """The script ends and every node cleans up."""
        nodes = [part.share.node for part in self.run(job).parts]
        self.report(nodes[0], job, NodePhase.EXITED, **facts)
        for name in nodes:
            self.report(name, job, NodePhase.CLEAN, **(facts if name == nodes[0] else {}))
