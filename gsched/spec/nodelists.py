"""Node lists: `n[1-4,7]`, `r[1-2]n[01-16]`, `a,b[001,003],c`. Widths are significant, and so is the order.

`expand` gives names in the order written, the first bracket of a name varying slowest. `fold` keeps order too, so that
`expand(fold(names)) == names`: the first name of a folded list of a job's nodes is its first node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import Final, NamedTuple, NoReturn

from gsched.errors import BadRequest, TooLarge
from gsched.values.ids import NodeName

NAMES_MAX: Final = 100_000
TEXT_MAX: Final = 4 * 1024 * 1024  # so many names, each written out
FORMS: Final = "names and ranges, as n1,n[2-4,7],gpu[01-16]"

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
_LITERAL: Final = r"[A-Za-z0-9_.-]*"
_RANGE: Final = r"([0-9]{1,18})(?:-([0-9]{1,18}))?"
_NUMBERED: Final = r"(?s)(.*?)([0-9]{1,18})"


class _Range(NamedTuple):
    """Numbers written with at least `width` digits."""

    first: int
    last: int
    width: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def texts(self) -> Iterator[str]:
        return (f"{number:0{self.width}d}" for number in range(self.first, self.last + 1))


def expand(text: str) -> tuple[NodeName, ...]:
    """Give the names that a list stands for, in order; repeated ones stay repeated. Raises BadRequest, TooLarge."""
    patterns = [_pattern(part, text) for part in _split(text)]
    count = sum(prod(sum(r.size for r in ranges) for _, ranges in pattern if ranges) for pattern in patterns)
    if count > NAMES_MAX:
        raise TooLarge(f"the node list {_short(text)} stands for {count} names; the most is {NAMES_MAX}")
    names: list[NodeName] = []
    for pattern in patterns:
        choices = [(literal,) if not ranges else _texts(literal, ranges) for literal, ranges in pattern]
        names.extend(NodeName("".join(chosen)) for chosen in product(*choices))
    for name in names:
        if not re.fullmatch(_NAME, name):
            _refuse(text, f"{_short(name)} is not a name")
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """Write names as one list, in their order: neighbours that differ in their last number share a bracket."""
    parts: list[str] = []
    prefix, ranges = "", list[_Range]()
    for name in names:
        found = re.fullmatch(_NUMBERED, name)
        if found is None:
            parts += _folded(prefix, ranges)
            ranges = []
            parts.append(name)
        elif not (ranges and found[1] == prefix and _join(ranges, found[2])):
            parts += _folded(prefix, ranges)
            prefix, ranges = found[1], [_alone(found[2])]
    return ",".join(parts + _folded(prefix, ranges))


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key that sorts names as people do: n2 before n10."""
    return tuple(
        (0, int(piece)) if piece.isdecimal() and piece.isascii() else (1, piece)
        for piece in re.split(r"([0-9]{1,18})", name)
        if piece
    )


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are not inside a bracket."""
    if not text:
        _refuse(text, "it is empty")
    if len(text) > TEXT_MAX:
        raise TooLarge(f"a node list of {len(text)} characters; the most is {TEXT_MAX}")
    depth, start = 0, 0
    for at, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
        if depth not in (0, 1):
            _refuse(text, "its brackets do not match")
    if depth:
        _refuse(text, "a bracket is not closed")
    yield text[start:]


def _pattern(part: str, text: str) -> list[tuple[str, list[_Range]]]:
    """One part as pairs of a literal and the ranges that follow it."""
    if not part:
        _refuse(text, "a name is missing beside a comma")
    pairs: list[tuple[str, list[_Range]]] = []
    for piece in part.split("["):
        inside, closed, literal = piece.rpartition("]")
        if closed:
            pairs[-1] = (pairs[-1][0], [_range(r, text) for r in inside.split(",")])
        if not re.fullmatch(_LITERAL, literal):
            _refuse(text, f"{literal!r} cannot be part of a name")
        pairs.append((literal, []))
    return pairs


def _range(written: str, text: str) -> _Range:
    found = re.fullmatch(_RANGE, written)
    if not found:
        _refuse(text, f"{written!r} is not a number or a range of numbers")
    first, last = found[1], found[2] or found[1]
    if int(first) > int(last):
        _refuse(text, f"the range {written} runs backwards")
    if len(last) < len(first) or (last.startswith("0") and len(last) != len(first)):
        _refuse(text, f"the two ends of {written} have different widths")
    return _Range(int(first), int(last), _width(first))


def _texts(literal: str, ranges: list[_Range]) -> tuple[str, ...]:
    return tuple(literal + number for r in ranges for number in r.texts())


def _width(digits: str) -> int:
    """How many digits its neighbours need at least: a number that begins with 0 fixes its width, another does not."""
    return len(digits) if digits.startswith("0") else 1


def _alone(digits: str) -> _Range:
    return _Range(int(digits), int(digits), _width(digits))


def _join(ranges: list[_Range], digits: str) -> bool:
    """Add a number to the ranges of one bracket if it is written in that bracket's width; say whether it was."""
    number, width = int(digits), ranges[0].width
    if f"{number:0{width}d}" != digits:
        return False
    if number == ranges[-1].last + 1:
        ranges[-1] = ranges[-1]._replace(last=number)
    else:
        ranges.append(_Range(number, number, width))
    return True


def _folded(prefix: str, ranges: list[_Range]) -> list[str]:
    if not ranges:
        return []
    written = [f"{r.first:0{r.width}d}" + (f"-{r.last:0{r.width}d}" if r.size > 1 else "") for r in ranges]
    alone = len(ranges) == 1 and ranges[0].size == 1
    return [prefix + (written[0] if alone else f"[{','.join(written)}]")]


def _refuse(text: str, why: str) -> NoReturn:
    raise BadRequest(f"not a node list: {_short(text)}: {why} (write {FORMS})")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
