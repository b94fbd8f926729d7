"""Runs in real control groups: their memory, their processes, and that nothing of them escapes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.isolation.cgroups import DEVICES, RunCgroups, set_up
from agent.isolation.hierarchies import CONTROLLERS, find_hierarchies
from agent.runs.effects import Cleaned, Exited, Forget
from agent.supervisor import processes
from gsched.config.settings import AgentSettings, Cgroups
from gsched.errors import BadConfig
from gsched.values.node import Inventory
from tests.integration.one_node import OneNode, key, kill
from tests.parts import require
from tests.waiting import until

RUN = key(7)


def _node(
    folder: Path,
    settings: AgentSettings | None = None,
    gpu_minors: dict[int, int] | None = None,
    inventory: Inventory | None = None,
) -> Iterator[OneNode]:
    require("control groups", os.geteuid() == 0, "only root may make them")
    groups = RunCgroups(find_hierarchies(), folder / "spool")
    missing = set(CONTROLLERS) - set(groups.controllers)
    require("control groups", not missing, f"no hierarchy has {', '.join(sorted(missing))}")
    work = folder / "work"
    work.mkdir()
    node = OneNode(folder / "spool", work, settings, gpu_minors, inventory)
    yield node
    node.end_all()
    assert not groups.names()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    yield from _node(tmp_path)


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[OneNode]:
    """With few processes a run."""
    yield from _node(tmp_path, AgentSettings(pids_per_run=40))


def test_a_run_that_takes_more_memory_than_it_was_given_is_killed_and_that_is_told(node: OneNode) -> None:
    script = f"#!{sys.executable}\nprint('begins', flush=True)\nall = bytearray(300 << 20)\nprint('not reached')\n"
    node.launch(RUN, script, mem_mib=100)
    end = node.event(Exited, RUN)
    assert (end.exit_signal, end.oom_kills) == (9, 1)
    assert node.clean(RUN).oom_kills == 1
    assert (node.work / "slurm-7.out").read_text() == "begins\n"


def test_a_child_that_is_killed_for_memory_is_told_though_its_script_goes_on(node: OneNode) -> None:
    script = f"#!/bin/sh\n{sys.executable} -c 'bytearray(300 << 20)'\nexit 5\n"
    node.launch(RUN, script, mem_mib=100)
    end = node.event(Exited, RUN)
    assert (end.exit_code, end.exit_signal, end.oom_kills) == (5, 0, 1)


def test_a_run_within_its_memory_is_left_alone(node: OneNode) -> None:
    node.launch(RUN, f"#!{sys.executable}\nbytearray(60 << 20)\n", mem_mib=100)
    assert (node.event(Exited, RUN).exit_code, node.clean(RUN).oom_kills) == (0, 0)


@pytest.fixture
def with_gpus(tmp_path: Path) -> Iterator[OneNode]:
    """Three GPUs' device nodes without a driver behind: opening one that is allowed gives ENXIO, else EPERM."""
    require("control groups", os.geteuid() == 0, "only root may make them")
    groups = set_up(AgentSettings(), tmp_path / "trial")
    groups.close()
    require("device programs", DEVICES in groups.controllers, "this kernel has no BPF_PROG_TYPE_CGROUP_DEVICE")
    for node in _node(tmp_path, None, {0: 0, 1: 1, 2: 2}):
        for minor in (0, 1, 2, 255):
            os.mknod(node.work / f"nvidia{minor}", 0o666 | stat.S_IFCHR, os.makedev(195, minor))
        yield node


LOOK = """
import errno, os
for minor in (0, 1, 2, 255):
    try:
        os.open(f"nvidia{minor}", os.O_RDWR)
    except OSError as error:
        print(minor, errno.errorcode[error.errno])
os.open("/dev/null", os.O_RDWR)
print("null")
"""


