"""The report: one HTML file with its style and its plots inside, that needs nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from gschedd.replay.knowledge import Setting
from gschedd.replay.measures import Measures, Replayed
from gschedd.replay.plots import svg_plots
from gschedd.replay.policies import CONTENDERS, Contender
from gschedd.replay.published import published

_STYLE: Final = (
    "body{font:15px/1.45 sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:14px}th,td{padding:.25rem .7rem;text-align:right}"
    "th{border-bottom:1px solid #888}td:first-child,th:first-child{text-align:left}"
    "svg{max-width:100%;height:auto}"
)
_HEAD: Final = (
    *("policy", "mean completion, h", "median, h", "p99, h", "mean wait, h", "p99 wait, h", "longest wait, h"),
    *("makespan, days", "busy, %", "torn, %", "preemptions"),
)


def report(result: Replayed) -> str:
    """The whole page."""
    plots = list(svg_plots(result))
    parts = [
        f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>{escape(result.trace)}</title>",
        f"<style>{_STYLE}</style><h1>{escape(result.trace)} on {result.nodes} GPUs</h1>",
        f"<p>{result.jobs:,} jobs, {result.gpu_s / 3600:,.0f} GPU hours, replayed by gsim through the production core.",
        "Busy: share of all GPUs over the makespan; torn: idle GPUs of nodes that were partly busy.</p>",
        "<ul>",
        *(f"<li><b>{contender.name}</b>: {escape(contender.words)}</li>" for contender in _used(result)),
        "</ul>",
    ]
    for setting in dict.fromkeys(run.setting for run in result.runs):
        parts.append(f"<h2>{setting}: {escape(Setting(setting).words)}</h2>")
        parts += _table([run for run in result.runs if run.setting == setting])
        parts += [_inline(svg, name) for name, svg in plots if name.endswith(f"-{setting}")]
    parts += _published(result)
    return "\n".join(parts) + "\n"


def _used(result: Replayed) -> Iterator[Contender]:
    names = {run.policy for run in result.runs}
    return (contender for contender in CONTENDERS if contender.name in names)


def _table(runs: Sequence[Measures]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{word}</th>" for word in _HEAD) + "</tr>"
    for run in runs:
        hours = (
            *(run.completion_mean_s, run.completion_median_s, run.completion_p99_s),
            *(run.wait_mean_s, run.wait_p99_s, run.wait_max_s),
        )
        cells = [
            run.policy,
            *(f"{value / 3600:,.2f}" for value in hours),
            f"{run.makespan_s / 86_400:,.2f}",
            f"{run.utilisation_percent:.1f}",
            f"{run.torn_percent:.1f}",
            f"{run.preemptions:,}",
        ]
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</table>"


def _published(result: Replayed) -> Iterator[str]:
    rows = published(result.jobs, result.gpu_s, result.nodes)
    if not rows:
        return
    yield "<h2>Published for this trace: durations known, preemption allowed (Muri, SIGCOMM 2022)</h2>"
    yield "<table><tr><th>policy</th><th>mean completion, h</th><th>makespan, days</th></tr>"
    for row in rows:
        makespan = "" if row.makespan_s is None else f"{row.makespan_s / 86_400:,.2f}"
        yield f"<tr><td>{row.policy}</td><td>{row.completion_mean_s / 3600:,.2f}</td><td>{makespan}</td></tr>"
    yield "</table>"


def _inline(svg: str, name: str) -> str:
    """An SVG fit to stand in a page beside others: no metadata, ids of its own, no addresses of namespaces."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(?::xlink)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'(id="|href="#|url\(#)', lambda found: f"{found[1]}{name}-", svg)
    return f"<figure>{svg}</figure>"
