"""A user's mistakes: one line on stderr with what was asked, what is possible, what to do; a status; no job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster import LocalCluster

WRAP = ("--wrap", "true")


def refused(cluster: LocalCluster, argv: Sequence[str], stdin: str | None = None) -> tuple[int, str]:
    """Run a command that must fail; give status and text. Nothing on stdout, one line on stderr."""
    done = cluster.run(*argv, check=False, stdin=stdin)
    assert done.stdout == ""
    assert done.stderr.startswith(f"{argv[0]}: error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["--no-such-option", *WRAP], 2, ["--no-such-option"]),
        (["-p", "nowhere", *WRAP], 5, ["nowhere", "main"]),
        (["--gpus-per-node=9", *WRAP], 3, ["9", "8"]),
        (["-t", "-5", *WRAP], 2, ["-5"]),
        (["absent.sh"], 2, ["absent.sh"]),
        (["-d", "afterok:99999", *WRAP], 2, ["-d"]),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else None,
)
def test_a_wrong_request_is_refused(cluster: LocalCluster, options: list[str], status: int, says: list[str]) -> None:
    before = cluster.last_job()
    found, text = refused(cluster, ["gsub", *options])
    assert found == status
    assert all(word in text for word in says)
    assert cluster.last_job() == before, "no id is used, no record left"


@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        ("echo hello\n", 2, "#!"),
        ("#!/bin/sh\r\necho hello\r\n", 2, "CR"),
        ("", 2, "empty"),
        ("  \n\n", 2, "white space"),
        ("#!/bin/sh\n" + "#" * (5 << 20), 8, "4194304"),
        ("#!/bin/sh\n#GSUB --nonsense\ntrue\n", 2, "--nonsense"),
    ],
    ids=["no #!", "CRLF", "empty", "blank", "5 MiB", "unknown directive"],
)
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_wrong_script_is_refused(cluster: LocalCluster, way: str, script: str, status: int, says: str) -> None:
    (cluster.work / "wrong.sh").write_bytes(script.encode())
    found, text = refused(
        cluster, ["gsub", *(["wrong.sh"] if way == "file" else [])], script if way == "stdin" else None
    )
    assert found == status
    assert says in text


def test_no_controller_is_status_69_at_once(cluster: LocalCluster) -> None:
    for command in (["gqueue"], ["gsub", *WRAP], ["gcancel", "1"], ["ginfo"], ["gacct"], ["gctl", "show", "job", "1"]):
        done = cluster.run(*command, check=False, env={"GSCHED_SOCKET": "/nowhere/gschedd.sock"}, within_s=5)
        assert done.returncode == 69
        assert "/nowhere/gschedd.sock" in done.stderr
        assert done.stderr.count("\n") == 1


def test_cancelling_a_job_that_does_not_exist_says_so(cluster: LocalCluster) -> None:
    status, text = refused(cluster, ["gcancel", "99999"])
    assert status == 5
    assert "99999" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_may_neither_submit_to_a_local_cluster_nor_cancel_its_jobs(cluster: LocalCluster) -> None:
    """Directory and socket keep others out; where the owner opened them by hand, gschedd does."""
    job = cluster.gsub("--hold", wrap="true")
    assert as_nobody(cluster, ["gcancel", str(job)]).returncode in (6, 69)
    for folder in (cluster.dir.parent, cluster.dir):
        folder.chmod(0o711)
    Path(cluster.socket).chmod(0o666)
    try:
        for command in (["gcancel", str(job)], ["gsub", "-o", "/dev/null", *WRAP], ["gqueue"]):
            done = as_nobody(cluster, command)
            assert done.returncode == 6, done.stderr
            assert "nobody (uid 65534)" in done.stderr
    finally:
        Path(cluster.socket).chmod(0o600)
        for folder in (cluster.dir, cluster.dir.parent):
            folder.chmod(0o700)
    assert cluster.state(job) == "PENDING"


def as_nobody(cluster: LocalCluster, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command's code as another user, who perhaps may not even read the place where it is installed."""
    code = (
        f"import difflib, os, sys; from gsched.cli.{argv[0]} import main; "  # difflib: click imports it late
        "os.chdir('/'); os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        f"sys.exit(main({list(argv[1:])!r}))"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "GSCHED_SOCKET": cluster.socket},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )


# --- faults met elsewhere, by their numbers


def test_fault_s4_a_partition_of_two_nodes_never_takes_three(cluster: LocalCluster) -> None:
    status, text = refused(cluster, ["gsub", "-p", "pair", "-N", "3", *WRAP])
    assert status == 3
    assert "pair" in text
    assert "3" in text
    assert "2" in text


@pytest.mark.parametrize("option", ["-D", "-o"])
def test_fault_s4_an_unusable_path_is_said_at_submit(cluster: LocalCluster, option: str) -> None:
    (cluster.work / "plain").touch()
    status, text = refused(cluster, ["gsub", option, "plain/below", *WRAP])
    assert status == 2
    assert "plain/below" in text


def test_fault_s4_an_output_that_cannot_be_opened_there_fails_the_job_with_path_and_reason(
    cluster: LocalCluster,
) -> None:
    folder = cluster.work / "goes-away"
    folder.mkdir()
    job = cluster.gsub("--hold", "-o", "goes-away/job.out", wrap="true")
    folder.rmdir()
    folder.touch()  # now a file stands where the directory was
    cluster.run("gctl", "release", str(job))
    cluster.wait(job, "FAILED")
    assert cluster.reason(job) == "OutputFile"
    assert "goes-away" in cluster.out("gctl", "show", "job", str(job))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gpus-per-node=9"], ["9", "8"]),
        (["--gres=gpu:a100:1"], ["a100", "H100"]),
        (["--gpus=33"], ["33", "32"]),
        (["--gpus-per-node=1", "-C", "hopper"], ["hopper"]),
        (["--gpus-per-node=1", "-w", "n9"], ["n9"]),
        (["--gpus-per-node=1", "--mem=100T"], ["mem"]),
        (["--gpus-per-node=1", "-x", "n1,n2,n3,n4"], ["exclude", "4"]),
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else None,
)
def test_fault_s5_each_mistake_about_gpus_says_which_constraint_and_leaves_no_record(
    cluster: LocalCluster, options: list[str], says: list[str]
) -> None:
    before = cluster.last_job()
    status, text = refused(cluster, ["gsub", *options, *WRAP])
    assert status == 3
    assert all(word.lower() in text.lower() for word in says), text
    assert cluster.last_job() == before


