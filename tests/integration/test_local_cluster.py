"""`gsched up`, `status`, `env` and `down` with real daemons: what starts, what is remembered, what is left behind."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.local import leftovers
from gsched.local.place import Place
from tests.e2e.cluster import BIN, LocalCluster, alive
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two small nodes, up; ended whatever the tests did."""
    folder = Path(tempfile.mkdtemp(prefix="gs-"))
    made = LocalCluster(folder, nodes=2)
    try:
        made.up()
        yield made
    finally:
        made.run("gsched", "down", "--dir", str(made.dir), check=False, within_s=60)
        shutil.rmtree(folder)


@pytest.fixture
def up(cluster: LocalCluster) -> LocalCluster:
    """The cluster, with every part running whatever the test before left."""
    cluster.up()
    return cluster


@pytest.fixture
def at_rest(cluster: LocalCluster) -> LocalCluster:
    """The cluster, with no part of it running."""
    cluster.down()
    return cluster


def status(cluster: LocalCluster) -> dict[str, object]:
    told = cluster.run("gsched", "status", "--json", "--dir", str(cluster.dir), check=False)
    found: dict[str, object] = json.loads(told.stdout)
    assert (told.returncode == 0) is found["complete"]
    return found


def pids(cluster: LocalCluster) -> dict[str, int]:
    return {part: cluster.pid(part) for part in ("gschedd", "agent-n1", "agent-n2")}


def test_up_comes_back_when_every_node_is_registered(up: LocalCluster) -> None:
    assert up.out("ginfo", "-h", "-o", "%P %D %t %N") == "main* 2 idle n[1-2]"
    assert status(up)["complete"] is True


def test_up_again_starts_nothing_that_runs(up: LocalCluster) -> None:
    before = pids(up)
    told = up.out("gsched", "up", "-d", "--dir", str(up.dir))
    assert "nothing: all of it was running" in told
    assert pids(up) == before


def test_up_again_starts_the_agent_that_died_and_no_other(up: LocalCluster) -> None:
    before = pids(up)
    up.kill("agent-n2")
    found = until(lambda: (s := status(up)) and not s["complete"] and s)
    assert isinstance(found, dict)
    assert [node["pid"] for node in found["nodes"]] == [before["agent-n1"], None]
    assert "started: agent n2\n" in up.out("gsched", "up", "-d", "--dir", str(up.dir))
    after = pids(up)
    assert after["agent-n2"] != before["agent-n2"]
    assert (after["gschedd"], after["agent-n1"]) == (before["gschedd"], before["agent-n1"])
    assert status(up)["complete"] is True


def test_up_with_other_options_is_refused_and_changes_nothing(up: LocalCluster) -> None:
    before = pids(up)
    done = up.run("gsched", "up", "-d", "--dir", str(up.dir), "--nodes", "3", check=False)
    assert done.returncode == 2
    assert "was made with 2" in done.stderr
    assert pids(up) == before


def test_env_is_all_that_a_shell_needs(up: LocalCluster) -> None:
    script = f'eval "$({BIN}/gsched env --dir {up.dir})"; gctl ping; gsched status >/dev/null'
    done = subprocess.run(
        ["/bin/sh", "-euc", script],
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"gschedd of cluster local at {up.dir}/gschedd.sock is UP" in done.stdout


def test_the_sockets_and_keys_are_their_owners_alone(up: LocalCluster) -> None:
    assert up.dir.stat().st_mode & 0o777 == 0o700
    keys = list(up.dir.rglob("*.key"))
    assert {key.name for key in keys} >= {"ca.key", "controller.key", "node.key"}
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}


