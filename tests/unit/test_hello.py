"""Versions one minor apart work together; others are refused with a stable code."""

from __future__ import annotations

import pytest

from gsched.errors import VersionMismatch, from_code
from gsched.protocol.hello import require_compatible


@pytest.mark.parametrize("theirs", [(1, 1), (1, 2), (1, 3)])
def test_one_minor_apart_is_understood(theirs: tuple[int, int]) -> None:
    require_compatible(theirs, (1, 2))


@pytest.mark.parametrize("theirs", [(1, 0), (1, 4), (0, 2), (2, 2)])
def test_more_than_one_minor_apart_is_refused_with_both_versions(theirs: tuple[int, int]) -> None:
    with pytest.raises(VersionMismatch, match=rf"{theirs[0]}\.{theirs[1]} .* speaks 1\.2"):
        require_compatible(theirs, (1, 2))


def test_the_code_names_the_error_on_the_other_side() -> None:
    assert type(from_code("protocol.version", "x")) is VersionMismatch
