"""The code of the guide's chapters: it names what there is, and each chapter runs on its own."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.test_extending import BLOCK, failures

CHAPTERS = sorted((Path(__file__).resolve().parents[1] / "docs" / "guide").glob("*.md"))


def code(page: Path) -> str:
    """Return all blocks of a page, with its line numbers."""
    text, found = page.read_text(encoding="utf-8"), ""
    for block in BLOCK.finditer(text):
        first_line = text.count("\n", 0, block.start(1))
        found += "\n" * (first_line - found.count("\n")) + block.group(1)
    return found


def test_what_the_guide_imports_is_there() -> None:
    seen = 0
    for page in CHAPTERS:
        for node in ast.walk(ast.parse(code(page), page.name)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "gramless"
            ):
                continue
            module = importlib.import_module(node.module or "")
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            assert not missing, f"{page.name}, line {node.lineno}: {node.module} has no {missing}"
            seen += 1
    assert seen > 10


def test_the_guide_lists_its_chapters() -> None:
    index = (CHAPTERS[0].parents[1] / "guide.md").read_text(encoding="utf-8")
    assert [page.name for page in CHAPTERS if f"(guide/{page.name})" not in index] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [page for page in CHAPTERS if code(page)], ids=lambda page: page.stem
)
def test_chapter_runs(page: Path, tmp_path: Path) -> None:
    assert failures({page.stem.replace("-", "_"): code(page)}, page, tmp_path) == {}
