"""The machine and the package versions, to be stored with measurements."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gramless
from gramless.base.threads import available_cpus

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "lightgbm")


@cache
def machine() -> dict[str, Any]:
    """Return the hardware and operating system of this machine.

    Returns
    -------
    dict
        ``cpu`` (model name), ``cores`` (available to this process), ``memory`` (bytes, 0 if
        unknown), ``system``.

    Examples
    --------
    >>> machine()["cores"] >= 1
    True
    """
    system = f"{platform.system()} {platform.machine()}"
    return {"cpu": _cpu(), "cores": available_cpus(), "memory": _memory(), "system": system}


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, gramless, its dependencies and LightGBM, "" if missing.

    Examples
    --------
    >>> sorted(versions())[:3]
    ['gramless', 'lightgbm', 'numba']
    """
    result = {"python": platform.python_version(), "gramless": gramless.__version__}
    for name in _PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = ""
    return result


def summary() -> dict[str, str]:
    """Return the hardware and versions that affect the speed of loops, as text.

    Returns
    -------
    dict of str to str
        ``processor``, ``cores``, and the versions of Python, NumPy, SciPy and numba.

    Examples
    --------
    >>> list(summary())
    ['processor', 'cores', 'python', 'numpy', 'scipy', 'numba']
    """
    hardware, installed = machine(), versions()
    packages = {name: installed[name] for name in ("python", "numpy", "scipy", "numba")}
    return {"processor": hardware["cpu"], "cores": str(hardware["cores"]), **packages}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
