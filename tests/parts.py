"""Parts that a test needs and a machine may lack: skipped by name here, a failure in continuous integration."""

from __future__ import annotations

import os

import pytest


def require(part: str, present: object, reason: str) -> None:
    """Go on if `present` is true; else skip and name the part, or fail where CI=true says that it must be there."""
    if present:
        return
    text = f"{part} is not here: {reason}"
    if os.environ.get("CI", "") == "true":
        pytest.fail(f"{text} (CI=true: a missing part fails)")
    pytest.skip(text)
