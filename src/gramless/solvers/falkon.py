"""Falkon: ridge regression on Nyström features without computing the features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gramless.base.errors import InputError
from gramless.matrices.base import Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones, without_ones
from gramless.matrices.transformed import WhitenedMatrix
from gramless.solvers.base import RIDGE, Capabilities, MatrixNeed, Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.factor import BorderedFactor
from gramless.solvers.objective import Callback, Problem, Solution
from gramless.solvers.preconditioners import FactorInverse, Preconditioner, resolution

# Landmarks span all features, so they resolve smaller eigenvalues than sampled rows.
_RESOLUTION_SHARE = 0.1


@dataclass(frozen=True)
class LandmarkRows(Preconditioner):
    """The inverse of the Hessian with the n landmarks as its only rows.

    The whitened features of landmark i are row i of the factor ``L`` of their kernel matrix, so the
    Hessian is ``L'L / n + mu I``, with a column of ones if the matrix has one. ``mu`` is 0.04/n
    times the mean squared norm of a landmark, or alpha if that is larger. The factorisation takes
    5/6 n**3 operations, an iteration 2 n**2; the memory is 16 n**2 bytes.
    """

    n_jobs: int | None = None

    def inverse(self, problem: Problem) -> FactorInverse:
        """Return the inverse for a problem over a :class:`WhitenedMatrix`."""
        inner, n_ones = without_ones(problem.matrix)
        if not isinstance(inner, WhitenedMatrix):
            raise InputError("LandmarkRows needs the WhitenedMatrix of a Nystrom map.")
        factor = inner.factor
        n = len(factor)
        gram = DenseMatrix(factor, self.n_jobs).column_gram()
        gram /= n
        ridge = problem.penalty.diagonal(np.empty(n + n_ones))
        mu = max(problem.penalty.l2, _RESOLUTION_SHARE * resolution(n) * float(gram.trace()))
        border = np.repeat(factor.mean(axis=0)[:, None], n_ones, axis=1)
        corner = np.eye(n_ones) + np.diag(ridge[n:])
        return FactorInverse(BorderedFactor(gram, np.full(n, mu), border, corner))


_NYSTROM_FEATURES = MatrixNeed(
    "Nyström features of training rows",
    lambda matrix: without_ones(matrix)[0].unwhitened() is not None,
    "Use ConjugateGradient, solver='pcg'.",
)


@dataclass(frozen=True)
class Falkon(Solver):
    """Ridge regression on Nyström features by conjugate gradients over kernel values.

    The weights are those of whitened features, which are never computed: products use the kernel
    values of rows and landmarks, and the preconditioner uses the landmarks (Rudi, Carratino &
    Rosasco 2017, *FALKON: An Optimal Large Scale Kernel Method*, Algorithm 1). If alpha is below
    the resolution of the landmarks, the preconditioner uses a larger value.

    Parameters
    ----------
    tol : float, default=1e-4
        As for :class:`ConjugateGradient`.
    max_iter : int, default=200
        Maximum number of iterations.
    n_jobs : int or None, default=None
        Threads. Results do not depend on it.

    Notes
    -----
    With n landmarks, the preconditioner takes n**3 operations, and an iteration
    2 n_rows * n + 4 n**2 for each output. Kernel values take 4 n_rows * n bytes, or 8 n_rows * n
    if the map's ``n_double_`` is not 0. Kernel values that do not fit into memory are recomputed
    in each iteration.

    Examples
    --------
    >>> from gramless import Nystrom
    >>> from gramless.penalties import L2
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> Z = Nystrom(bandwidth=2.0, n_components=50, random_state=0).fit_matrix(X)
    >>> problem = Problem(Z, np.sin(X[:, 0]), L2(1e-6))
    >>> Falkon().solve(problem).status
    'converged'
    """

    tol: float = 1e-4
    max_iter: int = 200
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = replace(RIDGE, matrix=_NYSTROM_FEATURES)

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        self.check_problem(problem)
        inner, n_ones = without_ones(problem.matrix)
        values = inner.unwhitened()
        assert values is not None
        matrix = with_ones(values) if n_ones else values
        solver = ConjugateGradient(LandmarkRows(self.n_jobs), self.tol, self.max_iter, self.n_jobs)
        return solver.solve(replace(problem, matrix=matrix), start, callback)
