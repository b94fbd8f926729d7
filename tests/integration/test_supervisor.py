"""A run's processes: how they start, what is recorded of their end, and that nothing of them is left."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent.supervisor
from agent.runs.effects import Cleaned, Exited, Forget, Opened, Prepare, Prepared, PrepareFailed, Signal, Start, Stop
from agent.supervisor import processes, records
from gsched.protocol.link import Blame
from tests.integration.one_node import OneNode, key, launch_spec

RUN = key(7)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    work = tmp_path / "work"
    work.mkdir()
    node = OneNode(tmp_path / "spool", work)
    yield node
    node.end_all()


def exited(node: OneNode) -> Exited:
    return node.event(Exited, RUN)


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 0", 0, 0), ("exit 3", 3, 0), ("exit 255", 255, 0), ("kill -9 $$", 0, 9), ("kill -TERM $$", 0, 15)],
)
def test_the_exit_code_and_the_signal_are_the_scripts(node: OneNode, script: str, code: int, number: int) -> None:
    node.launch(RUN, f"#!/bin/sh\n{script}\n")
    assert (exited(node).exit_code, exited(node).exit_signal, exited(node).timed_out) == (code, number, False)


def test_a_run_is_prepared_opened_ended_and_clean_in_that_order(node: OneNode) -> None:
    events = node.finish(RUN, "#!/bin/sh\n")
    assert [type(event) for event in events] == [Prepared, Opened, Exited, Cleaned]


def test_output_goes_to_a_file_in_the_working_directory_named_after_the_job(node: OneNode) -> None:
    node.finish(RUN, "#!/bin/sh\necho out; echo err >&2; pwd; echo $1\n", args=("an argument",))
    assert (node.work / "slurm-7.out").read_text() == f"out\nerr\n{node.work}\nan argument\n"


def test_home_is_the_submitters_or_else_the_nodes_own_for_the_user(node: OneNode) -> None:
    node.finish(RUN, "#!/bin/sh\necho $HOME\n")
    assert (node.work / "slurm-7.out").read_text() == f"{pwd.getpwuid(os.getuid()).pw_dir}\n"
    node.finish(key(8), "#!/bin/sh\necho $HOME\n", environment={"HOME": "/elsewhere"})
    assert (node.work / "slurm-8.out").read_text() == "/elsewhere\n"


def test_output_is_written_over_or_appended_as_asked_and_errors_may_go_elsewhere(node: OneNode) -> None:
    (node.work / "log").write_text("before, and longer than what comes\n")
    node.finish(RUN, "#!/bin/sh\necho one; echo bad >&2\n", output="log", error="sub/dir/%x.err")
    assert (node.work / "log").read_text() == "one\n"
    assert (node.work / "sub/dir/job.err").read_text() == "bad\n"
    node.events.clear()
    node.finish(key(8), "#!/bin/sh\necho two\n", output="log", open_append=True)
    assert (node.work / "log").read_text() == "one\ntwo\n"


def test_the_script_starts_without_terminal_ignored_signals_or_open_descriptors(node: OneNode) -> None:
    script = "#!/bin/sh\nls /proc/self/fd | wc -l\ngrep -E '^(SigIgn|SigBlk)' /proc/self/status\n"
    script += "umask\nreadlink /proc/self/fd/0\n"
    node.finish(RUN, script, umask=0o027)
    fds, blocked, ignored, umask, stdin = (node.work / "slurm-7.out").read_text().splitlines()
    assert int(fds) == 4  # the three, and ls's own
    reserved = 0b11 << 31  # 32 and 33 are the C library's own: nobody can set what was inherited for them
    assert int(blocked.split()[1], 16) == 0
    assert int(ignored.split()[1], 16) & ~reserved == 0
    assert umask == "0027"
    assert stdin == "/dev/null"


STUBBORN = """#!/bin/sh
for i in 1 2 3; do
    (setsid sh -c 'trap "" TERM HUP; (trap "" TERM; while :; do sleep 1; done) & while :; do sleep 1; done' &)
