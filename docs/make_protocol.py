"""Writes docs/protocol.md from the message types: `python docs/make_protocol.py`. A tidy test holds it current."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROTOCOL = ROOT / "gsched" / "protocol"
PAGE = ROOT / "docs" / "protocol.md"
INTRO = """\
# The protocol

Made from the types in `gsched/protocol/` by `docs/make_protocol.py`; change those, not this page.

Three conversations use the same frames: a command and gschedd (or a node's agent, which passes requests on) over a unix
socket; an agent and gschedd over one TLS 1.3 connection that the agent dials; grun and an agent over the agent's TLS
stream port. Errors carry the codes of `gsched/errors.py`. Instants are integer milliseconds since the epoch, sizes are
MiB, names that end in `_s` are seconds. A field with a default may be left out; an unknown field is ignored, so that
versions one minor apart work together.
"""


def page() -> str:
    """The whole page as text."""
    parts = [INTRO, "## Frames\n\n" + _module_docstring(PROTOCOL / "frames.py")]
    for name, title in (("hello", "Hello"), ("messages", "Users"), ("link", "Agents"), ("stream", "Streams of steps")):
        path = PROTOCOL / f"{name}.py"
        parts.append(f"## {title} (`gsched/protocol/{name}.py`)\n\n{_module_docstring(path)}")
        parts += [_message(node, _comments(path)) for node in _classes(path)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _module_docstring(path: Path) -> str:
    return ast.get_docstring(_tree(path)) or ""


def _classes(path: Path) -> list[ast.ClassDef]:
    structs = [node for node in _tree(path).body if isinstance(node, ast.ClassDef)]
    return [node for node in structs if any(ast.unparse(base) == "Struct" for base in node.bases)]


def _comments(path: Path) -> dict[int, str]:
    with path.open("rb") as file:
        found = [t for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT]
    return {t.start[0]: t.string.lstrip("# ") for t in found}


def _message(node: ast.ClassDef, comments: dict[int, str]) -> str:
    tag = next((ast.literal_eval(k.value) for k in node.keywords if k.arg == "tag"), "")
    lines = [f"### {node.name}" + (f" `{tag}`" if tag else ""), "", ast.get_docstring(node) or "", ""]
    for field in node.body:
        if isinstance(field, ast.AnnAssign):
            default = f" = `{ast.unparse(field.value)}`" if field.value else ""
            remark = comments.get(field.lineno, "")
            kind = ast.unparse(field.annotation)
            lines.append(f"- `{ast.unparse(field.target)}`: {kind}{default}{'; ' + remark if remark else ''}")
    return "\n".join(lines).replace("\n\n\n", "\n\n")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
