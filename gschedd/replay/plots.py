"""Plots of a replay: utilisation and fragmentation over time, and how waits and completion times are distributed.

matplotlib comes with the extra `sim` and is imported only here, when plots are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from gsched.errors import BadRequest, Impossible
from gschedd.replay.measures import Measures, Replayed

_DAY_S: Final = 86_400
_INK: Final = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")


def write_plots(result: Replayed, place: Path) -> list[Path]:
    """Write each plot of each setting as PNG and SVG; gives the files. Raises BadRequest, Impossible."""
    made = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, figure in _figures(result):
            for ending in ("png", "svg"):
                made.append(place / f"{name}.{ending}")
                figure.savefig(made[-1], metadata=_NO_DATE[ending])
    except OSError as error:
        raise BadRequest(f"--plots {place} cannot be written: {error.strerror}") from None
    return made


def svg_plots(result: Replayed) -> Iterator[tuple[str, str]]:
    """(name, an `<svg>` element) for each plot of each setting."""
    for name, figure in _figures(result):
        text = StringIO()
        figure.savefig(text, format="svg", metadata=_NO_DATE["svg"])
        yield name, text.getvalue()[text.getvalue().index("<svg") :]


# The same replay gives the same files: no date in them.
_NO_DATE: Final[dict[str, dict[str, Any]]] = {"png": {}, "svg": {"Date": None}}


# A figure and its axes are matplotlib's, which has no types that mypy could check here.
def _figures(result: Replayed) -> Iterator[tuple[str, Any]]:
    figure_of = find_matplotlib()
    for setting in dict.fromkeys(run.setting for run in result.runs):
        runs = [run for run in result.runs if run.setting == setting]
        for name, draw in _PLOTS.items():
            figure = figure_of(figsize=(7.5, 3.6), layout="constrained")
            axes = figure.subplots()
            draw(axes, runs)
            axes.set_title(f"{result.trace} on {result.nodes}, {setting}", fontsize=10)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
            yield f"{name}-{setting}", figure


def find_matplotlib() -> Callable[..., Any]:
    """The class of figures, set so that the same plot is the same text. Raises Impossible without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Impossible("plots need matplotlib, which is not installed: pip install 'gsched[sim]'") from None
    matplotlib.rcParams["svg.hashsalt"] = "gsched"
    made: Callable[..., Any] = Figure
    return made


def _over_time(axes: Any, runs: Sequence[Measures], curve: Callable[[Measures], Sequence[float]], words: str) -> None:
    for run, ink in zip(runs, _INK, strict=False):
        days = [(i + 0.5) * run.bin_s / _DAY_S for i in range(len(curve(run)))]
        axes.plot(days, curve(run), label=run.policy, color=ink, linewidth=1)
    axes.set_xlabel("days")
    axes.set_ylabel(words)
    axes.set_ylim(bottom=0)


def _utilisation(axes: Any, runs: Sequence[Measures]) -> None:
    _over_time(axes, runs, lambda run: run.utilisation, "GPUs busy, %")


def _fragmentation(axes: Any, runs: Sequence[Measures]) -> None:
    _over_time(axes, runs, lambda run: run.torn, "GPUs idle on nodes partly busy, %")


def _waiting(axes: Any, runs: Sequence[Measures]) -> None:
    _over_time(axes, runs, lambda run: run.waiting, "jobs that wait")


def _distribution(axes: Any, runs: Sequence[Measures], values: Callable[[Measures], Sequence[float]]) -> None:
    """Cumulative, on a logarithmic axis of hours; less than a second is drawn as one."""
    for run, ink in zip(runs, _INK, strict=False):
        hours = [max(value, 1) / 3600 for value in values(run)]
        share = [100 * i / (len(hours) - 1) for i in range(len(hours))]
        axes.step(hours, share, where="post", label=run.policy, color=ink, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_ylabel("% of the jobs")


def _waits(axes: Any, runs: Sequence[Measures]) -> None:
    _distribution(axes, runs, lambda run: run.waits_s)
    axes.set_xlabel("wait up to, hours")


def _completions(axes: Any, runs: Sequence[Measures]) -> None:
    _distribution(axes, runs, lambda run: run.completions_s)
    axes.set_xlabel("completion time up to, hours")


_PLOTS: Final = {
    "utilisation": _utilisation,
    "fragmentation": _fragmentation,
    "waiting": _waiting,
    "waits": _waits,
    "completions": _completions,
}
