"""The code of the guide and of the pages for newcomers: it names what there is, each page runs."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.test_extending import BLOCK, failures

DOCS = Path(__file__).resolve().parents[1] / "docs"
REFERENCE = (DOCS / "reference.rst").read_text(encoding="utf-8")
LISTED = set(re.findall(r"^   (?:\w+\.)*(\w+)$", REFERENCE, re.MULTILINE))
PAGES = sorted([*DOCS.glob("guide/*.md"), *DOCS.glob("coming-from/*.md")])


def code(page: Path) -> str:
    """Return all blocks of a page, with its line numbers."""
    text, found = page.read_text(encoding="utf-8"), ""
    for block in BLOCK.finditer(text):
        first_line = text.count("\n", 0, block.start(1))
        found += "\n" * (first_line - found.count("\n")) + block.group(1)
    return found


def test_what_the_guide_imports_is_there() -> None:
    seen = 0
    for page in PAGES:
        for node in ast.walk(ast.parse(code(page), page.name)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "gramless"
            ):
                continue
            module = importlib.import_module(node.module or "")
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            assert not missing, f"{page.name}, line {node.lineno}: {node.module} has no {missing}"
            unlisted = {name.name for name in node.names} - LISTED
            assert not unlisted, f"{page.name}, line {node.lineno}: no reference of {unlisted}"
            seen += 1
    assert seen > 10


def test_indices_list_their_pages() -> None:
    for page in PAGES:
        folder = page.parent.name
        index = (DOCS / f"{folder}.md").read_text(encoding="utf-8")
        assert f"({folder}/{page.name})" in index
        assert f"\n{folder}/{page.stem}\n" in index, f"the toctree of {folder}.md lacks it"


@pytest.mark.parametrize(
    "name", ["", "datasets", "distributed", "inspection", "kernels", "losses", "penalties"]
)
def test_the_reference_lists_public_names(name: str) -> None:
    module = importlib.import_module(f"gramless.{name}" if name else "gramless")
    own = [key for key, value in vars(module).items() if isinstance(value, type) and key[0] != "_"]
    own = [key for key in own if vars(module)[key].__module__ == module.__name__]
    types = {"__version__", "KERNELS", "KernelLike"}
    assert set(getattr(module, "__all__", own)) - LISTED - types == set()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if code(page)], ids=lambda page: page.stem)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    if page.stem == "lightgbm":
        pytest.importorskip("lightgbm")
    # A program by the name of a package would be imported in its place.
    name = f"page_{page.stem.replace('-', '_')}"
    assert failures({name: code(page)}, page, tmp_path) == {}
