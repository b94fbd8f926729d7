"""Names that users chose, however odd, stay on one line and are complete in JSON."""

from __future__ import annotations

import json

import pytest

from gsched.render.text import json_text, quoted, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train", "train"),
        ("crazy|name", "crazy|name"),
        ("two words", "two words"),
        ("Größe 名前", "Größe 名前"),
        ("two\nlines", r"two\nlines"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("tab\there", r"tab\there"),
        ("\u202eback", r"\u202eback"),
        ("byte\udcff", r"byte\xff"),
        ("", ""),
    ],
)
def test_what_does_not_print_is_shown_escaped(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a=b|c", "a=b|c"),
        ("test output", '"test output"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash here", r'"back\\slash here"'),
        ("", '""'),
    ],
)
def test_a_value_with_a_space_stands_in_quotes(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize("name", ["crazy|name", 'quote"', "two\nlines", "名前", "byte\udcff", "\x00"])
def test_json_is_exact_for_any_name(name: str) -> None:
    assert json.loads(json_text({"name": name})) == {"name": name}
