"""The commands of docs/start.md, copied in order, lead to a model of a CSV file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "start.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = "## Install"


def script() -> str:
    """Return all blocks after the installation as one shell script."""
    text = PAGE.read_text(encoding="utf-8")
    after = text[text.index("\n## ", text.index(INSTALL) + 1) :]
    lines = ["set -eu"]
    for language, code in BLOCK.findall(after):
        lines.append(code if language == "sh" else f"python - <<'END'\n{code}END\n")
    return "\n".join(lines)


@pytest.mark.slow
def test_the_page_leads_to_a_model_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, options in (("python", ""), ("gramless", "-m gramless")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
        command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script()], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "new.csv").read_text().splitlines()) == 1 + 442 // 5
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 1 + 442 // 5
    assert (tmp_path / "page.html").stat().st_size > 10_000
