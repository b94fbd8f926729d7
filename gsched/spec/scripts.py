"""Batch scripts: what one must look like, and the `#GSUB` and `#SBATCH` lines in it.

The rules are sbatch's. A directive begins in column 1 with exactly `#GSUB` or `#SBATCH`. Reading stops at the first
line whose first character that is not blank is not `#`. Words are split at blanks; quotes group; a backslash keeps the
next character; an unquoted `#` begins a comment; nothing is expanded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest, TooLarge

SCRIPT_MAX_BYTES: Final = 4 * 1024 * 1024
MARKS: Final = (b"#GSUB", b"#SBATCH")
OLD_MARK: Final = b"#SLURM"  # read, with a warning
FOREIGN_MARKS: Final = (b"#PBS", b"#BSUB")  # not read, with a warning

_BLANK: Final = b" \t\r\n\v\f"


class Directive(Struct, frozen=True):
    """The words of one directive line, and where it stands."""

    line: int  # from 1
    mark: str  # "#SBATCH"
    words: tuple[str, ...]


class Directives(Struct, frozen=True):
    lines: tuple[Directive, ...]
    warnings: tuple[str, ...] = ()


def check_script(script: bytes, source: str, limit: int = SCRIPT_MAX_BYTES) -> None:
    """Refuse what no shell could run as meant. Raises TooLarge or BadRequest; `source` is its name for errors."""
    if len(script) > limit:
        raise too_large(source, f"more than {limit}", limit)
    if not script:
        raise BadRequest(f"{source}: the script is empty; its first line must name an interpreter, as #!/bin/sh")
    if not script.strip(_BLANK):
        raise BadRequest(f"{source}: the script holds only white space; its first line must be as #!/bin/sh")
    if b"\0" in script:
        line = script.count(b"\n", 0, script.index(b"\0")) + 1
        raise BadRequest(f"{source}:{line}: the script holds a NUL byte: it is not a text (a program? then use --wrap)")
    first_line = script.split(b"\n", 1)[0]
    if not (first_line.startswith(b"#!") and first_line[2:].strip(_BLANK)):
        first = first_line[:40].decode("utf-8", "replace")
        raise BadRequest(f"{source}:1: the first line must begin with #! and name an interpreter; found {first!r}")
    if b"\r\n" in script:
        line = script.count(b"\n", 0, script.index(b"\r\n")) + 1
        raise BadRequest(
            f"{source}:{line}: the line ends as in DOS (CR LF), which no shell reads; convert: dos2unix FILE"
        )


def too_large(source: str, size: object, limit: int = SCRIPT_MAX_BYTES) -> TooLarge:
    """The error for a script of `size` bytes."""
    return TooLarge(f"{source}: the script has {size} bytes, the most is {limit}; keep data in files beside it")


def read_directives(script: bytes, source: str) -> Directives:
    """The directive lines of a script that `check_script` took. Raises BadRequest with file and line."""
    found: list[Directive] = []
    warnings: list[str] = []
    foreign: set[bytes] = set()
    for number, line in _comment_lines(script):
        mark = next((mark for mark in (*MARKS, OLD_MARK, *FOREIGN_MARKS) if line.startswith(mark)), None)
        if mark is None:
            continue
        if mark in FOREIGN_MARKS:
            if mark not in foreign:
                foreign.add(mark)
                warnings.append(f"{source}:{number}: {mark.decode()} lines are not read; write #SBATCH or #GSUB")
            continue
        if mark == OLD_MARK:
            warnings.append(f"{source}:{number}: #SLURM is read as #SBATCH; write #SBATCH or #GSUB")
        words = split_words(_text(line[len(mark) :], source, number), f"{source}:{number}")
        found.append(Directive(number, mark.decode(), tuple(words)))
    return Directives(tuple(found), tuple(warnings))


def split_words(text: str, at: str) -> list[str]:
    """Split a directive's rest into words. Raises BadRequest (a quote or a backslash without its partner)."""
    words: list[str] = []
    word: str | None = None  # None: between words
    quote = ""
    characters = iter(text)
    for char in characters:
        if char == "\\":
            kept = next(characters, None)
            if kept is None:
                raise BadRequest(f"{at}: a backslash ends the line; a directive cannot go on in the next one")
            word = (word or "") + kept
        elif quote:
            if char == quote:
                quote = ""
            else:
                word = (word or "") + char
        elif char in "'\"":
            quote, word = char, word or ""
        elif char == "#":
            break
        elif char in " \t\r\v\f":
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + char
    if quote:
        raise BadRequest(f"{at}: a quote ({quote}) is not closed")
    return words if word is None else [*words, word]


def _comment_lines(script: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbered lines up to the first that is neither blank nor a comment."""
    start = number = 0
    while start < len(script):
        end = script.find(b"\n", start)
        end = len(script) if end < 0 else end
        line = script[start:end]
        number, start = number + 1, end + 1
        content = line.lstrip(_BLANK)
        if content and not content.startswith(b"#"):
            return
        yield number, line


def _text(line: bytes, source: str, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise BadRequest(f"{source}:{number}: the directive is not UTF-8") from None
