"""The tree of sources, as the tidy tests read it."""

from __future__ import annotations

import ast
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gsched", "gschedd", "agent")


@cache
def modules() -> tuple[Path, ...]:
    """Every module of the three packages."""
    return tuple(sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")))


@cache
def tests() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "tests").rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def where(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path) -> str:
    """gsched/values/ids.py -> gsched.values.ids; a package by its own name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module's tree: walked once, asked by many tests."""
    return tuple(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@cache
def imported(path: Path) -> frozenset[str]:
    """Names a module imports, anywhere in it; `from a import b` gives both `a` and `a.b`."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def comments(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and text of every comment."""
    with path.open("rb") as file:
        tokens = tokenize.tokenize(file.readline)
        return tuple((t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT)


def entry_points() -> set[str]:
    """Modules that a command starts; and those of gsim's subcommands, which its table names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    table = (ROOT / "gschedd" / "replay" / "main.py").read_text("utf-8")
    subcommands = set(re.findall(r'"(gschedd\.replay\.\w+)"', table))
    return {target.split(":")[0] for target in project["scripts"].values()} | subcommands
