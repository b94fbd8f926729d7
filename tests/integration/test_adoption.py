"""Agents come and go, supervisors die: what a run did is never lost, and nothing of it is left without a guard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.runs.effects import (
    AgentMemory,
    Exited,
    Opened,
    Prepare,
    Prepared,
    PrepareFailed,
    Save,
    Signal,
    Start,
    Stop,
)
from agent.runs.spool import Spool
from agent.supervisor import processes, records
from gsched.errors import BadConfig
from gsched.protocol.link import Blame
from gsched.values.ids import StepId, Term
from gsched.values.run import NodePhase
from tests.integration.one_node import OneNode, key, kill, launch_spec, step_request
from tests.waiting import until

RUN = key(7)
WAITS = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\nexit 6\n"


class Agents:
    """One spool, one agent after the other."""

    def __init__(self, folder: Path) -> None:
        (folder / "work").mkdir()
        self.node = OneNode(folder / "spool", folder / "work")

    def restart(self) -> OneNode:
        self.node = self.node.restart()
        return self.node


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    agents = Agents(tmp_path)
    yield agents
    agents.node.end_all()


def test_a_running_job_is_adopted_and_its_end_is_told_to_the_new_agent(agents: Agents) -> None:
    agents.node.launch(RUN, WAITS)
    agents.node.opened(RUN)
    node = agents.restart()
    (found,) = node.found
    assert (found.key, found.phase, found.first) == (RUN, NodePhase.OPEN, True)
    (node.work / "go").touch()
    assert node.event(Exited, RUN).exit_code == 6
    node.clean(RUN)
    assert not any(isinstance(event, (Prepared, Opened)) for event in node.events)  # told in `found`


def test_an_end_while_no_agent_was_there_is_read_from_the_record(agents: Agents) -> None:
    agents.node.launch(RUN, WAITS)
    agents.node.opened(RUN)
    agents.node.close()
    (agents.node.work / "go").touch()
    path = agents.node.executor.spool.record_path(RUN)
    until(lambda: records.read_record_at(path)["phase"] == records.CLEAN)
    node = agents.node = OneNode(agents.node.spool, agents.node.work)
    (found,) = node.found
    assert found.phase is NodePhase.CLEAN
    assert found.exited is not None
    assert (found.exited.exit_code, found.cleaned is not None) == (6, True)
    assert not node.events


def test_a_prepared_run_is_adopted_and_can_be_started(agents: Agents) -> None:
    agents.node.do(Prepare(RUN, launch_spec("#!/bin/sh\nexit 2\n", chdir=str(agents.node.work))))
    agents.node.event(Prepared, RUN)
    node = agents.restart()
    assert node.found[0].phase is NodePhase.READY
    node.do(Start(RUN))
    assert node.event(Exited, RUN).exit_code == 2


def test_orders_given_before_the_supervisor_is_reached_are_not_lost(agents: Agents) -> None:
    agents.node.launch(RUN, "#!/bin/sh\ntrap 'touch got' USR1\ntouch ready\nwhile :; do sleep 0.02; done\n")
    agents.node.until((agents.node.work / "ready").exists)
    node = agents.restart()
    node.do(Signal(RUN, 0, 10))
    node.until((node.work / "got").exists)
    node = agents.restart()
    assert node.found[0].delivered_signals == 1
    node.do(Stop(RUN, 0))
    node.clean(RUN)


def test_a_directory_without_more_is_found_and_goes_on_with_a_new_order(agents: Agents) -> None:
    agents.node.close()
    spool = Spool(agents.node.spool)
    spool.directory(RUN).mkdir()
    node = agents.node = OneNode(agents.node.spool, agents.node.work)
    assert node.found[0].phase is NodePhase.ORDERED
    node.launch(RUN, "#!/bin/sh\nexit 1\n")
    assert node.event(Exited, RUN).exit_code == 1


def test_a_directory_without_more_is_stopped_by_removing_it(agents: Agents) -> None:
    agents.node.close()
    Spool(agents.node.spool).directory(RUN).mkdir()
    node = agents.node = OneNode(agents.node.spool, agents.node.work)
    node.do(Stop(RUN, 30))
    node.clean(RUN)
    assert node.executor.spool.found() == []


def test_a_run_of_an_earlier_boot_is_over_and_the_node_is_to_blame(agents: Agents) -> None:
    node = agents.node
    node.launch(RUN, WAITS)
    node.opened(RUN)
    supervisor = node.supervisor(RUN)
    directory = node.executor.spool.directory(RUN)
    node.close()
    kill(supervisor)  # the power cut
    for pid in processes.marked(records.read_json(f"{directory}/launch")["token"]):
        kill(pid)
    records.write_json(f"{directory}/launch", {**records.read_json(f"{directory}/launch"), "boot_id": "another"})
    again = agents.node = OneNode(node.spool, node.work)
    (found,) = again.found
    assert found.phase is NodePhase.CLEAN
    assert found.cleaned is not None
    assert found.cleaned.node_failed


def test_a_killed_supervisors_processes_are_hunted_down_and_the_node_is_to_blame(agents: Agents) -> None:
    node = agents.node
    script = "#!/bin/sh\n(setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &)\ntouch ready\nexec sleep 1000\n"
    node.launch(RUN, script)
    node.until((node.work / "ready").exists)
    assert len(node.alive(RUN)) >= 2
    kill(node.supervisor(RUN))
    cleaned = node.clean(RUN)
    assert cleaned.node_failed
    assert node.alive(RUN) == set()
    assert not any(isinstance(event, Exited) for event in node.events)
    assert node.record(RUN)["phase"] == records.CLEAN


def test_a_script_that_hides_its_environment_is_found_after_its_supervisors_death(agents: Agents) -> None:
    node = agents.node
    node.launch(RUN, "#!/bin/sh\ntouch ready\nexec env -i sleep 1000\n")
    node.until((node.work / "ready").exists)
    node.until(lambda: "pid" in node.record(RUN))  # written when the start is known to have worked
    script = node.record(RUN)["pid"]
    node.until(lambda: not node.alive(RUN))
    kill(node.supervisor(RUN))
    node.clean(RUN)
    left = processes.look_at(script)
    assert left is None or left.state == "Z"


def test_a_supervisor_that_died_while_no_agent_was_there_is_noticed_by_the_next(agents: Agents) -> None:
    agents.node.launch(RUN, "#!/bin/sh\nexec sleep 1000\n")
    agents.node.opened(RUN)
    supervisor, token = agents.node.supervisor(RUN), agents.node.token(RUN)
    agents.node.close()
    kill(supervisor)
    node = agents.node = OneNode(agents.node.spool, agents.node.work)
    assert node.found[0].phase is NodePhase.OPEN
    assert node.clean(RUN).node_failed
    assert processes.marked(token) == set()


def test_a_supervisor_that_dies_before_the_start_is_the_nodes_failure(agents: Agents) -> None:
    node = agents.node
    node.do(Prepare(RUN, launch_spec(chdir=str(node.work))))
    node.event(Prepared, RUN)
    for process in processes.all_processes():
        if holds(process.pid, node.executor.spool.record_path(RUN)):
            kill(process.pid)
    failed = node.event(PrepareFailed, RUN)
    assert failed.blame is Blame.NODE
    assert "supervisor" in failed.text


def holds(pid: int, path: str) -> bool:
    """Whether a process has the file open."""
    try:
        return any(os.path.samefile(f"/proc/{pid}/fd/{fd}", path) for fd in os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH121, PTH208  the kernel's links, not paths
    except OSError:
        return False


def test_steps_that_ended_are_found_with_their_worst_exit_code(agents: Agents) -> None:
    node = agents.node
    node.launch(RUN, "", node_index=1)
    node.opened(RUN)
    node.open_step(RUN, 0, step_request("sh", "-c", "exit $RANK", ranks=(3, 4)))
    node.until(lambda: len(node.executor.task_ends(RUN, StepId(0))) == 2)
    node = agents.restart()
    (step,) = node.found[0].steps
    assert (step.step, step.exit_code, step.exit_signal) == (0, 4, 0)


def test_the_agents_memory_outlives_it(agents: Agents) -> None:
    agents.node.do(Save(AgentMemory(highest_term=Term(9), next_seq=2001)))
    assert agents.restart().executor.memory() == AgentMemory(highest_term=Term(9), next_seq=2001)


def test_a_spool_of_another_machine_is_not_adopted(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.claim("machine-a")
    spool.claim("machine-a")
    with pytest.raises(BadConfig, match="was made on machine machine-a"):
        spool.claim("machine-b")


def test_a_record_that_was_cut_off_leaves_the_one_before(tmp_path: Path) -> None:
    path = str(tmp_path / "record")
    records.create_record(path)
    fd = records.lock_record(path)
    assert fd is not None
    assert records.lock_record(path) is None
    record = {"phase": "ready"}
    records.write_record(fd, record)
    before = dict(record)
    records.write_record(fd, {**record, "phase": "open"})
    os.pwrite(fd, b"\0" * 40, 20)  # the second slot's write, torn: sequence 2 is in slot 0
    assert records.read_record(fd) == before
    os.close(fd)
