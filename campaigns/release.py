"""Check the wheel in a folder: ``python -m campaigns.release FOLDER``.

Its size and requirements are checked, and that in a new environment, of the Python that runs this,
it has six dependencies and no extra, a fit works, and the command names the missing extra. This
module needs only the standard library.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from email import message_from_bytes
from pathlib import Path

MAX_BYTES = 1_000_000
DEPENDENCIES = {"numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "safetensors"}
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_INSTALL_HINT = 'pip install "gramless[cli]"'

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
    """Check size, files and requirements of a wheel, and return its version."""
    n_bytes = wheel.stat().st_size
    assert n_bytes < MAX_BYTES, f"{wheel.name} has {n_bytes:,} bytes, more than {MAX_BYTES:,}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata_fields = message_from_bytes(archive.read(metadata))
    packages = {name.partition("/")[0] for name in names}
    assert packages == {"gramless", metadata.partition("/")[0]}, packages
    assert "gramless/py.typed" in names
    requirements = metadata_fields.get_all("Requires-Dist") or []
    required = {_NAME.findall(line)[0] for line in requirements if "extra ==" not in line}
    assert required == DEPENDENCIES, required
    print(f"{wheel.name}: {n_bytes:,} bytes, {len(names)} files, {len(required)} dependencies")
    return str(metadata_fields["Version"])


def check_use(wheel: Path, version: str) -> None:
    """Install a wheel into a new environment, fit there, and call the command."""
    with tempfile.TemporaryDirectory(prefix="gramless-release-") as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        programs = Path(folder, "Scripts" if sys.platform == "win32" else "bin")
        pip = [programs / "python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-input", wheel.resolve()], check=True)
        process = _run(folder, programs / "python", "-c", _USE)
        assert process.returncode == 0, process.stderr
        assert process.stdout.strip() == version, process.stdout
        command = _run(folder, programs / "gramless", "--version")
        assert command.returncode == 1, command
        assert _INSTALL_HINT in command.stderr, command
        assert command.stderr.count("\n") == 1, command
    print(
        f"Python {sys.version.split()[0]}: installed, fitted, saved, loaded; "
        f"{command.stderr.strip()}"
    )


def _run(folder: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True)


def main() -> None:
    """Check the wheel of a folder."""
    (wheel,) = Path(sys.argv[1]).glob("gramless-*.whl")
    check_use(wheel, check_contents(wheel))


if __name__ == "__main__":
    main()
