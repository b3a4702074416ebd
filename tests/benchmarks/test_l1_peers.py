"""Check that every peer solves the same problem as our solver, with the same alphas."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest

from gramless.losses import Logistic, Loss, Squared, SquaredHinge

LOSSES = (Squared(), Logistic(), SquaredHinge())

# skglm takes seconds to compile.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def paths() -> ModuleType:
    return importlib.import_module("benchmarks.l1_paths")


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    for package in ("celer", "skglm", "liblinear"):
        pytest.importorskip(package)
    return importlib.import_module("benchmarks.l1_peers")


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_all_reach_the_same_objective(paths: ModuleType, peers: ModuleType, loss: Loss) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    # The first label is -1, and liblinear's weights refer to the first label.
    y = np.where(X[:, 0] * X[:, 1] > X[0, 0] * X[0, 1], 1, -1)
    data = paths.formats(X, y, 16, n_jobs=1)
    largest = paths.largest_alpha(data.matrix, data.targets, loss)
    path = paths.AlphaPath(data, loss, largest / np.array([3.0, 30.0]))
    result = {k: one.fit(1e-9) for k, one in peers.contenders(path, n_jobs=1).items()}
    assert len(result) >= 3
    for k, problem in enumerate(path.problems()):
        values = {label: problem.value(weights[k]) for label, weights in result.items()}
        best = min(values.values())
        assert values == pytest.approx(dict.fromkeys(values, best), abs=1e-6)
        for weights in result.values():
            assert paths.dual_value(problem, weights[k]) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_dual_value_is_a_lower_bound(paths: ModuleType, loss: Loss) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2))
    data = paths.formats(X, np.sign(X[:, 0]), 8, n_jobs=1)
    largest = paths.largest_alpha(data.matrix, data.targets, loss)
    path = paths.AlphaPath(data, loss, np.array([0.1 * largest]))
    (problem,) = path.problems()
    (best,) = paths.ours(path, n_jobs=1)(1e-9)
    for size in (0.0, 0.01, 1.0, 100.0):
        weights = size * rng.normal(size=best.shape)
        assert paths.dual_value(problem, weights) <= problem.value(best)
