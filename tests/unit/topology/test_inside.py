"""What joins the parts of a node: matrices of nvidia-smi, NCCL's XML, and which cores are near which GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.inventory.simulated import known_models, load_machine, simulate
from gsched.errors import BadConfig
from gsched.topology.nccl_xml import mask_ranges, read_nccl
from gsched.topology.near import cores_near
from gsched.topology.smi_matrix import Inside, read_matrix
from gsched.values.node import NumaNode
from tests.outside import data_file

TABS = (
    "\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV4\tPIX\tSYS\t0-3,8-11\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\tSYS\t4-7,12-15\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n"
    "\nLegend:\n  X    = Self\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: bond0\n"
)
MATRICES = {  # file -> GPUs, NICs, a cell, NICs near GPU 1, NUMA nodes of the GPUs
    "dgx_a100_8gpu_12nic": (8, 12, "NV12", 0b11, (3, 3, 1, 1, 7, 7, 5, 5)),
    "dgx1_v100_8gpu_pcie_only": (8, 4, "PIX", 0b1, (0, 0, 0, 0, 1, 1, 1, 1)),
    "dgx_h100_8gpu_12nic": (8, 12, "NV18", 0b1000, (0, 0, 0, 0, 1, 1, 1, 1)),
    "hgx_h200_8gpu_8nic": (8, 8, "NV18", 0b10, (0, 0, 0, 0, 1, 1, 1, 1)),
    "gh200_4gpu_4socket": (4, 0, "NV6", 0, (0, 1, 2, 3)),
    "gb200_4gpu_tray": (4, 6, "NV18", 0, (-1, -1, -1, -1)),
    "a100_4gpu_one_nic": (4, 1, "NV12", 0, (1, 1, 1, 1)),
    "pcie_8gpu_switch_pairs": (8, 0, "PIX", 0, (0, 0, 0, 0, 1, 1, 1, 1)),
    "pcie_8x4090_all_sys": (8, 2, "SYS", 0, (0, 0, 0, 0, 1, 1, 1, 1)),
}
XML = """<system version="1">
  <cpu numaid="0" affinity="0000000f">
    <pci busid="ff:01.0" class="0x060400">
      <pci busid="02:00.0" class="0x030200"/>
      <pci busid="01:00.0" class="0x030200"><gpu dev="0"><nvlink target="04:00.0" count="2"/></gpu></pci>
      <pci busid="ff:02.0" class="0x060400">
        <pci busid="03:00.0" class="0x020700"><nic><net name="mlx5_0"/></nic></pci>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="000000f0">
    <pci busid="04:00.0" class="0x030200"><gpu dev="2"><nvlink target="01:00.0" count="2"/></gpu></pci>
  </cpu>
