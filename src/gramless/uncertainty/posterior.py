"""Posterior draws of the weights of a ridge fit, as of a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import weighted_sums
from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.random import stream
from gramless.base.state import Stateful, array_in, number_in, require
from gramless.base.threads import row_blocks
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import ChunkedMatrix
from gramless.matrices.stacked import HStack
from gramless.matrices.weighted import WeightedBinnedMatrix
from gramless.solvers.base import require_ridge
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem, columns
from gramless.solvers.preconditioners import SampledRows

# Number of draws that are solved together. A solve needs about five times the memory of their
# weights.
_DRAWS_PER_BLOCK = 32
_TOL = 1e-4
# The tolerance is smaller for the fit whose residuals estimate the noise. If it nearly interpolates
# the targets, residuals are small differences of large numbers.
_RESIDUAL_TOL = 1e-6
_MAX_ITERATIONS = 1000
_SINGLE_ROUNDING = 1e-6  # rounding error of sums of squares in single precision


@dataclass(frozen=True, repr=False)
class Posterior(Stateful):
    """Draws from the posterior of the weights, as deviations from the fitted weights.

    A ridge fit is the posterior mean of the process ``f(x) = w'z(x) + c`` with independent weights
    ``w ~ N(0, s^2 / (n alpha))``, a constant ``c`` with a flat prior, and targets
    ``f(x) + N(0, s^2 / weight)``, where the sample weights of the n rows have a mean of 1
    (Rasmussen & Williams 2006, section 2.1).

    Attributes
    ----------
    draws : array (n_columns, n_draws)
        Draws in units of the standard deviation ``s`` of the noise; the same for all outputs.
    prior : float
        The prior variance of a weight in units of ``s^2``.
    noise : float or array (K,)
        ``s`` of each output, for a row of weight 1.
    """

    draws: NDArray[np.float64]
    prior: float
    noise: float | NDArray[np.float64]

    def check(self) -> None:
        draws = array_in(vars(self), "draws", np.float64, (None, None), finite=True)
        require(draws.size > 0, "a posterior has no draws")
        number_in(vars(self), "prior", float, 0.0)
        if isinstance(self.noise, np.ndarray):
            array_in(vars(self), "noise", np.float64, (None,), finite=True)
        else:
            number_in(vars(self), "noise", float)

    @classmethod
    def sample(
        cls, problem: Problem, n_draws: int, *, seed: int = 0, n_jobs: int | None = None
    ) -> Posterior:
        """Return posterior draws of the weights of a ridge problem with alpha above 0.

        Standard deviations have a relative error of about ``0.7 / sqrt(n_draws)``. A draw depends
        only on the seed and on its index.

        Notes
        -----
        If ``w`` is drawn from the prior and ``e`` is noise, then ``w`` plus the ridge fit to
        ``e - Z w`` is a draw from the posterior (Matthews, Hron, Turner & Ghahramani 2017).

        ``s^2`` is estimated by the sum of squares of the residuals divided by ``n - d``, where d is
        the effective dimension, which is unbiased for the process. The sum of squares of the
        residuals of a draw has the expectation ``n - d``, so draws estimate it even if d is close
        to n.

        This takes one ridge solve with ``n_draws`` outputs, 32 at a time, one with the outputs of
        the problem, and ``8 * n_columns * n_draws`` bytes.

        Examples
        --------
        >>> from gramless.penalties import L2
        >>> Z = BinnedMatrix(np.array([[1, 1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
        >>> problem = Problem(Z, np.array([1.0, 3.0, 2.0, 2.0]), L2(0.25))
        >>> posterior = Posterior.sample(problem, 1000)
        >>> posterior.draws.std(axis=1).round(1)  # 1 / sqrt(rows + n alpha)
        array([0.5, 0.7])
        """
        require_ridge(problem, "Posterior")
        if problem.penalty.l2 <= 0.0 or n_draws < 1:
            raise InputError(
                f"Posterior needs alpha above 0 and at least one draw, got alpha "
                f"{problem.penalty.l2:g} and {n_draws} draws."
            )
        n_columns = problem.matrix.shape[1]
        check_memory(
            f"Posterior: {n_draws:,} draws of {n_columns:,} weights",
            8.0 * n_columns * n_draws,
            "lower n_posterior, or n_grids or n_components",
        )
        n_rows = np.count_nonzero(problem.row_weights)
        prior = 1.0 / (n_rows * problem.penalty.l2)
        rows = SampledRows().draw(problem.matrix, problem.row_weights)
        solver = ConjugateGradient(rows, _TOL, _MAX_ITERATIONS, n_jobs)
        draws, draw_squares = np.empty((n_columns, n_draws)), 0.0
        for a, b in row_blocks(n_draws, _DRAWS_PER_BLOCK):
            noise, weights = _draw_prior(problem, prior, seed, range(a, b))
            noise_problem = replace(problem, targets=noise - problem.matrix.matvec(weights))
            weights += solver.solve(noise_problem).weights
            draw_squares += _mean_squares(problem, noise, weights).sum() / n_draws
            draws[:, a:b] = weights
        fitted = replace(solver, tol=_RESIDUAL_TOL).solve(problem).weights
        squares = _mean_squares(problem, problem.targets, fitted)
        # A single row with a constant has no residual.
        noise = np.sqrt(squares / draw_squares if draw_squares > 0 else squares)
        return cls(draws, prior, float(noise[0]) if problem.targets.ndim == 1 else noise)

    def deviations(self, matrix: FeatureMatrix, unseen: NDArray[np.float64]) -> Vector:
        """Return the standard deviation of the function at each row, without the noise.

        ``unseen`` is the sum of squares of each row's features that are missing in ``matrix``, see
        :func:`unseen_squares`. The weights of these features have the prior variance.

        Examples
        --------
        >>> Z = BinnedMatrix(np.array([[1, 2, 0]], np.uint8), np.array([0, 2]), scale=1.0)
        >>> posterior = Posterior(np.array([[1.0, -1.0], [2.0, 0.0]]), prior=9.0, noise=0.5)
        >>> posterior.deviations(Z, unseen_squares(Z)).round(2)
        array([0.5 , 0.71, 1.5 ])
        """
        n_draws = self.draws.shape[1]
        variances = self.prior * unseen
        for a, b in row_blocks(n_draws, _DRAWS_PER_BLOCK):
            values = matrix.matvec(self.draws[:, a:b])
            variances += np.einsum("nk,nk->n", values, values) / n_draws
        return np.multiply.outer(np.sqrt(variances), self.noise)


def unseen_squares(matrix: FeatureMatrix) -> NDArray[np.float64]:
    """Return the sum of squares of each row's features that are missing in the matrix.

    For grids, the missing features are bins without training rows. For other features, the result
    is 1, the value of the kernel at distance 0, minus the sum of squares of the features. If that
    difference is at most 1e-6, it is a rounding error and counts as 0.

    Examples
    --------
    >>> unseen_squares(BinnedMatrix(np.array([[1, 0], [0, 0]], np.uint8), np.array([0, 1, 2])))
    array([0.5, 1. ])
    """
    if isinstance(matrix, WeightedBinnedMatrix):
        return matrix.unseen_squares
    if isinstance(matrix, BinnedMatrix):
        return np.count_nonzero(matrix.codes == 0, axis=0) * matrix.scale**2
    if isinstance(matrix, HStack):
        parts = zip(matrix.scales, matrix.parts, strict=True)
        return np.sum([scale**2 * unseen_squares(part) for scale, part in parts], axis=0)
    if isinstance(matrix, ChunkedMatrix):
        chunks = [matrix.chunk(a, b) for a, b in row_blocks(matrix.shape[0], matrix.chunk_rows)]
        squares = np.concatenate([np.einsum("nd,nd->n", z, z, dtype=float) for z in chunks])
    else:
        squares = np.asarray(matrix.tocsr().power(2).sum(axis=1)).ravel()
    missing = 1.0 - squares
    return np.where(missing > _SINGLE_ROUNDING, missing, 0.0)


def _draw_prior(problem: Problem, prior: float, seed: int, indices: range) -> tuple[Vector, Vector]:
    """Return noise (n_rows, K) and weights (n_columns, K) from the prior."""
    n_rows, n_columns = problem.matrix.shape
    noise, weights = np.empty((n_rows, len(indices))), np.empty((n_columns, len(indices)))
    for k, index in enumerate(indices):
        generator = stream(seed, "posterior", index)
        noise[:, k] = generator.standard_normal(n_rows)
        weights[:, k] = generator.standard_normal(n_columns)
    counts = problem.row_weights * np.count_nonzero(problem.row_weights)
    noise *= np.where(counts > 0, counts, np.inf)[:, None] ** -0.5
    weights *= np.sqrt(prior)
    # Free weights have a flat prior; they can start anywhere because the fit corrects them.
    weights[n_columns - problem.penalty.n_free :] = 0.0
    return noise, weights


def _mean_squares(problem: Problem, targets: Vector, weights: Vector) -> NDArray[np.float64]:
    """Return the weighted mean square of the residuals of each output, (K,)."""
    return weighted_sums(
        problem.row_weights, columns(targets - problem.matrix.matvec(weights)) ** 2
    )
