"""MIG: the table against the known layouts, the kernels against their twins, and no slice twice."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.values.node import Gpu
from gschedd.core.kernels.slices import (
    NOT_CUT,
    PLACE_COLUMNS,
    PLACE_MASK,
    count_slices_nb,
    find_slices_nb,
    place_slices_nb,
)
from gschedd.core.mig import MASKS, MEDIA, MODELS, MigModel, keeps, mig_model
from gschedd.core.slices_twin import find_slices_py, layouts, place_slices_py, still_fits
from tests.outside import data_file

A100 = MODELS[1]
A30 = MODELS[-1]
KEEPS = np.array([keeps(model) for model in MODELS], dtype=np.int64)


def rows_of(
    name: str, models: list[MigModel | None]
) -> tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.int64]]:
    """`places` and `rows` of one node for one profile."""
    places = np.zeros((len(models), PLACE_COLUMNS), dtype=np.int64)
    rows = np.full((1, len(models)), NOT_CUT, dtype=np.int64)
    for g, model in enumerate(models):
        profile = model.profile(name) if model is not None else None
        if model is not None and profile is not None:
            places[g, 0], places[g, 1] = MODELS.index(model), len(profile.placements)
            places[g, PLACE_MASK : PLACE_MASK + len(profile.placements)] = profile.placements
            rows[0, g] = g
    return places, rows


@pytest.mark.parametrize(
    ("model", "doubled", "count"), [(A100, False, 19), (A100, True, 78), (A30, True, 5)], ids=["19", "78", "A30"]
)
def test_the_layouts_of_a_gpu_are_the_known_ones(model: MigModel, doubled: bool, count: int) -> None:
    """NVIDIA's guide lists 19 for an A100, without the profile of one compute and two memory slices."""
    profiles = [p for p in model.profiles if "+me" not in p.name and (doubled or (p.compute, p.memory) != (1, 2))]
    found = set(layouts(profiles))
    assert len(found) == count
    compute = {p.name: p.compute for p in profiles}
    assert all(sum(compute[name] for name, _ in layout) <= (7 if model.slices == 8 else 4) for layout in found)


def test_the_table_says_what_the_collected_facts_say() -> None:
    """Row by row: names, slices, starts, numbers of instances."""
    named = {model.name: model for model in MODELS}
    seen = 0
    with data_file("mig", "profiles.csv").open() as file:
        for row in csv.DictReader(file):
            profile = named[row["gpu"].replace("-NVL", "")].profile(row["profile"])
            assert profile is not None, row
            starts = [(mask & ~MEDIA & -(mask & ~MEDIA)).bit_length() - 1 for mask in profile.placements]
            assert (profile.compute, profile.memory, profile.most, starts, bool(profile.placements[0] & MEDIA)) == (
                int(row["compute_slices"]), int(row["memory_slices"]), int(row["max_instances"]),
                [int(start) for start in row["placement_starts"].split(";")], row["media_extension"] == "1",
            )  # fmt: skip
            seen += 1
    assert seen == sum(len(model.profiles) for model in MODELS if model.name != "GH200-96GB")


@pytest.mark.parametrize(
    ("name", "memory_mib", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", 81920, "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", 40960, "A100-40GB"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100-80GB"),
        ("NVIDIA H100 NVL", 95830, "H100-94GB"),
        ("NVIDIA GH200 480GB", 97871, "GH200-96GB"),
        ("NVIDIA H200", 143771, "H200-141GB"),
        ("NVIDIA GB200", 189471, "GB200-186GB"),
        ("NVIDIA A30", 24576, "A30-24GB"),
        ("NVIDIA L40S", 46068, None),
        ("NVIDIA A100-SXM4-80GB", 20000, None),
    ],
)
def test_a_gpus_name_and_memory_say_how_it_is_cut(name: str, memory_mib: int, model: str | None) -> None:
    found = mig_model(Gpu(0, "GPU-0", name, memory_mib))
    assert (found.name if found else None) == model