def test_a_settings_file_that_does_not_load_names_file_and_key(up: LocalCluster) -> None:
    settings = up.dir / "gsched.toml"
    text = settings.read_text()
    try:
        settings.write_text(text.replace("[controller]\n", "[controller]\nsoket = 1\n"))
        done = up.run("gsched", "status", "--dir", str(up.dir), check=False)
    finally:
        settings.write_text(text)
    assert done.returncode == 4
    assert "gsched.toml" in done.stderr
    assert "soket" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["status"], 5, "no cluster in"),
        (["env"], 5, "no cluster in"),
        (["down"], 5, "no cluster in"),
        (["up", "--nodes", "0"], 2, "1 to 100 nodes"),
        (["up", "--simulate", "H100"], 2, "COUNTxMODEL"),
        (["up", "--name", "a b"], 2, "letters, digits"),
    ],
)
def test_a_wrong_word_is_one_line_and_a_status(tmp_path: Path, words: list[str], status: int, text: str) -> None:
    command = [str(BIN / "gsched"), words[0], "--dir", str(tmp_path / "c"), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("gsched: error: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "c").exists()


def test_from_inside_a_job_of_the_cluster_down_is_refused(up: LocalCluster) -> None:
    inside = {"GSCHED_SOCKET": str(up.dir / "nodes" / "n1" / "agent.sock")}
    done = up.run("gsched", "down", "--dir", str(up.dir), check=False, env=inside)
    assert done.returncode == 6
    assert "say it outside of its jobs" in done.stderr
    assert status(up)["complete"] is True


def test_the_environment_of_who_starts_it_does_not_reach_the_daemons(up: LocalCluster) -> None:
    environment = Path(f"/proc/{up.pid('agent-n1')}/environ").read_bytes()
    assert b"\0GSCHED_SOCKET=" not in b"\0" + environment


def test_down_ends_running_jobs_keeps_waiting_ones_and_leaves_no_process(up: LocalCluster) -> None:
    running = up.gsub("-N2", "--gpus-per-node=8", wrap="sleep 600 & exec sleep 600")
    waiting = up.gsub("-N2", "--gpus-per-node=8", wrap="true")
    up.wait(running, "RUNNING")
    inside = until(lambda: leftovers.job_processes(Place(up.dir)), what="processes of the job")
    before = pids(up)
    told = up.out("gsched", "down", "--dir", str(up.dir))
    assert "1 running job ended; waiting for the next `gsched up`: 1 job" in told
    assert not [pid for pid in (*before.values(), *inside) if alive(pid)]
    assert not leftovers.supervisors(Place(up.dir))
    assert not list(up.dir.glob("*.pid"))
    up.up()
    assert up.wait(waiting) == "COMPLETED"
    assert up.acct(running)[1].startswith("CANCELLED")


def test_down_can_leave_jobs_running_and_up_finds_them(up: LocalCluster) -> None:
    job = up.gsub(wrap="until [ -e kept ]; do sleep 0.05; done")
    up.wait(job, "RUNNING")
    assert "running on: 1 job" in up.out("gsched", "down", "--keep-jobs", "--dir", str(up.dir))
    assert leftovers.job_processes(Place(up.dir))
    up.up()
    assert up.state(job) == "RUNNING"
    (up.work / "kept").touch()
    assert up.wait(job) == "COMPLETED"
    assert up.acct(job, ("JobID", "Restarts"))[1] in ("0", "")


def test_down_ends_jobs_that_no_daemon_watches_any_more(up: LocalCluster) -> None:
    job = up.gsub(wrap="exec sleep 600")
    up.wait(job, "RUNNING")
    for part in pids(up):
        up.kill(part)
    inside = leftovers.job_processes(Place(up.dir))
    assert inside
    told = up.out("gsched", "down", "--dir", str(up.dir))
    assert "no daemon watched any more, were ended" in told
    until(lambda: not [pid for pid in inside if alive(pid)])


def test_down_twice_says_that_nothing_ran(at_rest: LocalCluster) -> None:
    assert "was running" in at_rest.out("gsched", "down", "--dir", str(at_rest.dir))
    told = status(at_rest)
    assert (told["complete"], told["pid"], told["answers"]) == (False, None, False)


def test_in_front_it_ends_all_on_ctrl_c(at_rest: LocalCluster) -> None:
    front = subprocess.Popen([str(BIN / "gsched"), "up", "--dir", str(at_rest.dir)], stdout=subprocess.PIPE, text=True)
    assert front.stdout
    with front.stdout as told:
        until(lambda: told.readline() == "Ctrl-C ends it.\n", 60)
        before = pids(at_rest)
        front.send_signal(signal.SIGINT)
        assert "stopped agent n1, agent n2, gschedd" in told.read()
    assert front.wait(30) == 0
    assert not [pid for pid in before.values() if alive(pid)]


def test_a_daemon_that_cannot_start_is_explained_and_the_others_are_stopped(at_rest: LocalCluster) -> None:
    settings = at_rest.dir / "gsched.toml"
    text = settings.read_text()
    port = text.split('listen = "127.0.0.1:')[1].split('"')[0]

    with socket.create_server(("127.0.0.1", int(port))):
        done = at_rest.run("gsched", "up", "-d", "--dir", str(at_rest.dir), check=False, within_s=60)
    assert done.returncode == 1
    assert "the end of" in done.stderr
    assert "gschedd did not start" in done.stderr
    assert "can be changed in gsched.toml" in done.stderr.splitlines()[-1]
    assert not list(at_rest.dir.glob("*.pid"))
    assert settings.read_text() == text


def test_a_wrong_model_is_not_remembered(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="gs-", dir=tmp_path.parent))
    command = [str(BIN / "gsched"), "up", "-d", "--dir", str(folder / "c"), "--simulate", "8xNONSENSE"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "NONSENSE" in done.stderr
    assert not (folder / "c" / "gsched.toml").exists()
