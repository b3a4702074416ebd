"""The code of docs/guide.md: it compiles and names what there is, and all of it runs in order."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.test_extending import BLOCK, failures

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide.md"


def code() -> str:
    """Return all blocks with the page's line numbers."""
    text, found = PAGE.read_text(encoding="utf-8"), ""
    for block in BLOCK.finditer(text):
        first_line = text.count("\n", 0, block.start(1))
        found += "\n" * (first_line - found.count("\n")) + block.group(1)
    return found


def test_what_the_guide_imports_is_there() -> None:
    tree = ast.parse(code(), PAGE.name)
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [node for node in named if (node.module or "").partition(".")[0] == "gramless"]
    assert len(own) > 10
    for node in own:
        module = importlib.import_module(node.module or "")
        missing = [name.name for name in node.names if not hasattr(module, name.name)]
        assert not missing, f"line {node.lineno}: {node.module} has no {missing}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_guide_runs(tmp_path: Path) -> None:
    assert failures({"guide": code()}, PAGE, tmp_path) == {}
