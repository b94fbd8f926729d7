"""The tasks of steps on one node: output, ends, signals; a step is opened once, whoever asks again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.runs.effects import Exited, StepDone, Stop
from gsched.auth.tickets import Ticket
from gsched.errors import Conflict, NotFound, NotPermitted
from gsched.values.ids import Instant, StepId
from tests.integration.one_node import NODE, OneNode, key, step_request

RUN = key(7)
S0 = StepId(0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    work = tmp_path / "work"
    work.mkdir()
    node = OneNode(tmp_path / "spool", work)
    node.launch(
        RUN, "", node_index=1, nodes=("n0", NODE), addresses=("h0", "h1"), gpu_uuids=("GPU-a",), gpu_indices=(3,)
    )
    node.opened(RUN)
    yield node
    node.end_all()


def output(node: OneNode, rank: int, error: bool = False) -> str:
    return node.executor.step_output(RUN, S0, rank, error).read_text()


def done(node: OneNode, tasks: int) -> dict[int, tuple[int, int]]:
    node.until(lambda: len(node.executor.task_ends(RUN, S0)) == tasks)
    return node.executor.task_ends(RUN, S0)


def test_each_task_has_its_variables_output_and_end(node: OneNode) -> None:
    node.open_step(RUN, 0, step_request("sh", "-c", "echo rank $RANK; echo oops >&2; exit $RANK", ranks=(4, 5)))
    assert done(node, 2) == {4: (4, 0), 5: (5, 0)}
    assert (output(node, 4), output(node, 5)) == ("rank 4\n", "rank 5\n")
    assert output(node, 4, error=True) == "oops\n"
    step = node.event(StepDone, RUN)
    assert (step.step, step.exit_code, step.exit_signal) == (0, 5, 0)


def test_what_only_the_node_knows_wins_over_what_the_step_was_told(node: OneNode) -> None:
    environment = {"PATH": os.environ["PATH"], "GSCHED_SOCKET": "/first/node.sock", "SLURM_JOB_GPUS": "0"}
    script = "echo $GSCHED_SOCKET $SLURM_JOB_GPUS $GSCHED_NODE; test $$ = $SLURM_TASK_PID"
    node.open_step(RUN, 0, step_request("sh", "-c", script, environment=environment))
    assert done(node, 1) == {0: (0, 0)}
    assert output(node, 0) == "/the/agent.sock 3 n1\n"


def test_a_step_opened_again_is_joined_and_never_started_twice(node: OneNode) -> None:
    request = step_request("sh", "-c", f"echo x >>{node.work}/count; exec sleep 1000")
    node.open_step(RUN, 0, request)
    node.until((node.work / "count").exists)
    node.open_step(RUN, 0, request)
    assert (node.work / "count").read_text() == "x\n"
    node.executor.signal_step(RUN, S0, signal.SIGTERM)
    assert done(node, 1) == {0: (0, signal.SIGTERM)}
    node.open_step(RUN, 0, request)
    assert (node.work / "count").read_text() == "x\n"


def test_a_program_that_is_not_there_ends_with_127_and_a_line_in_its_error_output(node: OneNode) -> None:
    node.open_step(RUN, 0, step_request("no-such-program"))
    assert done(node, 1) == {0: (127, 0)}
    assert output(node, 0, error=True) == "gsched: task 0: cannot execute no-such-program: No such file or directory\n"


def test_a_directory_that_is_not_there_is_named_too(node: OneNode) -> None:
    node.open_step(RUN, 0, step_request("true", chdir="/not/there"))
    assert done(node, 1) == {0: (127, 0)}
    assert "cannot enter the working directory /not/there" in output(node, 0, error=True)


def test_a_bad_exit_ends_the_others_where_that_was_asked(node: OneNode) -> None:
    script = "if [ $RANK = 1 ]; then exit 9; fi; exec sleep 1000"
    node.open_step(RUN, 0, step_request("sh", "-c", script, ranks=(0, 1), kill_on_bad_exit=True))
    assert done(node, 2) == {1: (9, 0), 0: (0, signal.SIGTERM)}


def test_a_change_of_a_step_wakes_who_waits_for_it(node: OneNode) -> None:
    event = node.executor.on_step_change(RUN, S0)
    node.open_step(RUN, 0, step_request("true"))
    node.until(event.is_set)
    with pytest.raises(NotFound):
        node.executor.on_step_change(key(99), S0)


def test_what_a_task_left_in_its_session_ends_with_the_step(node: OneNode) -> None:
    node.open_step(RUN, 0, step_request("sh", "-c", "sleep 1000 & exit 0"))
    node.event(StepDone, RUN)
    node.until(lambda: not node.alive(RUN))


def test_steps_end_with_the_script_and_their_ends_are_recorded(node: OneNode) -> None:
    run = key(8)
    node.launch(run, "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\n")
    node.opened(run)
    node.open_step(run, 0, step_request("sleep", "1000"))
    (node.work / "go").touch()
    assert node.event(Exited, run).exit_code == 0
    assert node.event(StepDone, run).exit_signal == signal.SIGTERM
    node.clean(run)
    assert node.executor.task_ends(run, S0) == {0: (0, signal.SIGTERM)}


def test_a_step_is_refused_where_there_is_no_open_run_of_that_user(node: OneNode) -> None:
    with pytest.raises(NotFound, match="no run"):
        node.open_step(key(99), 0, step_request("true"))
    stranger = Ticket(RUN.job, RUN.run, S0, NODE, os.getuid() + 1, Instant(0), 1)
    with pytest.raises(NotPermitted):
        node.wait_for(node.executor.open_step(RUN, S0, step_request("true"), stranger))
    node.do(Stop(RUN, 0))
    node.clean(RUN)
    with pytest.raises(Conflict):
        node.open_step(RUN, 1, step_request("true"))
