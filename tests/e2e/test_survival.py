"""kill -9 of daemons while jobs run and wait: what was acknowledged stays, what runs is not touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gsched.client.blocking import connect, new_request_id
from gsched.protocol.messages import SubmitJob, Submitted
from gsched.values.job import JobPayload, JobSpec
from tests.e2e.cluster import LocalCluster, alive
from tests.waiting import until


def submit(cluster: LocalCluster, script: str, hold: bool = False) -> int:
    """What gsub sends, without the time its process takes; retried as gsub retries."""
    environment = {"PATH": os.environ["PATH"], "PWD": str(cluster.work)}
    payload = JobPayload(script=f"#!/bin/sh\n{script}\n".encode(), environment=environment)
    spec = JobSpec(name="t", hold=hold, chdir=str(cluster.work), output="/dev/null")
    with connect(cluster.socket) as client:
        reply = client.call(SubmitJob(spec, payload, new_request_id()))
    assert isinstance(reply, Submitted)
    return reply.job


def test_running_and_waiting_jobs_survive_the_controller(cluster: LocalCluster) -> None:
    running = cluster.gsub(
        "-N", "4", "--gpus-per-node=8", "-o", "s1.out", wrap="echo $$; " + _until("s1.go") + "; exit 3"
    )
    pid = _pid(cluster, "s1.out")
    waiting = cluster.gsub("-N", "4", "--gpus-per-node=8", "-o", "/dev/null", wrap="true")
    cluster.kill("gschedd")
    assert cluster.run("gqueue", env={"GSCHED_RETRY_S": "0"}, check=False).returncode in (69, 75)
    cluster.up()
    assert alive(pid)
    assert (cluster.state(running), cluster.state(waiting)) == ("RUNNING", "PENDING")
    (cluster.work / "s1.go").touch()
    cluster.wait(running, "FAILED")
    cluster.wait(waiting, "COMPLETED")
    assert cluster.acct(running)[1:] == ["FAILED", "3:0"]
    assert len(cluster.text("s1.out").split()) == 1, "the script ran once"


def test_a_job_that_ends_while_the_controller_is_away_is_recorded(cluster: LocalCluster) -> None:
    job = cluster.gsub("-o", "s2.out", wrap="echo $$; " + _until("s2.go") + "; exit 5")
    pid = _pid(cluster, "s2.out")
    cluster.kill("gschedd")
    (cluster.work / "s2.go").touch()
    until(lambda: not alive(pid), 10, "the script's end")
    cluster.up()
    cluster.wait(job, "FAILED")
    assert cluster.acct(job)[2] == "5:0"


def test_a_new_agent_adopts_what_runs(cluster: LocalCluster) -> None:
    job = cluster.gsub("-w", "n2", "-o", "s3.out", wrap="echo $$; " + _until("s3.go") + "; exit 6")
    pid = _pid(cluster, "s3.out")
    cluster.kill("agent-n2")
    assert alive(pid)
    cluster.up()
    assert alive(pid)
    cluster.wait(job, "RUNNING")  # the first agent may have been killed before it could tell
    (cluster.work / "s3.go").touch()
    cluster.wait(job, "FAILED")
    assert cluster.acct(job)[2] == "6:0"
    assert len(cluster.text("s3.out").split()) == 1, "the script ran once"


def test_a_job_that_ends_while_its_agent_is_away_is_recorded(cluster: LocalCluster) -> None:
    job = cluster.gsub("-w", "n3", "-o", "s4.out", wrap="echo $$; " + _until("s4.go") + "; exit 7")
    pid = _pid(cluster, "s4.out")
    cluster.kill("agent-n3")
    (cluster.work / "s4.go").touch()
    until(lambda: not alive(pid), 10, "the script's end")
    cluster.up()
    cluster.wait(job, "FAILED")
    assert cluster.acct(job)[2] == "7:0"


def test_everything_killed_at_once_comes_back(cluster: LocalCluster) -> None:
    gang = ("-N", "2", "-w", "n1,n4", "-o", "s5.out")
    job = cluster.gsub(*gang, wrap="echo $$; " + _until("s5.go") + "; grun sh -c 'exit 0'")
    _pid(cluster, "s5.out")
    for part in cluster.parts:
        cluster.kill(part)
    cluster.up()
    (cluster.work / "s5.go").touch()
    cluster.wait(job, "COMPLETED")


def test_200_jobs_and_three_kills_of_the_controller_give_200_completed_each_run_once(cluster: LocalCluster) -> None:
    jobs = []
    restarts = []
    for number in range(200):
        if number in (50, 100, 150):
            if restarts:
                assert restarts[-1].wait(60) == 0  # a kill is of a controller that serves
            cluster.kill("gschedd")
            restarts.append(cluster.start_up())  # beside us: the next submissions retry until it answers
        jobs.append(submit(cluster, "echo $SLURM_JOB_ID >> ran-once"))
    assert restarts[-1].wait(60) == 0
    assert len(set(jobs)) == 200
    until(lambda: not cluster.unfinished(), 120, "an empty queue")
    listed = cluster.out("gacct", "-X", "-n", "-P", "-D", "-j", ",".join(map(str, jobs)), "-o", "JobID,State,ExitCode")
    assert sorted(listed.splitlines()) == sorted(f"{job}|COMPLETED|0:0" for job in jobs)
    assert sorted(map(int, cluster.text("ran-once").split())) == sorted(jobs)


def test_fault_s1_an_acknowledged_job_survives_a_kill_and_its_id_is_not_given_out_again(cluster: LocalCluster) -> None:
    """The controller is killed in the middle of a storm of submissions by a process that prints each reply."""
    storm = subprocess.Popen(
        [sys.executable, "-c", STORM, cluster.socket], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert storm.stdout is not None
    acknowledged = [int(storm.stdout.readline()) for _ in range(100)]
    cluster.kill("gschedd")
    acknowledged += map(int, storm.communicate(timeout=30)[0].split())
    cluster.up()
    there = set(map(int, cluster.out("gqueue", "-h", "-o", "%i").split()))  # a page is 1,000 rows: several
    assert set(acknowledged) <= there
    assert submit(cluster, "true", hold=True) > max(acknowledged)


STORM = """
import sys
from gsched.client.blocking import connect, new_request_id
from gsched.errors import GschedError
from gsched.protocol.messages import SubmitJob
from gsched.values.job import JobPayload, JobSpec
import os
os.environ["GSCHED_RETRY_S"] = "0"
with connect(sys.argv[1]) as client:
    while True:
        try:
            payload = JobPayload(script=b"#!/bin/sh\\n")
            job = client.call(SubmitJob(JobSpec(name="s", hold=True), payload, new_request_id()))
        except (GschedError, OSError):
            break
        print(job.job, flush=True)
"""


def _until(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.05; done"


def _pid(cluster: LocalCluster, name: str) -> int:
    """The pid that a script wrote as its first line."""
    return int(until(lambda: cluster.text(name), 20, f"a pid in {name}"))
