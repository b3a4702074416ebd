"""Newton's method for smooth losses; the steps by preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gramless.base.sums import weighted_sums
from gramless.losses import Squared
from gramless.matrices.base import Vector
from gramless.penalties import L2
from gramless.solvers.conjugate import (
    ConjugateRuns,
    Curvature,
    RowCurvature,
    SoftmaxCurvature,
    System,
    matvec,
    rmatvec,
)
from gramless.solvers.objective import Callback, Problem, Solution, columns, require_smooth
from gramless.solvers.preconditioners import (
    Inverse,
    Preconditioner,
    SampledRows,
    energy,
)
from gramless.solvers.steps import run

_DECREASE = 1e-4
_HALVINGS = 30
_DOUBLINGS = 60
_NO_CURVATURE = 1e-12
_FLAT = 0.01
_LITTLE = 1e-6
_CAREFUL = 0.1


@dataclass(frozen=True)
class NewtonCG:
    """Newton-CG with a line search (RB16, section 3.2).

    Each step solves ``(Z' C Z + alpha I) d = -gradient`` with the losses'
    curvatures ``C``, roughly, and is shortened until the objective falls enough;
    trial points need no product, because responses are linear in the step.

    Parameters
    ----------
    preconditioner : Preconditioner, default=SampledRows()
        Weighed anew by the curvatures of each step.
    tol : float, default=1e-2
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero.
    max_iter : int, default=100
        Newton steps.
    inner_tol : float, default=0.3
        How far the conjugate gradients of a step go, in the same norm.
    max_inner : int, default=100
        Conjugate gradients a step at most.
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.

    Notes
    -----
    A matvec and an rmatvec each inner iteration, and one more of each a step;
    memory for five vectors of ``n_columns`` and five of ``n_rows`` an output.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.losses import Logistic
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, -1.0, 1.0]), L2(0.1), Logistic())
    >>> NewtonCG(tol=1e-6).solve(problem).weights.round(4)
    array([0.    , 0.9378])
    """

    preconditioner: Preconditioner = field(default_factory=SampledRows)
    tol: float = 1e-2
    max_iter: int = 100
    inner_tol: float = 0.3
    max_inner: int = 100
    n_jobs: int | None = None

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise the problem.

        Parameters
        ----------
        problem : Problem
            With any loss that has a gradient.
        start : array (n_columns,) or (n_columns, K), optional
            Weights to start from.
        callback : callable, optional
            ``callback(step, weights)`` after each Newton step; True stops.

        Returns
        -------
        Solution
            ``n_iter`` counts Newton steps; its history's ``products`` counts
            pairs of products so far. Status ``"stalled"`` means that no step
            lowered the objective: rounding is as good as it gets.
        """
        require_smooth(problem, "NewtonCG")
        state = _State(problem, start, self)
        shape = (problem.matrix.shape[1], *problem.targets.shape[1:])
        return run(state, shape, self.max_iter, callback)


