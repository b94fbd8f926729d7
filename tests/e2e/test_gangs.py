"""Gangs on a real cluster: all or nothing, in order, and nobody who comes later delays them."""

from __future__ import annotations

from tests.e2e.cluster import LocalCluster
from tests.waiting import until

EIGHT = ("--gpus-per-node=8", "-o", "/dev/null")


def until_file(name: str) -> str:
    """A script that runs until the test makes a file in the work directory."""
    return f"until [ -e {name} ]; do sleep 0.05; done"


def test_a_gang_of_more_nodes_than_there_are_is_refused_at_submit(cluster: LocalCluster) -> None:
    done = cluster.run("gsub", "-N", "5", *EIGHT, "--wrap", "true", check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("gsub: error: ")
    assert done.stderr.count("\n") == 1
    assert {"4", "5"} <= set(done.stderr.replace(",", " ").split()), "what was asked and what exists"


def test_a_gang_waits_behind_a_running_job_holds_nothing_and_starts_when_that_ends(cluster: LocalCluster) -> None:
    blocker = cluster.gsub("-N", "1", *EIGHT, "-t", "10", wrap=until_file("a.go"))
    cluster.wait(blocker, "RUNNING")
    gang = cluster.gsub("-N", "4", *EIGHT, "-t", "10", wrap="true")
    until(lambda: cluster.reason(gang) == "Resources", 10, "the gang to wait for Resources")
    assert cluster.state(gang) == "PENDING"
    assert cluster.nodes_of(gang) == set()
    assert cluster.gpus_in_use() == 8
    (cluster.work / "a.go").touch()
    cluster.wait(blocker, "COMPLETED")
    cluster.wait(gang, "COMPLETED")
    assert cluster.nodes_of(gang) == {"n1", "n2", "n3", "n4"}


def test_a_later_job_starts_first_only_where_it_does_not_delay_the_gang(cluster: LocalCluster) -> None:
    blocker = cluster.gsub("-N", "1", *EIGHT, "-t", "10", wrap=until_file("b.go"))
    cluster.wait(blocker, "RUNNING")
    gang = cluster.gsub("-N", "4", *EIGHT, "-t", "10", wrap=until_file("b.gang"))
    until(lambda: cluster.reason(gang) == "Resources", 10, "the gang to wait for Resources")
    long = cluster.gsub("-N", "1", *EIGHT, "-t", "60", wrap="true")  # would still run when the blocker's limit is over
    short = cluster.gsub("-N", "1", *EIGHT, "-t", "1", wrap="true")  # ends well before
    cluster.wait(short, "COMPLETED")
    assert cluster.state(gang) == cluster.state(long) == "PENDING"
    (cluster.work / "b.go").touch()
    cluster.wait(gang, "RUNNING")
    assert cluster.state(long) == "PENDING"
    (cluster.work / "b.gang").touch()
    cluster.wait(gang, "COMPLETED")
    cluster.wait(long, "COMPLETED")


def test_grun_runs_every_rank_and_they_can_talk_to_each_other(cluster: LocalCluster) -> None:
    script = cluster.example("allreduce.sh")
    job = int(cluster.out("gsub", "--parsable", "-o", "ranks.out", script, cluster.example("allreduce.py")))
    cluster.wait(job, "COMPLETED", within_s=40)
    ranks = [line for line in cluster.text("ranks.out").splitlines() if line.startswith("rank ")]
    assert len(ranks) == 16, cluster.text("ranks.out")
    assert all(line.endswith(": 8 GPUs visible, sum 120") for line in ranks)
    assert len({line.split(" on ")[1].split(":")[0] for line in ranks}) == 2


def test_grun_ends_with_the_worst_exit_code_of_its_tasks(cluster: LocalCluster) -> None:
    job = cluster.gsub("-N", "2", "-n", "4", "-o", "/dev/null", wrap="grun sh -c 'exit $SLURM_PROCID'")
    cluster.wait(job, "FAILED")
    assert cluster.acct(job) == [str(job), "FAILED", "3:0"]


def test_one_node_that_cannot_prepare_undoes_the_gang_which_then_runs_without_that_node(cluster: LocalCluster) -> None:
    """A plain file stands where n1 keeps its runs: no run directory can be made there."""
    runs = cluster.dir / "nodes" / "n1" / "runs"
    until(lambda: not any(runs.iterdir()), 20, "no run left on n1")
    runs.rmdir()
    runs.touch()
    try:
        gang = cluster.gsub("-N", "2", "-o", "undone.out", wrap="echo once; echo $SLURM_JOB_NODELIST")
        cluster.wait(gang, "COMPLETED", within_s=60)
    finally:
        runs.unlink()
        runs.mkdir(mode=0o700)
    assert "n1" not in cluster.nodes_of(gang)
    assert cluster.text("undone.out").split()[0] == "once", "nothing of it ran before all nodes were ready"
    tries = cluster.out("gacct", "-X", "-n", "-P", "-D", "-j", str(gang), "-o", "State").split()
    assert tries == ["LAUNCH_FAILED", "COMPLETED"]
