"""Small problems with dense twins, in the variants that every solver must handle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.stacked import WithIntercept
from gramless.penalties import L2
from gramless.solvers.objective import Problem


@dataclass(frozen=True)
class Case:
    """A problem, its matrix written out, and its exact solution."""

    problem: Problem
    dense: NDArray[np.float64]

    @property
    def hessian(self) -> NDArray[np.float64]:
        penalty, weights = self.problem.penalty, self.problem.row_weights
        ridge = np.full(self.dense.shape[1], penalty.alpha)
        ridge[len(ridge) - penalty.n_free :] = 0.0
        return self.dense.T @ (weights[:, None] * self.dense) + np.diag(ridge)

    @property
    def exact(self) -> NDArray[np.float64]:
        weighted = (self.problem.row_weights * self.problem.targets.T).T
        return np.linalg.lstsq(self.hessian, self.dense.T @ weighted, rcond=None)[0]


def random_codes(n_grids: int, n_bins: int, n_rows: int, seed: int = 0) -> BinnedMatrix:
    """Draw a binned matrix whose bins are of very different sizes, all of them occupied."""
    rng = np.random.default_rng(seed)
    drawn = n_bins * rng.random((n_grids, n_rows)) ** 3
    codes = 1 + drawn.astype(np.uint16)
    n_known = np.array([len(np.unique(row)) for row in codes])
    for row in codes:
        row[:] = 1 + np.unique(row, return_inverse=True)[1].astype(np.uint16)
    return BinnedMatrix(codes, np.concatenate([[0], np.cumsum(n_known)]))


def make_case(
    *,
    n_outputs: int | None = None,
    weighted: bool = False,
    intercept: bool = False,
    alpha: float = 1e-2,
    wide: bool = False,
) -> Case:
    n_rows, n_grids, n_bins = (20, 12, 9) if wide else (120, 5, 8)
    rng = np.random.default_rng(1)
    binned = random_codes(n_grids, n_bins, n_rows)
    dense = binned.toarray()
    matrix: FeatureMatrix = binned
    if intercept:
        matrix, dense = WithIntercept(binned), np.column_stack([dense, np.ones(n_rows)])
    targets = rng.normal(3.0, 1.0, size=n_rows if n_outputs is None else (n_rows, n_outputs))
    weights = rng.gamma(1.0, size=n_rows) if weighted else None
    penalty = L2(alpha, n_free=int(intercept))
    return Case(Problem(matrix, targets, penalty, sample_weight=weights), dense)


CASES: dict[str, Case] = {
    "one output": make_case(),
    "three outputs": make_case(n_outputs=3),
    "one output as a column": make_case(n_outputs=1),
    "weights": make_case(weighted=True),
    "intercept": make_case(intercept=True),
    "all": make_case(n_outputs=3, weighted=True, intercept=True),
    "no penalty": make_case(n_outputs=2, alpha=0.0, intercept=True),
    "more columns than rows": make_case(wide=True, weighted=True, intercept=True),
    "wide, no penalty": make_case(wide=True, alpha=0.0),
    "strong penalty": make_case(alpha=1e3, intercept=True),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param
