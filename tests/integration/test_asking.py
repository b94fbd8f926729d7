"""explain, priorities, trials, reservations and snapshots as commands, against a controller with real sockets."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import InThread, settings_in

BIN = Path(sys.executable).parent
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gsched(short_dir: Path) -> Iterator[Run]:
    """Run a command against a controller without nodes: every job waits."""
    socket = str(short_dir / "gschedd.sock")

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / argv[0]), *argv[1:]],
            env={**os.environ, "GSCHED_SOCKET": socket},
            cwd=short_dir,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    with InThread(settings_in(short_dir)):
        yield run


def test_a_job_is_explained_and_tried(gsched: Run) -> None:
    assert gsched("gsub", "-Q", "--nice=3", "--wrap", "true").returncode == 0
    done = gsched("gctl", "explain", "1")
    assert done.stdout.startswith("Job 1 waits: NodesUnknown"), done.stderr
    assert "0 nodes: none excluded; 0 could hold a part of it now, 1 is needed" in done.stdout
    (found,) = json.loads(gsched("gctl", "explain", "--json", "1").stdout)["jobs"]
    assert (found["explanation"]["job"], found["priority"]["nice"]) == (1, 3)
    listed = gsched("gctl", "show", "priority", "-h").stdout.split()
    assert (listed[0], listed[-1]) == ("1", "3")
    assert json.loads(gsched("gctl", "show", "priority", "--json").stdout)["rows"][0]["job"] == 1
    tried = gsched("gsub", "--test-only", "--wrap", "true")
    assert (tried.returncode, tried.stdout) == (0, "")
    assert tried.stderr.startswith("gsub: Job 2 would wait in partition main, its start cannot be foretold")
    assert json.loads(gsched("gsub", "--test-only", "--json", "--wrap", "true").stdout)["job"] == 2
    assert gsched("gqueue", "-h", "-o", "%i %Y").stdout == "1 (null)\n"


def test_what_cannot_be_answered_says_why(gsched: Run) -> None:
    assert gsched("gctl", "explain", "7").returncode == 5
    assert gsched("gctl", "explain").returncode == 2
    done = gsched("gctl", "show", "priority", "7")
    assert (done.returncode, done.stderr) == (5, "gctl: error: not among the jobs that may start: 7\n")
    done = gsched("gsub", "--level", "rack", "--wrap", "true")
    assert (done.returncode, done.stderr) == (
        2,
        "gsub: error: --level rack: no such level; this cluster has no topology\n",
    )


def test_reservations_by_command(gsched: Run) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert gsched("gctl", "reservation", "show").stdout == "No reservations in the system\n"
    done = gsched("gctl", "reservation", "create", "r", "--nodes", "n1", "--duration", "10", "--users", me)
    assert (done.returncode, done.stderr) == (5, "gctl: error: node n1: not known; known are none yet\n")
    for words, status in (
        (["--nodes", "n1", "--maint"], 2),
        (["--nodes", "n1", "--maint", "--end", "soon"], 2),
        (["--gpus", "n1", "--maint", "--duration", "10"], 2),
        (["--nodes", "n1", "--duration", "10", "--users", "no-such-user"], 5),
        (["--nodes", "n1", "--duration", "10", "--users", ","], 2),
        (["--maint", "--duration", "10"], 2),
    ):
        assert gsched("gctl", "reservation", "create", "r", *words).returncode == status, words
    assert gsched("gctl", "reservation", "delete", "r").returncode == 5
    assert json.loads(gsched("gctl", "reservation", "show", "--json").stdout) == {"reservations": []}
    assert gsched("gsub", "--reservation", "r", "--wrap", "true").returncode == 5


def test_a_snapshot_is_written_whole_or_not_at_all(gsched: Run, short_dir: Path) -> None:
    done = gsched("gctl", "snapshot", "pass")
    assert (done.returncode, done.stdout) == (0, "pass: 0 pending jobs, 0 runs, 0 nodes\n")
    assert (short_dir / "pass").stat().st_mode & 0o777 == 0o600
    done = gsched("gctl", "snapshot", "no/such/pass")
    assert (done.returncode, done.stderr) == (
        2,
        "gctl: error: no/such/pass cannot be written: No such file or directory\n",
    )