@pytest.mark.parametrize("model", [A100, A30], ids=lambda m: m.name)
def test_what_still_fits_is_right_for_every_mask(model: MigModel) -> None:
    table = keeps(model)
    for occupied in range(MASKS):
        counts = [table[occupied] >> 4 * (len(model.profiles) - 1 - i) & 15 for i in range(len(model.profiles))]
        assert counts == still_fits(model, occupied)


@pytest.mark.parametrize("model", [A100, A30], ids=lambda m: m.name)
def test_every_placement_on_one_gpu_agrees_with_its_twin(model: MigModel) -> None:
    for profile in model.profiles:
        places, _ = rows_of(profile.name, [model])
        for occupied in range(MASKS):
            assert place_slices_nb(KEEPS, places, 0, occupied) == place_slices_py(model, profile, occupied)


def test_instances_go_where_the_largest_stay_possible() -> None:
    """As the guide advises: a 3g beside a place for the 4g, a 1g in the slice that only a 1g can use."""
    starts = {name: place_slices_py(A100, profile, 0) for name in ("3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb")
              if (profile := A100.profile(name))}  # fmt: skip
    assert starts == {"3g.40gb": 0xF0, "2g.20gb": 0x30, "1g.20gb": 0xC0, "1g.10gb": 0x40}


NODES = st.lists(
    st.tuples(st.sampled_from([None, *MODELS[1:3], A30]), st.integers(0, MASKS - 1)), min_size=1, max_size=4
)
NAMES = st.sampled_from([p.name for p in (*A100.profiles, *A30.profiles)])


@given(NODES, NAMES, st.integers(0, 15))
def test_the_gpu_of_a_node_agrees_with_its_twin(node: list[tuple[MigModel | None, int]], name: str, gpus: int) -> None:
    models = [model for model, _ in node]
    places, rows = rows_of(name, models)
    occupied = np.array([[mask for _, mask in node]], dtype=np.int64)
    found = find_slices_nb(KEEPS, places, rows, 0, occupied, gpus)
    twin = find_slices_py(models, name, [mask for _, mask in node], gpus)
    assert found == (-1 if twin is None else twin[0] << 9 | twin[1])


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=30))
def test_no_slice_is_given_twice_and_whole_gpus_stay_whole(steps: list[tuple[str, bool]]) -> None:
    """Instances come and go on a node of four A100; one is put on a GPU that is whole only where no other holds it."""
    models: list[MigModel | None] = [A100] * 4
    occupied = np.zeros((1, 4), dtype=np.int64)
    live: list[tuple[int, int]] = []
    for name, ends in steps:
        if ends and live:
            gpu, mask = live.pop(0)
            occupied[0, gpu] ^= mask
            continue
        places, rows = rows_of(name, models)
        room = count_slices_nb(places, rows, 0, occupied, 15)
        found = int(find_slices_nb(KEEPS, places, rows, 0, occupied, 15))
        assert (found >= 0) == (room > 0)
        if found < 0:
            continue
        gpu, mask = found >> 9, found & MASKS - 1
        assert not occupied[0, gpu] & mask
        profile = A100.profile(name)
        assert profile
        if not occupied[0, gpu]:
            others = [int(o) for g, o in enumerate(occupied[0]) if o]
            assert not any(place_slices_py(A100, profile, o) for o in others)
        occupied[0, gpu] |= mask
        live.append((gpu, mask))
    for a, b in itertools.combinations(live, 2):
        assert a[0] != b[0] or not a[1] & b[1]


def test_an_instances_share_of_the_gpu_is_exact() -> None:
    names = {profile.name: A100.milli(profile) for profile in A100.profiles}
    assert names == {
        "7g.80gb": 1000, "4g.40gb": 500, "3g.40gb": 500, "2g.20gb": 250, "1g.20gb": 250, "1g.10gb": 125,
        "1g.10gb+me": 125,
    }  # fmt: skip
    assert [A30.milli(profile) for profile in A30.profiles] == [1000, 500, 500, 250, 250]
