"""What holds for every test: where kernels are cached, how hypothesis behaves, what may not run side by side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from gschedd.kernel_cache import cache_directory

ROOT = Path(__file__).resolve().parents[1]

# The directory that gschedd uses too when it is started with the same base.
os.environ["NUMBA_CACHE_DIR"] = cache_directory(os.environ.get("NUMBA_CACHE_DIR") or str(ROOT / ".numba"))

settings.register_profile("gsched", deadline=None, print_blob=True)  # a first call may compile a kernel
settings.load_profile("gsched")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of real processes share one worker: they measure deadlines, and the machine is small.

    Here, not in pytest_collection_modifyitems: pytest-xdist reads the marks there, and may come first.
    """
    if any(ROOT / "tests" / folder in item.path.parents for folder in ("e2e", "integration")):
        item.add_marker(pytest.mark.xdist_group("processes"))
