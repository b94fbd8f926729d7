"""Data from outside the project: `$GSCHED_DATA`, or ../shared/data. A test that needs it is skipped where it is not."""

from __future__ import annotations

import os
from pathlib import Path

from tests.parts import require

ROOT = Path(__file__).resolve().parents[1]


def data_file(*parts: str) -> Path:
    """A file of the data; skips the test that asks where there is none."""
    path = Path(os.environ.get("GSCHED_DATA") or ROOT.parent / "shared" / "data").joinpath(*parts)
    if not path.exists():
        require(str(path), False, "set GSCHED_DATA to where the data is")
    return path
