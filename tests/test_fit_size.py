"""How many modules and functions of gramless a default fit enters."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor

# A little above what a fit enters today: raise them only for something that users would miss.
MOST_MODULES, MOST_FUNCTIONS, MOST_CALLS = 84, 800, 365


def entered(call: Any) -> tuple[set[str], set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the modules, functions and calls between modules that a call enters."""
    modules: set[str] = set()
    functions: set[tuple[str, str]] = set()
    calls: set[tuple[str, str]] = set()

    def module_of(frame: FrameType | None) -> str | None:
        name = "" if frame is None else frame.f_globals.get("__name__", "")
        return name if name.startswith("gramless.") else None

    def watch(frame: FrameType, event: str, argument: object) -> None:
        module = module_of(frame)
        if event != "call" or module is None or frame.f_code.co_name.startswith("<"):
            return
        modules.add(module)
        functions.add((module, frame.f_code.co_qualname))
        caller = module_of(frame.f_back)
        if caller is not None and caller != module:
            calls.add((caller, module))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return modules, functions, calls


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_default_fit_enters_few_modules_and_functions(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 4))
    z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=len(X))
    model, y = kind(random_state=0, n_jobs=1), z > 0 if kind is KernelClassifier else z
    model.fit(X[:200], y[:200])  # imports do not count
    modules, functions, calls = entered(lambda: model.fit(X, y))
    assert {"gramless.selection.pipeline", "gramless.features.grids"} <= modules
    assert len(modules) <= MOST_MODULES
    assert len(functions) <= MOST_FUNCTIONS
    assert len(calls) <= MOST_CALLS
