"""Newton's method for smooth losses, with steps by preconditioned conjugate gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from gramless.base.cached import cached_property
from gramless.base.memory import release_freed_memory
from gramless.base.types import BoolArray, FloatArray
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_products import SingleRowProducts
from gramless.penalties import L2, Penalty
from gramless.solvers.base import IterativeSolver, State, check_start
from gramless.solvers.cg import (
    ConjugateRuns,
    Curvature,
    RowCurvature,
    RowRuns,
    RowSystem,
    Runs,
    System,
    fit_for_rows,
)
from gramless.solvers.hessian_subsampling import RowChoice
from gramless.solvers.intercept import initial_weights
from gramless.solvers.line_search import ROUNDING, AnyLine, Line, Losses, derivatives, search
from gramless.solvers.objective import Problem, columns
from gramless.solvers.preconditioners import (
    Inverse,
    Preconditioner,
    SampledInverse,
    SampledRows,
    energy,
)
from gramless.solvers.row_space import RowSpace, RowSpaceRuns
from gramless.solvers.vectors import add_times, add_times_by_row, matvec, rmatvec, weighted_inner

_NO_CURVATURE = 1e-12
_FLAT = 0.01
_LITTLE = 1e-6
_CAREFUL = 0.1
_AT_ZERO, _LATER = 8.0, 1.0
"""Curvature that a sampled row may stand for, as a multiple of alpha."""
_SEVERAL, _MANY_WEIGHTS = 3, 1 << 19
"""Outputs and numbers of weights from which rows are multiplied with each other: weights of 4 MB
are read from caches."""
_SLOW, _FINER = 0.9, 4.0
"""If a step leaves more than the first fraction of the gradient, sample this factor more rows."""


@dataclass(frozen=True)
class NewtonCG(IterativeSolver):
    """Newton-CG with a line search (RB16, section 3.2).

    Each step roughly solves ``(Z' C Z + alpha I) d = -gradient`` with the losses' curvatures
    ``C``, and minimises the objective along ``d``, which needs no product because responses
    are linear in the length. ``C`` is that of rows sampled by their curvature, see
    :class:`RowChoice`; gradient, objective and convergence use all rows.

    Parameters
    ----------
    preconditioner : Preconditioner, default=SampledRows()
        Of the sampled rows, weighted by the curvatures of each step.
    tol : float, default=1e-2
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero.
    max_iter : int, default=100
        Newton steps.
    inner_tol : float, default=0.3
        The tolerance of the conjugate gradients of a step, in the same norm.
    max_inner : int, default=100
        Iterations of the conjugate gradients of a step at most.
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.
    all_rows_below : int, default=4096
        Up to so many rows are all used: that costs less than sampling them.

    Notes
    -----
    A matvec and an rmatvec with the sampled rows for each inner iteration, and with all rows
    for each step; memory for five vectors of ``n_columns`` and five of ``n_rows`` an output,
    and the codes of the sampled rows.

    ``n_iter`` counts Newton steps; the history's ``products`` counts inner iterations so far,
    each with a pair of products. Status ``"stalled"`` means that rounding hides what further
    steps would gain.

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

    def begin(self, problem: Problem, start: Vector | None, watched: bool) -> State:
        targets = columns(problem.targets)
        matrix, penalty = problem.matrix, problem.penalty
        may_be = isinstance(self.preconditioner, SampledRows)
        may_be &= penalty.n_free == 0 and penalty.l2 > 0.0
        may_be &= not (watched or problem.loss.is_piecewise_linear)
        if may_be and _has_fast_row_products(problem):
            return _SeparateStates([_RowNewtonState(problem, matrix, start, self)])
        if not (problem.loss.is_piecewise_linear and targets.shape[1] > 1):
            return _LocalNewtonState(problem, start, self, watched)
        states: list[NewtonState] = []
        for k, own in enumerate(np.ascontiguousarray(targets.T)):
            alone = replace(problem, targets=own, loss=problem.loss.of_output(k))
            first = None if start is None else np.ascontiguousarray(columns(start)[:, k])
            states.append(_LocalNewtonState(alone, first, self, watched))
        return _SeparateStates(states)


class NewtonState(ABC):
    """Weights and derivatives. A run is an output, or all of them if coupled.

    Where the rows are, subclasses know. Their :meth:`_differentiate` sets the ``gradient`` and the
    ``sensitivity``, which times the relative rounding of the responses is that of each mean loss;
    :meth:`_approximate` sets the ``inverse`` that approximates that of the Hessian of curvatures
    whose ``total`` over rows is known, and whether these are of the ``whole`` of the rows.
    """

    loss: Loss
    penalty: Penalty
    typical_curvature: float
    inverse: Inverse
    total: float
    sensitivity: FloatArray
    flat: BoolArray
    whole: bool

    def __init__(
        self, weights: Vector, start: Vector | None, options: NewtonCG, watched: bool
    ) -> None:
        self.options, self.watched = options, watched
        self.gradient = self.at_zero = np.empty((0, 0))
        self.room: Vector | None = None
        self.weights = weights
        self.ridge = self.penalty.diagonal(self.weights[:, 0])
        self.products, self.slow = 0, False
        self.scale, self.penalties = np.full(1, np.inf), _LATER
        first = weights if start is None else columns(start)
        check_start(first, weights.shape, "NewtonCG")
        self._respond()
        self._differentiate()
        self.at_zero = self.gradient
        if np.array_equal(first, weights):
            self.penalties = _AT_ZERO
            self._approximate()
            self.scale, self.penalties = self._norm(self.at_zero), _LATER
        else:
            self.weights = first.astype(float)
            self._respond()
            self._differentiate()
            self._approximate()
        self.penalty_value = self._penalty(self.weights)
        self.objective = self._mean() + self.penalty_value
        self._compare()

    @abstractmethod
    def _respond(self) -> None:
        """Respond to the weights, which are new."""

    @abstractmethod
    def _mean(self) -> FloatArray:
        """Return each run's mean loss."""

    @abstractmethod
    def _differentiate(self) -> None:
        """Set the gradient."""

    @abstractmethod
    def _approximate(self) -> None:
        """Set the rows whose curvatures stand for the Hessian, and the preconditioner."""

    @abstractmethod
    def _newton_direction(self, factors: FloatArray) -> Vector:
        """Return a rough solution of the Newton equations for factors times the gradient."""

    @abstractmethod
    def _line(
        self, direction: Vector, penalty: tuple[FloatArray, FloatArray, FloatArray]
    ) -> AnyLine:
        """Return the objective along a direction."""

    @abstractmethod
    def _go(self, line: AnyLine, lengths: FloatArray) -> None:
        """Respond to the weights, which went so far along a line."""

    def weights_of_columns(self) -> Vector:
        """Return the weights (n_columns, K)."""
        return self.weights

    def by_run(self, sums: FloatArray) -> FloatArray:
        """Turn sums over outputs into sums over runs."""
        return sums.sum(keepdims=True) if self.loss.coupled else sums

    def holding(self, flat: BoolArray) -> Holding:
        """Return what gives flat outputs a little curvature."""
        return Holding(flat, self.penalty.l2, self.typical_curvature)

    def _flat_outputs(self, curvatures: FloatArray) -> BoolArray:
        """Tell which outputs have no curvature, given sums (K,); set which runs are flat."""
        flat = curvatures <= _NO_CURVATURE * self.typical_curvature
        self.flat = self.by_run(flat.astype(float)) > 0
        return flat

    def _norm(self, gradient: Vector) -> FloatArray:
        """Return the norm of each run in the last metric."""
        return np.sqrt(self.by_run(self._energy(gradient)) / self.total)

    def _energy(self, gradient: Vector) -> FloatArray:
        """Return ``gradient' inverse gradient`` of each output."""
        return energy(self.inverse, gradient, None, self.options.n_jobs)

    def _product(self, a: Vector, b: Vector) -> FloatArray:
        """Return the inner product of each output's weights."""
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
        """Take a Newton step; False when none lowers the objective."""
        factors = np.where(self.relative > self.options.tol, -1.0, 0.0)
        factors = np.broadcast_to(factors, self.gradient.shape[1])
        direction = self._newton_direction(factors)
        downhill = factors * self._product(self.gradient, direction)
        slope = -self.by_run(downhill)
        mixed = self._inner(self.weights, direction)
        penalty = (self.penalty_value, mixed, self._penalty(direction))
        rounding = ROUNDING * (np.abs(self.objective) + self.sensitivity)
        if self.slow and self.whole and (slope >= -2.0 * rounding).all():
            return False
        line = self._line(direction, penalty)
        lengths, self.objective = search(line, self.objective, slope, rounding, self.flat)
        if not lengths.any():
            return False
        if self.watched:
            # Callbacks may have kept the old weights.
            self.weights = self.weights.copy()
        add_times(self.weights, lengths, direction, self.options.n_jobs)
        self.room, self.penalty_value = direction, line.penalty_at(lengths)
        self._go(line, lengths)
        before = self.relative.max()
        self._differentiate()
        self._compare()
        if self.converged():
            return True
        self._approximate()
        self._compare()
        self.slow = bool(self.relative.max() > _SLOW * before)
        if self.slow:
            self.penalties /= _FINER
        return True

    def inner_tol(self) -> float:
        """Return the tolerance of the conjugate gradients of a step."""
        # From a start that is worse than zero weights, rough directions can lead nowhere.
        rough = bool((self.relative <= 1.0).all())
        return self.options.inner_tol if rough else min(self.options.inner_tol, _CAREFUL)

    def _compare(self) -> None:
        """Set the norm of each run's gradient relative to that at zero weights.

        The gradient at zero is measured in the last metric, or in that at zero where a run that
        began there finds it stricter: where zero weights have little curvature, their metric makes
        others look small.
        """
        norm = self._norm(self.gradient)
        scale = np.minimum(self.scale, self._norm(self.at_zero))
        self.relative = np.divide(norm, scale, out=norm.copy(), where=scale > 0)

    def _penalty(self, weights: Vector) -> FloatArray:
        return 0.5 * self._inner(weights, weights)

    def _inner(self, a: Vector, b: Vector) -> FloatArray:
        return self.by_run(weighted_inner(self.ridge, a, b, self.options.n_jobs))


class _SeparateStates:
    """States that are improved side by side, whose weights are made when they are asked for.

    Outputs, each with the rows that have curvature at it: together they would need the rows of all,
    and a preconditioner that suits none. Or a single state in the space of rows.
    """

    def __init__(self, states: list[NewtonState]) -> None:
        self.states, self.stalled = states, np.zeros(len(states), bool)

    @property
    def weights(self) -> Vector:
        found = [state.weights_of_columns() for state in self.states]
        return found[0] if len(found) == 1 else np.hstack(found)

    def converged(self) -> bool:
        return all(state.converged() for state in self.states)

    def record(self) -> dict[str, float]:
        records = [state.record() for state in self.states]
        total = {key: sum(own[key] for own in records) for key in ("objective", "products")}
        return {**total, "residual": max(own["residual"] for own in records)}

    def step(self) -> bool:
        """Take a Newton step of each output that needs one; False when none helps."""
        moved = False
        for k, state in enumerate(self.states):
            if not (self.stalled[k] or state.converged()):
                self.stalled[k] = not state.step()
                moved |= not self.stalled[k]
        return moved


class _LocalNewtonState(NewtonState):
    """Newton steps whose rows are in a matrix: their responses are kept."""

    def __init__(
        self, problem: Problem, start: Vector | None, options: NewtonCG, watched: bool
    ) -> None:
        self._keep_problem(problem, options)
        super().__init__(initial_weights(problem), start, options, watched)

    def _keep_problem(self, problem: Problem, options: NewtonCG) -> None:
        self.problem, self.loss, self.penalty = problem, problem.loss, problem.penalty
        self.losses = Losses(problem.loss, columns(problem.targets), problem.row_weights)
        row_weights = self.losses.row_weights
        self.typical_curvature = problem.loss.typical_curvature(problem.targets, row_weights)
        self.choice = RowChoice(problem.matrix, problem.penalty.l2, options.all_rows_below)

    def _respond(self) -> None:
        self.responses = np.zeros_like(self.losses.targets, dtype=float)
        if self.weights.any():
            self.responses = self._responses_to(self.weights)

    def _mean(self) -> FloatArray:
        return self.losses.mean(self.responses)

    def _responses_to(self, direction: Vector) -> Vector:
        return matvec(self.problem.matrix, direction)

    def _line(self, direction: Vector, penalty: tuple[FloatArray, FloatArray, FloatArray]) -> Line:
        change = self._responses_to(direction)
        return Line(self.losses, self.responses, change, penalty, self.options.n_jobs)

    def _go(self, line: AnyLine, lengths: FloatArray) -> None:
        assert isinstance(line, Line)
        add_times(self.responses, lengths, line.change, self.options.n_jobs)

    def _newton_direction(self, factors: FloatArray) -> Vector:
        options, inner_tol = self.options, self.inner_tol()
        matrix, inverse = self.rows.matrix, self.inverse
        runs: Runs
        if fit_for_rows(inverse, matrix):
            shorter = RowSystem.towards(
                matrix, self.curvature, self.penalty, self.gradient, factors
            )
            runs = RowRuns(shorter, inverse, inner_tol, options.n_jobs, self.room)
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
        room = None if self.gradient is self.at_zero else self.gradient
        gradient = rmatvec(self.problem.matrix, slopes, room)
        add_times_by_row(gradient, self.ridge, self.weights, self.options.n_jobs)
        return gradient

    def _approximate(self) -> None:
        # Each step samples other rows: what the last one freed would stay with the process.
        release_freed_memory()
        flat = self._flat_outputs(self.curvatures.sum(axis=0))
        curvatures = self.holding(flat).held(self.curvatures, self.losses.row_weights)
        self.rows = self.choice.choose(curvatures, self.penalties)
        self.whole = self.rows.whole
        own = curvatures[self.rows.chosen] * self.rows.upscale[:, None]
        self.curvature: Curvature = RowCurvature(own)
        if self.losses.loss.coupled and not flat.any():
            chosen = self.losses.of_rows(self.rows.chosen, self.rows.upscale)
            self.curvature = chosen.curvature(self.responses[self.rows.chosen])
        weights = own.mean(axis=1)
        self.total = float(weights.sum())
        self.inverse = self._inverse(weights)

    def _inverse(self, weights: FloatArray) -> Inverse:
        """Precondition the ridge problem of the sampled rows, weighted by curvatures."""
        penalty = L2(self.penalty.l2 / self.total, self.penalty.n_free)
        targets = self.problem.targets[self.rows.chosen]
        made = self._drawn if self.rows.whole else self.options.preconditioner
        return made.inverse(Problem(self.rows.matrix, targets, penalty, sample_weight=weights))

    @cached_property
    def _drawn(self) -> Preconditioner:
        """The preconditioner of all steps that use all rows."""
        return self.options.preconditioner.drawn(self.problem.matrix)


class _RowNewtonState(_LocalNewtonState):
    """Newton steps whose vectors are combinations of the rows; see :class:`RowSpace`."""

    problem: Problem
    space: RowSpace

    def __init__(
        self, problem: Problem, matrix: FeatureMatrix, start: Vector | None, options: NewtonCG
    ) -> None:
        n_rows, n_outputs = columns(problem.targets).shape
        given = None if start is None or not start.any() else columns(start)
        if given is not None:
            check_start(given, (matrix.shape[1], n_outputs), "NewtonCG")
        self._keep_problem(problem, options)
        self.space = RowSpace.around(matrix, given, n_outputs)
        first = None if given is None else self.space.multiple(np.ones(n_outputs))
        weights = np.zeros((2 * n_rows + 1, n_outputs))
        NewtonState.__init__(self, weights, first, options, watched=False)

    def _respond(self) -> None:
        self.responses = self.weights[self.space.n_rows + 1 :].copy()

    def _responses_to(self, direction: Vector) -> Vector:
        return direction[self.space.n_rows + 1 :]

    def weights_of_columns(self) -> Vector:
        return self.space.weights(self.weights)

    def _newton_direction(self, factors: FloatArray) -> Vector:
        options, inverse, n = self.options, self.inverse, self.space.n_rows
        space, right = self.space, self.gradient * factors
        chosen, matrix = self.rows.chosen, self.rows.matrix
        if not self.whole:
            # Some of the rows around the gradient.
            of_gradient = np.ascontiguousarray(self.gradient[n + 1 :][chosen])
            squared = self._product(self.gradient, self.gradient)
            space = RowSpace(matrix, None, of_gradient, squared)
            right = space.multiple(factors)
        assert isinstance(inverse, SampledInverse)
        alpha, tol = self.penalty.l2, self.inner_tol()
        runs = RowSpaceRuns(space, self.curvature, alpha, right, inverse, tol, options.n_jobs)
        self.products += runs.run(options.max_inner)
        found = runs.weights
        if self.whole:
            return found
        rows, m = np.zeros((n, found.shape[1])), space.n_rows
        rows[chosen] = found[:m]
        direction = self.space.vector(rows)
        add_times(direction, found[m], self.gradient, options.n_jobs)
        return direction

    def _gradient_of(self, slopes: Vector) -> Vector:
        return self.space.vector(slopes) + self.penalty.l2 * self.weights

    def _energy(self, gradient: Vector) -> FloatArray:
        inverse, n = self.inverse, self.space.n_rows
        assert isinstance(inverse, SampledInverse)
        coefficients = inverse.solved(gradient[n + 1 :][self.rows.chosen][inverse.chosen])
        whole = self._product(gradient, gradient) / inverse.mu
        return np.maximum(whole - inverse.energy(coefficients), 0.0)

    def _product(self, a: Vector, b: Vector) -> FloatArray:
        return self.space.product(a, b)

    def _inner(self, a: Vector, b: Vector) -> FloatArray:
        return self.by_run(self.penalty.l2 * self._product(a, b))


def _has_fast_row_products(problem: Problem) -> bool:
    """Tell whether products of rows with each other cost less than those with vectors of weights.

    They do where they are known or may be in single precision, and where vectors of the weights of
    several outputs would outgrow the caches: sums in bins are not kept.
    """
    matrix, n_outputs = problem.matrix, columns(problem.targets).shape[1]
    single = isinstance(matrix, SingleRowProducts)
    if isinstance(matrix, SingleRowProducts) and matrix.gram is not None:
        return True
    several = n_outputs >= _SEVERAL and problem.loss.coupled
    large = single or matrix.shape[1] * n_outputs >= _MANY_WEIGHTS
    wide = matrix.shape[0] < matrix.shape[1]
    return several and large and wide and matrix.has_row_products


@dataclass(frozen=True)
class Holding:
    """What gives a little curvature to outputs without any, for free weights.

    ``flat`` says which these are. Without a penalty every row gets some.
    """

    flat: BoolArray
    alpha: float
    typical: float

    def held(self, curvatures: Vector, row_weights: FloatArray) -> Vector:
        """Return the curvatures (n_rows, K) with what they lack."""
        most, weights = self.typical, row_weights[:, None]
        little = min(_FLAT * self.alpha, most) if self.alpha > 0 else most
        held = np.where(self.flat, weights * little, curvatures) if self.flat.any() else curvatures
        return np.maximum(held, _LITTLE * most * weights) if self.alpha == 0 else held
