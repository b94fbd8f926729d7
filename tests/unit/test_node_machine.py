"""The agent's pure half: acts towards the wanted set, tells each fact until it is acknowledged, obeys no old term."""

from __future__ import annotations

from agent.runs.effects import (
    AgentMemory,
    Cleaned,
    Connected,
    Disconnected,
    Effect,
    Exited,
    Forget,
    FoundRun,
    Hangup,
    Opened,
    Prepare,
    Prepared,
    PrepareFailed,
    Received,
    Save,
    Say,
    Signal,
    Start,
    Stop,
    Ticked,
)
from agent.runs.node_machine import NodeMachine
from gsched.clock import Now
from gsched.protocol.link import (
    Acks,
    AgentHello,
    Blame,
    HeartbeatAck,
    LaunchSpec,
    NeedWhole,
    Orders,
    RunReport,
    WantedRun,
    Welcome,
)
from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo, Term
from gsched.values.run import NodePhase, WantedPhase
from tests.builders.controller import inventory

KEY = RunKey(JobId(7), RunNo(1))
AT = Instant(1_000_000)


def _launch(index: int = 0, uid: int = 1000) -> LaunchSpec:
    return LaunchSpec(
        uid=uid,
        gid=uid,
        user="ann",
        job_name="j",
        cluster="c",
        partition="main",
        node_index=index,
        nodes=(NodeName("n1"),),
        addresses=("127.0.0.1",),
        cpus=1,
        mem_mib=1,
        gpu_uuids=(),
        gpu_indices=(),
        port=0,
        master_port=0,
        ntasks=1,
        tasks_per_node=1,
        ntasks_per_node_asked=None,
        cpus_per_task=1,
        cpus_per_task_asked=False,
        gpus_per_node_asked=None,
        gpus_asked=None,
        mem_asked_mib=None,
        time_limit_s=0,
        grace_s=30,
        restarts=0,
    )


class Agent:
    """The machine under test, with its clock and short ways to talk to it."""

    def __init__(self, *found: FoundRun, memory: AgentMemory | None = None, welcome: bool = True) -> None:
        self.machine = NodeMachine(
            NodeName("n1"), "m", "boot1", inventory(), "127.0.0.1:1", memory or AgentMemory(), found
        )
        self.now = Now(AT, 0)
        self._seq = 0
        if welcome:
            self.feed(Connected())
            self.welcome()

    def feed(self, event: object) -> list[Effect]:
        return self.machine.handle(event, self.now)

    def welcome(self, *whole: WantedRun, term: int = 1) -> list[Effect]:
        self._seq = 0
        return self.feed(Received(Welcome(Term(term), "c", 15, b"", whole=whole)))

    def order(self, *put: WantedRun, drop: tuple[RunKey, ...] = ()) -> list[Effect]:
        self._seq += 1
        return self.feed(Received(Orders(Term(1), self._seq, put, drop)))

    def prepare(self) -> list[Effect]:
        return self.order(WantedRun(key=KEY, phase=WantedPhase.PREPARE, launch=_launch()))

    def running(self) -> None:
        self.order(WantedRun(key=KEY, phase=WantedPhase.START, launch=_launch()))
        self.feed(Prepared(KEY))
        self.feed(Opened(KEY, AT))


def _reports(effects: list[Effect]) -> list[RunReport]:
    return [e.message for e in effects if isinstance(e, Say) and isinstance(e.message, RunReport)]


def _kinds(effects: list[Effect]) -> list[type]:
    return [type(e) for e in effects if not isinstance(e, Save)]


def test_a_wanted_run_is_prepared_reported_and_started_when_it_is_wanted() -> None:
    a = Agent()
    assert _kinds(a.prepare()) == [Prepare]
    assert [r.phase for r in _reports(a.feed(Prepared(KEY)))] == [NodePhase.READY]
    assert _kinds(a.order(WantedRun(key=KEY, phase=WantedPhase.START))) == [Start]
    assert [r.phase for r in _reports(a.feed(Opened(KEY, AT)))] == [NodePhase.OPEN]


