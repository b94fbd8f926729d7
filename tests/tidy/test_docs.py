"""The documents say what the code says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from gsched.config.load import load, parse
from gsched.config.settings import Settings
from gsched.errors import GschedError
from tests.tidy.source import ROOT, modules, where

CONF = ROOT / "conf" / "gsched.toml"
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
# Those whose module stands already.
COMMANDS = sorted(name for name, at in SCRIPTS.items() if (ROOT / f"{at.split(':')[0].replace('.', '/')}.py").exists())
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_readme_lists_every_exit_status() -> None:
    rows = re.findall(r"^\| (\d+) \| `([a-z_.]+)` \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {(int(status), code) for status, code, _ in rows} == {(e.exit_status, e.code) for e in _errors(GschedError)}


def test_no_two_errors_share_a_code_or_a_status() -> None:
    errors = _errors(GschedError)
    assert len({e.code for e in errors}) == len({e.exit_status for e in errors}) == len(errors)


def test_the_protocol_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("make_protocol", ROOT / "docs" / "make_protocol.py")
    assert spec
    assert spec.loader
    make_protocol = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_protocol)
    assert (ROOT / "docs" / "protocol.md").read_text() == make_protocol.page(), "run: python docs/make_protocol.py"


def test_the_example_configuration_changes_nothing() -> None:
    assert load(CONF) == Settings()


def test_the_example_configuration_shows_every_default() -> None:
    """Lines `#key = value` are the settings at their defaults."""
    shown = parse(re.sub(r"(?m)^#(?=\w+ = )", "", CONF.read_text()))
    expected = msgspec.structs.replace(Settings(), cluster=msgspec.structs.replace(Settings().cluster, owner_uid=1000))
    assert shown == expected
    text = CONF.read_text()
    for table in (f for f in msgspec.structs.fields(Settings) if hasattr(f.type, "__struct_fields__")):
        for key in table.type.__struct_fields__:
            shown_as = rf"#{key} = |\[{table.name}\.{key}\]"
            assert re.search(rf"(?m)^({shown_as})", text), f"[{table.name}] {key} is not in conf/gsched.toml"


def test_the_example_configuration_is_right_about_lists() -> None:
    """The commented tables of partitions, nodes and switches load too."""
    tables = re.sub(r"(?m)^# (?=\[\[|\w+ = [\"\[\dt])", "", CONF.read_text())
    settings = parse(tables)
    assert [p.name for p in settings.partitions] == ["train"]
    assert [n.name for n in settings.nodes] == ["n1", "n2", "n3", "n4"]
    assert len(settings.switches) == 3


@pytest.mark.parametrize("page", PAGES, ids=where)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_architecture_page_has_a_line_for_every_folder() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    folders = {path.parent.relative_to(ROOT) for path in modules()}
    tops = {f.parts[1] for f in folders if len(f.parts) == 2}
    assert not [name for name in sorted(tops) if not re.search(rf"(?m)^  {name}/ ", text)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_that_names_its_options(command: str) -> None:
    page = (ROOT / "docs" / "manual" / f"{command}.md").read_text()
    call = f"import sys; from {SCRIPTS[command].replace(':', ' import ')}; sys.exit(main(['--help']))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    options = set(re.findall(r"(?<=[ ,])--[a-z][a-z-]+", done.stdout)) - {"--help", "--version"}
    assert not [option for option in sorted(options) if option not in page]


def _errors(root: type[GschedError]) -> list[type[GschedError]]:
    """The public tree: what gsched/errors.py defines. Others derive from it for their own use, under its codes."""
    below = [e for child in root.__subclasses__() for e in _errors(child)]
    return [root, *below] if root.__module__ == "gsched.errors" else below
