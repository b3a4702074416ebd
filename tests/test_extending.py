"""The code of docs/extending.md runs: the blocks of each section in order, on their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Examples may register things, which no other test should see: they run in a process of their own.
RUNNER = """
import sys, types
name, path = sys.argv[1:]
module = types.ModuleType(name)
sys.modules[name] = module
exec(compile(sys.stdin.read(), path, "exec"), module.__dict__)
"""


def sections() -> dict[str, str]:
    """Return the code of every section that has some, with the page's line numbers."""
    text = PAGE.read_text(encoding="utf-8")
    heads = list(SECTION.finditer(text))
    stops = [head.start() for head in heads[1:]] + [len(text)]
    found = {}
    for head, stop in zip(heads, stops, strict=True):
        code = ""
        for block in BLOCK.finditer(text, head.end(), stop):
            first_line = text.count("\n", 0, block.start(1))
            code += "\n" * (first_line - code.count("\n")) + block.group(1)
        if code:
            found[head.group(1)] = code
    return found


@pytest.mark.parametrize("title", sections())
def test_section_runs(title: str) -> None:
    command = [sys.executable, "-c", RUNNER, "extending_" + title.split()[-1], str(PAGE)]
    done = subprocess.run(
        command, input=sections()[title], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_first_sections_are_there() -> None:
    assert "A matrix" in sections()