def test_a_run_told_both_at_once_is_started_without_a_report_between() -> None:
    a = Agent()
    a.order(WantedRun(key=KEY, phase=WantedPhase.START, launch=_launch()))
    assert _kinds(a.feed(Prepared(KEY))) == [Start]


def test_an_order_repeated_changes_nothing_and_a_gap_asks_for_the_whole_set() -> None:
    a = Agent()
    order = Orders(Term(1), 1, (WantedRun(key=KEY, phase=WantedPhase.PREPARE, launch=_launch()),))
    assert _kinds(a.feed(Received(order))) == [Prepare]
    assert a.feed(Received(order)) == []
    late = Orders(Term(1), 3, (WantedRun(key=KEY, phase=WantedPhase.STOP),))
    assert a.feed(Received(late)) == [Say(NeedWhole())]


def test_a_last_order_that_was_lost_is_noticed_by_the_heartbeat() -> None:
    a = Agent()
    assert a.feed(Received(HeartbeatAck(1, orders=0))) == []
    assert a.feed(Received(HeartbeatAck(2, orders=1))) == [Say(NeedWhole())]


def test_a_lower_term_is_not_obeyed_and_a_higher_one_is_remembered_first() -> None:
    a = Agent(memory=AgentMemory(highest_term=Term(5)), welcome=False)
    a.feed(Connected())
    assert _kinds(a.welcome(term=4)) == [Hangup]
    effects = a.welcome(term=6)
    assert isinstance(effects[0], Save)
    assert effects[0].memory.highest_term == 6


def test_a_fact_is_told_again_until_it_is_acknowledged() -> None:
    a = Agent()
    a.prepare()
    (first,) = _reports(a.feed(Prepared(KEY)))
    a.now = a.now._replace(boot=a.now.boot + 60_000)
    (again,) = _reports(a.feed(Ticked()))
    assert (again.phase, again.seq > first.seq) == (NodePhase.READY, True)
    a.feed(Received(Acks((again.seq,))))
    a.now = a.now._replace(boot=a.now.boot + 60_000)
    assert _reports(a.feed(Ticked())) == []


def test_a_clean_run_is_forgotten_only_when_that_is_acknowledged() -> None:
    a = Agent()
    a.running()
    a.feed(Exited(KEY, AT, 3, 0, False, 12))
    (report,) = _reports(a.feed(Cleaned(KEY, AT, 12)))
    assert (report.phase, report.exit_code, report.elapsed_s) == (NodePhase.CLEAN, 3, 12)
    assert a.feed(Received(Acks((report.seq,)))) == [Forget(KEY)]
    assert a.machine.runs == {}


def test_the_acknowledgement_of_an_earlier_fact_does_not_count_for_a_later_one() -> None:
    a = Agent()
    a.running()
    (exited,) = _reports(a.feed(Exited(KEY, AT, 0, 0, False, 1)))
    a.feed(Cleaned(KEY, AT, 1))
    assert a.feed(Received(Acks((exited.seq,)))) == []
    assert KEY in a.machine.runs


def test_a_run_that_is_not_wanted_is_stopped() -> None:
    a = Agent()
    a.running()
    assert _kinds(a.order(drop=(KEY,))) == [Stop]
    assert a.order(drop=(KEY,)) == []


def test_after_a_break_what_is_not_in_the_whole_set_is_stopped_and_all_facts_are_told() -> None:
    a = Agent()
    a.running()
    a.feed(Disconnected())
    assert a.feed(Exited(KEY, AT, 0, 0, False, 1)) == []  # nobody to tell
    hello = a.feed(Connected())[0]
    assert isinstance(hello, Say)
    assert isinstance(hello.message, AgentHello)
    assert [run.phase for run in hello.message.runs] == [NodePhase.EXITED]
    effects = a.welcome()
    assert Stop in _kinds(effects)
    assert [r.phase for r in _reports(effects)] == [NodePhase.EXITED]


