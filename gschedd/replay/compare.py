"""gsim compare: what differs between replays that were written with --json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from gsched.cli import _common
from gsched.errors import BadRequest, NotFound
from gsched.render.text import json_text, shown
from gschedd.replay.measures import Measures, Replayed

# Field of Measures -> its word in the table.
COMPARED: Final = {
    "completion_mean_s": "mean completion, s",
    "completion_median_s": "median completion, s",
    "completion_p99_s": "p99 completion, s",
    "wait_mean_s": "mean wait, s",
    "wait_p99_s": "p99 wait, s",
    "makespan_s": "makespan, s",
    "utilisation_percent": "busy, %",
    "torn_percent": "torn, %",
    "preemptions": "preemptions",
}


class Difference(msgspec.Struct, frozen=True):
    """One number of one policy and setting in each file; None where a file has no such run."""

    setting: str
    policy: str
    what: str
    values: tuple[float | None, ...]

    @property
    def changes(self) -> tuple[float | None, ...]:
        """Of each file but the first, against the first, in percent; None where there is nothing to compare."""
        base = self.values[0]
        return tuple(
            None if not base or value is None else round(100 * (value - base) / base, 2) for value in self.values[1:]
        )


@_common.command("compare")
@click.argument("files", nargs=-1, metavar="A.json B.json ...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(files: tuple[str, ...], as_json: bool) -> int:
    """Compare replays, each against the first."""
    if len(files) < 2:
        _common.fail("say at least two files that gsim replay --json wrote", status=2)
    results = [read_replayed(Path(file)) for file in files]
    for file, other in zip(files[1:], results[1:], strict=True):
        for name in ("trace", "jobs", "gpu_s", "nodes", "interval_s"):
            first, second = getattr(results[0], name), getattr(other, name)
            if first != second:
                _common.warn(f"{name} differs: {first} in {files[0]}, {second} in {file}")
    found = list(differences(results))
    if as_json:
        rows = [{**msgspec.to_builtins(row), "changes_percent": row.changes} for row in found]
        click.echo(json_text({"files": files, "rows": rows}))
    else:
        for line in table(files, found):
            click.echo(shown(line))
    return 0


def read_replayed(path: Path) -> Replayed:
    """Raises NotFound, BadRequest."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Replayed)
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path} is not what gsim replay --json writes: {error}") from None


def differences(results: Sequence[Replayed]) -> Iterator[Difference]:
    """Every number that is compared, for every policy and setting that any of them has."""
    runs: list[dict[tuple[str, str], Measures]] = [
        {(run.setting, run.policy): run for run in result.runs} for result in results
    ]
    for setting, policy in dict.fromkeys(key for of in runs for key in of):
        for field, words in COMPARED.items():
            found = (of.get((setting, policy)) for of in runs)
            values = tuple(None if run is None else float(getattr(run, field)) for run in found)
            yield Difference(setting, policy, words, values)


def table(files: Sequence[str], rows: Sequence[Difference]) -> Iterator[str]:
    """A line a number: the first file's, then each other's with the change."""
    yield f"{'setting':<10}{'policy':<10}{'':<22}" + "".join(f"{Path(file).name[-24:]:>26}" for file in files)
    for row in rows:
        cells = [_number(row.values[0])]
        for value, change in zip(row.values[1:], row.changes, strict=True):
            cells.append(_number(value) + ("" if change is None else f" {change:+8.1f}%"))
        yield f"{row.setting:<10}{row.policy:<10}{row.what:<22}" + "".join(f"{cell:>26}" for cell in cells)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
