"""What may import what, where an import contract cannot say it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import source

COMMANDS = sorted(p for p in (source.ROOT / "gsched" / "cli").glob("*.py") if p.stem != "__init__")
HEAVY = {"alembic", "asyncio", "cryptography", "logging", "numba", "numpy", "sqlalchemy", "structlog", "uvloop"}


def test_the_import_name_agent_is_ours(tmp_path: Path) -> None:
    """`agent` is a name others use too: from any directory it must mean this project's package."""
    code = "import agent, gsched; print(agent.__file__); print(gsched.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    agent, gsched = (Path(line) for line in done.stdout.split())
    assert agent.parents[1] == gsched.parents[1] == source.ROOT


@pytest.mark.parametrize("path", COMMANDS, ids=lambda p: p.stem)
def test_a_command_starts_without_heavy_imports(path: Path) -> None:
    """Counted in a process of its own: what `import` really loads, not what the text says."""
    loaded = _loaded(source.dotted(path))
    assert not loaded & HEAVY


def test_the_supervisor_is_of_the_standard_library_only() -> None:
    folder = source.ROOT / "agent" / "supervisor"
    known = sys.stdlib_module_names | {path.stem for path in folder.glob("*.py")}  # siblings, by bare name
    foreign = {
        f"{source.where(path)}: {name}"
        for path in folder.rglob("*.py")
        for name in source.imported(path)
        if name.split(".")[0] not in known and not name.startswith("agent.supervisor")
    }
    assert not foreign


def test_only_main_names_uvloop() -> None:
    bad = [source.where(p) for p in source.modules() if p.name != "main.py" and "uvloop" in source.imported(p)]
    assert not bad


def test_only_the_store_speaks_sql() -> None:
    sql = [
        source.where(path)
        for path in source.modules()
        if {name.split(".")[0] for name in source.imported(path)} & {"sqlalchemy", "alembic", "sqlite3"}
        and not source.where(path).startswith("gschedd/store/")
    ]
    assert not sql


def test_every_module_is_used_by_another_or_is_an_entry_point() -> None:
    """Or of tests: twins and the store in memory. Siblings in agent/supervisor import each other by bare names."""
    names = {name for path in (*source.modules(), *source.tests()) for name in source.imported(path)}
    bare = {name for path in (source.ROOT / "agent" / "supervisor").glob("*.py") for name in source.imported(path)}
    unused = [
        source.where(path)
        for path in source.modules()
        if path.stem not in {"__init__", "__main__"}
        and source.dotted(path) not in names | source.entry_points()
        and not (path.parent.name == "supervisor" and path.stem in bare)
        and "migrations" not in path.parts
    ]
    assert not unused


def test_no_test_sleeps_for_luck() -> None:
    """A test waits for a condition with a deadline; tests/waiting.py is where that is written."""
    bad = [
        f"{source.where(path)}:{node.lineno}"
        for path in source.tests()
        if source.where(path) != "tests/waiting.py"
        for node in source.nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}
    ]
    assert not bad


def _loaded(module: str) -> set[str]:
    """Top-level names of all that importing `module` loads."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=source.ROOT)
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
