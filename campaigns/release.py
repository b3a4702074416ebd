"""What a wheel promises: ``python -m campaigns.release FOLDER`` tries the one in a folder.

Its size, what it asks for, and a fresh environment of the Python that runs this: six dependencies,
no extra, a fit, and a command that says what it misses. It needs the standard library alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from email import message_from_bytes
from pathlib import Path

MOST_BYTES = 1_000_000
DEPENDENCIES = {"numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "safetensors"}
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_COMMAND_SAYS = 'pip install "gramless[cli]"'

_USE = """
import tempfile
from pathlib import Path

import numpy as np

import gramless
from gramless.datasets import friedman1

assert "site-packages" in gramless.__file__, gramless.__file__
X, y = friedman1(700, seed=0)
for model, targets in ((gramless.KernelRegressor, y), (gramless.KernelClassifier, y > 14)):
    fitted = model(n_grids=32, random_state=0).fit(X[:500], targets[:500])
    score = fitted.score(X[500:], targets[500:])
    assert score > 0.7, (model, score)
    with tempfile.TemporaryDirectory() as folder:
        gramless.save(fitted, Path(folder, "model"))
        again = gramless.load(Path(folder, "model")).predict(X)
    np.testing.assert_array_equal(again, fitted.predict(X))
print(gramless.__version__)
"""


def check_contents(wheel: Path) -> str:
    """Check size, files and requirements of a wheel; return its version."""
    n_bytes = wheel.stat().st_size
    assert n_bytes < MOST_BYTES, f"{wheel.name} has {n_bytes:,} bytes, more than {MOST_BYTES:,}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = message_from_bytes(archive.read(metadata))
    inside = {name.partition("/")[0] for name in names}
    assert inside == {"gramless", metadata.partition("/")[0]}, inside
    assert "gramless/py.typed" in names
    asked_for = told.get_all("Requires-Dist") or []
    always = {_NAME.findall(line)[0] for line in asked_for if "extra ==" not in line}
    assert always == DEPENDENCIES, always
    print(f"{wheel.name}: {n_bytes:,} bytes, {len(names)} files, {len(always)} dependencies")
    return str(told["Version"])


def check_use(wheel: Path, version: str) -> None:
    """Install a wheel into a fresh environment, fit there, and call the command."""
    with tempfile.TemporaryDirectory(prefix="gramless-release-") as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        programs = Path(folder, "Scripts" if sys.platform == "win32" else "bin")
        pip = [programs / "python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-input", wheel.resolve()], check=True)
        used = _run(folder, programs / "python", "-c", _USE)
        assert used.returncode == 0, used.stderr
        assert used.stdout.strip() == version, used.stdout
        said = _run(folder, programs / "gramless", "--version")
        assert said.returncode == 1, said
        assert _COMMAND_SAYS in said.stderr, said
        assert said.stderr.count("\n") == 1, said
    print(
        f"Python {sys.version.split()[0]}: installed, fitted, saved, loaded; {said.stderr.strip()}"
    )


def _run(folder: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True)


def main() -> None:
    """Check the wheel of a folder."""
    (wheel,) = Path(sys.argv[1]).glob("gramless-*.whl")
    check_use(wheel, check_contents(wheel))


if __name__ == "__main__":
    main()
