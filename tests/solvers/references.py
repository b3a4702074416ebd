"""Small problems with dense references, in the variants that every solver must handle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.losses import Huber, Logistic, Loss, Multinomial, SmoothPinball, Squared, SquaredHinge
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.stacked import with_ones
from gramless.penalties import L1, L2, ElasticNet, Penalty
from gramless.solvers.objective import Problem, Solution, columns

Array = NDArray[np.float64]

LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "squared hinge": SquaredHinge(),
    "logistic": Logistic(),
    "multinomial": Multinomial(),
    "huber": Huber(0.7),
    "quantile": SmoothPinball(0.8, 0.2),
}
PENALTIES: dict[str, Penalty] = {"l2": L2(0.02), "l1": L1(0.01), "net": ElasticNet(0.02, 0.5)}


@dataclass(frozen=True)
class Case:
    """A problem and its matrix written out."""

    problem: Problem
    dense: Array

    def gradient(self, w: Array) -> Array:
        """Return the gradient of the mean loss at weights (n_columns,) or (n_columns, K)."""
        problem = self.problem
        targets = problem.targets if w.ndim == 1 else columns(problem.targets)
        slopes = problem.loss.gradient(self.dense @ w, targets)
        return self.dense.T @ (problem.row_weights * slopes.T).T

    def residual(self, w: Array) -> float:
        """Return the distance from optimal relative to the largest gradient at zero."""
        distance = columns(self.problem.penalty.distance(w, self.gradient(w))).max(axis=0)
        at_zero = columns(np.abs(self.gradient(np.zeros_like(w)))).max(axis=0)
        return float((distance / at_zero).max())

    @property
    def hessian(self) -> Array:
        """The Hessian of the squared loss and a ridge."""
        penalty, ridge = self.problem.penalty, np.zeros(self.dense.shape[1])
        ridge[: len(ridge) - penalty.n_free] = penalty.l2
        return self.dense.T @ (self.problem.row_weights[:, None] * self.dense) + np.diag(ridge)

    @property
    def exact(self) -> Array:
        """The solution of the normal equations, of least norm if there are several."""
        weighted = (self.problem.row_weights * self.problem.targets.T).T
        inverse = np.linalg.pinv(self.hessian, rcond=1e-10, hermitian=True)
        return inverse @ (self.dense.T @ weighted)


def targets_of(loss: Loss, scores: Array) -> Array:
    """Return targets that depend on scores (n,) or (n, K): numbers, labels or classes."""
    if loss.coupled:
        scores = scores if scores.ndim == 2 else np.column_stack([-scores, scores])
        best = np.argmax(scores, axis=1)
        return np.where(np.arange(scores.shape[1]) == best[:, None], 1.0, -1.0)
    if loss.name in ("squared_hinge", "logistic"):
        return np.where(scores > 0.0, 1.0, -1.0)
    return scores + 0.5


def case_over(
    matrix: FeatureMatrix,
    loss: Loss,
    penalty: Penalty,
    *,
    n_outputs: int | None = None,
    intercept: bool = False,
    weighted: bool = False,
    noise: float = 0.3,
) -> Case:
    """Return a problem whose targets follow the features; a quarter of weighted rows weigh 0."""
    rng = np.random.default_rng(1)
    dense = matrix.tocsr().toarray()
    n_rows = len(dense)
    shape = (n_rows,) if n_outputs is None else (n_rows, n_outputs)
    scores = dense @ rng.normal(size=(dense.shape[1], *shape[1:])) + noise * rng.normal(size=shape)
    if intercept:
        matrix, dense = with_ones(matrix), np.column_stack([dense, np.ones(n_rows)])
        penalty = replace(penalty, n_free=1)  # type: ignore[type-var]
    weights = np.where(np.arange(n_rows) % 4, rng.gamma(1.0, size=n_rows), 0.0)
    sample_weight = weights if weighted else None
    return Case(Problem(matrix, targets_of(loss, scores), penalty, loss, sample_weight), dense)


def never_rises(solution: Solution) -> bool:
    objectives = np.array([entry["objective"] for entry in solution.history])
    return bool((np.diff(objectives) <= 1e-14 * np.abs(objectives).max()).all())


def random_codes(n_grids: int, n_bins: int, n_rows: int) -> BinnedMatrix:
    """Draw a binned matrix whose bins are of very different sizes, all of them occupied."""
    drawn = n_bins * np.random.default_rng(0).random((n_grids, n_rows)) ** 3
    codes = [1 + np.unique(row.astype(int), return_inverse=True)[1] for row in drawn]
    offsets = np.concatenate([[0], np.cumsum([row.max() for row in codes])])
    return BinnedMatrix(np.array(codes, np.uint16), offsets)


def ridge_case(
    *,
    n_outputs: int | None = None,
    weighted: bool = False,
    intercept: bool = False,
    alpha: float = 1e-2,
    wide: bool = False,
) -> Case:
    matrix = random_codes(12, 9, 20) if wide else random_codes(5, 8, 120)
    options: dict[str, Any] = {"n_outputs": n_outputs, "weighted": weighted, "intercept": intercept}
    return case_over(matrix, Squared(), L2(alpha), **options)


RIDGE_CASES: dict[str, Case] = {
    "one output": ridge_case(),
    "three outputs": ridge_case(n_outputs=3),
    "one output as a column": ridge_case(n_outputs=1),
    "weights": ridge_case(weighted=True),
    "intercept": ridge_case(intercept=True),
    "all": ridge_case(n_outputs=3, weighted=True, intercept=True),
    "no penalty": ridge_case(n_outputs=2, alpha=0.0, intercept=True),
    "more columns than rows": ridge_case(wide=True, weighted=True, intercept=True),
    "wide, no penalty": ridge_case(wide=True, alpha=0.0),
    "strong penalty": ridge_case(alpha=1e3, intercept=True),
}
