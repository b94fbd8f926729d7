"""Counts, memory and GPUs: whole, positive, and every slip refused with what was asked and what is possible."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest
from gsched.spec.counts import parse_count, parse_node_count
from gsched.spec.gres import GpuAsk, parse_gpus, parse_gres
from gsched.spec.memory import format_memory, parse_memory


@pytest.mark.parametrize(
    ("text", "mib"),
    [("4000", 4000), ("4000M", 4000), ("4G", 4096), ("4g", 4096), ("1T", 1048576), ("1K", 1), ("2049K", 3), ("0", 0)],
)
def test_memory_is_mib_unless_a_unit_is_given(text: str, mib: int) -> None:
    assert parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "-1", "1.5G", "2000Mi", "2 GB", "4GB", "G", "1P", "nan", "inf", "١"])
def test_what_is_no_size_of_memory_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="whole number of MiB"):
        parse_memory(text)


def test_more_memory_than_any_machine_has_is_refused_with_the_limit() -> None:
    with pytest.raises(BadRequest, match="the most one job can ask on a node is 1099511627776 MiB"):
        parse_memory("1048577T")


def test_memory_is_written_with_the_largest_unit_that_divides_it() -> None:
    assert [format_memory(mib) for mib in (0, 500, 4000, 4096, 2 * 1024 * 1024)] == ["0", "500M", "4000M", "4G", "2T"]


def test_a_number_of_nodes_may_be_a_range() -> None:
    assert parse_node_count("4") == (4, 4)
    assert parse_node_count("2-4") == (2, 4)


@pytest.mark.parametrize("text", ["", "0", "-1", "4-2", "0-3", "2-", "-2-3", "1-2-3", "1.5", "2k", "x", "9" * 30])
def test_what_is_no_number_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="nodes"):
        parse_node_count(text)


def test_a_count_has_a_bound_that_is_named() -> None:
    with pytest.raises(BadRequest, match="1000001 tasks were asked; the most one job can ask is 1000000"):
        parse_count("1000001", "tasks")


@pytest.mark.parametrize(
    ("text", "asked"),
    [("8", GpuAsk(8)), ("h100:8", GpuAsk(8, "h100")), ("H100-SXM:2", GpuAsk(2, "H100-SXM")), ("08", GpuAsk(8))],
)
def test_gpus_are_a_count_with_or_without_a_model(text: str, asked: GpuAsk) -> None:
    assert parse_gpus(text) == asked


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("gpu", GpuAsk(1)),
        ("gpu:2", GpuAsk(2)),
        ("gpu:h100", GpuAsk(1, "h100")),
        ("gpu:h100:2", GpuAsk(2, "h100")),
        ("gres/gpu:4", GpuAsk(4)),
        ("none", None),
    ],
)
def test_gres_names_gpus_in_every_form_of_slurm(text: str, asked: GpuAsk | None) -> None:
    assert parse_gres(text) == asked


@pytest.mark.parametrize("count", ["0.5", ".5", "1.0000001", "1.0"])
def test_a_fraction_of_a_gpu_is_not_there_yet(count: str) -> None:
    for parse, text in ((parse_gpus, count), (parse_gpus, f"h100:{count}"), (parse_gres, f"gpu:h100:{count}")):
        with pytest.raises(BadRequest, match="fractions of a GPU are not supported yet"):
            parse(text)


@pytest.mark.parametrize(
    "count",
    ["", "0", "00", "-1", "-0.5", "nan", "NaN", "inf", "1e3", "1e-9", "9223372036854775808", "1000001", "٣", "8 "],
)
def test_a_bad_count_of_gpus_is_refused_in_every_form(count: str) -> None:
    for parse, text in ((parse_gpus, count), (parse_gpus, f"h100:{count}"), (parse_gres, f"gpu:{count}")):
        with pytest.raises(BadRequest):
            parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fpga:1", "no such kind of --gres: 'fpga'; gpu is the only one"),
        ("shard:2", "--gres=shard is not supported yet"),
        ("gpu:a100:1,gpu:h100:1", "several kinds of --gres"),
        ("gpu:a:b:c", "not a --gres"),
    ],
)
def test_another_gres_is_refused_by_its_name(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parse_gres(text)


def test_several_models_in_one_job_are_not_there_yet() -> None:
    with pytest.raises(BadRequest, match="several models of GPU"):
        parse_gpus("h100:8,a100:2")
