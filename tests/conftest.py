"""What holds for every test: where kernels are cached, how hypothesis behaves, what stays on one worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from gschedd.kernel_cache import cache_directory

ROOT = Path(__file__).resolve().parents[1]

# The directory that gschedd uses too when it is started with the same base.
os.environ["NUMBA_CACHE_DIR"] = cache_directory(os.environ.get("NUMBA_CACHE_DIR") or str(ROOT / ".numba"))

settings.register_profile("gsched", deadline=None, print_blob=True)  # a first call may compile a kernel
settings.load_profile("gsched")


class OneClusterAtATime(LoadScopeScheduling):
    """Deals tests out to pytest-xdist's workers: those of tests/e2e to one, for they share one cluster; integration
    tests a file at a time; the others one by one.

    Not by marks and --dist=loadgroup: what pytest-xdist 3.8 does with them has no effect under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/e2e/"):
            return "tests/e2e"
        return nodeid.split("::")[0] if nodeid.startswith("tests/integration/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneClusterAtATime:
    return OneClusterAtATime(config, log)
