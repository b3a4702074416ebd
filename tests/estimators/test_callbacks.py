"""Callbacks receive the progress of a fit, and can stop some of its stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor
from gramless.base.errors import InputError
from gramless.base.progress import Progress

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(400, 3))
Y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=400)


def machine(**options: Any) -> KernelRegressor:
    return KernelRegressor(**{"grids": "grown", "effort": 1, "random_state": 0, **options})


def stages(model: Any, *callbacks: Any) -> tuple[Any, list[Progress]]:
    """Return the fitted model and the progress that callbacks received."""
    steps: list[Progress] = []
    return model.fit(X, Y, callbacks=[steps.append, *callbacks]), steps


def test_callback_receives_every_step_and_does_not_change_the_fit() -> None:
    model, steps = stages(machine(n_grids=24))
    np.testing.assert_array_equal(model.weights_, machine(n_grids=24).fit(X, Y).weights_)
    names = {progress.stage for progress in steps}
    assert {"growth", "validation", "solve", "final fit"} <= names
    for name in names:
        numbered = [progress for progress in steps if progress.stage == name]
        assert [progress.number for progress in numbered] == list(range(1, len(numbered) + 1))
    seconds = [progress.seconds for progress in steps]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    rounds = [progress.score for progress in steps if progress.stage == "growth"]
    assert len(rounds) >= 3
    assert rounds[-1] == model.growth_[-1]["score"]
    assert next(progress.score for progress in steps if progress.stage == "solve") is None
    assert [p.stage for p in steps].count("solve") == model.n_iter_


def test_callback_stops_growth() -> None:
    def patience(progress: Progress) -> bool:
        return progress.stage == "growth" and progress.number >= 2

    model, steps = stages(machine(), patience)
    assert model.growth_[-1]["n_grids"] == 16
    assert [p.stage for p in steps].count("growth") == 3
    assert "callback: growth was ended early" in model.limits_
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("stage", ["validation", "solve"])
def test_callback_stops_validation_and_the_solve(stage: str) -> None:
    model, steps = stages(machine(n_grids=24, tol=1e-8), lambda progress: progress.stage == stage)
    assert model.limits_ == [f"callback: {stage} was ended early"]
    assert [p.stage for p in steps].count(stage) == 1
    assert (model.status_ == "stopped") == (stage == "solve")


def test_callback_stops_the_search() -> None:
    def first(progress: Progress) -> bool:
        return progress.stage == "search"

    model = KernelClassifier(grids="random", n_grids=8, random_state=0)
    model.fit(X, Y > 0, callbacks=first)
    searched = {(t["scaling"], t["bandwidth"]) for t in model.search_ if t["stage"] == "search"}
    assert len(searched) == 1
    assert model.limits_ == ["callback: search was ended early"]


def test_callbacks_must_be_functions() -> None:
    with pytest.raises(InputError, match="callbacks must be functions"):
        machine().fit(X, Y, callbacks=[3])
