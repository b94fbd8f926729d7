"""gqueue, gcancel, ginfo and gctl as processes, against a controller with real sockets and store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gsched.client.blocking import Client
from gsched.values.ids import JobId
from tests.daemon import InThread, settings_in, submission

BIN = Path(sys.executable).parent
Run = Callable[..., subprocess.CompletedProcess[str]]
HEADER = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
# What a command that should feel instant must not load, however it is used.
SLOW = {
    "asyncio",
    "dataclasses",
    "logging",
    "ssl",
    "numpy",
    "numba",
    "sqlalchemy",
    "uvloop",
    "structlog",
    "ClusterShell",
}


@pytest.fixture
def socket(short_dir: Path) -> Iterator[str]:
    """A controller without nodes: every job waits."""
    with InThread(settings_in(short_dir)):
        yield str(short_dir / "gschedd.sock")


@pytest.fixture
def gsched(socket: str) -> Run:
    """Run a command against it."""

    def run(*argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / argv[0]), *argv[1:]],
            env={**os.environ, "GSCHED_SOCKET": socket, **variables},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=30,
        )

    return run


def submit(socket: str, *names: str) -> list[JobId]:
    with Client(socket) as client:
        return [client.call(submission(name)).job for name in names]


def test_an_empty_queue_is_a_header(gsched: Run) -> None:
    assert gsched("gqueue").stdout == HEADER
    assert gsched("gqueue", "-h").stdout == ""


def test_one_unknown_id_ends_gqueue_with_1(gsched: Run) -> None:
    done = gsched("gqueue", "-j", "99999")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "gqueue: error: invalid job id specified: job 99999: not in the queue\n"


def test_an_unknown_id_among_others_is_said_and_they_are_shown(socket: str, gsched: Run) -> None:
    (job,) = submit(socket, "train")
    done = gsched("gqueue", "-h", "-o", "%i %t", "-j", f"{job},99999")
    assert (done.returncode, done.stdout) == (0, f"{job} PD\n")
    assert "warning: job 99999: no such job" in done.stderr


def test_a_queue_longer_than_a_page_is_shown_whole(socket: str, gsched: Run) -> None:
    with Client(socket) as client:
        client.pipeline([submission() for _ in range(1203)])
    ids = gsched("gqueue", "-h", "-o", "%i").stdout.split()
    assert ids == [str(number) for number in range(1, 1204)]


def test_filters_of_state_user_name_and_partition(socket: str, gsched: Run) -> None:
    first, second = submit(socket, "train", "eval")
    assert gsched("gcancel", str(second)).returncode == 0
    ids = lambda *options: gsched("gqueue", "-h", "-o", "%i", *options).stdout.split()  # noqa: E731  short for this test
    assert ids() == ids("--me") == ids("-t", "pd") == ids("-n", "train,x") == ids("-p", "main") == [str(first)]
    assert ids("-t", "all") == [str(first), str(second)]
    assert ids("-t", "CANCELLED") == ids("-j", str(second)) == [str(second)]
    assert ids("-u", "nobody") == ids("-n", "x") == ids("-p", "x") == []


@pytest.mark.parametrize("words", [["gqueue", "-j", "1"], ["gcancel", "1"], ["ginfo"], ["gctl", "show", "job", "1"]])
def test_fault_06_an_absent_controller_is_an_error_not_an_empty_list(tmp_path: Path, words: list[str]) -> None:
    environment = {**os.environ, "GSCHED_SOCKET": str(tmp_path / "none.sock")}
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "name", ["crazy|name", "two words", "two\nlines", "\x1b[31mred", "名前", "byte\udcff", 'a"b\\c']
)
def test_fault_02_a_job_with_an_odd_name_is_listed_everywhere(socket: str, gsched: Run, name: str) -> None:
    with Client(socket) as client:
        asked = submission(name)
        job = client.call(replace(asked, spec=replace(asked.spec, chdir="/tmp/a|b", output="test output"))).job
    lines = gsched("gqueue", "-h", LC_ALL="C").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [str(job)]
    (told,) = json.loads(gsched("gqueue", "--json", LC_ALL="C").stdout)["jobs"]
    assert (told["name"], told["chdir"]) == (name, "/tmp/a|b")
    record = gsched("gctl", "show", "job", str(job), "-o", LC_ALL="C").stdout
    assert record.count("\n") == 1
    assert 'StdOut="/tmp/a|b/test output"' in record


def test_a_terminal_that_cannot_show_a_letter_gets_it_escaped(socket: str, gsched: Run) -> None:
    submit(socket, "名前")
    done = gsched("gqueue", "-h", "-o", "%j", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\u540d\\u524d\n", "")


def test_s4_cancelling_a_job_that_does_not_exist_is_said_with_a_status(gsched: Run) -> None:
    done = gsched("gcancel", "99999")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "gcancel: error: job 99999: not in the queue\n"


def test_each_job_of_a_cancel_has_its_own_result(socket: str, gsched: Run) -> None:
    first, second = submit(socket, "a", "b")
    done = gsched("gcancel", "-v", str(first), "99999", str(second))
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        f"gcancel: job {first}: cancelled",
        "gcancel: error: job 99999: not in the queue",
        f"gcancel: job {second}: cancelled",
    ]
    assert gsched("gqueue", "-h").stdout == ""


def test_a_job_that_had_ended_is_said_and_counts_as_done(socket: str, gsched: Run) -> None:
    (job,) = submit(socket, "a")
    assert gsched("gcancel", str(job)).stderr == ""
    again = gsched("gcancel", str(job))
    assert (again.returncode, again.stderr) == (0, f"gcancel: job {job} has already ended (CANCELLED)\n")
    signalled = gsched("gcancel", "-s", "USR1", str(job))
    assert signalled.returncode == 7
    assert "error" in signalled.stderr


def test_all_of_a_users_jobs_in_a_state_are_cancelled(socket: str, gsched: Run) -> None:
    submit(socket, "a", "b")
    assert gsched("gcancel", "--me", "-t", "RUNNING").returncode == 0
    assert len(gsched("gqueue", "-h").stdout.splitlines()) == 2
    assert gsched("gcancel", "--me", "-t", "PD").returncode == 0
    assert gsched("gqueue", "-h").stdout == ""
    assert "has no such jobs" in gsched("gcancel", "--me").stderr


def test_a_held_job_says_so_until_it_is_released(socket: str, gsched: Run) -> None:
    (job,) = submit(socket, "a")
    reason = lambda: gsched("gqueue", "-h", "-o", "%R").stdout  # noqa: E731  short for this test
    assert gsched("gctl", "hold", str(job)).returncode == 0
    assert reason() == "(JobHeldUser)\n"
    assert gsched("gctl", "release", str(job)).returncode == 0
    assert reason() == "(NodesUnknown)\n"


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["gqueue", "-o", "%q"], 2, "no column has the letter 'q'; known are %A=JOBID"),
        (["gqueue", "-t", "XX"], 2, "not a job state: 'XX'; known are PENDING (PD)"),
        (["gqueue", "-S", "z"], 2, "cannot sort by 'z'"),
        (["gqueue", "-j", "abc"], 2, "not a job id"),
        (["gqueue", "--nonsense"], 2, "unknown option --nonsense"),
        (["gcancel"], 2, "say which jobs"),
        (["gcancel", "12_3"], 2, "arrays"),
        (["gcancel", "-b", "1"], 2, "--batch is for --signal"),
        (["gcancel", "-s", "NOPE", "1"], 2, "not a signal"),
        (["ginfo", "-N", "--gpus"], 2, "one view at a time"),
        (["ginfo", "-o", "%Q"], 2, "no column has the letter 'Q'"),
        (["ginfo", "-p", "none"], 5, "no such partition: 'none'; there are main"),
        (["ginfo", "-n", "n1"], 5, "no such node: n1"),
        (["gctl", "drain", "n1"], 2, "say why with --reason=TEXT"),
        (["gctl", "drain", "n1", "-r", "fan"], 5, "n1"),
        (["gctl", "node", "dead", "n[1-2]"], 2, "one node at a time"),
        (["gctl", "show", "job", "99999"], 5, "job 99999"),
        (["gctl", "show", "partition", "x"], 5, "there are main"),
        (["gctl", "show", "jobs"], 2, "unknown sub-command 'jobs' (did you mean job?)"),
        (["gctl", "hold", "99999"], 5, "job 99999"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_possible(
    gsched: Run, words: list[str], status: int, text: str
) -> None:
    done = gsched(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"{words[0]}: error: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_node_lists_unfold_and_fold(gsched: Run) -> None:
    assert gsched("gctl", "show", "hostnames", "n[08-10],x").stdout == "n08\nn09\nn10\nx\n"
    assert gsched("gctl", "show", "hostlist", "n1,n2,n3").stdout == "n[1-3]\n"
    assert gsched("gctl", "show", "hostnames", SLURM_JOB_NODELIST="a[1-2]").stdout == "a1\na2\n"


def test_ping_says_who_answers(gsched: Run) -> None:
    assert "gschedd of cluster test" in gsched("gctl", "ping").stdout
    assert json.loads(gsched("gctl", "ping", "--json").stdout)["cluster"] == "test"


def test_a_whole_gqueue_loads_nothing_slow(socket: str) -> None:
    submit(socket, "a")
    code = "import sys; from gsched.cli.gqueue import main; sys.exit(main([]))"
    environment = {**os.environ, "GSCHED_SOCKET": socket}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert {"gsched", "click", "msgspec"} <= loaded
    assert not loaded & SLOW


def test_a_cluster_without_switches_has_no_levels(gsched: Run) -> None:
    assert gsched("gctl", "show", "topology").stdout == "0 nodes, 0 levels\n"
    shown = json.loads(gsched("gctl", "show", "topology", "--json").stdout)
    assert shown == {"source": "", "levels": [], "domains": [], "problems": []}
