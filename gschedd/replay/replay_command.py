"""gsim replay: a timed trace through the production core on a virtual clock, policies side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import process_time
from typing import TextIO

import click

from gsched.cli import _common
from gsched.render.text import json_text, shown
from gschedd.core.warm import compile_kernels
from gschedd.replay.cluster import Shape
from gschedd.replay.html import report
from gschedd.replay.knowledge import Setting, check_limits, parse_settings
from gschedd.replay.measures import Measures, measure, replayed
from gschedd.replay.plots import find_matplotlib, write_plots
from gschedd.replay.policies import Contender, parse_policies
from gschedd.replay.replay import Replay, Story, check_sizes
from gschedd.replay.tables import JobsCsv, replay_table
from gschedd.replay.traces import Trace, read_trace


@_common.command("replay")
@click.option("--trace", "file", required=True, metavar="FILE", help="CSV or SWF, may be gzipped.")
@click.option("--nodes", required=True, metavar="NxG", help="12x8: twelve nodes of eight GPUs.")
@click.option(
    "--policy", default="fifo,easy,gsched", show_default=True, metavar="LIST", help="Which to set side by side."
)
@click.option(
    "--setting",
    default="blind,predicted,oracle",
    show_default=True,
    metavar="LIST",
    help="What is known of durations; also: given.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N jobs.")
@click.option(
    "--interval", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="The least time between two passes."
)
@click.option(
    "--processors-per-gpu",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="In SWF: so many processors are one GPU.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs and for gsim compare.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write a row a job.")
@click.option("--plots", metavar="DIR", help="Write plots there, PNG and SVG.")
@click.option("--report", "report_file", metavar="FILE", help="Write one HTML page with tables and plots.")
def command(
    file: str,
    nodes: str,
    policy: str,
    setting: str,
    limit: int | None,
    interval: float,
    processors_per_gpu: int,
    as_json: bool,
    csv_file: str | None,
    plots: str | None,
    report_file: str | None,
) -> int:
    """Replay a timed trace and print how its jobs fared under each policy."""
    shape, contenders, settings = Shape.parse(nodes), parse_policies(policy), parse_settings(setting)
    if plots or report_file:
        find_matplotlib()  # before the work, not after it
    trace = read_trace(Path(file), limit, processors_per_gpu)
    check_sizes(trace, shape)
    for known in settings:
        check_limits(trace.jobs, known)
    if trace.left_out:
        _common.warn(f"{trace.left_out:,} rows of {file} are left out: no GPU, or never ran")
    compile_kernels()  # its time is no part of the replay's speed
    runs: list[Measures] = []
    with ExitStack() as stack:
        rows = JobsCsv(stack.enter_context(_open(csv_file))) if csv_file else None
        for known in settings:
            for contender in contenders:
                story = _told(trace, shape, contender, known, round(interval * 1000))
                runs.append(measure(story, shape, contender.name, known.value))
                if rows:
                    rows.add(known.value, contender.name, story)
    result = replayed(trace, shape, round(interval * 1000), runs)
    if plots:
        write_plots(result, Path(plots))
    if report_file:
        with _open(report_file) as page:
            page.write(report(result))
    if as_json:
        click.echo(json_text(result))
    else:
        for line in replay_table(result):
            click.echo(shown(line))
    return 0


def _told(trace: Trace, shape: Shape, contender: Contender, setting: Setting, interval: int) -> Story:
    """One replay, with a bar on a terminal, and its speed on stderr."""
    began = process_time()
    with click.progressbar(
        length=len(trace.jobs),
        label=f"{setting.value} {contender.name}",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
    ) as bar:
        progress: Callable[[int], None] = bar.update
        story = Replay(trace, shape, contender.policy_in(setting), setting, interval).run(progress)
    took = process_time() - began
    span_s = (story.moments[-1].at - story.moments[0].at) / 1000
    _common.note(
        f"{setting.value} {contender.name}: {span_s / 86_400:,.1f} days, {story.passes:,} passes in {took:,.1f} s of"
        f" CPU time: {span_s / max(took, 0.001):,.0f}x real time"
    )
    return story


def _open(path: str) -> TextIO:
    try:
        return open(path, "w", encoding="utf-8", newline="")
    except OSError as error:
        _common.fail(f"{path} cannot be written: {error.strerror}")
