"""The design's proof: whatever the seed breaks, no GPU is held twice, no job is lost, every job ends once."""

from __future__ import annotations

import pytest

from tests.sim.scenario import survive

FEW = range(6)
MANY = range(6, 200)


@pytest.mark.parametrize("seed", FEW)
def test_the_cluster_survives(seed: int) -> None:
    survive(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", MANY)
def test_the_cluster_survives_many_seeds(seed: int) -> None:
    survive(seed)


def test_a_seed_replays_to_the_same_end() -> None:
    first, second = survive(3), survive(3)
    assert first.journal.batches == second.journal.batches
    assert first.events == second.events
