"""The house rules that can be read off the tree: sizes, names, folders, comments that silence a tool."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy import source

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
BANNED = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "data", "info"}
# cli/_common.py is the commands' shared plumbing and says so in its docstring.
NAME_EXCEPTIONS = {"gsched/cli/_common.py"}
SILENCERS = re.compile(r"#\s*(?P<what>type:\s*ignore|noqa)(?P<codes>\[[^\]]*\]|:\s*[A-Z0-9, ]+)?(?P<reason>.*)")


def test_a_module_is_at_most_500_lines() -> None:
    long = {source.where(p): n for p in source.modules() if (n := len(p.read_text().splitlines())) > MODULE_LINES_MAX}
    assert not long, "split these by idea"


def test_a_function_is_at_most_70_lines() -> None:
    long = [
        f"{source.where(path)}:{f.lineno} {f.name}"
        for path in (*source.modules(), *source.tests())
        for f in source.functions(path)
        if (f.end_lineno or f.lineno) - f.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


def test_no_module_or_folder_has_a_name_that_says_nothing() -> None:
    bad = [
        source.where(path)
        for path in source.modules()
        if source.where(path) not in NAME_EXCEPTIONS
        and BANNED & {word for part in path.relative_to(source.ROOT).with_suffix("").parts for word in part.split("_")}
    ]
    assert not bad


def test_every_folder_says_what_lives_there() -> None:
    folders = {path.parent for path in source.modules()}
    bare = [source.where(f) for f in sorted(folders) if len(_docstring(f / "__init__.py").split()) < 12]
    assert not bare, "open __init__.py with a paragraph: what lives here, what it may import, where to start"


def test_every_module_has_a_docstring() -> None:
    assert not [source.where(p) for p in (*source.modules(), *source.tests()) if not _docstring(p)]


def test_a_silenced_check_has_its_code_and_its_reason() -> None:
    bad = []
    for path in (*source.modules(), *source.tests()):
        for line, comment in source.comments(path):
            found = SILENCERS.search(comment)
            if found and not (found["codes"] and re.search(r"[a-z]{3}", found["reason"])):
                bad.append(f"{source.where(path)}:{line} {comment}")
    assert not bad, "write `# noqa: CODE  the reason` and `# type: ignore[code]  # the reason`"


def test_no_line_names_work_left_undone() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    bad = [
        f"{source.where(path)}:{line}"
        for path in (*source.modules(), *source.tests())
        for line, comment in source.comments(path)
        if marks.search(comment)
    ]
    assert not bad


def _docstring(path: Path) -> str:
    return (ast.get_docstring(source.tree(path)) or "") if path.exists() else ""
