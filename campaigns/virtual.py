"""Virtual environments with the lowest or the newest versions of the requirements.

``python -m campaigns.virtual lowest`` creates one and prints the path of its Python. It is kept
until the requirements in pyproject.toml change; the newest is upgraded each time.
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
# Extras that are huge, or are used only by benchmarks, the documentation or releases.
_SKIPPED_EXTRAS = ("torch", "bench", "docs", "release")


def requirements() -> list[str]:
    """Return the requirements at run time, of extras and of the build, as ``name>=version``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    return [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(line for name, lines in extras.items() if name not in _SKIPPED_EXTRAS for line in lines),
    ]


def pip_arguments(kind: str) -> list[str]:
    """Return arguments for pip: exact versions of all lower bounds, or names only."""
    lines = sorted(set(requirements()))
    if not all(re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?>=[\d.]+", line) for line in lines):
        raise ValueError(f"pyproject.toml asks for something other than name>=version: {lines}")
    if kind == "lowest":
        return [line.replace(">=", "==") for line in lines]
    return ["--upgrade", *(line.partition(">=")[0] for line in lines)]


def environment(kind: str) -> Path:
    """Return the Python of a virtual environment, which is created or upgraded if necessary.

    Parameters
    ----------
    kind : {"lowest", "newest"}

    Raises
    ------
    RuntimeError
        If a lower bound cannot be installed, or was yanked.
    """
    folder = FOLDER / kind
    python, made_from = folder / "bin" / "python", folder / "made_from"
    digest = hashlib.sha256(" ".join([sys.version, *pip_arguments(kind)]).encode()).hexdigest()
    is_current = made_from.is_file() and made_from.read_text() == digest
    if is_current and kind == "lowest":
        return python
    if not is_current:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    _pip(python, *pip_arguments(kind))
    # Build with the installed packages, to check the lowest version of hatchling.
    _pip(python, "--no-build-isolation", "--no-deps", str(ROOT))
    made_from.write_text(digest)
    return python


def _pip(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    process = subprocess.run([*command, *arguments], capture_output=True, text=True)
    yanked = re.findall(r"yanked version: '([\w.-]+)'", process.stderr)
    if process.returncode or yanked:
        raise RuntimeError(f"pip install {' '.join(arguments)}: {yanked or process.stderr[-4000:]}")


if __name__ == "__main__":
    print(environment(sys.argv[1]))
