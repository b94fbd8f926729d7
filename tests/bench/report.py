"""What a benchmark prints: a title, and rows of median and range, the machine named once above."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple


class Row(NamedTuple):
    """One measured thing. `values` in `unit`, one a repetition."""

    what: str
    values: Sequence[float]
    unit: str = "ms"
    budget: str = ""  # what the design asks for, if it asks

    def line(self) -> str:
        low, middle, high = min(self.values), statistics.median(self.values), max(self.values)
        spread = f"{middle:10,.1f} {low:10,.1f} {high:10,.1f}"
        return f"  {self.what:<52} {spread}  {self.unit:<6} {len(self.values):5}  {self.budget}".rstrip()


def describe_machine() -> str:
    """One line: processor, cores, load, kernel, Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0))
    return (
        f"machine: {model}, {cores} cores (load {os.getloadavg()[0]:.1f}), Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def show(title: str, rows: Sequence[Row]) -> None:
    """Print the table."""
    print(f"\n{title}")
    print(f"  {'':<52} {'median':>10} {'lowest':>10} {'highest':>10}  {'unit':<6} {'times':>5}  budget")
    for row in rows:
        print(row.line(), flush=True)


def milliseconds(action: Callable[[], object]) -> float:
    """How long one call takes, by the wall."""
    began = perf_counter()
    action()
    return (perf_counter() - began) * 1000


def percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
