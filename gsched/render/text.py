"""Text that users chose, made safe to show: one name stays on one line and sends nothing to the terminal."""

from __future__ import annotations

from typing import Any

import msgspec


def shown(text: str) -> str:
    r"""Give `text` with every character that does not print written as an escape: `\n`, `\x1b`, `\u202e`.

    A byte that is not UTF-8 (a lone surrogate, as Python reads it) is shown as `\xNN`. What prints is left alone.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def quoted(text: str) -> str:
    """Give a value for a Key=Value record: as it is, or in double quotes if it holds a space, a quote or nothing.

    Inside the quotes a backslash goes before each backslash and double quote, so a record can be read back.
    """
    safe = shown(text)
    if safe and " " not in safe and '"' not in safe:
        return safe
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'


def json_text(value: Any) -> str:
    """Give a value of plain types or Structs as JSON, indented. Any: whatever msgspec can encode."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:  # a name that is not UTF-8: only \udcNN escapes keep its bytes
        import json

        return json.dumps(msgspec.to_builtins(value), indent=2)
