"""How many modules stand between ``fit`` and the loops."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import gramless
from gramless import KernelClassifier, KernelRegressor

ROOT = Path(gramless.__file__).parent
CALLS_LOOPS = re.compile(r"^from gramless\.loops|^from gramless import loops", re.MULTILINE)
FILES = {
    str(path): path.relative_to(ROOT).as_posix()
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in ("base", "loops")
}
CALLERS = {file for file in FILES if CALLS_LOOPS.search(Path(file).read_text(encoding="utf-8"))}
MOST_MODULES, MOST_AT_ONCE = 25, 12


def stack_of(frame: FrameType | None) -> Iterator[str]:
    """Yield the files of gramless on the stack, but those of loops and of the base."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file in FILES:
            yield file
        frame = frame.f_back


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_few_modules_stand_between_fit_and_the_loops(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 4))
    z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=len(X))
    between: set[str] = set()
    most_at_once = 0

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal most_at_once
        if event == "call" and frame.f_code.co_filename in CALLERS:
            stack = {FILES[file] for file in stack_of(frame)}
            between.update(stack)
            most_at_once = max(most_at_once, len(stack))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        kind(random_state=0, n_jobs=1).fit(X, z > 0 if kind is KernelClassifier else z)
    finally:
        sys.setprofile(before)
    assert {"estimators/base.py", "features/grids.py", "matrices/binned.py"} <= between
    assert len(between) <= MOST_MODULES, sorted(between)
    assert most_at_once <= MOST_AT_ONCE
