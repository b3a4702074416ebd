"""Writes ``docs/files.md``: every module of the package with the first line of its docstring.

``python docs/list_files.py`` needs no package. ``make format`` and ``make docs`` run it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "gramless"
PAGE = Path(__file__).with_name("files.md")
HEADER = """# Files

Every module of the package with the first line of its docstring.
[Architecture](architecture.md) says how they work together.
`python docs/list_files.py` writes this page.
"""


def summary(module: Path) -> str:
    """Return the first sentence of a module's docstring, as Markdown in one line."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    first = " ".join(docstring.split("\n\n")[0].split())
    return re.sub(r"``(.+?)``", r"`\1`", first).replace("|", r"\|")


def page() -> str:
    """Return the text of the page."""
    sections = [HEADER]
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
        rows = "\n".join(f"| `{path.name}` | {summary(path)} |" for path in modules)
        title = folder.relative_to(PACKAGE.parent).as_posix()
        sections.append(f"## `{title}/`\n\n| file | what it holds |\n|---|---|\n{rows}\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
