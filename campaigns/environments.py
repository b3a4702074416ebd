"""Versions of dependencies, processors, and machines without a writable folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from campaigns.processors import X86, settings
from campaigns.smoke import MODELS, fit_and_save
from campaigns.virtual import FOLDER, environment
from harness.process import ROOT

PROMISE = (
    "gramless works with the lowest and the newest versions of its requirements, without AVX-512 "
    "or any extension, on a read-only file system, without a home folder; models saved in another "
    "environment predict the same"
)
CASES = ("avx2", "read_only", "no_home", "lowest", "newest", "generic")
FULL, SHORT = len(CASES), 4
SECONDS, MEMORY = 1500.0, 1 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

# Models saved in the unchanged environment, which the other environments load.
_MODELS = FOLDER / "models"
_USER = ["unshare", "--user", "--map-user=54321"]
_MOUNTS = ["unshare", "--map-root-user", "--mount"]
# Shell script that runs ``$@`` in mounts where only ``$0/writable`` is writable.
_READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" &&
mount -t tmpfs tmpfs "$0/writable" && mount -o remount,bind,ro / &&
! touch "$0/site" "$PWD" 2> /dev/null && exec "$@"
"""


def prepare(seed: int) -> None:
    _MODELS.mkdir(parents=True, exist_ok=True)
    fit_and_save(_MODELS, list(MODELS))


def check(number: int, seed: int) -> str:
    name = CASES[number % len(CASES)]
    with tempfile.TemporaryDirectory(prefix="gramless-environments-") as folder:
        if name in ("avx2", "generic"):
            return _on_processor(name, folder)
        if name in ("lowest", "newest"):
            cache = {"NUMBA_CACHE_DIR": str(FOLDER / f"cache-{name}")}
            _smoke(environment(name), folder, _MODELS, variables=cache)
            return f"{name}: the same"
        return _without_home(folder) if name == "no_home" else _read_only(Path(folder))


def _on_processor(kind: str, folder: str) -> str:
    if kind == "avx2" and not X86:
        return "avx2: not tried, another architecture"
    variables = {**settings(kind), "NUMBA_CACHE_DIR": str(FOLDER / f"cache-{kind}")}
    _smoke(sys.executable, folder, _MODELS, variables=variables)
    return f"{kind}: the same"


def _without_home(folder: str) -> str:
    """Run as a user without an entry in the system's user database, as in containers."""
    if not _permitted(_USER):
        return "no_home: not tried, no namespaces here"
    words = (sys.executable, folder, _MODELS, "--least")
    _smoke(*words, variables={"HOME": None}, inside=_USER)
    return "no_home: the same"


def _read_only(folder: Path) -> str:
    """Run with a package without compiled loops and without a folder to store them."""
    if not _permitted(_MOUNTS):
        return "read_only: not tried, no namespaces here"
    site, writable = folder / "site", folder / "writable"
    writable.mkdir()
    unneeded = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", site, ignore=unneeded)
    warnings = _smoke(
        *(sys.executable, writable, _MODELS, "--least"),
        variables={"PYTHONPATH": str(site), "HOME": str(site), "TMPDIR": str(writable)},
        inside=[*_MOUNTS, "sh", "-c", _READ_ONLY, str(folder)],
    )
    if warnings.count("NUMBA_CACHE_DIR") != 1:
        raise AssertionError(f"one warning that nothing is kept was expected:\n{warnings}")
    return "read_only: the same"


def _permitted(inside: list[str]) -> bool:
    try:
        return subprocess.run([*inside, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def _smoke(
    *words: str | Path, variables: dict[str, str | None], inside: list[str] | None = None
) -> str:
    """Run ``campaigns.smoke`` with the Python in ``words[0]``, and return its warnings."""
    additions = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **variables}
    inherited = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment_variables = {
        key: value for key, value in {**inherited, **additions}.items() if value is not None
    }
    python, *arguments = map(str, words)
    process = subprocess.run(
        [*(inside or []), python, "-m", "campaigns.smoke", *arguments],
        cwd=ROOT,
        env=environment_variables,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise AssertionError(process.stderr[-6000:])
    return process.stderr
