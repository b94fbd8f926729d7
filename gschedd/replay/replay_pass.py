"""gsim replay-pass: work a recorded pass out again and compare the plans, bit for bit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NoReturn

import click
from msgspec import Struct

from gsched.cli import _common
from gsched.cli._common import fail
from gsched.errors import BadRequest
from gsched.render.text import json_text
from gschedd.core.board import snapshot_of
from gschedd.core.pass_file import PassRecord, differences, record_of, unpack
from gschedd.core.plan import plan

_SHOWN = 20  # differences; with --json all


class Replayed(Struct, frozen=True):
    """What `--json` prints. Stable: fields are added, never renamed."""

    equal: bool
    nodes: int
    runs: int
    pending: int
    starts: int
    planned: int
    cpu_ms: float  # of the pass, arrays made from nothing
    differences: tuple[str, ...]


@_common.command("replay-pass")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(file: str, as_json: bool) -> int:
    """Give the pass in FILE, written by `gctl snapshot`, to the scheduler again; status 1 if the plan differs."""
    found = replayed(_read(file))
    if as_json:
        click.echo(json_text(found))
        return 0 if found.equal else 1
    click.echo(
        f"{found.pending} pending jobs, {found.runs} runs, {found.nodes} nodes: {found.starts} starts, "
        f"{found.planned} planned starts, {found.cpu_ms:.1f} ms of CPU time"
    )
    if not found.equal:
        _fail_with(found.differences)
    click.echo("The plan is the same.")
    return 0


def _fail_with(lines: tuple[str, ...]) -> NoReturn:
    for line in lines[:_SHOWN]:
        click.echo(line)
    left = len(lines) - _SHOWN
    fail(f"the plan differs in {len(lines)} places{f', {left} not shown (--json)' if left > 0 else ''}")


def replayed(record: PassRecord) -> Replayed:
    """Plan again and compare."""
    given = record.given
    plan(snapshot_of(given), given.policy, given.now)  # the first one also loads, or compiles, the kernels
    began = time.process_time()
    decided = plan(snapshot_of(given), given.policy, given.now)
    cpu_ms = (time.process_time() - began) * 1000
    found = record_of(decided)
    return Replayed(
        equal=found == record.plan,
        nodes=len(given.nodes),
        runs=len(given.holds),
        pending=len(given.queue),
        starts=len(found.starts),
        planned=len(found.planned),
        cpu_ms=cpu_ms,
        differences=tuple(differences(record.plan, found)),
    )


def _read(file: str) -> PassRecord:
    try:
        content = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"{file} cannot be read: {why}") from None
    try:
        return unpack(content)
    except BadRequest as error:
        raise BadRequest(f"{file}: {error.text}") from None
