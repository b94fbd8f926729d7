r"""Tables as sacct prints them: `name%width` lists of fields, fixed width with dashes, or with bars for programs.

With bars every line has the same number of bars, whatever users call their jobs: inside a value a bar is written
`\x7c` and a backslash `\x5c`, beside the escapes that `text.shown` makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest
from gsched.render.accounting import FIELDS, Field, Line
from gsched.render.text import shown

_BY_NAME: Final = {field.name.lower(): field for field in FIELDS}
_WIDTH_MAX: Final = 1000  # characters; a typing mistake should not fill the screen


class Shown(Struct, frozen=True):
    """One column: a field and how wide it is here (negative = on the left)."""

    field: Field
    width: int


def parse_fields(text: str) -> tuple[Shown, ...]:
    """Read `jobid,state%20,jobname%-30`. Raises BadRequest that names the wrong word and all fields."""
    found = []
    for word in text.split(","):
        name, percent, width = word.strip().partition("%")
        field = _BY_NAME.get(name.lower())
        if field is None:
            hint = _near(name)
            raise BadRequest(f"no field is called {name!r}{hint}; known are {', '.join(f.name for f in FIELDS)}")
        found.append(Shown(field, _width(word, width) if percent else field.width))
    return tuple(found)


def _near(name: str) -> str:
    from difflib import get_close_matches  # only on the way out

    near = get_close_matches(name.lower(), _BY_NAME, n=1)
    return f" (did you mean {_BY_NAME[near[0]].name}?)" if near else ""


def _width(word: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or not 1 <= int(digits[:6]) <= _WIDTH_MAX:
        raise BadRequest(
            f"not a width: {word!r}; expected NAME%WIDTH, 1 to {_WIDTH_MAX} characters, -WIDTH for the left"
        )
    return int(text)


def fixed_lines(columns: Sequence[Shown], lines: Iterable[Line], header: bool) -> Iterator[str]:
    """As sacct's own: each cell as wide as its column and a space; what is cut ends in `+`."""
    if header:
        yield "".join([_fit(c.field.name, c.width) + " " for c in columns])
        yield "".join(["-" * abs(c.width) + " " for c in columns])
    for line in lines:
        yield "".join([_fit(shown(c.field.value(line)), c.width) + " " for c in columns])


def _fit(text: str, width: int) -> str:
    size = abs(width)
    if len(text) > size:
        return text[: size - 1] + "+"
    return text.ljust(size) if width < 0 else text.rjust(size)


def bar_lines(columns: Sequence[Shown], lines: Iterable[Line], header: bool, *, last_bar: bool) -> Iterator[str]:
    """One bar between values (and after the last one, with `last_bar`); nothing is cut."""
    end = "|" if last_bar else ""
    if header:
        yield "|".join([c.field.name for c in columns]) + end
    for line in lines:
        yield "|".join([_barred(c.field.value(line)) for c in columns]) + end


def _barred(text: str) -> str:
    return shown(text.replace("\\", "\\x5c")).replace("|", "\\x7c")
