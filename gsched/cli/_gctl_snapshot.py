"""gctl snapshot: the scheduler's whole input on file, for `gsim replay-pass`."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click import argument

from gsched.client.blocking import connect
from gsched.errors import BadRequest
from gsched.protocol.messages import TakeSnapshot


@click.command("snapshot")
@argument("file", metavar="FILE")
def snapshot(file: str) -> None:
    """Write what the scheduler decides on now, and the plan it gives, to FILE; for administrators."""
    with connect() as client:
        taken = client.call(TakeSnapshot())
    path = Path(file)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(taken.content)
        fresh.replace(path)
    except (OSError, ValueError) as error:
        fresh.unlink(missing_ok=True)
        why = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"{file} cannot be written: {why}") from None
    click.echo(f"{file}: {taken.pending} pending jobs, {taken.runs} runs, {taken.nodes} nodes")
