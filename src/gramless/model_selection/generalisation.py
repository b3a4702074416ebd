"""Errors on unseen rows from one ridge fit: cross-validation without refitting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.matrices.base import Vector
from gramless.solvers.base import require_ridge
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem, columns

_MOST_EXACT_ROWS = 5000
_FREE_VARIANCE = 1e6
"""Prior variance of an unpenalised constant, in rows' squared norms: as good as infinite."""


def leave_one_out(problem: Problem) -> Vector:
    """Return what every row's prediction would be, had it been left out of a ridge fit.

    The prediction of row i by all others is ``y_i - (y_i - z_i) / (1 - H_ii)``,
    H the matrix that turns targets into fitted values (Allen 1974).

    Parameters
    ----------
    problem : Problem
        With the squared loss, at most 5,000 rows and alpha above 0.

    Returns
    -------
    array (n_rows,) or (n_rows, K)

    Raises
    ------
    InputError
        With more rows (see :func:`gcv_error`), another loss, or alpha 0.

    Notes
    -----
    n_rows^3 operations and three arrays of n_rows^2 numbers, whatever the
    number of columns.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> leave_one_out(Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0 / 3.0))).round(6)
    array([1. , 0.5, 0. ])
    """
    require_ridge(problem, "leave_one_out")
    n_rows, alpha = problem.matrix.shape[0], problem.penalty.l2
    if n_rows > _MOST_EXACT_ROWS or alpha <= 0.0:
        raise InputError(
            f"leave_one_out needs at most {_MOST_EXACT_ROWS:,} rows and alpha above 0, got "
            f"{n_rows:,} rows and alpha {alpha:g}; gcv_error estimates the same from one fit."
        )
    roots = np.sqrt(problem.row_weights)
    gram = problem.matrix.row_gram()
    if problem.penalty.n_free:
        gram += _FREE_VARIANCE * float(gram.diagonal().mean())
    gram *= roots * roots[:, None]
    values, vectors = scipy.linalg.eigh(gram, overwrite_a=True)
    kept = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + alpha)
    targets = columns(problem.targets)
    fitted = vectors @ (kept[:, None] * (vectors.T @ (roots[:, None] * targets)))
    residuals = roots[:, None] * targets - fitted
    own = (vectors**2) @ kept
    weighted = roots > 0
    left = np.zeros_like(residuals)
    left[weighted] = (residuals / (1.0 - own)[:, None])[weighted] / roots[weighted, None]
    predictions = targets - left
    if not weighted.all():
        predictions[~weighted] = _without_weight(problem, ~weighted)
    return predictions.reshape(problem.targets.shape)


def effective_dimension(
    problem: Problem, *, n_probes: int = 20, seed: int = 0, n_jobs: int | None = None
) -> tuple[float, float]:
    """Estimate the trace of the matrix that turns targets into fitted values.

    The degrees of freedom of a ridge fit: between 0 and the number of rows. Each
    probe is a vector of random signs (Hutchinson 1989), all solved at once.

    Parameters
    ----------
    problem : Problem
        The targets do not matter.
    n_probes : int, default=20
    seed : int, default=0
    n_jobs : int or None

    Returns
    -------
    estimate, standard_error : float

    Notes
    -----
    One ridge solve with ``n_probes`` outputs.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> round(effective_dimension(Problem(Z, np.zeros(3), L2(1e-9)), n_probes=400)[0])
    2
    """
    require_ridge(problem, "effective_dimension")
    if n_probes < 2:
        raise InputError(f"effective_dimension needs at least 2 probes, got {n_probes!r}.")
    weighted = problem.row_weights > 0
    roots = np.sqrt(problem.row_weights)
    signs = stream(seed, "trace probes").choice([-1.0, 1.0], (len(roots), n_probes))
    targets = np.where(weighted[:, None], signs / np.where(weighted, roots, 1.0)[:, None], 0.0)
    solver = ConjugateGradient(tol=1e-5, max_iter=1000, n_jobs=n_jobs)
    weights = solver.solve(replace(problem, targets=targets)).weights
    fitted = problem.matrix.matvec(weights)
    traces = np.einsum("n,nk,nk->k", roots, signs, fitted)
    return float(traces.mean()), float(traces.std(ddof=1) / np.sqrt(n_probes))


def gcv_error(
    problem: Problem, weights: Vector, *, n_probes: int = 20, seed: int = 0
) -> NDArray[np.float64]:
    """Estimate the mean squared error on unseen rows: generalised cross-validation.

    ``mean residual^2 / (1 - d / n)^2`` with d the effective dimension (Golub,
    Heath & Wahba 1979).

    Parameters
    ----------
    problem : Problem
        With the squared loss.
    weights : array (n_columns,) or (n_columns, K)
        Its solution.
    n_probes, seed : int
        See :func:`effective_dimension`.

    Returns
    -------
    array () or (K,)
        Infinite where the fit has as many degrees of freedom as rows.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 1, 1]], np.uint8), np.array([0, 1]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 3.0, 4.0]), L2(1e-9))
    >>> gcv_error(problem, np.array([2.5]), n_probes=1000).round(1)
    np.float64(2.2)
    """
    dimension, _ = effective_dimension(problem, n_probes=n_probes, seed=seed)
    n_rows = np.count_nonzero(problem.row_weights)
    squares = (problem.targets - problem.matrix.matvec(weights)) ** 2
    left = max(1.0 - dimension / n_rows, 0.0) ** 2
    with np.errstate(divide="ignore"):
        return np.divide(problem.row_weights @ squares, left)


def _without_weight(problem: Problem, rows: NDArray[np.bool_]) -> Vector:
    """Return the fitted values of rows that had no part in the fit."""
    solver = ConjugateGradient(tol=1e-8, max_iter=2000)
    return columns(problem.matrix.matvec(solver.solve(problem).weights))[rows]
