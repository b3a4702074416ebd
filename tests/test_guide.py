"""The code of the guide and of the pages for newcomers: it names what there is, each page runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
from pathlib import Path

import pytest

from tests.test_extending import BLOCK, failures

DOCS = Path(__file__).resolve().parents[1] / "docs"
REFERENCE = (DOCS / "reference.rst").read_text(encoding="utf-8")
LISTED = set(re.findall(r"^   (?:\w+\.)*(\w+)$", REFERENCE, re.MULTILINE))
PAGES = sorted([*DOCS.glob("guide/*.md"), *DOCS.glob("coming-from/*.md")])
EXAMPLES = sorted(DOCS.parent.glob("examples/*.py"))
NOT_CLASSES = {"__version__", "FEATURE_MAPS", "KERNELS", "KernelLike", "SOLVERS"}
IMPORT = re.compile(r"^ *(?:>>> )?from (gramless[\w.]*) import ([\w, ]+)$", re.MULTILINE)
PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?:\n\n\w+\n---|\Z)", re.MULTILINE | re.DOTALL)


def code(page: Path) -> str:
    """Return all blocks of a page, with its line numbers."""
    text, result = page.read_text(encoding="utf-8"), ""
    for block in BLOCK.finditer(text):
        first_line = text.count("\n", 0, block.start(1))
        result += "\n" * (first_line - result.count("\n")) + block.group(1)
    return result


def test_imports_of_the_guide_exist() -> None:
    n_blocks = 0
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
            n_blocks += 1
    assert n_blocks > 10


def docstrings() -> dict[str, str]:
    """Return the docstrings of the names in the reference and of their methods."""
    result, package = {}, ""
    for line in REFERENCE.splitlines():
        if line.startswith(".. currentmodule::"):
            package = line.split()[-1]
        elif entry := re.fullmatch(r"   ((?:\w+\.)*\w+)", line):
            name = f"{package}.{entry[1]}"
            listed = pydoc.locate(name)
            result[name] = inspect.getdoc(listed) or ""
            methods = vars(listed).items() if isinstance(listed, type) else ()
            result |= {
                f"{name}.{key}": inspect.getdoc(value) or ""
                for key, value in methods
                if key[0] != "_" and callable(value)
            }
    return result


def test_every_public_name_and_method_has_a_docstring() -> None:
    missing = [name for name, text in docstrings().items() if not text]
    assert not missing


def test_reference_lists_imports_of_examples() -> None:
    texts = docstrings() | {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES}
    n_blocks = 0
    for place, text in texts.items():
        for module, names in IMPORT.findall(text):
            unlisted = set(names.replace(" ", "").split(",")) - LISTED
            assert not unlisted, f"{place}: {module} has no reference of {unlisted}"
            n_blocks += 1
    assert n_blocks > 30


def test_reference_lists_parameter_types() -> None:
    sources = (DOCS.parent / "src").rglob("*.py")
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sources)
    ours = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    places: dict[str, str] = {}
    for place, text in docstrings().items():
        for section in PARAMETERS.findall(text):
            # Types, such as "schedule : str or InverseTime", and calls, such as ``Uniform(1, 2)``.
            named = re.findall(r"^\w[\w, ]* : (.*)", section, re.MULTILINE)
            named += re.findall(r"``(\w+)\(", section)
            places |= {word: place for text in named for word in re.findall(r"\w+", text)}
    unlisted = {word: places[word] for word in (ours & places.keys()) - LISTED}
    assert not unlisted, f"taken as parameters, without a reference: {unlisted}"
    assert {"InverseTime", "Strategy", "Uniform", "Solver"} <= places.keys()


def test_indices_list_their_pages() -> None:
    for page in PAGES:
        folder = page.parent.name
        index = (DOCS / f"{folder}.md").read_text(encoding="utf-8")
        assert f"({folder}/{page.name})" in index
        assert f"\n{folder}/{page.stem}\n" in index, f"the toctree of {folder}.md lacks it"


@pytest.mark.parametrize(
    "name",
    [
        *("", "datasets", "distributed", "features", "inspection", "kernels", "losses"),
        *("penalties", "solvers", "streaming"),
    ],
)
def test_reference_lists_public_names(name: str) -> None:
    module = importlib.import_module(f"gramless.{name}" if name else "gramless")
    names = [
        key for key, value in vars(module).items() if isinstance(value, type) and key[0] != "_"
    ]
    names = [key for key in names if vars(module)[key].__module__ == module.__name__]
    public = set(getattr(module, "__all__", names))
    assert public - LISTED - NOT_CLASSES == set()
    assert all(hasattr(module, key) for key in public)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if code(page)], ids=lambda page: page.stem)
def test_code_of_each_page_runs(page: Path, tmp_path: Path) -> None:
    if page.stem == "lightgbm":
        pytest.importorskip("lightgbm")
    # A program by the name of a package would be imported in its place.
    name = f"page_{page.stem.replace('-', '_')}"
    assert failures({name: code(page)}, page, tmp_path) == {}
