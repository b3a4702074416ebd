"""The house rules: style, types, floors, short functions, a light import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SCRIPTS = Path(sys.executable).parent
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
HEAVY = ("numba", "typer", "rich", "matplotlib", "jinja2", "polars", "pandas", "safetensors")
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef

TOOLS = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "import-linter": [str(SCRIPTS / "lint-imports"), "--no-cache"],
}


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def functions(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def code_lines(function: Function) -> int:
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return total
    docstring = function.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_finds_no_fault(tool: str) -> None:
    done = run(TOOLS[tool])
    assert done.returncode == 0, f"{tool} failed:\n{done.stdout}\n{done.stderr}"


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MAX_FILE_LINES}
    assert not long, f"files above {MAX_FILE_LINES} lines: {long}"


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
    done = run([sys.executable, "-c", script])
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split(), f"import gramless also imports {done.stdout}"


def test_no_leftover_marks() -> None:
    marked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVERS.search(line)
    ]
    assert not marked, f"unfinished work is marked in {marked}"