</system>"""


def test_tabs_escapes_missing_rows_and_legends_are_understood() -> None:
    inside = read_matrix(TABS, "m")
    assert inside == Inside(
        links=(("X", "NV4"), ("NV4", "X")),
        nics=("mlx5_0", "bond0"),
        nic_links=(("PIX", "SYS"), ("SYS", "SYS")),
        gpu_cpus=(((0, 3), (8, 11)), ((4, 7), (12, 15))),
        gpu_numa=(0, 1),
    )
    assert inside.near_nics == (1, 0)
    assert [node.cores[:2] for node in inside.numa_nodes] == [(0, 1), (4, 5)]


def test_a_missing_row_of_a_gpu_is_read_off_the_others_columns() -> None:
    assert read_matrix("GPU0 GPU1\nGPU1 PIX X\n", "m").links[0][1] == "PIX"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "m: expected what `nvidia-smi topo -m` prints, found no line"),
        ("hello\n", "m: line 1: expected a header of devices, GPU0 first, found 'hello'"),
        ("GPU0 GPU1\nGPU0 X\n", "m: line 2: expected 2 cells, found 1"),
        (
            "GPU0 GPU1\nGPU0 X WIRE\n",
            "m: line 2: expected X, NV with a number, PIX, PXB, PHB, NODE or SYS, found 'WIRE'",
        ),
        ("GPU0 GPU1\nGPU2 X PIX\n", "m: line 2: expected a row for each device of the header, found 'GPU2'"),
        ("GPU0 GPU1\n", "m: expected a row of GPU0 or of GPU1, found neither"),
    ],
)
def test_a_matrix_that_is_none_is_refused(text: str, error: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read_matrix(text, "m")
    assert refused.value.text.startswith(error)


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_of_real_machines(name: str) -> None:
    gpus, nics, cell, near, numa = MATRICES[name]
    inside = read_matrix(data_file("topology", f"{name}.txt").read_text(), name)
    assert (len(inside.links), len(inside.nics), inside.links[0][1]) == (gpus, nics, cell)
    assert all(inside.links[a][b] == inside.links[b][a] for a in range(gpus) for b in range(gpus))
    assert (inside.near_nics[1], inside.gpu_numa) == (near, numa)
    assert all(inside.gpu_cpus)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("A100-SXM", "dgx_a100_8gpu_12nic"),
        ("A100-SXM-4", "a100_4gpu_one_nic"),
        ("H100-SXM", "dgx_h100_8gpu_12nic"),
        ("H200-SXM", "hgx_h200_8gpu_8nic"),
        ("L40S", "pcie_8gpu_switch_pairs"),
        ("RTX4090", "pcie_8x4090_all_sys"),
    ],
)
def test_simulated_machines_are_joined_as_real_ones(model: str, name: str) -> None:
    inside = read_matrix(data_file("topology", f"{name}.txt").read_text(), name)
    inventory = simulate(f"{load_machine(model).gpus}x{model}", "n1")
    assert (inventory.links, inventory.nics) == (inside.links, inside.nics)
    assert inventory.near_nics == (inside.near_nics if inside.nics else ())
    assert tuple(gpu.numa_node for gpu in inventory.gpus) == inside.gpu_numa


@pytest.mark.parametrize("model", known_models())
def test_a_simulated_machines_cores_are_each_in_one_numa_node(model: str) -> None:
    inventory = simulate(f"1x{model}", "n1")
    assert sorted(core for node in inventory.numa_nodes for core in node.cores) == list(range(inventory.cpus))
    assert {gpu.numa_node for gpu in inventory.gpus} <= {node.index for node in inventory.numa_nodes}


def test_ncclls_xml_says_the_same() -> None:
    inside = read_nccl(XML, "x")
    assert inside.links == (("X", "PIX", "NV2"), ("PIX", "X", "SYS"), ("NV2", "SYS", "X"))
    assert (inside.nics, inside.nic_links) == (("mlx5_0",), (("PXB",), ("PXB",), ("SYS",)))
    assert (inside.gpu_numa, inside.gpu_cpus[2], inside.near_nics) == ((0, 0, 1), ((4, 7),), (1, 1, 0))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<system>", "x: line 1: expected XML, found an error: "),
        ("<graphs/>", "x: expected NCCL's <system>, found <graphs>"),
        ("<system/>", "x: expected GPUs (PCI class 0x0302), found none"),
        ('<system><cpu numaid="a"/></system>', "x: expected a number as numaid of each <cpu>, found 'a'"),
        ('<system><cpu numaid="0" affinity="xy"/></system>', "x: expected hexadecimal words as affinity, found 'xy'"),
        ('<system><cpu numaid="0"><pci busid="a"/></cpu></system>', "x: expected a class of device a, found none"),
        ("<!DOCTYPE x><system/>", "x: expected plain XML, found a document type of its own"),
    ],
)
def test_xml_that_is_not_ncclls_is_refused(text: str, error: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read_nccl(text, "x")
    assert refused.value.text.startswith(error)


@pytest.mark.parametrize(
    ("name", "gpus", "nics", "cell", "near", "cores"),
    [
        ("azure_ndv4", 8, 8, "PIX", 0b1100, ((24, 47),)),
        ("azure_ndv5", 8, 8, "NODE", 0b1, ((0, 47),)),
        ("azure_ncv4", 4, 1, "SYS", 0b1, ((0, 23),)),
        ("aws_p4d.24xl", 8, 4, "PIX", 0b1, ((0, 23), (48, 71))),
    ],
)
def test_xml_that_clouds_ship(
    name: str, gpus: int, nics: int, cell: str, near: int, cores: tuple[tuple[int, int], ...]
) -> None:
    inside = read_nccl(data_file("topology", "nccl_xml", f"{name}.xml").read_text(), name)
    assert (len(inside.links), len(inside.nics), inside.links[0][1]) == (gpus, nics, cell)
    assert (inside.near_nics[0], inside.gpu_cpus[0]) == (near, cores)


def test_xml_without_classes_needs_to_be_told_which_are_gpus() -> None:
    text = data_file("topology", "nccl_xml", "aws_g5.48xl.xml").read_text()
    with pytest.raises(BadConfig, match="say which bus ids are GPUs"):
        read_nccl(text, "g5")
    buses = [f"0000:00:1{digit}.0" for digit in "6789abcd"]
    assert read_nccl(text, "g5", buses).gpu_numa == (0, 0, 0, 0, 1, 1, 1, 1)


NUMA = tuple(NumaNode(index, ((4 * index, 4 * index + 3),)) for index in range(4))
ALL = 0xFFFF


@pytest.mark.parametrize(
    ("mask", "free", "count", "cores", "memory"),
    [
        (0b0001, ALL, 2, (0, 1), (0,)),  # GPU 0 is on node 0
        (0b0011, ALL, 4, (0, 1, 4, 5), (0, 1)),  # evenly
        (0b0101, ALL, 5, (0, 1, 2, 3, 8), (0, 2)),  # GPUs 0 and 2 on node 0: all of it, then one near no GPU
        (0b0001, 0xFFF0, 2, (8, 9), (2,)),  # node 0 is full: not next to GPU 1
        (0b0001, 0x00F0, 2, (4, 5), (1,)),  # but there, if nowhere else
        (0b0001, ALL, 0, (), (0,)),
        (0, ALL, 3, (8, 9, 10), (2,)),  # no GPU: away from all of them
        (0, 0x3300, 3, (8, 9, 12), (2, 3)),
        (0b0010, 0, 3, (), (1,)),
        (0b0001, ALL, 99, tuple(range(16)), (0, 1, 2, 3)),
    ],
)
def test_cores_are_taken_near_the_gpus(
    mask: int, free: int, count: int, cores: tuple[int, ...], memory: tuple[int, ...]
) -> None:
    found = cores_near(NUMA, (0, 1, 0), mask, free, count)
    assert (found.cores, found.memory_nodes) == (cores, memory)


@given(st.integers(0, 7), st.integers(0, ALL), st.integers(0, 20))
def test_as_many_free_cores_as_there_are_are_taken(mask: int, free: int, count: int) -> None:
    found = cores_near(NUMA, (0, 1, 0), mask, free, count)
    assert len(found.cores) == min(count, free.bit_count())
    assert all(free >> core & 1 for core in found.cores)
    assert len(set(found.cores)) == len(found.cores)


@given(st.integers(0, 1 << 40))
def test_a_masks_ranges_are_its_bits(mask: int) -> None:
    assert sum(1 << bit for first, last in mask_ranges(mask) for bit in range(first, last + 1)) == mask
