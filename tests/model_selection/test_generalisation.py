"""Leave-one-out and GCV against refits and dense twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.matrices.stacked import WithIntercept
from gramless.model_selection.generalisation import effective_dimension, gcv_error, leave_one_out
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem


def make_problem(*, intercept=False, weighted=False, n_outputs=None, n_rows=60, alpha=1e-2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    shape = (n_rows,) if n_outputs is None else (n_rows, n_outputs)
    y = (X[:, 0] + rng.normal(size=shape[::-1])).T + 5.0
    Z = RandomBinning(bandwidth=3.0, n_grids=32, random_state=0).fit_matrix(X)
    weights = rng.integers(0, 3, n_rows).astype(float) if weighted else None
    matrix = WithIntercept(Z) if intercept else Z
    return Problem(matrix, y, L2(alpha, n_free=int(intercept)), sample_weight=weights)


def hat(problem) -> np.ndarray:
    """Return the matrix from targets to fitted values, by the normal equations."""
    Z = problem.matrix.matvec(np.eye(problem.matrix.shape[1]))
    ridge = problem.penalty.diagonal(np.zeros(Z.shape[1]))
    weighted = Z.T * problem.row_weights
    return Z @ np.linalg.lstsq(weighted @ Z + np.diag(ridge), weighted, rcond=1e-13)[0]


def refitted(problem) -> np.ndarray:
    """Predict every row by a fit without it; alpha keeps its weight beside the summed losses."""
    predictions = np.empty(problem.targets.shape)
    for i in range(len(problem.targets)):
        weights = problem.row_weights.copy()
        weights[i] = 0.0
        left = replace(
            problem,
            penalty=replace(problem.penalty, alpha=problem.penalty.alpha / weights.sum()),
            sample_weight=weights,
        )
        predictions[i] = (hat(left) @ problem.targets)[i]
    return predictions


OPTIONS = [{}, {"intercept": True}, {"weighted": True}, {"n_outputs": 2}]
OPTIONS += [{"intercept": True, "weighted": True, "n_outputs": 2}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_leave_one_out_is_that_of_refits(options):
    problem = make_problem(**options)
    np.testing.assert_allclose(leave_one_out(problem), refitted(problem), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_effective_dimension_is_the_trace(options):
    problem = make_problem(**options)
    truth = np.trace(hat(problem))
    estimate, error = effective_dimension(problem, n_probes=500)
    assert abs(estimate - truth) < 4 * error
    assert error < 0.05 * truth


def test_effective_dimension_falls_with_alpha():
    found = [effective_dimension(make_problem(alpha=a))[0] for a in (1e-4, 1e-2, 1.0, 100.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] < 61
    assert found[-1] < 1


def test_gcv_foretells_the_error_of_unseen_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (4000, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=len(X))
    features = RandomBinning(bandwidth=2.0, n_grids=128, random_state=0)
    Z = features.fit_matrix(X[:2000])
    problem = Problem(Z, y[:2000], L2(1e-3))
    weights = ConjugateGradient(tol=1e-6).solve(problem).weights
    unseen = np.mean((features.feature_matrix(X[2000:]).matvec(weights) - y[2000:]) ** 2)
    fitted = np.mean((Z.matvec(weights) - y[:2000]) ** 2)
    assert abs(gcv_error(problem, weights) / unseen - 1) < 0.1
    assert fitted < 0.95 * unseen
    left = np.mean((leave_one_out(problem) - y[:2000]) ** 2)
    assert abs(left / unseen - 1) < 0.1


def test_gcv_of_several_outputs():
    problem = make_problem(n_outputs=2)
    weights = ConjugateGradient(tol=1e-8).solve(problem).weights
    both = gcv_error(problem, weights)
    alone = gcv_error(replace(problem, targets=problem.targets[:, 1]), weights[:, 1])
    assert both.shape == (2,)
    assert both[1] == pytest.approx(float(alone))


def test_what_cannot_be_done_is_refused():
    problem = make_problem()
    with pytest.raises(InputError, match="squared loss"):
        leave_one_out(replace(problem, loss=Logistic()))
    with pytest.raises(InputError, match="gcv_error"):
        leave_one_out(replace(problem, penalty=L2(0.0)))
    with pytest.raises(InputError, match="probes"):
        effective_dimension(problem, n_probes=1)