def test_a_stop_for_a_run_that_never_came_is_answered_clean() -> None:
    a = Agent()
    (report,) = _reports(a.order(WantedRun(key=KEY, phase=WantedPhase.STOP)))
    assert (report.phase, report.node_failed) == (NodePhase.CLEAN, False)


def test_a_confirmed_run_of_which_nothing_is_left_is_told_as_the_nodes_failure() -> None:
    (report,) = _reports(Agent().order(WantedRun(key=KEY, phase=WantedPhase.START)))
    assert (report.phase, report.node_failed) == (NodePhase.CLEAN, True)


def test_a_launch_too_large_for_the_whole_set_is_waited_for() -> None:
    a = Agent(welcome=False)
    a.feed(Connected())
    assert _kinds(a.welcome(WantedRun(key=KEY, phase=WantedPhase.PREPARE, launch_follows=True))) == []
    assert _kinds(a.prepare()) == [Prepare]


def test_a_failed_preparation_is_reported_with_whose_fault_it_is() -> None:
    a = Agent()
    a.prepare()
    (report,) = _reports(a.feed(PrepareFailed(KEY, Blame.JOB, "/x: no", "OutputFile")))
    assert (report.phase, report.blame, report.reason) == (NodePhase.CLEAN, Blame.JOB, "OutputFile")


def test_signals_are_delivered_once_each_and_only_to_an_open_run() -> None:
    a = Agent()
    a.order(WantedRun(key=KEY, phase=WantedPhase.START, launch=_launch(), signals=(10,)))
    a.feed(Prepared(KEY))
    assert Signal(KEY, 0, 10) in a.feed(Opened(KEY, AT))
    effects = a.order(WantedRun(key=KEY, phase=WantedPhase.START, signals=(10, 12)))
    assert effects == [Signal(KEY, 1, 12)]


def test_an_adopted_run_is_told_and_not_prepared_again() -> None:
    found = FoundRun(key=KEY, phase=NodePhase.OPEN, first=True)
    a = Agent(found, welcome=False)
    a.feed(Connected())
    effects = a.welcome(WantedRun(key=KEY, phase=WantedPhase.START))
    assert [r.phase for r in _reports(effects)] == [NodePhase.OPEN]
    assert _kinds(effects) == [Say]


def test_a_new_agent_leaves_what_it_found_alone_until_it_is_told_what_is_wanted() -> None:
    a = Agent(FoundRun(key=KEY, phase=NodePhase.READY, first=True), welcome=False)
    assert a.feed(Opened(KEY, AT)) == []
    assert a.feed(Ticked()) == []
    a.feed(Connected())
    effects = a.welcome(WantedRun(key=KEY, phase=WantedPhase.START))
    assert _kinds(effects) == [Say]


def test_a_bare_directory_is_prepared_again() -> None:
    a = Agent(FoundRun(key=KEY, phase=NodePhase.ORDERED, first=True), welcome=False)
    a.feed(Connected())
    effects = a.welcome(WantedRun(key=KEY, phase=WantedPhase.PREPARE, launch=_launch()))
    assert _kinds(effects) == [Prepare]


def test_report_numbers_are_saved_ahead_and_never_used_twice() -> None:
    a = Agent()
    saved = 0
    used: list[int] = []
    for job in range(1, 1200):
        key = RunKey(JobId(job), RunNo(1))
        for effect in a.order(WantedRun(key=key, phase=WantedPhase.STOP)):
            if isinstance(effect, Save):
                saved = effect.memory.next_seq
            elif isinstance(effect, Say) and isinstance(effect.message, RunReport):
                assert effect.message.seq < saved
                used.append(effect.message.seq)
    assert used == sorted(set(used))
