"""The commands of the first pages, copied in order, lead to a model of a CSV file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = "## Install"


def script(text: str) -> str:
    """Return all blocks of a page, but those of the installation, as one shell script."""
    lines = ["set -eu"]
    installed = text.index("\n## ", text.index(INSTALL) + 1) if INSTALL in text else 0
    for language, code in BLOCK.findall(text[installed:]):
        lines.append(code if language == "sh" else f"python - <<'END'\n{code}END\n")
    return "\n".join(lines)


def run(page: str, tmp_path: Path) -> str:
    """Run a page's script in an empty folder and return what it prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, options in (("python", ""), ("gramless", "-m gramless")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
        command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-c", script((ROOT / page).read_text(encoding="utf-8"))]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_start_page_runs(tmp_path: Path) -> None:
    printed = run("docs/start.md", tmp_path)
    assert len((tmp_path / "new.csv").read_text().splitlines()) == 1 + 570 // 5
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 1 + 570 // 5
    scores = [
        float(score) for score in re.findall(r"^(?:gramless|least squares): (.*)$", printed, re.M)
    ]
    assert scores == pytest.approx([0.97, 0.92], abs=0.011)
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.slow
def test_readme_runs(tmp_path: Path) -> None:
    run("README.md", tmp_path)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 2001
    assert (tmp_path / "page.html").stat().st_size > 10_000
