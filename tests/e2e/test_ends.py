"""How jobs end: exit codes and signals, time limits, cancellation, and that nothing of them is left."""

from __future__ import annotations

import os
import sys

import pytest

from tests.e2e.cluster import LocalCluster, alive
from tests.parts import require
from tests.waiting import until


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [("true", "COMPLETED", "0:0"), ("exit 3", "FAILED", "3:0"), ("exit 255", "FAILED", "255:0"),
     ("kill -9 $$", "FAILED", "0:9"), ("kill -TERM $$", "FAILED", "0:15")],
)  # fmt: skip
def test_a_script_s_own_end_is_what_accounting_shows(cluster: LocalCluster, script: str, state: str, code: str) -> None:
    job = cluster.gsub("-o", "/dev/null", wrap=script)
    cluster.wait(job, state)
    assert cluster.acct(job) == [str(job), state, code]


def test_a_job_over_its_time_limit_gets_term_then_kill_and_ends_timeout(cluster: LocalCluster) -> None:
    script = "trap 'echo warned' TERM; echo $$; while :; do sleep 0.1; done"
    job = cluster.gsub("-t", "0:01", "-o", "limit.out", wrap=script)
    cluster.wait(job, "TIMEOUT")
    pid, *said = cluster.text("limit.out").split()
    assert said[-1] == "warned"  # before it the shell may say that its child was ended
    assert not alive(int(pid))
    assert cluster.acct(job)[1] == "TIMEOUT"


def test_a_cancelled_job_is_gone_with_all_its_processes(cluster: LocalCluster) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; sleep 1000 & echo $!; wait'"
    job = cluster.gsub("-o", "cancel.out", wrap=script)
    pid = int(until(lambda: cluster.text("cancel.out"), 20, "the child's pid"))
    cluster.run("gcancel", str(job))
    cluster.wait(job, "CANCELLED")
    assert not alive(pid)
    assert cluster.acct(job)[1].startswith("CANCELLED by ")


def test_a_waiting_job_can_be_cancelled_and_never_runs(cluster: LocalCluster) -> None:
    job = cluster.gsub("--hold", "-o", "never.out", wrap="true")
    assert cluster.state(job) == "PENDING"
    cluster.run("gcancel", str(job))
    cluster.wait(job, "CANCELLED")
    assert not (cluster.work / "never.out").exists()


def test_a_signal_reaches_the_script_which_goes_on(cluster: LocalCluster) -> None:
    script = "trap 'echo got; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    job = cluster.gsub("-o", "usr1.out", wrap=script)
    until(lambda: cluster.text("usr1.out"), 20, "the script's first line")
    cluster.run("gcancel", "-s", "USR1", str(job))
    cluster.wait(job, "FAILED")
    said = cluster.text("usr1.out").split()
    assert (said[0], said[-1]) == ("ready", "got")
    assert cluster.acct(job)[2] == "4:0"


def test_a_job_that_takes_more_memory_than_it_asked_for_ends_out_of_memory(cluster: LocalCluster) -> None:
    require("control groups", os.geteuid() == 0, "only root may make them")
    job = cluster.gsub("--mem", "100M", "-o", "/dev/null", wrap=f"{sys.executable} -c 'bytearray(300 << 20)'")
    cluster.wait(job, "OUT_OF_MEMORY")
    assert cluster.acct(job)[1] == "OUT_OF_MEMORY"
    assert "memory limit 100 MiB" in cluster.run("gctl", "show", "job", str(job)).stdout
