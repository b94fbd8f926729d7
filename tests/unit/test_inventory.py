"""Pretended machines are consistent, and what a node says of itself is true of this one."""

from __future__ import annotations

import os

import pytest

from agent.inventory.host import boot_id, machine_id, read_host
from agent.inventory.simulated import known_models, load_machine, simulate
from agent.inventory.survey import parse_ports, take_inventory
from gsched.errors import BadRequest
from gsched.values.ids import NodeName

WORDS = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")


@pytest.mark.parametrize("model", known_models())
def test_a_description_has_one_symmetric_cell_for_each_pair_of_gpus(model: str) -> None:
    machine = load_machine(model)
    rows = [row.split() for row in machine.links]
    assert len(rows) == machine.gpus
    assert all(len(row) == machine.gpus for row in rows)
    assert len(machine.pci_bus_ids) in (0, machine.gpus)
    for i in range(machine.gpus):
        assert rows[i][i] == "X"
        for j in range(i):
            assert rows[i][j] == rows[j][i]
            assert rows[i][j].rstrip("0123456789") in WORDS
    assert machine.cpus > 0
    assert machine.memory_mib > 0
    assert machine.gpu_memory_mib > 0


@pytest.mark.parametrize("model", known_models())
def test_every_count_up_to_the_machines_can_be_simulated(model: str) -> None:
    for count in range(1, load_machine(model).gpus + 1):
        inventory = simulate(f"{count}x{model}", "n1")
        assert [gpu.index for gpu in inventory.gpus] == list(range(count))
        assert len({gpu.pci_bus_id for gpu in inventory.gpus}) == count
        assert [len(row) for row in inventory.links] == [count] * count


def test_the_gpus_of_a_node_keep_their_uuids_and_no_other_node_has_them() -> None:
    first, again, other = (simulate("8xH100-SXM", node) for node in ("n1", "n1", "n2"))
    assert first == again
    assert not {gpu.uuid for gpu in first.gpus} & {gpu.uuid for gpu in other.gpus}


@pytest.mark.parametrize(
    "text", ["9xH100-SXM", "0xH100-SXM", "8xH101", "H100-SXM", "8", "x", "-1xT4", "8xH100-SXM/../T4"]
)
def test_what_cannot_be_simulated_is_refused_with_what_can(text: str) -> None:
    with pytest.raises(BadRequest, match=r"H100-SXM|1 to 8 GPUs"):
        simulate(text, "n1")


def test_a_machine_without_the_drivers_library_is_a_node_without_gpus() -> None:
    inventory = take_inventory(NodeName("n1"), ports=(20000, 22499))
    assert inventory.cpus == len(os.sched_getaffinity(0))
    assert inventory.memory_mib > 100
    assert inventory.port_last == 22499
    assert len(inventory.links) == len(inventory.gpus)


def test_a_boot_and_a_machine_have_names_that_stay() -> None:
    assert boot_id() == boot_id() != ""
    assert machine_id() == machine_id() != ""
    assert read_host() == read_host()


@pytest.mark.parametrize("text", ["", "20000", "30000-20000", "80-90", "20000-99999", "a-b"])
def test_a_range_of_ports_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="range of ports"):
        parse_ports(text)
