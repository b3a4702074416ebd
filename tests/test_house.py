"""``import gramless`` stays light, and docstrings refer to what exists."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
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
