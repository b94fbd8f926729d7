"""Which control groups a machine has, and what is written into a run's."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from agent.isolation.cgroups import Limits, RunCgroups
from agent.isolation.cores import CoreBook
from agent.isolation.devices import gpu_program
from agent.isolation.hierarchies import Hierarchies, find_hierarchies, read_mounts
from gsched.values.ids import JobId, RunKey, RunNo
from gsched.values.node import Gpu, Inventory, NumaNode

RUN = RunKey(JobId(7), RunNo(1))
PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
OLD = """31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/my\\040pids rw,relatime shared:3 - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
"""
UNIFIED_TOO = OLD + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"


def test_a_machine_of_version_2_has_one_hierarchy() -> None:
    assert read_mounts(PURE) == ({}, Path("/sys/fs/cgroup"))


@pytest.mark.parametrize(("text", "unified"), [(OLD, None), (UNIFIED_TOO, Path("/sys/fs/cgroup/unified"))])
def test_a_machine_of_version_1_has_a_hierarchy_a_controller(text: str, unified: Path | None) -> None:
    top = Path("/sys/fs/cgroup")
    wanted = {"cpu": top / "cpu,cpuacct", "memory": top / "memory", "pids": top / "my pids"}
    assert read_mounts(text) == (wanted, unified)


def test_a_controller_is_used_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset pids hugetlb\n")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(OLD.replace("rw,pids", "rw,blkio") + f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    found = find_hierarchies(mounts)
    assert found.of("memory") == (Path("/sys/fs/cgroup/memory"), 1)
    assert found.of("pids") == (tmp_path, 2)
    assert Hierarchies().of("pids") is None


def test_limits_in_the_words_of_version_2(tmp_path: Path) -> None:
    groups = RunCgroups(Hierarchies(unified=tmp_path, unified_has=frozenset({"memory", "pids", "cpu"})), Path("/spool"))
    groups.prepare()
    made = groups.make(RUN, Limits(memory_mib=100, pids=50, cpus=4))
    (base,) = [entry for entry in (tmp_path / "gsched").iterdir() if entry.is_dir()]
    for above in (tmp_path, tmp_path / "gsched", base):
        assert (above / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    group = base / "7.1"
    assert made.procs == (str(group / "cgroup.procs"),)
    assert (made.oom, made.pids) == (str(group / "memory.events"), str(group / "pids.max"))
    assert (group / "memory.max").read_text() == str(132 * 1024 * 1024)  # and 32 for its supervisor
    assert (group / "memory.swap.max").read_text() == "0"
    assert (group / "pids.max").read_text() == "50"
    assert (group / "cpu.weight").read_text() == "400"


def test_limits_in_the_words_of_version_1(tmp_path: Path) -> None:
    hierarchies = Hierarchies({name: tmp_path / name for name in ("memory", "pids", "cpu")})
    groups = RunCgroups(hierarchies, Path("/spool"))
    groups.prepare()
    made = groups.make(RUN, Limits(memory_mib=100, pids=0, cpus=2))
    assert len(made.procs) == 3
    bases = {name: next((tmp_path / name / "gsched").iterdir()) / "7.1" for name in ("memory", "pids", "cpu")}
    total = str(132 * 1024 * 1024)
    assert (bases["memory"] / "memory.limit_in_bytes").read_text() == total
    assert (bases["memory"] / "memory.memsw.limit_in_bytes").read_text() == total
    assert (bases["pids"] / "pids.max").read_text() == "max"
    assert (bases["cpu"] / "cpu.shares").read_text() == "2048"
    assert groups.names() == {"7.1"}


def test_agents_with_different_spools_do_not_meet(tmp_path: Path) -> None:
    hierarchies = Hierarchies(unified=tmp_path, unified_has=frozenset({"pids"}))
    one, other = RunCgroups(hierarchies, Path("/spool/1")), RunCgroups(hierarchies, Path("/spool/2"))
    one.prepare()
    other.prepare()
    one.make(RUN, Limits())
    assert (one.names(), other.names()) == ({"7.1"}, set())


@pytest.mark.parametrize("allowed", [(), (0,), (3, 1), tuple(range(16))])
def test_the_device_program_allows_the_runs_gpus_and_what_is_no_gpu(allowed: tuple[int, ...]) -> None:
    program = gpu_program(allowed)
    for major, minor in (
        (195, 0),
        (195, 1),
        (195, 3),
        (195, 15),
        (195, 16),
        (195, 253),
        (195, 254),
        (195, 255),
        (1, 3),
    ):
        wanted = major != 195 or minor >= 254 or minor in allowed
        assert _run(program, major, minor) == wanted, (major, minor)


def _run(program: bytes, major: int, minor: int) -> bool:
    """What the kernel would make of it, as far as this program goes."""
    code = list(struct.iter_unpack("=BBhi", program))
    registers = [0, 0, 0, 0]
    at = 0
    while True:
        opcode, which, offset, constant = code[at]
        at += 1
        value = registers[which & 15]
        if opcode == 0x95:
            return registers[0] == 1
        if opcode == 0x61:
            registers[which & 15] = {4: major, 8: minor}[offset]
        elif opcode == 0xB7:
            registers[which & 15] = constant
        elif {0x55: value != constant, 0x15: value == constant, 0x35: value >= constant}[opcode]:
            at += offset


def _machine(simulated: bool = False) -> Inventory:
    gpus = tuple(Gpu(index=i, uuid=f"GPU-{i}", model="m", memory_mib=1, numa_node=i // 2) for i in range(4))
    numa = (NumaNode(0, ((0, 3),)), NumaNode(1, ((4, 7),)))
    return Inventory(cpus=8, memory_mib=1000, gpus=gpus, numa_nodes=numa, simulated=simulated)


def test_cores_are_taken_near_the_gpus_and_given_out_once() -> None:
    book = CoreBook(_machine(), range(8))
    assert book.take(RUN, 2, (2,)) == (4, 5)
    assert book.take(RUN, 2, (2,)) == (4, 5)
    other = RunKey(JobId(8), RunNo(1))
    assert book.take(other, 4, (0, 3)) == (0, 1, 6, 7)
    assert book.take(RunKey(JobId(9), RunNo(1)), 3, ()) == ()  # two are left: it is not pinned
    book.give_back(RUN)
    assert book.take(RunKey(JobId(9), RunNo(1)), 3, ()) == (2, 3, 4)


def test_a_pretended_machine_pins_nothing() -> None:
    assert CoreBook(_machine(simulated=True), range(8)).take(RUN, 2, ()) == ()


def test_cores_that_an_earlier_agent_gave_out_stay_given() -> None:
    book = CoreBook(_machine(), range(8))
    book.restore(RUN, [0, 1, 2, 3])
    assert book.take(RunKey(JobId(8), RunNo(1)), 2, (0,)) == (4, 5)