@pytest.mark.parametrize("granted", [(), (1,), (0, 2)])
def test_a_run_can_open_its_own_gpus_only(with_gpus: OneNode, granted: tuple[int, ...]) -> None:
    with_gpus.launch(RUN, f"#!{sys.executable}\n{LOOK}", gpu_indices=granted)
    assert with_gpus.event(Exited, RUN).exit_code == 0
    said = (with_gpus.work / "slurm-7.out").read_text().splitlines()
    wanted = [f"{gpu} {'ENXIO' if gpu in granted else 'EPERM'}" for gpu in (0, 1, 2)]
    assert said == [*wanted, "255 ENXIO", "null"]


@pytest.fixture
def pinning(tmp_path: Path) -> Iterator[OneNode]:
    require("two cores", len(os.sched_getaffinity(0)) >= 2, "a run is pinned to one of them")
    yield from _node(tmp_path, inventory=Inventory(cpus=len(os.sched_getaffinity(0)), memory_mib=1000))


CORES = """
import os, time
print(*sorted(os.sched_getaffinity(0)), flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""


def test_each_run_has_cores_of_its_own_also_after_an_agents_restart(pinning: OneNode) -> None:
    def cores(node: OneNode, job: int) -> set[int]:
        file = node.work / f"slurm-{job}.out"
        text = until(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text())
        return {int(word) for word in str(text).split()}

    script = f"#!{sys.executable}\n{CORES}"
    pinning.launch(key(1), script, cpus=1)
    pinning.opened(key(1))
    again = pinning.restart()
    again.launch(key(2), script, cpus=1)
    (first,), (second,) = cores(again, 1), cores(again, 2)
    assert first != second
    again.launch(key(3), script, cpus=len(os.sched_getaffinity(0)))  # more than is free: it is not pinned
    assert cores(again, 3) == os.sched_getaffinity(0)
    (again.work / "go").touch()
    for job in (1, 2, 3):
        again.clean(key(job))
    again.launch(key(4), script, cpus=2)
    again.clean(key(4))
    assert len(cores(again, 4)) == 2


BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        open("full", "w").close()
"""


def test_a_fork_bomb_is_held_by_its_limit_and_ended_whole(tight: OneNode) -> None:
    tight.launch(RUN, f"#!{sys.executable}\n{BOMB}", grace_s=1, time_limit_s=2)
    until((tight.work / "full").exists)
    assert len(tight.alive(RUN)) <= 40
    tight.event(Cleaned, RUN, within_s=20)
    assert not tight.alive(RUN)


def test_what_hides_from_a_dead_supervisor_is_found_by_its_group(node: OneNode) -> None:
    """A child of a session of its own and without the mark in its environment, and a supervisor that is killed."""
    hides = f"env -i setsid {sys.executable} -c 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'"
    node.launch(RUN, f"#!/bin/sh\n{hides} > hidden &\nwhile :; do sleep 0.1; done\n")
    node.opened(RUN)
    hidden = int(until(lambda: (node.work / "hidden").exists() and (node.work / "hidden").read_text().strip()))
    assert hidden not in node.alive(RUN)
    kill(node.supervisor(RUN))
    assert node.clean(RUN).node_failed
    gone = processes.look_at(hidden)
    assert gone is None or gone.state == "Z"


def test_the_groups_of_a_run_go_with_it(node: OneNode, tmp_path: Path) -> None:
    groups = RunCgroups(find_hierarchies(), tmp_path / "spool")
    node.launch(RUN, "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\n")
    node.opened(RUN)
    assert groups.names() == {"7.1"}
    (node.work / "go").touch()
    node.clean(RUN)
    node.do(Forget(RUN))
    until(lambda: not groups.names())


def test_an_agent_that_must_hold_runs_and_cannot_does_not_start(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("")
    with pytest.raises(
        BadConfig, match='"required", but this machine has no control group for memory, pids, cpu, cpuset, devices'
    ):
        set_up(AgentSettings(cgroups=Cgroups.REQUIRED), tmp_path, mounts)
    assert set_up(AgentSettings(cgroups=Cgroups.AUTO), tmp_path, mounts).controllers == []
    assert set_up(AgentSettings(cgroups=Cgroups.OFF), tmp_path, mounts).controllers == []
