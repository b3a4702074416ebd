"""Virtual environments with the lowest, or the newest, versions of what pyproject.toml asks for.

``python -m campaigns.virtual lowest`` makes one and prints where its Python is. It is kept until
pyproject.toml asks for something else; the newest is upgraded each time.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".environments"
_LEFT_OUT = ("torch", "bench", "docs", "release")
"""Extras of gigabytes, packages that only benchmarks and the gallery compare with, and what builds
the site or checks a release."""


def requirements() -> list[str]:
    """Return what is asked for at run time, by extras and to build, as ``name>=version``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    return [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(line for name, lines in extras.items() if name not in _LEFT_OUT for line in lines),
    ]


def asked_for(kind: str) -> list[str]:
    """Return arguments for pip: every lower bound as an exact version, or names alone."""
    lines = sorted(set(requirements()))
    if not all(re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?>=[\d.]+", line) for line in lines):
        raise ValueError(f"pyproject.toml asks for something other than name>=version: {lines}")
    if kind == "lowest":
        return [line.replace(">=", "==") for line in lines]
    return ["--upgrade", *(line.partition(">=")[0] for line in lines)]


def environment(kind: str) -> Path:
    """Return the Python of a virtual environment, made or brought up to date where it must be.

    Parameters
    ----------
    kind : {"lowest", "newest"}

    Raises
    ------
    RuntimeError
        If a lower bound cannot be installed, or was withdrawn by its authors.
    """
    folder = FOLDER / kind
    python, made_from = folder / "bin" / "python", folder / "made_from"
    wanted = hashlib.sha256(" ".join([sys.version, *asked_for(kind)]).encode()).hexdigest()
    usable = made_from.is_file() and made_from.read_text() == wanted
    if usable and kind == "lowest":
        return python
    if not usable:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    _pip(python, *asked_for(kind))
    # Built by what is there, to see that the lowest version of hatchling can.
    _pip(python, "--no-build-isolation", "--no-deps", str(ROOT))
    made_from.write_text(wanted)
    return python


def _pip(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    ran = subprocess.run([*command, *arguments], capture_output=True, text=True)
    withdrawn = re.findall(r"yanked version: '([\w.-]+)'", ran.stderr)
    if ran.returncode or withdrawn:
        raise RuntimeError(f"pip install {' '.join(arguments)}: {withdrawn or ran.stderr[-4000:]}")


if __name__ == "__main__":
    print(environment(sys.argv[1]))