class _State:
    """Weights, responses and derivatives; a run is an output, or all of them if coupled."""

    def __init__(self, problem: Problem, start: Vector | None, options: NewtonCG) -> None:
        self.problem, self.options = problem, options
        self.targets, self.row_weights = columns(problem.targets), problem.row_weights
        self.weights = np.zeros((problem.matrix.shape[1], self.targets.shape[1]))
        self.ridge = problem.penalty.diagonal(self.weights[:, 0])
        self.responses = np.zeros_like(self.targets, dtype=float)
        self.products = 0
        self.preconditioner = options.preconditioner.drawn(problem.matrix)
        self._differentiate()
        self.at_zero, self.scale = self.gradient, self.norm
        if start is not None:
            self.weights = columns(start).astype(float)
            self.responses = matvec(problem.matrix, self.weights)
            self._differentiate()
        self.objective = self._mean_losses(self.responses) + self._by_run(
            0.5 * self._ridge_product(self.weights, self.weights)
        )
        self._compare()

    def converged(self) -> bool:
        """Tell whether every run's gradient is small enough."""
        return bool((self.relative <= self.options.tol).all())

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the present weights."""
        return {
            "objective": float(self.objective.sum()),
            "residual": float(self.relative.max(initial=0.0)),
            "products": float(self.products),
        }

    def step(self) -> bool:
        """Take a Newton step; False when none lowers the objective."""
        right = np.where(self.relative > self.options.tol, -self.gradient, 0.0)
        direction = self._newton_direction(right)
        change = matvec(self.problem.matrix, direction)
        slope = -self._by_run(np.einsum("dk,dk->k", right, direction))
        lengths = self._search(direction, change, slope)
        if not lengths.any():
            return False
        self.weights = self.weights + lengths * direction
        self.responses += lengths * change
        self._differentiate()
        self._compare()
        return True

    def _newton_direction(self, right: Vector) -> Vector:
        options = self.options
        # Rough directions from a start that is worse than zero weights can lead nowhere.
        rough = bool((self.relative <= 1.0).all())
        inner_tol = options.inner_tol if rough else min(options.inner_tol, _CAREFUL)
        system = System(self.problem.matrix, self.curvature, self.ridge, right)
        runs = ConjugateRuns(system, self.inverse, inner_tol, options.n_jobs)
        for _ in range(options.max_inner):
            if runs.drop_converged():
                break
            runs.step()
            self.products += 1
        return runs.result()

    def _search(
        self, direction: Vector, change: Vector, slope: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Halve each run's step until its objective falls by enough; 0 where it never does."""
        along = self._along(direction, change)
        before, rounding = self.objective, 4 * np.finfo(float).eps * np.abs(self.objective)
        lengths = np.where(slope < 0, 1.0, 0.0)
        for _ in range(_HALVINGS):
            there = along(lengths)
            short = there > before + _DECREASE * lengths * slope + rounding
            if not short.any():
                break
            lengths[short] *= 0.5
        self.objective = np.where(short, before, there)
        return self._lengthened(np.where(short, 0.0, lengths), along)

    def _along(self, direction: Vector, change: Vector) -> Callable[[Vector], Vector]:
        """Return each run's objective as a function of the lengths of the steps."""
        penalty = self._by_run(0.5 * self._ridge_product(self.weights, self.weights))
        mixed = self._by_run(self._ridge_product(self.weights, direction))
        squared = self._by_run(0.5 * self._ridge_product(direction, direction))

        def along(lengths: Vector) -> Vector:
            losses = self._mean_losses(self.responses + lengths * change)
            return losses + (penalty + lengths * mixed + lengths**2 * squared)

        return along

    def _lengthened(self, lengths: Vector, along: Callable[[Vector], Vector]) -> Vector:
        """Double the steps of flat runs while that helps: their curvature is a guess."""
        growing = self.flat & (lengths > 0)
        for _ in range(_DOUBLINGS):
            if not growing.any():
                break
            longer = np.where(growing, 2.0 * lengths, lengths)
            there = along(longer)
            growing = growing & (there < self.objective)
            lengths = np.where(growing, longer, lengths)
            self.objective = np.where(growing, there, self.objective)
        return lengths

    def _differentiate(self) -> None:
        """Set the gradient, the curvatures, their preconditioner and the gradient's norm."""
        problem, loss = self.problem, self.problem.loss
        slopes = self.row_weights[:, None] * loss.gradient(self.responses, self.targets)
        self.gradient = rmatvec(problem.matrix, slopes) + self.ridge[:, None] * self.weights
        curvatures = self.row_weights[:, None] * loss.curvature(self.responses, self.targets)
        curvatures, flat = self._held(curvatures)
        self.flat = self._by_run(flat.astype(float)) > 0
        self.curvature: Curvature = RowCurvature(curvatures)
        if loss.coupled and not flat.any():
            self.curvature = SoftmaxCurvature(self.row_weights, softmax(self.responses, axis=1))
        weights = curvatures.mean(axis=1)
        self.total = float(weights.sum())
        self.inverse = self._inverse(weights, self.total)
        self.norm = self._norm(self.gradient)

    def _compare(self) -> None:
        """Set each run's gradient relative to that at zero weights.

        In the metric at zero or the present one, whichever is stricter: where zero
        weights have little curvature, their metric makes any other gradient small.
        """
        scale = np.minimum(self.scale, self._norm(self.at_zero))
        self.relative = np.divide(self.norm, scale, out=self.norm.copy(), where=scale > 0)

    def _held(self, curvatures: Vector) -> tuple[Vector, NDArray[np.bool_]]:
        """Give outputs without curvature a little, and tell which: free weights need some.

        Without a penalty every row needs some.
        """
        alpha, most = self.problem.penalty.l2, self.problem.loss.smoothness
        flat = curvatures.sum(axis=0) <= _NO_CURVATURE * most
        little = min(_FLAT * alpha, most) if alpha > 0 else most
        held = np.where(flat, self.row_weights[:, None] * little, curvatures)
        if alpha == 0:
            held = np.maximum(held, _LITTLE * most * self.row_weights[:, None])
        return held, flat

    def _norm(self, gradient: Vector) -> NDArray[np.float64]:
        """Return each run's norm in the metric of the present curvatures."""
        return np.sqrt(self._by_run(energy(self.inverse, gradient)) / self.total)

    def _inverse(self, weights: NDArray[np.float64], total: float) -> Inverse:
        """Precondition the ridge problem with the curvatures as weights."""
        penalty = L2(self.problem.penalty.l2 / total, self.problem.penalty.n_free)
        ridge = replace(self.problem, loss=Squared(), penalty=penalty, sample_weight=weights)
        return self.preconditioner.inverse(ridge)

    def _mean_losses(self, responses: Vector) -> NDArray[np.float64]:
        losses = self.problem.loss.value(responses, self.targets)
        return weighted_sums(self.row_weights, losses)

    def _ridge_product(self, a: Vector, b: Vector) -> NDArray[np.float64]:
        return np.einsum("d,dk,dk->k", self.ridge, a, b)

    def _by_run(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return sums.sum(keepdims=True) if self.problem.loss.coupled else sums
