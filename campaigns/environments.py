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
    "gramless works with the lowest and the newest versions of what it needs, without AVX-512 or "
    "any extension, on a read-only file system, without a home folder; models saved elsewhere "
    "predict the same"
)
CASES = ("avx2", "read_only", "no_home", "lowest", "newest", "generic")
FULL, SHORT = len(CASES), 4
SECONDS, MEMORY = 1500.0, 1 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

_HERE = FOLDER / "models"
"""Models saved on this machine as it is, for the others to load."""
_USER = ["unshare", "--user", "--map-user=54321"]
_MOUNTS = ["unshare", "--map-root-user", "--mount"]
_READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" &&
mount -t tmpfs tmpfs "$0/own" && mount -o remount,bind,ro / &&
! touch "$0/site" "$PWD" 2> /dev/null && exec "$@"
"""
"""Runs ``$@`` where nothing can be written to but ``$0/own``."""


def prepare(seed: int) -> None:
    _HERE.mkdir(parents=True, exist_ok=True)
    fit_and_save(_HERE, list(MODELS))


def check(number: int, seed: int) -> str:
    name = CASES[number % len(CASES)]
    with tempfile.TemporaryDirectory(prefix="gramless-environments-") as folder:
        if name in ("avx2", "generic"):
            return _on_processor(name, folder)
        if name in ("lowest", "newest"):
            cache = {"NUMBA_CACHE_DIR": str(FOLDER / f"cache-{name}")}
            _smoke(environment(name), folder, _HERE, variables=cache)
            return f"{name}: the same"
        return _without_home(folder) if name == "no_home" else _read_only(Path(folder))


def _on_processor(kind: str, folder: str) -> str:
    if kind == "avx2" and not X86:
        return "avx2: not tried, another architecture"
    variables = {**settings(kind), "NUMBA_CACHE_DIR": str(FOLDER / f"cache-{kind}")}
    _smoke(sys.executable, folder, _HERE, variables=variables)
    return f"{kind}: the same"


def _without_home(folder: str) -> str:
    """Try as a user whom the system does not know, as containers have them."""
    if not _permitted(_USER):
        return "no_home: not tried, no namespaces here"
    words = (sys.executable, folder, _HERE, "--least")
    _smoke(*words, variables={"HOME": None}, inside=_USER)
    return "no_home: the same"


def _read_only(folder: Path) -> str:
    """Try with a package without compiled loops, and nowhere to keep them."""
    if not _permitted(_MOUNTS):
        return "read_only: not tried, no namespaces here"
    site, own = folder / "site", folder / "own"
    own.mkdir()
    unneeded = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", site, ignore=unneeded)
    said = _smoke(
        *(sys.executable, own, _HERE, "--least"),
        variables={"PYTHONPATH": str(site), "HOME": str(site), "TMPDIR": str(own)},
        inside=[*_MOUNTS, "sh", "-c", _READ_ONLY, str(folder)],
    )
    if said.count("NUMBA_CACHE_DIR") != 1:
        raise AssertionError(f"one warning that nothing is kept was expected:\n{said}")
    return "read_only: the same"


def _permitted(inside: list[str]) -> bool:
    try:
        return subprocess.run([*inside, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def _smoke(
    *words: str | Path, variables: dict[str, str | None], inside: list[str] | None = None
) -> str:
    """Run ``campaigns.smoke`` by the Python that ``words`` begin with; return its warnings."""
    changed = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **variables}
    kept = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    given = {key: value for key, value in {**kept, **changed}.items() if value is not None}
    python, *arguments = map(str, words)
    ran = subprocess.run(
        [*(inside or []), python, "-m", "campaigns.smoke", *arguments],
        cwd=ROOT,
        env=given,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise AssertionError(ran.stderr[-6000:])
    return ran.stderr