done
env -i nohup setsid sh -c 'trap "" TERM; while :; do sleep 1; done' >/dev/null 2>&1 &
touch started
"""


def test_what_outlives_the_script_is_ended_too_however_it_forked(node: OneNode) -> None:
    node.launch(RUN, STUBBORN, grace_s=1)
    first = node.event(Exited, RUN)
    assert (first.exit_code, first.exit_signal) == (0, 0)
    node.until((node.work / "started").exists)
    node.clean(RUN)
    assert node.alive(RUN) == set()


def test_a_cancel_gives_the_grace_and_then_kills_all_that_ignores_it(node: OneNode) -> None:
    node.launch(RUN, "#!/bin/sh\ntrap 'echo asked' TERM\n" + STUBBORN + "while :; do sleep 0.05; done\n")
    node.until((node.work / "started").exists)
    supervisor = node.supervisor(RUN)
    node.do(Stop(RUN, 1))
    end = node.event(Exited, RUN)
    assert (end.exit_code, end.exit_signal) == (0, signal.SIGKILL)
    node.clean(RUN)
    assert "asked\n" in (node.work / "slurm-7.out").read_text()
    assert not processes.below({supervisor}, processes.all_processes())


def test_a_script_that_ends_on_term_is_not_killed(node: OneNode) -> None:
    node.launch(RUN, "#!/bin/sh\ntrap 'exit 5' TERM\ntouch ready\nwhile :; do sleep 0.05; done\n")
    node.until((node.work / "ready").exists)
    node.do(Stop(RUN, 60), Stop(RUN, 60))
    assert exited(node).exit_code == 5
    node.clean(RUN)


def test_the_time_limit_is_kept_by_the_supervisor_and_said(node: OneNode) -> None:
    node.launch(RUN, "#!/bin/sh\nexec sleep 100\n", time_limit_s=1)
    end = exited(node)
    assert (end.timed_out, end.exit_signal, end.elapsed_s) == (True, signal.SIGTERM, 1)
    assert node.clean(RUN).timed_out


def test_a_run_stopped_before_its_start_never_ran(node: OneNode) -> None:
    node.do(Prepare(RUN, launch_spec("#!/bin/sh\ntouch ran\n", chdir=str(node.work))))
    node.event(Prepared, RUN)
    node.do(Stop(RUN, 30), Start(RUN))
    node.clean(RUN)
    assert not any(isinstance(event, (Opened, Exited)) for event in node.events)
    assert not (node.work / "ran").exists()


def test_a_node_past_the_first_opens_without_a_script_and_ends_when_told(node: OneNode) -> None:
    node.launch(RUN, "", node_index=1)
    node.opened(RUN)
    assert not (node.work / "slurm-7.out").exists()
    node.do(Stop(RUN, 30))
    node.clean(RUN)
    assert not any(isinstance(event, Exited) for event in node.events)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("a-file/below.out", "Not a directory (ENOTDIR)"),
        ("a-directory", "Is a directory (EISDIR)"),
        ("/dev/zero", "neither a regular file"),
        ("a-fifo", "No such device or address (ENXIO) (a FIFO that nobody reads)"),
    ],
)
def test_an_output_file_that_cannot_be_used_fails_the_job_and_says_why(node: OneNode, output: str, text: str) -> None:
    (node.work / "a-file").touch()
    (node.work / "a-directory").mkdir()
    os.mkfifo(node.work / "a-fifo")
    node.launch(RUN, output=output)
    failed = node.event(PrepareFailed, RUN)
    assert (failed.blame, failed.reason) == (Blame.JOB, "OutputFile")
    assert output in failed.text
    assert text in failed.text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"chdir": "/not/there"}, "working directory /not/there: No such file or directory"),
        ({"script": "#!/no/such/shell\n"}, "its first line is '#!/no/such/shell'"),
        ({"environment": {"A": "a\0b"}}, "embedded null byte in its arguments or environment"),
        ({"args": ("x" * 200_000,)}, "Argument list too long"),
        ({"output": "a\0b"}, "cannot use the job's paths"),
    ],
)
def test_a_directory_or_interpreter_that_is_missing_is_the_jobs_failure(
    node: OneNode, changes: dict[str, object], text: str
) -> None:
    node.launch(RUN, **{"output": "/dev/null", **changes})  # type: ignore[arg-type]  # of various types
    failed = node.event(PrepareFailed, RUN)
    assert (failed.blame, failed.reason) == (Blame.JOB, "JobLaunchFailure")
    assert text in failed.text


def test_a_rendezvous_port_that_is_taken_is_nobodys_failure_and_leaves_nothing(node: OneNode) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        node.launch(RUN, port=port)
        failed = node.event(PrepareFailed, RUN)
    assert failed.blame is Blame.SHARED  # the next try gets another port, there or elsewhere
    assert f"rendezvous port {port} of node " in failed.text
    assert node.executor.spool.found() == []


@pytest.mark.skipif(os.getuid() == 0, reason="root can become anybody")
def test_another_users_run_is_refused_by_an_agent_that_is_not_root(node: OneNode) -> None:
    node.launch(RUN, uid=os.getuid() + 1, user="other")
    failed = node.event(PrepareFailed, RUN)
    assert failed.blame is Blame.NODE
    assert "cannot run jobs of other" in failed.text


def test_users_signals_reach_every_process_once(node: OneNode) -> None:
    script = "#!/bin/sh\ntrap 'echo got' USR1\ntouch ready\nwhile :; do sleep 0.05; done\n"
    node.launch(RUN, script)
    node.until((node.work / "ready").exists)
    node.do(Signal(RUN, 0, signal.SIGUSR1), Signal(RUN, 0, signal.SIGUSR1))
    node.until(lambda: node.record(RUN)["signals"] == 1)
    node.until(lambda: "got\n" in (node.work / "slurm-7.out").read_text())
    node.do(Signal(RUN, 1, signal.SIGKILL))
    assert exited(node).exit_signal == signal.SIGKILL
    assert (node.work / "slurm-7.out").read_text().count("got\n") == 1


def test_a_second_prepare_finds_the_first_and_starts_nothing_twice(node: OneNode) -> None:
    spec = launch_spec("#!/bin/sh\necho ran >>count\n", chdir=str(node.work))
    node.do(Prepare(RUN, spec), Prepare(RUN, spec), Start(RUN), Prepare(RUN, spec), Start(RUN))
    node.clean(RUN)
    node.do(Prepare(RUN, spec), Start(RUN))
    node.until(lambda: sum(isinstance(event, Cleaned) for event in node.events) == 2)
    assert (node.work / "count").read_text() == "ran\n"


def test_a_forgotten_run_leaves_no_file(node: OneNode) -> None:
    node.finish(RUN, "#!/bin/sh\n")
    node.do(Forget(RUN), Forget(RUN))
    node.until(lambda: not list((node.spool / "runs").iterdir()))


def test_a_stop_of_a_run_that_never_was_here_says_that_it_is_clean(node: OneNode) -> None:
    node.do(Stop(key(99), 30))
    node.clean(key(99))


def test_a_template_that_died_is_started_again(node: OneNode) -> None:
    template = node.executor._launcher._process
    assert template is not None
    template.kill()
    template.wait()
    node.launch(RUN, "#!/bin/sh\n")
    assert exited(node).exit_code == 0


def test_a_supervisor_can_also_be_started_by_itself(node: OneNode, tmp_path: Path) -> None:
    node.executor.spool.make(RUN, launch_file(node), b"#!/bin/sh\nexit 4\n")
    ours, theirs = socket.socketpair()
    directory = node.executor.spool.directory(RUN)
    with ours, theirs:
        command = [
            sys.executable,
            "-I",
            "-S",
            "-X",
            "utf8",
            str(Path(agent.supervisor.__file__).parent),
            str(directory),
        ]
        process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True, cwd=tmp_path)
        ours.sendall(b'{"do": "start"}\n')
        assert process.wait(20) == 0
    assert records.read_record_at(f"{directory}/record")["exited"]["code"] == 4


def launch_file(node: OneNode) -> dict[str, object]:
    return node.executor._launch_file(RUN, launch_spec(chdir=str(node.work)))


def test_a_later_protocol_is_answered_and_harms_nothing(node: OneNode) -> None:
    node.launch(RUN, "#!/bin/sh\nexec sleep 100\n")
    node.opened(RUN)
    with socket.socket(socket.AF_UNIX) as peer:
        here = Path.cwd()
        os.chdir(node.executor.spool.directory(RUN))
        try:
            peer.connect("sock")
        finally:
            os.chdir(here)
        peer.sendall(b'{"do": "dance"}\nnonsense\n')
        peer.settimeout(10)
        heard = b""
        while b"not a request" not in heard:
            heard += peer.recv(65536)
        assert b"version 1 cannot do 'dance'" in heard
    node.do(Stop(RUN, 1))
    node.clean(RUN)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_roots_agent_runs_the_job_as_its_user_in_the_users_files() -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    folder.chmod(0o711)
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    nobody = pwd.getpwnam("nobody")
    node = OneNode(folder / "spool", folder / "work")
    try:
        node.finish(
            RUN, "#!/bin/sh\nid -u; id -g; id -G\n", uid=nobody.pw_uid, gid=nobody.pw_gid, user="nobody", umask=0o077
        )
        output = folder / "work" / "slurm-7.out"
        uid, gid, groups = output.read_text().splitlines()
        assert (int(uid), int(gid)) == (nobody.pw_uid, nobody.pw_gid)
        assert "0" not in groups.split()
        assert (output.stat().st_uid, output.stat().st_mode & 0o777) == (nobody.pw_uid, 0o600)
        node.launch(key(8), uid=nobody.pw_uid, gid=nobody.pw_gid, user="nobody", output="/root/stolen")
        failed = node.event(PrepareFailed, key(8))
        assert (failed.blame, failed.reason) == (Blame.JOB, "OutputFile")
        assert "Permission denied" in failed.text
        node.launch(key(9), uid=nobody.pw_uid + 1, user="nobody")
        failed = node.event(PrepareFailed, key(9))
        assert failed.blame is Blame.NODE
        assert "user nobody has uid" in failed.text
    finally:
        node.end_all()
        shutil.rmtree(folder)
