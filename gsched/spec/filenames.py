"""Patterns in the names of output files: `slurm-%j.out`, `logs/%x-%4t.log`.

%j job id   %A array's job id   %a array index   %b array index modulo 10   %J job.step   %s step   %t rank
%n node's place in the job   %N node, short   %u user   %x job name   %r restarts   %% a percent sign

A number after the percent sign pads numbers with zeros (`%4j`), to 10 digits at most; names are not padded. A doubled
backslash anywhere turns all replacement off, and is itself taken out.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest

DEFAULT_OUTPUT: Final = "slurm-%j.out"  # where the output of a script goes that names no file
NOT_IN_ARRAY: Final = 4294967294  # what %a is outside an array, as in Slurm
PAD_MAX: Final = 10
OFF: Final = "\\\\"
BATCH: Final = "batch"  # the step of the script itself

_MARK: Final = r"%(?:(%)|([0-9]*)([A-Za-z]))"
_KNOWN: Final = "jAabJstnNuxr"


class FileFields(Struct, frozen=True, kw_only=True):
    """What the marks of a pattern stand for."""

    job: int
    user: str
    name: str
    node: str  # its name, of which %N is the part before the first dot
    node_rank: int = 0
    rank: int = 0
    step: str = BATCH
    restarts: int = 0


def fill_pattern(pattern: str, fields: FileFields) -> str:
    """The file name that a pattern stands for; marks that are unknown stay as they are."""
    if OFF in pattern:
        return pattern.replace(OFF, "")

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return "%"
        value = _value(found[3], fields, _width(found[2]))
        return found[0] if value is None else value

    return re.sub(_MARK, replaced, pattern)


def check_pattern(pattern: str) -> None:
    """Refuse a pattern with an unknown mark, a NUL or nothing in it. Raises BadRequest."""
    if not pattern:
        raise BadRequest("a file name is empty")
    if "\0" in pattern:
        raise BadRequest(f"a file name holds a NUL character: {pattern!r}")
    if OFF in pattern:
        return
    for found in re.finditer(_MARK, pattern):
        if not found[1] and found[3] not in _KNOWN:
            known = " ".join(f"%{letter}" for letter in _KNOWN)
            raise BadRequest(f"unknown mark {found[0]} in the file name {pattern!r} (known: {known} %%)")


def fixed_part(pattern: str) -> str:
    """The pattern up to its first mark; all of it (with replacement done) if it has none."""
    if OFF in pattern:
        return pattern.replace(OFF, "")
    for found in re.finditer(_MARK, pattern):
        if not found[1] and found[3] in _KNOWN:
            return pattern[: found.start()].replace("%%", "%")
    return pattern.replace("%%", "%")


def has_marks(pattern: str) -> bool:
    """Whether the file's name depends on the job."""
    return OFF not in pattern and any(not found[1] and found[3] in _KNOWN for found in re.finditer(_MARK, pattern))


def _width(digits: str) -> int:
    return min(int(digits[:3] or 0), PAD_MAX)


def _value(letter: str, fields: FileFields, width: int) -> str | None:
    numbers = {
        "j": fields.job,
        "A": fields.job,
        "a": NOT_IN_ARRAY,
        "b": NOT_IN_ARRAY % 10,
        "t": fields.rank,
        "n": fields.node_rank,
        "r": fields.restarts,
    }
    if letter in numbers:
        return f"{numbers[letter]:0{width}d}"
    padded = f"{fields.job:0{width}d}"
    step = fields.step if not fields.step.isdecimal() else f"{int(fields.step):0{width}d}"
    texts = {
        "J": padded if fields.step == BATCH else f"{padded}.{fields.step}",
        "s": step,
        "N": fields.node.split(".")[0],
        "u": fields.user,
        "x": fields.name,
    }
    return texts.get(letter)
