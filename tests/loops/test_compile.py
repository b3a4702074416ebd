"""The cache of compiled loops: damaged files, and folders that cannot be written to."""

from __future__ import annotations

import errno
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

import gramless
from gramless.loops import compile as compiling

MODULE = """
from gramless.loops.compile import loop

@loop
def total(numbers):
    result = 0.0
    for number in numbers:
        result += number
    return result
"""

DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "one_bit": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "of_another_source": lambda content: bytes(32) + content[32:],
}


@pytest.fixture
def total_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that imports a module of one loop anew and returns the loop."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "loop_of_a_test.py"
    source.write_text(MODULE)

    def anew():
        spec = importlib.util.spec_from_file_location("loop_of_a_test", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return anew


def run(total) -> bool:
    """Run a loop, and return whether its code came from the disk."""
    assert total(np.arange(4.0)) == 6.0
    return sum(total.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_cache_files_are_replaced(total_anew, tmp_path: Path, damage):
    assert not run(total_anew())
    assert run(total_anew())
    for path in (tmp_path / "cache").rglob("*.nb*"):
        path.write_bytes(damage(path.read_bytes()))
    assert not run(total_anew())
    assert run(total_anew())


@contextmanager
def one_warning():
    compiling._warn_uncached.cache_clear()
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR") as warned:
        yield
    assert len(warned) == 1


def test_full_disk_warns_once_and_keeps_no_cache(total_anew, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(compiling, "open_replacement", full)
    with one_warning():
        assert not run(total_anew())
        assert not run(total_anew())


class Watch(event.Listener):
    """Notes whether garbage is collected while a loop is compiled."""

    def __init__(self) -> None:
        self.collects: list[bool] = []

    def on_start(self, event: event.Event) -> None:
        self.collects.append(gc.isenabled())

    def on_end(self, event: event.Event) -> None:
        pass


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_while_loops_are_compiled(total_anew, enabled):
    watch = Watch()
    try:
        (gc.enable if enabled else gc.disable)()
        with event.install_listener("numba:compile", watch):
            assert not run(total_anew())
        assert watch.collects == [False]
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


LOADED = """
import sys
import numpy as np
from gramless.loops.dense import responses
from gramless.loops.row_lists import list_rows

products, rows, bounds = np.empty(2), np.empty(3, np.uint32), np.empty(3, np.intp)
responses(np.ones((2, 3), np.float32), np.ones(3), products)
list_rows(np.array([2, 1, 2], np.uint32), rows, bounds)
print(products, rows, bounds, "numba.typed.typedlist" in sys.modules)
"""


def test_loading_compiled_loops_does_not_start_the_compiler(tmp_path: Path):
    outputs = [
        subprocess.run(
            [sys.executable, "-c", LOADED],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    numbers = "[3. 3.] [1 0 2] [0 1 3]"
    assert outputs == [f"{numbers} True\n", f"{numbers} False\n"]


SCRIPT = """
import numpy as np
from gramless import KernelRegressor
from gramless.loops.dense import responses

result = np.empty(2)
responses(np.ones((2, 3), np.float32), np.ones(3), result)
print(result)
"""


@pytest.mark.slow
def test_package_without_write_permission_is_imported(tmp_path: Path):
    # Folders below regular files can be made by nobody, not even by root.
    blocked = tmp_path / "file"
    blocked.touch()
    package = tmp_path / "site" / "gramless"
    shutil.copytree(
        Path(gramless.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "loops" / "__pycache__").touch()
    nowhere = dict.fromkeys(
        ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "NUMBA_CACHE_DIR"), str(blocked / "below")
    )
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **nowhere, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "[3. 3.]\n", ran.stderr
    assert ran.stderr.count("NUMBA_CACHE_DIR") == 1