def test_fault_s6_eight_gpus_for_eight_tasks_come_from_one_node(cluster: LocalCluster) -> None:
    job = cluster.gsub("--gpus=8", "-n8", "-o", "s6.out", wrap="echo $SLURM_JOB_NUM_NODES $SLURM_GPUS_ON_NODE")
    cluster.wait(job, "COMPLETED")
    assert cluster.text("s6.out").split() == ["1", "8"]


def test_fault_s8_more_gpus_than_exist_are_refused(cluster: LocalCluster) -> None:
    status, text = refused(cluster, ["gsub", "-G", "40", *WRAP])
    assert status == 3
    assert "40" in text
    assert "32" in text


def test_fault_s8_small_jobs_never_pass_a_waiting_gang_if_that_delays_it(cluster: LocalCluster) -> None:
    go, end = cluster.work / "s8.go", cluster.work / "s8.end"
    one = cluster.gsub("-G", "8", "-t", "5", "-o", "/dev/null", wrap="until [ -e s8.go ]; do sleep 0.05; done")
    cluster.wait(one, "RUNNING")
    gang = cluster.gsub(
        "-N", "4", "--gpus-per-node=8", "-t", "5", "-o", "/dev/null", wrap="until [ -e s8.end ]; do sleep 0.05; done"
    )
    small = [cluster.gsub("-G", "1", "-t", "60", "-o", "/dev/null", wrap="true") for _ in range(4)]
    assert {cluster.state(job) for job in (gang, *small)} == {"PENDING"}
    go.touch()
    cluster.wait(gang, "RUNNING")
    assert {cluster.state(job) for job in small} == {"PENDING"}
    end.touch()
    for job in (gang, *small):
        cluster.wait(job, "COMPLETED")


def test_the_socket_s_directory_is_the_owner_s_alone(cluster: LocalCluster) -> None:
    assert Path(cluster.dir).stat().st_mode & 0o777 == 0o700
