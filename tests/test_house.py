"""The house rules: short functions, a light import. `make lint` checks the others."""

from __future__ import annotations

import ast
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FUNCTION_LINES = 60
HEAVY = ("numba", "typer", "rich", "matplotlib", "jinja2", "polars", "pandas", "safetensors")
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def code_lines(function: Function) -> int:
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return total
    docstring = function.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def test_functions_are_short() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": code_lines(function)
        for path in SOURCES
        for function in functions(path)
        if code_lines(function) > MAX_FUNCTION_LINES
    }
    assert not long, f"functions above {MAX_FUNCTION_LINES} lines of code: {long}"


def test_import_is_light() -> None:
    script = f"import gramless, sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split(), f"import gramless also imports {done.stdout}"


def test_cross_references_lead_somewhere() -> None:
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


def test_no_leftover_marks() -> None:
    marked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVERS.search(line)
    ]
    assert not marked, f"unfinished work is marked in {marked}"
