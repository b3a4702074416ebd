"""Imports stay light, docstrings refer to what exists, and private names stay in their file."""

from __future__ import annotations

import ast
import pydoc
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# Private names of other libraries that offer no public way: to set the class of a loop's cache, and
# to ask a scorer what it calls and whether greater is better.
FOREIGN = {
    ("loops/compile.py", "_cache"),
    ("estimators/scoring.py", "_response_method"),
    ("estimators/scoring.py", "_score_func"),
    ("estimators/scoring.py", "_sign"),
}
OWN = ("self", "cls")
HEAVY = ("numba", "typer", "rich", "matplotlib", "jinja2", "polars", "pandas", "safetensors")


def test_import_gramless_imports_no_heavy_package() -> None:
    script = f"import gramless, sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split(), f"import gramless also imports {done.stdout}"


def test_references_in_docstrings_exist() -> None:
    def exists(name: str) -> bool:
        try:
            return bool(pydoc.locate(name))
        except pydoc.ErrorDuringImport:
            # An optional package is not installed.
            return True

    names = {
        name
        for path in SOURCES
        for name in re.findall(r":[a-z]+:`~?(gramless\.[\w.]+)`", path.read_text(encoding="utf-8"))
    }
    assert len(names) > 20
    missing = [name for name in sorted(names) if not exists(name)]
    assert not missing, f"docstrings refer to {missing}"


def is_private(name: str) -> bool:
    # Named tuples have public methods with an underscore.
    return name.startswith("_") and not name.startswith("__") and name != "_replace"


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names of functions and classes, and the attributes that the classes set."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            assigned = (n for n in node.body if isinstance(n, ast.Assign | ast.AnnAssign))
            targets = (n.targets if isinstance(n, ast.Assign) else [n.target] for n in assigned)
            names |= {t.id for group in targets for t in group if isinstance(t, ast.Name)}
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
            names.add(node.attr)
    return names


def is_own(node: ast.Attribute) -> bool:
    """Return whether an attribute belongs to ``self``, ``cls`` or ``super()``."""
    owner = node.value
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name):
        return owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id in OWN


def foreign_private_names(source: str) -> set[str]:
    """Return the private names of other files that a file imports or uses of other objects."""
    tree, names = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own(node):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gramless"):
            names |= {alias.name for alias in node.names}
    return {name for name in names if is_private(name)} - defined_names(tree)


def test_private_names_are_found() -> None:
    uses = "from gramless.a import _f\nclass A:\n    def g(self, x): return self._h + x._h + x._f\n"
    assert foreign_private_names(uses) == {"_f", "_h"}
    assert foreign_private_names("class A:\n    _h = 1\n    def g(self, x): return x._h") == set()


def test_private_names_are_used_in_their_own_file() -> None:
    package = ROOT / "src" / "gramless"
    uses = {
        (path.relative_to(package).as_posix(), name)
        for path in SOURCES
        for name in foreign_private_names(path.read_text(encoding="utf-8"))
    }
    assert uses == FOREIGN
