"""Falkon: the ridge problem of Nyström features, solved without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from gramless import KernelRegressor, Nystrom
from gramless.base.errors import InputError
from gramless.features.nystrom import NystromMatrix
from gramless.losses import Logistic
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.stacked import with_ones
from gramless.matrices.transformed import WhitenedMatrix
from gramless.penalties import L1, L2
from gramless.solvers.choose import choose_solver
from gramless.solvers.direct import Cholesky
from gramless.solvers.falkon import Falkon
from gramless.solvers.objective import Problem

N_ROWS, LANDMARKS = 3000, 200


@dataclass(frozen=True)
class Case:
    """A problem as Falkon gets it, over the features that its kernel values have, and in double."""

    given: Problem
    reference: Problem
    double: Problem


def table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(N_ROWS, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=N_ROWS)


def make_case(
    alpha: float = 1e-7,
    n_outputs: int = 0,
    intercept: bool = False,
    weighted: bool = False,
    n_jobs: int | None = None,
    **options: Any,
) -> Case:
    X, y = table()
    options = {"bandwidth": 1.5, "n_components": LANDMARKS, **options}
    nystrom = Nystrom(random_state=0, n_jobs=n_jobs, **options)
    made = nystrom.fit_matrix(X)
    values = np.asarray(made.unwhitened().values.chunk(0, N_ROWS), np.float64)
    whitened = solve_triangular(nystrom.factor_, values.T, lower=True).T
    parts: list[FeatureMatrix] = [
        made,
        DenseMatrix(np.ascontiguousarray(whitened)),
        DenseMatrix(nystrom.transform(X)),
    ]
    if intercept:
        parts = [with_ones(part) for part in parts]
    targets = np.stack([np.roll(y, k) for k in range(n_outputs)], axis=1) if n_outputs else y
    weight = np.random.default_rng(1).random(N_ROWS) + 0.1 if weighted else None
    given = Problem(parts[0], targets, L2(alpha, n_free=int(intercept)), sample_weight=weight)
    return Case(*(replace(given, matrix=part) for part in parts))


CASES = {
    "plain": {},
    "three outputs": {"n_outputs": 3},
    "intercept": {"intercept": True},
    "weights": {"weighted": True},
    "all": {"n_outputs": 2, "intercept": True, "weighted": True},
    "clusters": {"landmarks": "kmeans"},
    "leverage": {"landmarks": "leverage", "kernel": "laplacian"},
    "large alpha": {"alpha": 0.1},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_gradient_vanishes_at_the_solution(options: dict[str, Any]) -> None:
    """Of the problem over the features of its kernel values; and the weights are Cholesky's."""
    case = make_case(**options)
    solution = Falkon(tol=1e-9, max_iter=500).solve(case.given)
    assert solution.status == "converged"
    largest = np.abs(case.reference.loss_gradient(np.zeros_like(solution.weights))).max()
    assert case.reference.kkt_residual(solution.weights) < 1e-7 * largest
    assert case.reference.kkt_residual(solution.weights + 0.01) > 1e-5 * largest
    direct = Cholesky().solve(case.reference).weights
    responses = case.reference.matrix.matvec(direct)
    result = case.reference.matrix.matvec(solution.weights)
    np.testing.assert_allclose(result, responses, atol=1e-5 * np.abs(responses).max())


@pytest.mark.parametrize("options", [CASES["plain"], {"kernel": "laplacian"}])
def test_kernel_values_are_single_precision_if_features_allow(options: dict[str, Any]) -> None:
    """Features in single precision are off by more than what rounded kernel values do."""
    case = make_case(**options)
    made: Any = case.given.matrix
    assert made.nystrom.n_double_ == 0
    assert made.unwhitened().values.dtype == np.float32
    whole = case.double.matrix.tocsr().toarray()
    by_values = np.abs(case.reference.matrix.tocsr().toarray() - whole).max()
    assert 0.0 < by_values <= np.abs(made.chunk(0, N_ROWS) - whole).max()


def test_kernel_values_are_double_precision_if_features_require() -> None:
    case = make_case(bandwidth=15.0)
    made: Any = case.given.matrix
    assert made.nystrom.n_double_ > 0
    assert made.unwhitened().values.dtype == np.float64
    solution = Falkon(tol=1e-6, max_iter=500).solve(case.given)
    direct = case.double.matrix.matvec(Cholesky().solve(case.double).weights)
    result = case.double.matrix.matvec(solution.weights)
    np.testing.assert_allclose(result, direct, atol=1e-3 * np.abs(direct).max())


def test_number_of_threads_does_not_change_the_solution() -> None:
    results = [
        Falkon(n_jobs=n_jobs).solve(make_case(n_outputs=2, intercept=True, n_jobs=n_jobs).given)
        for n_jobs in (1, 2, 3)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other.weights, results[0].weights)


def test_other_losses_penalties_and_features_are_rejected() -> None:
    problem = make_case().given
    with pytest.raises(InputError, match="squared loss only"):
        Falkon().solve(replace(problem, loss=Logistic(), targets=np.sign(problem.targets)))
    with pytest.raises(InputError, match="smooth penalty"):
        Falkon().solve(replace(problem, penalty=L1(0.1)))
    with pytest.raises(InputError, match=r"Falkon needs Nyström features.*DenseMatrix.*'pcg'"):
        Falkon().solve(make_case().reference)


class Sized(NystromMatrix):
    """Nyström features of some size, in single precision, that nobody computes."""

    def __init__(self, n_rows: int, n: int) -> None:
        ComputedMatrix.__init__(
            self, np.empty((n_rows, 0)), lambda rows, out: None, n, budget=1 << 40
        )

    def unwhitened(self) -> WhitenedMatrix:
        """Return kernel values, none of which are there either."""
        return WhitenedMatrix(DenseMatrix(np.empty((1, self.shape[1]), np.float32)), np.eye(1))


@pytest.mark.parametrize(("n", "expected"), [(200, "cholesky"), (4000, "falkon")])
def test_auto_chooses_falkon_for_many_landmarks(n: int, expected: str) -> None:
    sized = Sized(50_000, n)
    for matrix in (sized, with_ones(sized)):
        _, reason = choose_solver("auto", tol=1e-3, max_iter=100, matrix=matrix)
        assert reason.startswith(f"{expected}: ")


def test_estimators_accept_falkon_by_name() -> None:
    X, y = table()
    models = [
        KernelRegressor(
            features=Nystrom(bandwidth=1.5, n_components=LANDMARKS, random_state=0),
            alpha=1e-6,
            solver=solver,
            tol=1e-5,
            random_state=0,
        ).fit(X, y)
        for solver in ("falkon", "cholesky")
    ]
    first, second = (model.predict(X) for model in models)
    assert models[0].solver_reason_ == "falkon, as asked"
    # Cholesky's features are single precision.
    assert np.sqrt(np.mean((first - second) ** 2)) < 5e-3 * y.std()
