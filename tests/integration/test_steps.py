"""Steps over real agents: what grun brings back, and what becomes of a step when something on the way dies."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from gsched.protocol import frames
from gsched.protocol.hello import Hello
from gsched.protocol.stream import OpenStep, StepOpened, TaskSpec
from gsched.transport.tls import ticket_context
from gsched.values.ids import RunKey
from tests.integration.agents import Cluster, cluster, run_python
from tests.waiting import until

SHOW = "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME $SLURM_STEP_TASKS_PER_NODE"


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    with cluster("n1", "n2") as made:
        yield made


@pytest.fixture(scope="module")
def job(two: Cluster) -> RunKey:
    return two.gang()


def finish(process: Popen[str], within_s: float = 20) -> tuple[int, str | None, str]:
    out, err = process.communicate(timeout=within_s)
    return process.returncode, out, err


def test_a_script_starts_tasks_on_all_its_nodes_and_gets_the_worst_exit_status(two: Cluster) -> None:
    key = two.gang(f"grun -l sh -c '{SHOW}; exit $SLURM_PROCID'; echo status $?; exec sleep 1000")
    until(lambda: "status" in two.output(key), what="grun's end")
    lines = two.output(key).splitlines()
    assert {"0: 0 0 0 n1 2(x2)", "1: 1 1 0 n1 2(x2)", "2: 2 0 1 n2 2(x2)", "3: 3 1 1 n2 2(x2)"} <= set(lines)
    assert "grun: error: n2: task 3: exited with code 3" in lines
    assert lines[-1] == "status 3"
    two.controller.end(two.nodes, key)


def test_the_ends_of_a_steps_parts_are_reported_by_each_node(two: Cluster, job: RunKey) -> None:
    step = two.controller.next_step
    assert finish(two.grun(job, "sh", "-c", "exit $SLURM_NODEID"))[0] == 1
    until(lambda: {r.node: r.exit_code for r in two.controller.steps if r.step == step} == {"n1": 0, "n2": 1})


def test_output_and_errors_stay_apart_and_arrive_as_they_are_written(two: Cluster, job: RunKey, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo one; echo oh >&2; cat; while [ ! -e {go} ]; do sleep 0.01; done; echo two"
    process = two.grun(job, "-n1", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    go.touch()
    assert finish(process) == (0, "two\n", "oh\n")


def test_a_large_output_arrives_whole_and_fills_no_agents_memory(two: Cluster, job: RunKey) -> None:
    before = two.agents["n1"].peak_kib()
    code = "import sys; [sys.stdout.write(f'{i:07d}\\n' * 8) for i in range(200_000)]"
    status, out, err = finish(two.grun(job, "-n1", *run_python(code)))
    assert (status, err) == (0, "")
    assert len(out) == 200_000 * 64
    assert out[-8:] == "0199999\n"
    assert two.agents["n1"].peak_kib() - before < 6 * 1024


def test_a_large_output_arrives_whole_while_memory_stays_small(two: Cluster, job: RunKey) -> None:
    code = "import sys; [sys.stdout.write(f'{i:07d}\\n' * 8) for i in range(200_000)]"
    status, out, err = finish(two.grun(job, "-n1", *run_python(code)))
    assert (status, err) == (0, "")
    assert len(out) == 200_000 * 64
    assert out[-8:] == "0199999\n"


def test_a_signalled_task_gives_128_and_the_signal(two: Cluster, job: RunKey) -> None:
    status, _, err = finish(two.grun(job, "-n1", "sh", "-c", "kill -9 $$"))
    assert status == 137
    assert "task 0: killed by signal 9 (SIGKILL)" in err


def test_gpus_are_all_the_nodes_or_a_share_in_order(two: Cluster, job: RunKey) -> None:
    everything = finish(two.grun(job, "-n1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"))[1]
    assert everything == "GPU-n1-0,GPU-n1-1,GPU-n1-2,GPU-n1-3\n"
    shares = finish(two.grun(job, "--gpus-per-task=2", "-l", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"))[1]
    assert sorted(shares.splitlines())[::3] == ["0: GPU-n1-0,GPU-n1-1", "3: GPU-n2-2,GPU-n2-3"]
    status, _, err = finish(two.grun(job, "-n5", "--gpus-per-task=2", "true"))
    assert status == 2
    assert "5 tasks of 1 core and 2 GPUs do not fit into the job: its nodes hold 4" in err


def test_a_bad_exit_ends_the_whole_step_with_k(two: Cluster, job: RunKey) -> None:
    began = time.monotonic()
    status, _, _ = finish(two.grun(job, "-K", "sh", "-c", "[ $SLURM_PROCID != 3 ] || exit 5; exec sleep 100"))
    assert status == 128 + signal.SIGTERM
    assert time.monotonic() - began < 10


def test_an_interrupt_goes_to_the_tasks_and_a_second_one_kills_them(two: Cluster, job: RunKey) -> None:
    polite = two.grun(job, "sh", "-c", "trap 'echo bye; exit 3' INT; echo up; while :; do sleep 0.05; done")
    _wait_for_tasks(polite, 4)
    polite.send_signal(signal.SIGINT)
    status, out, err = finish(polite)
    assert (status, out.count("bye")) == (3, 4)
    assert "interrupt passed on" in err
    deaf = two.grun(job, "sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.05; done")
    _wait_for_tasks(deaf, 4)
    deaf.send_signal(signal.SIGINT)
    assert deaf.stderr is not None
    assert "interrupt passed on" in deaf.stderr.readline()
    deaf.send_signal(signal.SIGINT)
    assert finish(deaf)[0] == 137


def test_a_step_whose_output_nobody_reads_any_more_is_ended(two: Cluster, job: RunKey) -> None:
    process = two.grun(job, "-n1", "sh", "-c", "while :; do echo line; sleep 0.01; done")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    assert finish(process)[0] == 141
    until(lambda: two.controller.steps[-1].exit_signal == signal.SIGTERM, what="the step's end")


def test_a_closed_output_and_an_ignored_interrupt_stay_so(two: Cluster, job: RunKey) -> None:
    words = " ".join(two.grun_words("-n1", "sh", "-c", "'echo up >&2; kill -0 $$; echo lost'"))
    shell = Popen(
        ["sh", "-c", f"trap '' INT; exec {words} >&-"],
        stderr=PIPE,
        text=True,
        env={**os.environ, **two.environment(job)},
    )
    assert shell.stderr is not None
    assert shell.stderr.readline() == "up\n"
    shell.send_signal(signal.SIGINT)
    assert finish(shell) == (0, None, "")


def test_a_signal_is_passed_on_while_output_waits_for_its_reader(two: Cluster, job: RunKey) -> None:
    process = two.grun(
        job, "-n1", "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do head -c 100000 /dev/zero; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    until(lambda: _pipe_is_full(process), what="grun waits for its reader")
    process.send_signal(signal.SIGTERM)
    until(lambda: two.controller.steps and two.controller.steps[-1].exit_code == 9, what="the task's end")
    assert finish(process)[0] == 9


def test_an_agent_that_dies_in_mid_step_loses_nothing_of_it(two: Cluster, job: RunKey, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo before; while [ ! -e {go} ]; do sleep 0.01; done; echo after"
    process = two.grun(job, "-l", "sh", "-c", script)
    _wait_for_tasks(process, 4)
    agent = two.agents["n2"]
    port = two.controller.address("n2")
    agent.kill(signal.SIGKILL)
    agent.start(listen=port)
    go.touch()
    status, out, err = finish(process)
    assert (status, err) == (0, "")
    assert sorted(out.splitlines()) == sorted(f"{rank}: after" for rank in range(4))


def test_an_agent_stops_at_once_though_a_step_is_followed_and_the_step_goes_on(
    two: Cluster, job: RunKey, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    process = two.grun(job, "-n1", "sh", "-c", f"echo up; while [ ! -e {go} ]; do sleep 0.01; done; exit 7")
    _wait_for_tasks(process, 1)
    port = two.controller.address("n1")
    began = time.monotonic()
    assert two.agents["n1"].kill(signal.SIGTERM) == 0
    assert time.monotonic() - began < 5
    two.agents["n1"].start(listen=port)
    go.touch()
    assert finish(process)[0] == 7


@pytest.mark.full
def test_the_step_of_a_client_that_vanishes_is_ended(two: Cluster, job: RunKey) -> None:
    process = two.grun(job, "-n1", "sh", "-c", "echo up; exec sleep 1000")
    _wait_for_tasks(process, 1)
    before = len(two.controller.steps)
    process.kill()
    process.communicate()
    until(lambda: len(two.controller.steps) > before, within_s=15, what="the end of the step")
    assert two.controller.steps[-1].exit_signal == signal.SIGKILL


# --- tickets


def open_door(two: Cluster, node: str, ticket: str, rank: int = 0) -> str:
    """Show a ticket as grun would; "opened", or the code of the refusal."""
    ca = (two.controller.directory / "ca" / "ca.pem").read_bytes()
    host, port = two.controller.address(node).split(":")
    request = OpenStep(
        ticket=ticket, argv=("true",), environment={}, chdir="/", tasks=(TaskSpec(rank, 0, {"PATH": "/bin"}),)
    )
    with socket.create_connection((host, int(port)), 10) as plain, ticket_context(ca).wrap_socket(plain) as tls:
        tls.sendall(frames.encode(frames.PUSH, 0, Hello()) + frames.encode(frames.REQUEST, 1, request))
        decoder = frames.Decoder()
        while received := tls.recv(65536):
            for frame in decoder.feed(received):
                if frame.kind == frames.ERROR:
                    return str(frame.body[0])
                if frame.kind == frames.REPLY:
                    assert frames.check_body(frame.body, StepOpened)
                    return "opened"
    return "closed"


def test_a_good_ticket_opens_the_door_and_again_only_joins(two: Cluster, job: RunKey) -> None:
    ticket = two.controller.ticket(job, 900, "n1")
    assert open_door(two, "n1", ticket) == "opened"
    assert open_door(two, "n1", two.controller.ticket(job, 900, "n1", expires_in_ms=-1)) == "opened"
    until(lambda: [r for r in two.controller.steps if r.step == 900], what="its end")
    assert len([r for r in two.controller.steps if r.step == 900]) == 1


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"expires_in_ms": -1}, "not_permitted"),
        ({"secret": b"x" * 32}, "not_permitted"),
        ({"signed_for": "n2"}, "not_permitted"),
        ({"uid": 12345}, "not_permitted"),
    ],
)
def test_an_expired_forged_or_foreign_ticket_is_refused(
    two: Cluster, job: RunKey, changed: dict[str, object], code: str
) -> None:
    assert open_door(two, "n1", two.controller.ticket(job, 901, "n1", **changed)) == code  # type: ignore[arg-type]  # a table
    assert not [r for r in two.controller.steps if r.step == 901]


def test_a_ticket_is_for_its_node_its_run_and_its_ranks(two: Cluster, job: RunKey) -> None:
    assert open_door(two, "n2", two.controller.ticket(job, 902, "n1")) == "not_permitted"
    other = RunKey(job.job, type(job.run)(77))
    assert open_door(two, "n1", two.controller.ticket(other, 902, "n1")) == "not_found"
    assert open_door(two, "n1", two.controller.ticket(job, 902, "n1", ntasks=2), rank=2) == "not_permitted"
    assert open_door(two, "n1", "AAAA") == "not_permitted"
    assert open_door(two, "n1", "not base64 \u00e9") == "not_permitted"


def _wait_for_tasks(process: Popen[str], number: int) -> None:
    assert process.stdout is not None
    for _ in range(number):
        assert process.stdout.readline()


def _pipe_is_full(process: Popen[str]) -> bool:
    assert process.stdout is not None
    waiting = bytearray(4)
    fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
    return int.from_bytes(waiting, "little") >= 60_000
