"""The code of docs/extending.md runs: the blocks of each section in order, on their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

RUNNER = """
import contextlib, json, sys, traceback, types

failed = {}
for name, code in json.load(sys.stdin).items():
    module = sys.modules[name] = types.ModuleType(name)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(code, sys.argv[1], "exec"), module.__dict__)
    except BaseException:
        failed[name] = traceback.format_exc()
print(json.dumps(failed))
"""


def failures(codes: dict[str, str], page: Path, folder: Path | None = None) -> dict[str, str]:
    """Run codes as modules of given names, and return the errors of those that fail.

    Examples may register things, which no other test should see: they have a process of their own.
    """
    command = [sys.executable, "-c", RUNNER, str(page)]
    done = subprocess.run(
        command, input=json.dumps(codes), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def sections() -> dict[str, str]:
    """Return the code of every section that has some, with the page's line numbers."""
    text = PAGE.read_text(encoding="utf-8")
    heads = list(SECTION.finditer(text))
    stops = [head.start() for head in heads[1:]] + [len(text)]
    result = {}
    for head, stop in zip(heads, stops, strict=True):
        code = ""
        for block in BLOCK.finditer(text, head.end(), stop):
            first_line = text.count("\n", 0, block.start(1))
            code += "\n" * (first_line - code.count("\n")) + block.group(1)
        if code:
            result[head.group(1)] = code
    return result


@pytest.fixture(scope="module")
def failed() -> dict[str, str]:
    """Return the errors of all sections, by their titles."""
    names = {title: "extending_" + title.split()[-1] for title in sections()}
    result = failures({names[title]: code for title, code in sections().items()}, PAGE)
    return {title: result[name] for title, name in names.items() if name in result}


@pytest.mark.parametrize("title", sections())
def test_code_of_each_section_runs(title: str, failed: dict[str, str]) -> None:
    assert title not in failed, failed[title]


def test_expected_sections_exist() -> None:
    assert "A matrix" in sections()
