"""A whole cluster in virtual time: the production machine and the agents' pure halves, everything else drawn by a seed.

No event loop: a heap of (time, number, act). A failure prints the seed; the seed replays it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from agent.runs.effects import Received
from gsched.clock import Now
from gsched.config.settings import ControllerSettings, Settings, TimeSettings
from gsched.errors import GschedError
from gsched.protocol.link import (
    Acks,
    AgentHello,
    AgentMessage,
    ControllerMessage,
    Heartbeat,
    HeartbeatAck,
    LaunchSpec,
    Orders,
    Refused,
    Welcome,
)
from gsched.protocol.messages import (
    CancelJobs,
    DrainNode,
    HoldJobs,
    JobPage,
    JobRow,
    ListJobs,
    NodeDead,
    SubmitJob,
    Submitted,
    UserReply,
    UserRequest,
)
from gsched.values.ids import JobId, RunKey
from gsched.values.job import JobPayload, JobSpec
from gsched.values.states import JobState
from gschedd.events import AgentArrived, AgentLeft, AgentSaid, Call, Event, Outcome, Tick
from gschedd.machine import Machine
from gschedd.store.memory import MemoryJournal
from tests.sim import checks
from tests.sim.host import Host, Plan
from tests.sim.network import Connection, Network
from tests.sim.office import Office

UID = 1000
EPOCH = 1_700_000_000_000


class World:
    """Time, hosts, network, store, one controller after another, and users who retry."""

    machine_type: type[Machine] = Machine
    holds_back = True  # outcomes wait for the store

    def __init__(self, seed: int, nodes: int = 8, gpus: int = 8, quiet: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.time = 0
        self.wall_step = 0
        self.wall_stepped = False
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self.events = 0
        self.on_event: Callable[[int], None] | None = None  # called with the number of each event, before it
        self.settings = Settings(controller=ControllerSettings(socket="-"), times=TimeSettings())
        self.network = Network(self.random, self.at, lambda: self.time)
        self.journal = MemoryJournal()
        self.office: Office | None = None
        self._session = 0
        self._links: dict[str, Connection] = {}
        self._heartbeats: dict[str, int] = {}
        self._dialled: dict[str, int] = {}
        self._call = 0
        self._callers: dict[int, Callable[[Any], None]] = {}
        self.behaviours: dict[int, Plan] = {}
        self.acknowledged: dict[JobId, str] = {}  # job -> what it is for, as a user was told
        self.asked = 0
        self.fatal = ""
        self.hosts = {f"n{i}": self._host(f"n{i}", gpus) for i in range(1, nodes + 1)}
        self.checker = checks.Checker(self)
        if not quiet:
            self.network.delay_ms = (1, 40)
        self.start_controller()
        for host in self.hosts.values():
            host.start_agent()
            self.at(self.random.randint(0, 500), lambda host=host: self._dial(host))
            self._every(1000, host.tick)
            self._every(15_000, lambda host=host: self._beat(host))
        self._every(1000, lambda: self.feed(Tick()))

    def _host(self, name: str, gpus: int) -> Host:
        host = Host(
            name,
            gpus,
            self.random,
            self.at,
            self.now,
            self.behaviour,
            self._launched,
            self._from_agent,
            self._agent_hangs_up,
        )
        host.restart = lambda host: self.restart_agent(host, self.random.randint(20, 1500))
        return host

    def _launched(self, host: Host, key: RunKey, launch: LaunchSpec) -> None:
        self.checker.launched(host, key, launch)

    # --- time

    def now(self) -> Now:
        return Now(EPOCH + self.time + self.wall_step, self.time)

    def at(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.time + max(0, delay_ms), self._number, act))

    def _every(self, period_ms: int, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self.at(period_ms, again)

        self.at(self.random.randint(1, period_ms), again)

    def step(self) -> None:
        """Let the next thing happen; check that nothing unsafe came of it."""
        due, _, act = heapq.heappop(self._heap)
        self.time = due
        self.events += 1
        if self.on_event is not None:
            self.on_event(self.events)
        act()
        self.checker.always()

    def run(self, for_s: int, until: Callable[[], bool] | None = None) -> None:
        """Let virtual time pass, or less if `until` comes true."""
        end = self.time + 1000 * for_s
        while self._heap and self._heap[0][0] <= end:
            if until is not None and until():
                return
            self.step()
        self.time = end

    # --- the controller

    @property
    def machine(self) -> Machine | None:
        """Of the controller that users reach, if there is one."""
        return self.office.machine if self.office is not None and self.office.alive else None

    def start_controller(self) -> None:
        self.office = Office(
            self.machine_type,
            self.settings,
            self.journal,
            self.random,
            self.at,
            self.now,
            self._release,
            lambda text: setattr(self, "fatal", text),
            self.holds_back,
        )

    def kill_controller(self, down_ms: int) -> None:
        """kill -9: what was applied and not yet durable is gone; a batch under way may be durable or not."""
        office = self.office
        if office is None:
            return
        self.office = None
        office.alive = False
        if office.in_flight is not None and self.random.random() < 0.5:
            self.journal.write(office.in_flight)
        self._callers.clear()
        self._drop_links(office)
        self.at(down_ms, self.start_controller)

    def _drop_links(self, office: Office) -> None:
        for link in list(self._links.values()):
            if link.office is office:
                link.open_at_controller = False
                self.at(self.random.randint(1, 50), lambda link=link: self._agent_loses(link))

    def take_over(self) -> None:
        """A second controller takes the next term while the first still lives, with its agents and without users.

        Its lease has run out, so it answers nobody; the store refuses what it writes, and then it ends.
        """
        old = self.office
        if old is None:
            return
        self._callers.clear()
        self.start_controller()

        def end() -> None:
            old.alive = False
            self._drop_links(old)

        self.at(self.random.randint(1000, 60_000), end)

    def feed(self, event: Event, office: Office | None = None) -> None:
        """One event for a controller: the one at the other end of a link, or the one that users reach."""
        to = office if office is not None else self.office
        if to is not None and not self.fatal:
            to.feed(event)

    def _release(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            caller = self._callers.pop(reply.call, None)
            if caller is not None:
                self.at(1, lambda caller=caller, body=reply.body: caller(body))
        for send in outcome.sends:
            self._to_agent(send.session, send.message)
        for close in outcome.closes:
            self._controller_closes(close.session)

    # --- links

    def _dial(self, host: Host) -> None:
        """The agent's loop of trying, as long as it has no connection."""
        if host.agent is None or host.name in self._links:
            return
        if self.office is None or host.name in self.network.cut:
            self.at(self.random.randint(500, 3000), lambda: self._dial(host))
            return
        self._session += 1
        self._links[host.name] = Connection(self._session, host.name, self.office)
        self._heartbeats[host.name] = self._dialled[host.name] = self.time
        host.connected()

    def _link(self, session: int) -> Connection | None:
        return next((link for link in self._links.values() if link.id == session), None)

    def _from_agent(self, host: Host, message: AgentMessage) -> None:
        link = self._links.get(host.name)
        if link is None or not link.open_at_agent:
            return

        def deliver(message: AgentMessage) -> None:
            if not link.open_at_controller:
                return
            if isinstance(message, AgentHello):
                self.feed(AgentArrived(link.id, host.name, message), link.office)
            else:
                self.feed(AgentSaid(link.id, message), link.office)

        self.network.carry(link, "up", deliver, message)

    def _to_agent(self, session: int, message: ControllerMessage) -> None:
        link = self._link(session)
        if link is None or not link.open_at_controller:
            return
        host = self.hosts[link.node]

        def deliver(message: ControllerMessage) -> None:
            if self._links.get(link.node) is not link or not link.open_at_agent:
                return
            self._heartbeats[link.node] = self.time
            if isinstance(message, Refused):
                self._agent_loses(link)
            elif isinstance(message, Welcome | Orders | Acks | HeartbeatAck):
                host.post(Received(message))

        self.network.carry(link, "down", deliver, message)

    def _beat(self, host: Host) -> None:
        """Heartbeats; an agent that hears nothing for three of them dials again."""
        link = self._links.get(host.name)
        if host.agent is None or link is None:
            return
        unwelcome = not host.welcomed and self.time - self._dialled[host.name] > 10_000
        if unwelcome or self.time - self._heartbeats[host.name] > 45_000:
            self._agent_hangs_up(host)
            return
        self.network.carry(
            link,
            "up",
            lambda m: self.feed(AgentSaid(link.id, m), link.office) if link.open_at_controller else None,
            Heartbeat(self.time),
        )

    def _agent_hangs_up(self, host: Host) -> None:
        link = self._links.get(host.name)
        if link is not None:
            self._agent_loses(link)

    def _agent_loses(self, link: Connection) -> None:
        """The agent's end is over: it dials again; the controller hears of it, unless the network is cut."""
        if self._links.get(link.node) is not link:
            return
        link.open_at_agent = False
        del self._links[link.node]
        host = self.hosts[link.node]
        host.disconnected()
        self.at(self.random.randint(100, 3000), lambda: self._dial(host))
        if link.open_at_controller and link.node not in self.network.cut:
            self.at(self.random.randint(1, 100), lambda: self._left(link))

    def _left(self, link: Connection) -> None:
        if link.open_at_controller:
            link.open_at_controller = False
            self.feed(AgentLeft(link.id), link.office)

    def _controller_closes(self, session: int) -> None:
        link = self._link(session)
        if link is not None and link.open_at_controller:
            link.open_at_controller = False
            self.at(self.random.randint(1, 50), lambda: self._agent_loses(link))

    def restart_agent(self, host: Host, down_ms: int) -> None:
        host.kill_agent()

        def back() -> None:
            host.start_agent()
            self._dial(host)

        self.at(down_ms, back)

    def cut_power(self, host: Host, down_ms: int) -> None:
        host.power_off()

        def back() -> None:
            host.power_on()
            self._dial(host)

        self.at(down_ms, back)

    # --- users

    def behaviour(self, key: RunKey) -> Plan:
        return self.behaviours.setdefault(key.job, Plan(self.random.randint(1000, 600_000), 0, False))

    def ask(self, request: UserRequest, answered: Callable[[UserReply], None] | None = None, uid: int = UID) -> None:
        """Send a request as a command does: again and again under the same id until there is an answer."""
        self.asked += 1
        pending = {"open": True}

        def got(body: Any) -> None:
            if not pending["open"]:
                return
            pending["open"] = False
            self.checker.answered(request, body)
            if answered is not None and not isinstance(body, GschedError):
                answered(body)

        def once() -> None:
            if not pending["open"]:
                return
            self._call += 1
            self._callers[self._call] = got
            self.feed(Call(self._call, uid, uid, "ann", request))
            self.at(3000, once)

        once()

    def submit(self, spec: JobSpec, behaviour: Plan | None = None, then: Callable[[JobId], None] | None = None) -> None:
        request = SubmitJob(spec, JobPayload(b"#!/bin/sh\n"), f"submit-{self.asked}")

        def answered(reply: UserReply) -> None:
            assert isinstance(reply, Submitted)
            assert reply.job not in self.acknowledged, f"job id {reply.job} was given twice"
            self.acknowledged[reply.job] = spec.name
            if behaviour is not None:
                self.behaviours[reply.job] = behaviour
            if then is not None:
                then(reply.job)

        self.ask(request, answered)

    def cancel(self, job: JobId) -> None:
        self.ask(CancelJobs(f"cancel-{self.asked}", (job,)))

    def hold(self, job: JobId, release: bool = False) -> None:
        self.ask(HoldJobs(f"hold-{self.asked}", (job,), release))

    def declare_dead(self, node: str) -> None:
        self.ask(NodeDead(f"dead-{self.asked}", self.hosts[node].name), uid=0)

    def look(self) -> None:
        """A user lists all jobs."""
        self.ask(ListJobs(all_states=True), self.checker.looked)

    def rows(self, page: UserReply) -> Iterable[JobRow]:
        assert isinstance(page, JobPage)
        return page.rows

    def all_ended(self) -> bool:
        machine = self.machine
        if machine is None:
            return False
        return all((job := machine.state.jobs.get(job_id)) is None or job.state.final for job_id in self.acknowledged)

    def job_state(self, job: JobId) -> JobState:
        """As the controller has it now."""
        assert self.machine is not None
        return self.machine.state.jobs[job].state

    # --- trouble

    def trouble(self) -> None:
        """One thing goes wrong, somewhere, for a while."""
        random = self.random
        host = random.choice(list(self.hosts.values()))
        what = random.randrange(11)
        if what in (0, 1):
            self.restart_agent(host, random.randint(100, 90_000))
        elif what == 2:
            self.cut_power(host, random.randint(1000, 900_000))
        elif what in (3, 4):
            self.kill_controller(random.randint(100, 120_000))
        elif what == 5:
            self.network.cut.add(host.name)
            self.at(random.randint(1000, 900_000), lambda: self.network.cut.discard(host.name))
        elif what == 6:
            self.wall_stepped = True
            self.wall_step += random.choice((-1, 1)) * 24 * 3600 * 1000
        elif what == 7:
            self.stall(random.randint(5_000, 400_000))
        elif what == 8:
            self.take_over()
        elif what == 9:
            host.crash_in_prepare = 0.3
            self.at(random.randint(1000, 300_000), lambda: setattr(host, "crash_in_prepare", 0.0))
        else:
            host.fail_prepare = 0.5
            self.at(random.randint(1000, 120_000), lambda: setattr(host, "fail_prepare", 0.0))

    def stall(self, for_ms: int) -> None:
        """The controller's loop stands still: what arrives meanwhile is handled, in order, when it goes on."""
        office = self.office
        if office is None or office.stalled is not None:
            return
        office.stalled = []
        self.at(for_ms, office.go_on)

    def heal(self) -> None:
        """Everything works from now on."""
        self.network.calm()
        for host in self.hosts.values():
            host.fail_prepare = host.crash_in_prepare = 0.0
            host.power_on()
            host.start_agent()
            self._dial(host)
        if self.office is None:
            self.start_controller()

    def undrain_all(self) -> None:
        names = tuple(host.name for host in self.hosts.values())
        self.ask(DrainNode(f"undrain-{self.asked}", names, undrain=True), uid=0)


def random_spec(random: Random, number: int) -> JobSpec:
    """A whole-GPU job: mostly small, some gangs."""
    nodes = random.choice((1, 1, 1, 1, 2, 2, 3, 4))
    gpus = random.choice((0, 1, 2, 4, 8)) if nodes == 1 else 8
    return JobSpec(
        name=f"job{number}",
        nodes_min=nodes,
        gpus_per_node=gpus,
        time_limit_s=random.choice((0, 60, 600, 3600)),
        requeue=random.random() < 0.8,
    )


def random_plan(random: Random) -> Plan:
    return Plan(
        duration_ms=random.choice((500, 5_000, 60_000, 900_000)) + random.randint(0, 5_000),
        exit_code=random.choice((0, 0, 0, 3)),
        ignores_term=random.random() < 0.2,
    )
