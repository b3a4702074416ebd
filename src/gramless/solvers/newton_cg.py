"""Newton's method for smooth losses, with steps by preconditioned conjugate gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from gramless.base.memory import release_freed_memory
from gramless.base.threads import cached_property
from gramless.base.types import BoolArray, FloatArray
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_products import SingleRowProducts
from gramless.penalties import L2, Penalty
from gramless.solvers.base import IterativeSolver, State
from gramless.solvers.cg import (
    ConjugateRuns,
    Curvature,
    RowCurvature,
    RowRuns,
    RowSystem,
    Runs,
    System,
    has_short_row_vectors,
)
from gramless.solvers.hessian_subsampling import RowSampler
from gramless.solvers.line_search import ROUNDING, AnyLine, Line, Losses, derivatives, search
from gramless.solvers.objective import Problem, columns, initial_weights
from gramless.solvers.preconditioners import (
    Inverse,
    Preconditioner,
    SampledInverse,
    SampledRows,
    energy,
)
from gramless.solvers.row_space import RowSpace, RowSpaceRuns
from gramless.solvers.vectors import add_times, add_times_by_row, matvec, rmatvec, weighted_inner

# An output with less mean curvature, relative to the typical curvature, is flat.
_FLAT_TOL = 1e-12
_FLAT_SHARE = 0.01  # flat outputs get at most this fraction of alpha as their mean curvature
# Without a penalty, the minimum curvature of each row, relative to the typical curvature.
_MIN_CURVATURE = 1e-6
_CAREFUL_TOL = 0.1
# The curvature that a sampled row may represent, as a multiple of alpha, at zero weights and later.
_ROW_CURVATURE_AT_ZERO, _ROW_CURVATURE = 8.0, 1.0
# Products of rows with each other pay from this number of outputs times weights: 4 MB stay in
# caches.
_MIN_OUTPUTS, _MANY_WEIGHTS = 3, 1 << 19
# If a step leaves more than this share of the gradient, later steps sample more rows.
_SLOW_SHARE, _SAMPLE_GROWTH = 0.9, 4.0


@dataclass(frozen=True)
class NewtonCG(IterativeSolver):
    """Newton-CG with a line search (RB16, section 3.2).

    Each step approximately solves ``(Z' C Z + alpha I) d = -gradient``, with the curvatures
    ``C`` of the loss, and minimises the objective along ``d``. The line search needs no
    product because responses are linear in the step length. The Hessian uses rows sampled by
    their curvature, see :class:`RowSampler`; the gradient, the objective and the test of
    convergence use all rows.

    Parameters
    ----------
    preconditioner : Preconditioner, default=SampledRows()
        Applied to the sampled rows, weighted by the curvatures of each step.
    tol : float, default=1e-2
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero.
    max_iter : int, default=100
        Maximum number of Newton steps.
    inner_tol : float, default=0.3
        Tolerance of the conjugate gradients of a step, in the same norm.
    max_inner : int, default=100
        Maximum number of conjugate gradient iterations of a step.
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.
    all_rows_below : int, default=4096
        With at most this number of rows, all are used: that costs less than sampling.

    Notes
    -----
    An inner iteration takes one matvec and one rmatvec with the sampled rows, a step one of each
    with all rows. Each output takes memory for five vectors of ``n_columns`` and five of
    ``n_rows``; the codes of the sampled rows are copied.

    ``n_iter`` counts Newton steps. ``products`` in the history counts the inner iterations so
    far. Status ``"stalled"`` means that the gain of more steps is below rounding.

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
    all_rows_below: int = 4096

    def begin(self, problem: Problem, start: Vector | None, has_callback: bool) -> State:
        targets = columns(problem.targets)
        matrix, penalty = problem.matrix, problem.penalty
        can_use_rows = isinstance(self.preconditioner, SampledRows)
        can_use_rows &= penalty.n_free == 0 and penalty.l2 > 0.0
        can_use_rows &= not (has_callback or problem.loss.is_piecewise_linear)
        if can_use_rows and _has_fast_row_products(problem):
            return _SeparateStates([_RowNewtonState(problem, matrix, start, self)])
        if not (problem.loss.is_piecewise_linear and targets.shape[1] > 1):
            return _LocalNewtonState(problem, start, self, has_callback)
        # Few rows have curvature at each output, and they differ between outputs.
        states: list[NewtonState] = []
        for k, y in enumerate(np.ascontiguousarray(targets.T)):
            single = replace(problem, targets=y, loss=problem.loss.of_output(k))
            first = None if start is None else np.ascontiguousarray(columns(start)[:, k])
            states.append(_LocalNewtonState(single, first, self, has_callback))
        return _SeparateStates(states)


class NewtonState(ABC):
    """Weights and derivatives. A run is an output, or all outputs if they are coupled.

    Subclasses store the rows. :meth:`_differentiate` sets the ``gradient`` and the
    ``sensitivity``: the rounding of each mean loss is this times the relative rounding of the
    responses. :meth:`_approximate` sets the preconditioner, ``inverse``; the sum ``total`` of the
    curvatures of its rows; and ``uses_all_rows``, for the Hessian.
    """

    loss: Loss
    penalty: Penalty
    typical_curvature: float
    inverse: Inverse
    total: float
    sensitivity: FloatArray
    flat: BoolArray
    uses_all_rows: bool

    def __init__(
        self, weights: Vector, start: Vector | None, options: NewtonCG, has_callback: bool
    ) -> None:
        self.options, self.has_callback = options, has_callback
        self.gradient = self.at_zero = np.empty((0, 0))
        self.buffer: Vector | None = None
        self.weights = weights
        self.ridge = self.penalty.diagonal(self.weights[:, 0])
        self.products, self.slow = 0, False
        self.scale, self.penalties = np.full(1, np.inf), _ROW_CURVATURE
        first = weights if start is None else columns(start)
        self._update_responses()
        self._differentiate()
        self.at_zero = self.gradient
        if np.array_equal(first, weights):
            self.penalties = _ROW_CURVATURE_AT_ZERO
            self._approximate()
            self.scale, self.penalties = self._norm(self.at_zero), _ROW_CURVATURE
        else:
            self.weights = first.astype(float)
            self._update_responses()
            self._differentiate()
            self._approximate()
        self.penalty_value = self._penalty(self.weights)
        self.objective = self._mean_losses() + self.penalty_value
        self._update_residuals()

    @abstractmethod
    def _update_responses(self) -> None:
        """Compute the responses to the weights."""

    @abstractmethod
    def _mean_losses(self) -> FloatArray:
        """Return each run's mean loss."""

    @abstractmethod
    def _differentiate(self) -> None:
        """Set the gradient and the sensitivity."""

    @abstractmethod
    def _approximate(self) -> None:
        """Sample the rows of the Hessian, and compute the preconditioner."""

    @abstractmethod
    def _newton_direction(self, factors: FloatArray) -> Vector:
        """Return an approximate solution of the Newton equations for ``factors * gradient``."""

    @abstractmethod
    def _line(
        self, direction: Vector, penalty: tuple[FloatArray, FloatArray, FloatArray]
    ) -> AnyLine:
        """Return the objective along a direction."""

    @abstractmethod
    def _move(self, line: AnyLine, lengths: FloatArray) -> None:
        """Update the responses after a step of some lengths along a line."""

    def weights_of_columns(self) -> Vector:
        return self.weights

    def by_run(self, sums: FloatArray) -> FloatArray:
        return sums.sum(keepdims=True) if self.loss.coupled else sums

    def curvature_floor(self, flat: BoolArray) -> CurvatureFloor:
        return CurvatureFloor(flat, self.penalty.l2, self.typical_curvature)

    def _flat_outputs(self, curvatures: FloatArray) -> BoolArray:
        """Return which outputs have no curvature, given its sums (K,); set which runs are flat."""
        flat = curvatures <= _FLAT_TOL * self.typical_curvature
        self.flat = self.by_run(flat.astype(float)) > 0
        return flat

    def _norm(self, gradient: Vector) -> FloatArray:
        return np.sqrt(self.by_run(self._energy(gradient)) / self.total)

    def _energy(self, gradient: Vector) -> FloatArray:
        return energy(self.inverse, gradient, None, self.options.n_jobs)

    def _product(self, a: Vector, b: Vector) -> FloatArray:
        return weighted_inner(None, a, b, self.options.n_jobs)

    def converged(self) -> bool:
        return bool((self.relative <= self.options.tol).all())

    def record(self) -> dict[str, float]:
        return {
            "objective": float(self.objective.sum()),
            "residual": float(self.relative.max(initial=0.0)),
            "products": float(self.products),
        }

    def step(self) -> bool:
        """Take a Newton step; return False if none lowers the objective."""
        # Runs that have converged do not move.
        factors = np.where(self.relative > self.options.tol, -1.0, 0.0)
        factors = np.broadcast_to(factors, self.gradient.shape[1])
        direction = self._newton_direction(factors)
        downhill = factors * self._product(self.gradient, direction)
        slope = -self.by_run(downhill)
        mixed = self._inner(self.weights, direction)
        penalty = (self.penalty_value, mixed, self._penalty(direction))
        rounding = ROUNDING * (np.abs(self.objective) + self.sensitivity)
        # The gain is below rounding, and the Hessian uses all rows already.
        if self.slow and self.uses_all_rows and (slope >= -2.0 * rounding).all():
            return False
        line = self._line(direction, penalty)
        lengths, self.objective = search(line, self.objective, slope, rounding, self.flat)
        if not lengths.any():
            return False
        if self.has_callback:
            # Callbacks may have kept a reference to the old weights.
            self.weights = self.weights.copy()
        add_times(self.weights, lengths, direction, self.options.n_jobs)
        self.buffer, self.penalty_value = direction, line.penalty_at(lengths)
        self._move(line, lengths)
        last = self.relative.max()
        self._differentiate()
        self._update_residuals()
        if self.converged():
            return True
        self._approximate()
        self._update_residuals()
        self.slow = bool(self.relative.max() > _SLOW_SHARE * last)
        if self.slow:
            self.penalties /= _SAMPLE_GROWTH
        return True

    def inner_tol(self) -> float:
        # From a start that is worse than zero weights, rough directions may make no progress.
        is_better = bool((self.relative <= 1.0).all())
        return self.options.inner_tol if is_better else min(self.options.inner_tol, _CAREFUL_TOL)

    def _update_residuals(self) -> None:
        norm = self._norm(self.gradient)
        # The metric at zero weights alone is too lax if they have little curvature. For runs that
        # start there, the stricter of both metrics applies.
        scale = np.minimum(self.scale, self._norm(self.at_zero))
        self.relative = np.divide(norm, scale, out=norm.copy(), where=scale > 0)

    def _penalty(self, weights: Vector) -> FloatArray:
        return 0.5 * self._inner(weights, weights)

    def _inner(self, a: Vector, b: Vector) -> FloatArray:
        return self.by_run(weighted_inner(self.ridge, a, b, self.options.n_jobs))


class _SeparateStates:
    """Newton states of separate outputs, or a single state in the space of rows.

    If few rows have curvature, each output needs other rows: together, the outputs would use the
    rows of all, with a preconditioner that suits none. The weights are computed on demand.
    """

    def __init__(self, states: list[NewtonState]) -> None:
        self.states, self.stalled = states, np.zeros(len(states), bool)

    @property
    def weights(self) -> Vector:
        weights = [state.weights_of_columns() for state in self.states]
        return weights[0] if len(weights) == 1 else np.hstack(weights)

    def converged(self) -> bool:
        return all(state.converged() for state in self.states)

    def record(self) -> dict[str, float]:
        records = [state.record() for state in self.states]
        total = {key: sum(one[key] for one in records) for key in ("objective", "products")}
        return {**total, "residual": max(one["residual"] for one in records)}

    def step(self) -> bool:
        has_moved = False
        for k, state in enumerate(self.states):
            if not (self.stalled[k] or state.converged()):
                self.stalled[k] = not state.step()
                has_moved |= not self.stalled[k]
        return has_moved


class _LocalNewtonState(NewtonState):
    """Newton steps over a matrix of this process; the responses of all rows are kept."""

    def __init__(
        self, problem: Problem, start: Vector | None, options: NewtonCG, has_callback: bool
    ) -> None:
        self._keep_problem(problem, options)
        super().__init__(initial_weights(problem), start, options, has_callback)

    def _keep_problem(self, problem: Problem, options: NewtonCG) -> None:
        self.problem, self.loss, self.penalty = problem, problem.loss, problem.penalty
        self.losses = Losses(problem.loss, columns(problem.targets), problem.row_weights)
        row_weights = self.losses.row_weights
        self.typical_curvature = problem.loss.typical_curvature(problem.targets, row_weights)
        self.sampler = RowSampler(problem.matrix, problem.penalty.l2, options.all_rows_below)

    def _update_responses(self) -> None:
        self.responses = np.zeros_like(self.losses.targets, dtype=float)
        if self.weights.any():
            self.responses = self._responses_to(self.weights)

    def _mean_losses(self) -> FloatArray:
        return self.losses.mean(self.responses)

    def _responses_to(self, direction: Vector) -> Vector:
        return matvec(self.problem.matrix, direction)

    def _line(self, direction: Vector, penalty: tuple[FloatArray, FloatArray, FloatArray]) -> Line:
        change = self._responses_to(direction)
        return Line(self.losses, self.responses, change, penalty, self.options.n_jobs)

    def _move(self, line: AnyLine, lengths: FloatArray) -> None:
        assert isinstance(line, Line)
        add_times(self.responses, lengths, line.change, self.options.n_jobs)

    def _newton_direction(self, factors: FloatArray) -> Vector:
        options, inner_tol = self.options, self.inner_tol()
        matrix, inverse = self.rows.matrix, self.inverse
        runs: Runs
        if has_short_row_vectors(inverse, matrix):
            rows = RowSystem.of_multiples(
                matrix, self.curvature, self.penalty, self.gradient, factors
            )
            runs = RowRuns(rows, inverse, inner_tol, options.n_jobs, self.buffer)
        else:
            system = System(matrix, self.curvature, self.ridge, self.gradient * factors)
            runs = ConjugateRuns(system, inverse, inner_tol, options.n_jobs)
        self.products += runs.run(options.max_inner)
        return runs.weights

    def _differentiate(self) -> None:
        slopes, self.curvatures = derivatives(self.losses, self.responses, self.options.n_jobs)
        self.sensitivity = self.by_run(np.abs(slopes * self.responses).sum(axis=0))
        self.gradient = self._gradient_of(slopes)

    def _gradient_of(self, slopes: Vector) -> Vector:
        # The gradient at zero is kept; later ones overwrite each other.
        out = None if self.gradient is self.at_zero else self.gradient
        gradient = rmatvec(self.problem.matrix, slopes, out)
        add_times_by_row(gradient, self.ridge, self.weights, self.options.n_jobs)
        return gradient

    def _approximate(self) -> None:
        # Each step copies other rows: without this, the process keeps the memory of the last copy.
        release_freed_memory()
        flat = self._flat_outputs(self.curvatures.sum(axis=0))
        curvatures = self.curvature_floor(flat).apply(self.curvatures, self.losses.row_weights)
        self.rows = self.sampler.draw(curvatures, self.penalties)
        self.uses_all_rows = self.rows.has_all_rows
        sampled = curvatures[self.rows.chosen] * self.rows.upscale[:, None]
        self.curvature: Curvature = RowCurvature(sampled)
        if self.losses.loss.coupled and not flat.any():
            chosen = self.losses.of_rows(self.rows.chosen, self.rows.upscale)
            self.curvature = chosen.curvature(self.responses[self.rows.chosen])
        weights = sampled.mean(axis=1)
        self.total = float(weights.sum())
        # The preconditioner is that of the ridge problem with the curvatures as sample weights.
        penalty = L2(self.penalty.l2 / self.total, self.penalty.n_free)
        targets = self.problem.targets[self.rows.chosen]
        ridge = Problem(self.rows.matrix, targets, penalty, sample_weight=weights)
        # Steps with all rows share the work of one preconditioner.
        maker = self._preconditioner_of_all if self.uses_all_rows else self.options.preconditioner
        self.inverse = maker.inverse(ridge)

    @cached_property
    def _preconditioner_of_all(self) -> Preconditioner:
        return self.options.preconditioner.with_shared_sample(self.problem.matrix)


class _RowNewtonState(_LocalNewtonState):
    """Newton steps with vectors that are combinations of the rows, see :class:`RowSpace`."""

    problem: Problem
    space: RowSpace

    def __init__(
        self, problem: Problem, matrix: FeatureMatrix, start: Vector | None, options: NewtonCG
    ) -> None:
        n_rows, n_outputs = columns(problem.targets).shape
        given = None if start is None or not start.any() else columns(start)
        self._keep_problem(problem, options)
        self.space = RowSpace.from_start(matrix, given, n_outputs)
        first = None if given is None else self.space.multiple(np.ones(n_outputs))
        weights = np.zeros((2 * n_rows + 1, n_outputs))
        NewtonState.__init__(self, weights, first, options, has_callback=False)

    def _update_responses(self) -> None:
        self.responses = self.weights[self.space.n_rows + 1 :].copy()

    def _responses_to(self, direction: Vector) -> Vector:
        return direction[self.space.n_rows + 1 :]

    def weights_of_columns(self) -> Vector:
        return self.space.weights(self.weights)

    def _newton_direction(self, factors: FloatArray) -> Vector:
        options, inverse, n = self.options, self.inverse, self.space.n_rows
        space, right = self.space, self.gradient * factors
        chosen, matrix = self.rows.chosen, self.rows.matrix
        if not self.uses_all_rows:
            # The space of the sampled rows and of the gradient.
            of_gradient = np.ascontiguousarray(self.gradient[n + 1 :][chosen])
            squared = self._product(self.gradient, self.gradient)
            space = RowSpace(matrix, None, of_gradient, squared)
            right = space.multiple(factors)
        assert isinstance(inverse, SampledInverse)
        alpha, tol = self.penalty.l2, self.inner_tol()
        runs = RowSpaceRuns(space, self.curvature, alpha, right, inverse, tol, options.n_jobs)
        self.products += runs.run(options.max_inner)
        solution = runs.weights
        if self.uses_all_rows:
            return solution
        rows, m = np.zeros((n, solution.shape[1])), space.n_rows
        rows[chosen] = solution[:m]
        direction = self.space.vector(rows)
        add_times(direction, solution[m], self.gradient, options.n_jobs)
        return direction

    def _gradient_of(self, slopes: Vector) -> Vector:
        return self.space.vector(slopes) + self.penalty.l2 * self.weights

    def _energy(self, gradient: Vector) -> FloatArray:
        inverse, n = self.inverse, self.space.n_rows
        assert isinstance(inverse, SampledInverse)
        coefficients = inverse.coefficients_of(gradient[n + 1 :][self.rows.chosen][inverse.chosen])
        of_diagonal = self._product(gradient, gradient) / inverse.mu
        return np.maximum(of_diagonal - inverse.energy(coefficients), 0.0)

    def _product(self, a: Vector, b: Vector) -> FloatArray:
        return self.space.product(a, b)

    def _inner(self, a: Vector, b: Vector) -> FloatArray:
        return self.by_run(self.penalty.l2 * self._product(a, b))


def _has_fast_row_products(problem: Problem) -> bool:
    """Return whether products of rows with each other cost less than those with weights.

    They cost less if the Gram matrix of the rows is known. For coupled outputs over more columns
    than rows, they also cost less in single precision, or if the weights outgrow the caches.
    """
    matrix, n_outputs = problem.matrix, columns(problem.targets).shape[1]
    is_single = isinstance(matrix, SingleRowProducts)
    if isinstance(matrix, SingleRowProducts) and matrix.gram is not None:
        return True
    is_coupled = n_outputs >= _MIN_OUTPUTS and problem.loss.coupled
    is_large = is_single or matrix.shape[1] * n_outputs >= _MANY_WEIGHTS
    is_wide = matrix.shape[0] < matrix.shape[1]
    return is_coupled and is_large and is_wide and matrix.has_row_products


@dataclass(frozen=True)
class CurvatureFloor:
    """A lower bound of the curvature, without which free weights would be undetermined.

    Outputs in ``flat`` have no curvature. Without a penalty, every row gets a small one.
    """

    flat: BoolArray
    alpha: float
    typical: float

    def apply(self, curvatures: Vector, row_weights: FloatArray) -> Vector:
        typical, weights = self.typical, row_weights[:, None]
        floor = min(_FLAT_SHARE * self.alpha, typical) if self.alpha > 0 else typical
        if self.flat.any():
            curvatures = np.where(self.flat, weights * floor, curvatures)
        if self.alpha == 0:
            curvatures = np.maximum(curvatures, _MIN_CURVATURE * typical * weights)
        return curvatures
