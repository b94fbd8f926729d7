"""The format language of squeue -o and sinfo -o: `%[.|-][width|#]letter`, anything else as written.

`%8j` pads or cuts on the right to 8 characters, `%.8j` pads on the left, `%-8j` is `%8j` spelled out, `%#N` is as
wide as its longest cell, `%i` is as wide as it needs, `%%` is a percent sign. Ids and numbers are padded, never cut,
for half a job id is a wrong job id; headers are cut, as squeue's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from gsched.errors import BadRequest

Row = TypeVar("Row")

_FIELD: Final = re.compile(r"%(?:(%)|([.-]?)(#|\d+)?([A-Za-z])|(.?))", re.DOTALL)
_WIDTH_MAX: Final = 1000  # characters; a typing mistake should not fill the screen


class Column(Struct, Generic[Row], frozen=True):
    """One letter of the language."""

    header: str
    value: Callable[[Row], str]
    about: str = ""  # for the manual, where the header does not say it
    cut: bool = True  # False: never shortened


class Cell(Struct, Generic[Row], frozen=True):
    """One field of a format: where it stands and what goes before it."""

    before: str
    column: Column[Row]
    width: int  # 0 = as needed
    widest: bool  # `#`
    right: bool


class Format(Struct, Generic[Row], frozen=True):
    """A format text taken apart."""

    cells: tuple[Cell[Row], ...]
    after: str

    def lines(self, rows: Iterable[Row], header: bool = True) -> Iterator[str]:
        """Give the header line, if wanted, and one line a row."""
        cells, rows = self._fitted(rows)
        if header:
            yield "".join([c.before + _fit(c.column.header, c, cut=True) for c in cells]) + self.after
        for row in rows:
            yield "".join([c.before + _fit(c.column.value(row), c, c.column.cut) for c in cells]) + self.after

    def _fitted(self, rows: Iterable[Row]) -> tuple[Sequence[Cell[Row]], Iterable[Row]]:
        """Turn each `#` into the width that its header and cells need."""
        if not any(cell.widest for cell in self.cells):
            return self.cells, rows
        rows = list(rows)
        return [_widened(cell, rows) for cell in self.cells], rows


def _widened(cell: Cell[Row], rows: Sequence[Row]) -> Cell[Row]:
    if not cell.widest:
        return cell
    width = max([len(cell.column.header), *(len(cell.column.value(row)) for row in rows)])
    return Cell(before=cell.before, column=cell.column, width=width, widest=False, right=cell.right)


def _fit(text: str, cell: Cell[Row], cut: bool) -> str:
    width = cell.width
    if not width:
        return text
    if len(text) >= width:
        return text[:width] if cut else text
    return text.rjust(width) if cell.right else text.ljust(width)


def parse_format(text: str, columns: Mapping[str, Column[Row]]) -> Format[Row]:
    """Take a format apart. Raises BadRequest for a letter that `columns` lacks, and lists those it has."""
    cells: list[Cell[Row]] = []
    before, end = "", 0
    for match in _FIELD.finditer(text):
        before += text[end : match.start()]
        end = match.end()
        percent, side, width, letter, stray = match.groups()
        if percent:
            before += "%"
            continue
        if letter not in columns:
            raise BadRequest(_unknown(letter or stray or "%", match.group(), columns))
        widest = width == "#"
        size = 0 if widest or not width else int(width)
        if size > _WIDTH_MAX:
            raise BadRequest(f"format {match.group()!r}: a column is at most {_WIDTH_MAX} characters wide")
        cells.append(Cell(before=before, column=columns[letter], width=size, widest=widest, right=side == "."))
        before = ""
    return Format(cells=tuple(cells), after=before + text[end:])


def _unknown(letter: str, written: str, columns: Mapping[str, Column[Row]]) -> str:
    known = " ".join(f"%{key}={column.header}" for key, column in sorted(columns.items()))
    return f"format {written!r}: no column has the letter {letter!r}; known are {known}, and %% for a percent sign"
