"""The mix of jobs, and the prices made from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gschedd.core.mix import GPU, PROPORTIONAL, JobMix, PriceList, Shape, Tuning, leftover_values, price_list

CAPACITY = {"A": 3000, "B": 1000}


def _mix(**counts: int) -> JobMix:
    """s810=3: three shares of 810 thousandths; s1000: whole GPUs."""
    shapes = [Shape(gpus=1, milli=int(name[1:])) for name, count in counts.items() for _ in range(count)]
    return JobMix().after(shapes)


def test_a_mix_counts_what_arrives_and_forgets_what_is_old() -> None:
    a, b = Shape(cores=1000), Shape(cores=2000)
    mix = JobMix().after([b, a, a])
    assert mix.rows == ((a, 2000), (b, 1000))
    assert mix.after([b], keep_milli=500).rows == ((a, 1000), (b, 1500))
    assert mix.after([], keep_milli=0).rows == ()


def test_an_empty_mix_prices_nothing() -> None:
    assert price_list(JobMix(), CAPACITY, Tuning()) == PriceList()
    assert price_list(JobMix().after([Shape(cores=4000)]), CAPACITY, Tuning()) == PriceList()


def test_a_leftover_that_no_share_fits_into_is_worth_nothing() -> None:
    values = leftover_values(_mix(s810=5, s1000=5))
    assert values[809] == 0
    assert values[810] == values[1000] == GPU


def test_halves_are_worth_half() -> None:
    values = leftover_values(_mix(s500=4, s1000=1))
    assert (values[499], values[500], values[999], values[1000]) == (0, GPU // 2, GPU // 2, GPU)


def test_the_dual_prices_of_the_trace_are_those_that_were_found() -> None:
    """The shares of openb `default`: what fills a GPU alone is worth one, pairs share it."""
    counts = {1000: 3911, 810: 1078, 470: 750, 320: 328, 650: 253, 230: 140, 460: 128, 590: 75, 160: 74}
    mix = _mix(**{f"s{milli}": count for milli, count in counts.items()})
    values = leftover_values(mix)
    assert values[810] == pytest.approx(GPU, abs=10)
    assert values[650] == pytest.approx(GPU * 2 / 3, abs=10)
    assert values[470] == pytest.approx(GPU / 2, abs=10)
    assert values[320] == pytest.approx(GPU / 3, abs=10)


@given(st.dictionaries(st.integers(1, 1000), st.integers(1, 20), min_size=1, max_size=8))
def test_worth_only_grows_with_what_is_left_and_a_gpu_is_worth_one(counts: dict[int, int]) -> None:
    values = leftover_values(_mix(**{f"s{milli}": count for milli, count in counts.items()}))
    assert len(values) == len(PROPORTIONAL)
    assert values == sorted(values)
    assert values[0] == 0
    assert values[1000] == GPU
    assert values == leftover_values(_mix(**{f"s{milli}": count for milli, count in reversed(counts.items())}))


def test_a_model_is_scarce_as_far_as_jobs_name_it() -> None:
    """Half of the demand names B, which is a quarter of the GPUs: all of B is spoken for."""
    mix = JobMix().after([Shape(gpus=1, milli=1000, models=("B",)), Shape(gpus=1, milli=1000)])
    assert dict(price_list(mix, CAPACITY, Tuning(scarcity=300)).scarce) == {"A": 0, "B": 300}
    mix = JobMix().after([Shape(gpus=1, milli=1000, models=("A", "B")), *[Shape(gpus=1, milli=1000)] * 3])
    assert dict(price_list(mix, CAPACITY, Tuning(scarcity=300)).scarce) == {"A": 75, "B": 75}


def test_jobs_for_several_gpus_make_nodes_fill_up_more_tightly() -> None:
    one, four = Shape(gpus=1, milli=1000), Shape(gpus=4, milli=1000)
    tuning = Tuning(tight=18, tight_several=55)
    assert price_list(JobMix().after([one]), CAPACITY, tuning).tight == 18
    assert price_list(JobMix().after([four, *[one] * 4]), CAPACITY, tuning).tight == 18 + 27
