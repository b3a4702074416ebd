"""Ridge regression on Nyström features without the features: Falkon."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gramless.base.errors import InputError
from gramless.matrices.base import Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones, without_ones
from gramless.matrices.whitened import WhitenedMatrix
from gramless.solvers.base import RIDGE, Capabilities, MatrixNeed, Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.factor import BorderedFactor, FactorInverse
from gramless.solvers.objective import Callback, Problem, Solution
from gramless.solvers.preconditioners import Preconditioner, resolution

_SHARE = 0.1
"""A fraction of the resolution of sampled rows, as landmarks span all features."""


@dataclass(frozen=True)
class LandmarkRows(Preconditioner):
    """The Hessian of the landmarks as the only rows, inverted exactly.

    Whitened, landmark i is row i of the factor ``L`` of their kernel matrix: ``M = L'L / n + mu I``
    with a column of ones if there is one. ``mu`` is 0.04/n of the mean squared norm of a landmark,
    or alpha if that is more. 5/6 n**3 operations once, 2 n**2 an iteration, and 16 n**2 bytes.
    """

    n_jobs: int | None = None

    def inverse(self, problem: Problem) -> FactorInverse:
        """Multiply the landmarks by each other and factorise."""
        inner, n_ones = without_ones(problem.matrix)
        if not isinstance(inner, WhitenedMatrix):
            raise InputError("LandmarkRows needs a WhitenedMatrix, as Falkon makes it.")
        factor = inner.factor
        n = len(factor)
        gram = DenseMatrix(factor, self.n_jobs).column_gram()
        gram /= n
        ridge = problem.penalty.diagonal(np.empty(n + n_ones))
        mu = max(problem.penalty.l2, _SHARE * resolution(n) * float(gram.trace()))
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

    The whitened features that the weights belong to are never computed: products use the kernel
    values of rows and landmarks, and the landmarks precondition (Rudi, Carratino & Rosasco 2017,
    *FALKON: An Optimal Large Scale Kernel Method*, Algorithm 1, with ``mu`` in place of an alpha
    below what the landmarks resolve).

    Parameters
    ----------
    tol : float, default=1e-4
        As for :class:`ConjugateGradient`.
    max_iter : int, default=200
        Iterations of the solver at most.
    n_jobs : int or None, default=None
        Threads. Results do not depend on it.

    Notes
    -----
    For n landmarks n**3 operations once, and 2 n_rows * n + 4 n**2 an iteration and output.
    Kernel values take 4 n_rows * n bytes, 8 where the map's ``n_double_`` is not 0; those that do
    not fit into memory are recomputed in each iteration.

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
