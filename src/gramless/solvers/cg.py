"""Ridge regression by preconditioned conjugate gradients, over the columns or over the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import inner, readonly
from gramless.base.types import AnyArray, FloatArray
from gramless.loops import conjugate as loops
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.penalties import Penalty
from gramless.solvers.base import RIDGE, Capabilities, IterativeSolver
from gramless.solvers.objective import Problem, columns, free_part, last_columns
from gramless.solvers.preconditioners import (
    Inverse,
    Preconditioner,
    SampledInverse,
    SampledRows,
    energy,
)
from gramless.solvers.vectors import (
    add_rmatvec,
    add_times,
    matvec,
    over_blocks,
    pull_back,
    rmatvec,
    weighted_inner,
)


@dataclass(frozen=True)
class ConjugateGradient(IterativeSolver):
    """Preconditioned conjugate gradients for ridge regression (RB16, equation 8).

    The solver iterates on ``(Z' S Z + alpha I) w = Z' S y``.

    Parameters
    ----------
    preconditioner : Preconditioner, default=SampledRows()
        ``Identity()`` gives the paper's plain CG.
    tol : float, default=1e-4
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero. The objective's relative
        gap is then of the order of ``tol**2``.
    max_iter : int, default=200
        Maximum number of iterations.
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.

    Notes
    -----
    Each iteration takes one matvec and one rmatvec for all outputs that have not
    converged. If there are more columns than rows and no callback, each output takes memory
    for two vectors of ``n_columns`` and eight of ``n_rows``; otherwise for four of
    ``n_columns`` and two of ``n_rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0))
    >>> ConjugateGradient().solve(problem).weights.round(6)
    array([0.6, 1.5])
    """

    preconditioner: Preconditioner = field(default_factory=SampledRows)
    tol: float = 1e-4
    max_iter: int = 200
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = RIDGE

    def begin(self, problem: Problem, start: Vector | None, has_callback: bool) -> Runs:
        targets, inverse = columns(problem.targets), self.preconditioner.inverse(problem)
        first = None if start is None else columns(start)
        runs: Runs
        # In the space of rows, each look at the weights costs a product: not with a callback.
        if not has_callback and has_short_row_vectors(inverse, problem.matrix):
            rows = RowSystem.from_problem(problem, first)
            runs = RowRuns(rows, inverse, self.tol, self.n_jobs)
        else:
            system = System.from_problem(problem)
            runs = ConjugateRuns(system, inverse, self.tol, self.n_jobs, first)
        runs.at_zero = 0.5 * inner(problem.row_weights[:, None] * targets, targets)
        return runs


# Dropping converged outputs copies all others, so wait until a quarter has converged.
MIN_ACTIVE_SHARE = 0.75


class Curvature(Protocol):
    """The ``C`` of ``Z' C Z``: a number per row and output, or a K x K block per row."""

    @property
    def coupled(self) -> bool:
        """True if the curvature couples the outputs of a row."""

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply the responses (m, len(active)) of some rows and outputs by ``C``, in place."""


@dataclass(frozen=True)
class RowCurvature:
    """A number for each row, (n_rows, 1), or for each row and output, (n_rows, K)."""

    weights: FloatArray
    coupled: ClassVar[bool] = False

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        weights = self.weights[rows]
        responses *= weights if weights.shape[1] == 1 else weights[:, active]


@dataclass(frozen=True)
class SoftmaxCurvature:
    """``s (diag(p) - p p')`` of each row, for probabilities ``p`` (n_rows, K)."""

    row_weights: FloatArray
    probabilities: FloatArray
    coupled: ClassVar[bool] = True

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        weights, probabilities = readonly(self.row_weights), readonly(self.probabilities)
        loops.apply_softmax_curvature(weights[rows], probabilities[rows], responses)


class Runs(ABC):
    """Conjugate gradients on all outputs that have not converged, at the same time.

    Each output is a run; coupled outputs share their step lengths and form a single run.
    Subclasses set the ``iterate``, the ``residual`` and the ``direction`` (n, K) of the active
    outputs, the ``solution`` (n, K) of all outputs, and the ``decrease`` of the objective from
    ``at_zero``, its value at zero weights.
    """

    solution: Vector
    iterate: Vector
    residual: Vector
    direction: Vector
    energy: FloatArray
    scale: FloatArray
    relative: FloatArray
    decrease: float
    at_zero = 0.0

    def __init__(self, curvature: Curvature, n_outputs: int, tol: float, n_jobs: int | None):
        self.curvature, self.tol, self.n_jobs = curvature, tol, n_jobs
        self.active = np.arange(n_outputs)

    @property
    @abstractmethod
    def weights(self) -> Vector:
        """The weights of all outputs; the next step overwrites them."""

    @abstractmethod
    def _curvatures(self) -> FloatArray:
        """Return each run's curvature along its direction."""

    @abstractmethod
    def _advance(self, length: FloatArray) -> FloatArray:
        """Take a step; return each run's ``residual' inverse residual``."""

    @abstractmethod
    def _redirect(self, ratio: FloatArray) -> None:
        """Add ``ratio`` times the last direction to the preconditioned residual."""

    @abstractmethod
    def _keep(self, keep: NDArray[np.bool_]) -> None:
        """Drop the data of all other outputs."""

    def step(self) -> bool:
        length = _safe_divide(self.energy, self._curvatures())
        runs_in_one = len(self.active) if self.curvature.coupled else 1
        self.decrease += 0.5 * inner(length, self.energy) / runs_in_one
        energy = self._advance(length)
        self._redirect(_safe_divide(energy, self.energy))
        self.energy = energy
        self.relative[self.active] = relative_norm(energy, self.scale[self.active])
        return True

    def converged(self) -> bool:
        """Return whether all outputs have converged; drop converged ones when there are many."""
        keep = self.relative[self.active] > self.tol
        if np.count_nonzero(keep) <= MIN_ACTIVE_SHARE * len(keep):
            self._store()
            self.active, self.energy = self.active[keep], self.energy[keep]
            vectors = self.iterate, self.residual, self.direction
            self.iterate, self.residual, self.direction = (_take_columns(v, keep) for v in vectors)
            self._keep(keep)
        return not keep.any()

    def run(self, max_iter: int) -> int:
        """Iterate until all outputs have converged; return the number of iterations."""
        for n_iter in range(max_iter):
            if self.converged():
                return n_iter
            self.step()
        return max_iter

    def record(self) -> dict[str, float]:
        residual = float(self.relative.max(initial=0.0))
        return {"objective": self.at_zero - self.decrease, "residual": residual}

    def _store(self) -> None:
        if self.iterate is not self.solution:
            self.solution[:, self.active] = self.iterate

    def _apply_curvature(self, responses: Vector) -> tuple[Vector, FloatArray]:
        """Return ``C responses`` of the active outputs, and ``responses' C responses`` of each."""
        curved = responses.copy()

        def apply_curvature(first: int, last: int) -> FloatArray:
            rows = slice(first, last)
            self.curvature.apply(rows, curved[rows], self.active)
            return np.asarray(np.einsum("nk,nk->k", responses[rows], curved[rows]))

        return curved, np.sum(over_blocks(apply_curvature, responses, self.n_jobs), axis=0)

    def _by_run(self, sums: Vector) -> Vector:
        """Return sums over runs, given sums over outputs: coupled outputs all get the total."""
        return np.full_like(sums, sums.sum()) if self.curvature.coupled else sums


def _safe_divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the quotients, or 0 if the denominator is not positive."""
    zeros = np.zeros_like(denominator)
    return np.divide(numerator, denominator, out=zeros, where=denominator > 0)


def relative_norm(energy: Vector, scale: Vector) -> Vector:
    """Return norms, given their squares, divided by the scale if that is above 0."""
    norm = np.sqrt(np.maximum(energy, 0.0))
    return np.divide(norm, scale, out=norm, where=scale > 0)


def _take_columns(array: Vector, keep: NDArray[np.bool_] | NDArray[np.intp]) -> Vector:
    return np.ascontiguousarray(array[:, keep])


class Equations(Protocol):
    """Equations ``(A + diag(ridge)) w = right`` for K right-hand sides (n_columns, K).

    ``curvature.coupled`` states whether ``A`` couples the outputs.
    """

    @property
    def curvature(self) -> Curvature: ...

    @property
    def ridge(self) -> FloatArray: ...

    @property
    def right(self) -> Vector: ...

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        """Return ``A w`` for the active outputs."""


@dataclass(eq=False)
class System:
    """The equations ``(Z' C Z + diag(ridge)) w = right`` for K right-hand sides."""

    matrix: FeatureMatrix
    curvature: Curvature
    ridge: FloatArray
    right: Vector

    @classmethod
    def from_problem(cls, problem: Problem) -> System:
        row_weights = problem.row_weights[:, None]
        weighted = row_weights * columns(problem.targets)
        if problem.sample_weight is None:
            # Equal weights are kept as one number.
            row_weights = np.broadcast_to(row_weights[0], row_weights.shape)
        right = rmatvec(problem.matrix, weighted)
        ridge = problem.penalty.diagonal(right[:, 0])
        return cls(problem.matrix, RowCurvature(row_weights), ridge, right)

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        """Return ``Z' C Z w`` for the active outputs, without the ridge."""

        def apply_curvature(rows: slice, responses: Vector) -> Vector:
            self.curvature.apply(rows, responses, active)
            return responses

        return pull_back(self.matrix, w, apply_curvature, out)


class ConjugateRuns(Runs):
    """Conjugate gradients with a vector entry for each column."""

    # The attributes that change from step to step, by their keys in checkpoint files.
    _changing: ClassVar[dict[str, str]] = {
        "found": "solution",
        "residual": "residual",
        "direction": "direction",
        "coefficients": "coefficients",
        "energy": "energy",
        "scale": "scale",
        "relative": "relative",
        "active": "active",
        "decrease": "decrease",
    }

    def __init__(
        self,
        system: Equations,
        inverse: Inverse,
        tol: float,
        n_jobs: int | None,
        start: Vector | None = None,
    ) -> None:
        right = system.right
        super().__init__(system.curvature, right.shape[1], tol, n_jobs)
        self.system, self.inverse = system, inverse
        self.solution = np.zeros_like(right) if start is None else start.astype(float)
        self.iterate = self.solution
        self.residual = right.copy()
        if start is not None:
            self.residual -= system.times(self.solution, self.active)
            self.residual -= self.solution * system.ridge[:, None]
        self.decrease = 0.5 * inner(self.solution, right + self.residual)
        self.product = np.empty_like(right)
        self.coefficients = inverse.coefficients(self.residual)
        self.energy = self._by_run(energy(inverse, self.residual, self.coefficients, n_jobs))
        energy_at_zero = self.energy
        if start is not None:
            energy_at_zero = self._by_run(energy(inverse, right, None, n_jobs))
        self.scale = np.sqrt(energy_at_zero)
        self.relative = relative_norm(self.energy, self.scale)
        self.direction = self.residual * inverse.diagonal[:, None]
        inverse.subtract(self.coefficients, self.direction)

    @property
    def weights(self) -> Vector:
        self._store()
        return self.solution

    def numbers(self) -> dict[str, AnyArray]:
        # Copies of everything that changes from step to step.
        self._store()
        return {key: np.array(vars(self)[name]) for key, name in self._changing.items()}

    def take_up(self, numbers: Mapping[str, AnyArray]) -> None:
        """Continue from the :meth:`numbers` of runs of the same system."""
        for key, name in self._changing.items():
            setattr(self, name, numbers[key])
        self.decrease = float(self.decrease)
        is_complete = len(self.active) == len(self.scale)
        self.iterate = self.solution if is_complete else _take_columns(self.solution, self.active)
        self.product = np.empty_like(self.residual)

    def _curvatures(self) -> FloatArray:
        self.product = self.system.times(self.direction, self.active, self.product)
        sums = self._over_rows(loops.add_ridge, self.direction, self.system.ridge, self.product)
        return self._by_run(sums)

    def _advance(self, length: FloatArray) -> FloatArray:
        vectors = self.direction, self.product, self.inverse.diagonal, self.iterate, self.residual
        of_diagonal = self._over_rows(partial(loops.advance, length), *vectors)
        self.coefficients = self.inverse.coefficients(self.residual)
        return self._by_run(np.maximum(of_diagonal - self.inverse.energy(self.coefficients), 0.0))

    def _redirect(self, ratio: FloatArray) -> None:
        def redirect(residual: Vector, diagonal: Vector, direction: Vector, _: Vector) -> None:
            loops.redirect(ratio, residual, diagonal, direction)

        self._over_rows(redirect, self.residual, self.inverse.diagonal, self.direction)
        self.inverse.subtract(self.coefficients, self.direction)

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        self.product = np.empty_like(self.residual)

    def _over_rows(self, function: Callable[..., None], *arrays: Vector) -> Vector:
        """Call ``function(*row_blocks, sums)`` in parallel and return the total of the sums."""

        def call(first: int, last: int) -> Vector:
            sums = np.zeros(len(self.active))
            function(*(array[first:last] for array in arrays), sums)
            return sums

        # The blocks are added in order, so results do not depend on the threads.
        return np.sum(over_blocks(call, self.residual, self.n_jobs), axis=0)


def has_short_row_vectors(inverse: Inverse, matrix: FeatureMatrix) -> TypeGuard[SampledInverse]:
    """Return whether runs over the rows are as precise and have shorter vectors."""
    n_rows, n_columns = matrix.shape
    # With all rows in the sample, inner products over rows lose too many digits.
    return isinstance(inverse, SampledInverse) and len(inverse.chosen) < n_rows < n_columns


@dataclass(frozen=True)
class RowSystem:
    """The equations ``(Z' C Z + alpha I) w = right`` and a start, as combinations of rows.

    ``alpha`` is not added in the free columns. A vector ``Z' u + f + t g`` over the columns is
    stored as the array of ``u``, ``f`` and ``t``, (n_rows + n_free + 1, K), in which ``f`` belongs
    to the free columns and ``g`` is the ``given`` vector (n_columns, K). ``responses`` are
    ``Z g``, or zeros if ``given`` is None. ``residual`` is that at the start.
    """

    matrix: FeatureMatrix
    curvature: Curvature
    penalty: Penalty
    given: Vector | None
    responses: Vector
    right: Vector
    start: Vector
    residual: Vector

    @classmethod
    def of_multiples(
        cls,
        matrix: FeatureMatrix,
        curvature: Curvature,
        penalty: Penalty,
        right: Vector,
        factors: FloatArray,
    ) -> RowSystem:
        """Return the equations for the right-hand sides ``factors * right``, started at zero."""
        start = np.zeros((matrix.shape[0] + penalty.n_free + 1, right.shape[1]))
        scaled, responses = start.copy(), matvec(matrix, right)
        scaled[-1] = factors
        return cls(matrix, curvature, penalty, right, responses, scaled, start, scaled)

    @classmethod
    def from_problem(cls, problem: Problem, start: Vector | None) -> RowSystem:
        matrix, penalty, row_weights = problem.matrix, problem.penalty, problem.row_weights[:, None]
        weighted = row_weights * columns(problem.targets)
        n, n_outputs = weighted.shape
        first = np.zeros((n + penalty.n_free + 1, n_outputs))
        right = first.copy()
        right[:n] = weighted
        residual, responses = right, np.zeros_like(weighted)
        if start is not None:
            first[-1], responses = 1.0, matvec(matrix, start)
            residual = np.empty_like(right)
            residual[:n] = weighted - row_weights * responses
            residual[n:-1] = penalty.l2 * free_part(start, penalty.n_free)
            residual[-1] = -penalty.l2
        curvature = RowCurvature(row_weights)
        return cls(matrix, curvature, penalty, start, responses, right, first, residual)


class RowRuns(Runs):
    """Conjugate gradients with vectors that are combinations of rows.

    Up to rounding, the iterates are those of :class:`ConjugateRuns`. A step multiplies by the
    transpose, twice by the sampled rows, and by the matrix, so vectors over columns are written
    once and read once. Each output takes memory for eight vectors of ``n_rows`` and two of
    ``n_columns``. ``buffer`` (n_columns, K) may be overwritten: fresh memory is costly.
    """

    def __init__(
        self,
        system: RowSystem,
        inverse: SampledInverse,
        tol: float,
        n_jobs: int | None,
        buffer: Vector | None = None,
    ) -> None:
        n_outputs, n_free = system.right.shape[1], system.penalty.n_free
        super().__init__(system.curvature, n_outputs, tol, n_jobs)
        self.system, self.inverse, self.n_rows = system, inverse, system.matrix.shape[0]
        self.left, self.right = system.matrix.row_factors()
        self.rows_left, self.rows_right = inverse.rows.row_factors()
        self.free = last_columns(system.matrix, n_free)
        n_columns = system.matrix.shape[1]
        self.buffer = np.empty((n_columns, n_outputs)) if buffer is None else buffer
        # The responses to the given vector, its squared norms and its entries in free columns.
        g, self.of_given = system.given, system.responses
        self.squared = np.zeros(n_outputs) if g is None else weighted_inner(None, g, g, n_jobs)
        self.given_free = np.zeros((n_free, n_outputs)) if g is None else free_part(g, n_free)
        self.iterate = self.solution = system.start.copy()
        self.residual = system.residual.copy()
        self.direction, self.responses = self._preconditioned()
        self.energy = self._inner(self.residual, self.direction, self.responses)
        energy_at_zero = self.energy
        if system.residual is not system.right:
            right = rmatvec(system.matrix, system.right[: self.n_rows], self.buffer)
            energy_at_zero = self._by_run(energy(inverse, right, None, n_jobs))
        self.scale = np.sqrt(energy_at_zero)
        self.relative = relative_norm(self.energy, self.scale)
        responses = self.solution[-1] * self.of_given
        decreases = self._product(system.right, self.solution, responses)
        decreases += self._product(self.residual, self.solution, responses)
        self.decrease = 0.5 * float(decreases.sum())

    @property
    def weights(self) -> Vector:
        """The weights of all outputs, by a product; the next step overwrites them."""
        self._store()
        is_complete = len(self.active) == len(self.scale)
        weights = self.buffer if is_complete else np.empty((len(self.buffer), len(self.scale)))
        rows, given = self.solution[: self.n_rows], self.system.given
        if rows.any():
            rmatvec(self.system.matrix, rows, weights)
        else:
            weights[:] = 0.0
        free = free_part(weights, self.system.penalty.n_free)
        free += self.solution[self.n_rows : -1]
        if given is not None:
            add_times(weights, self.solution[-1], given, self.n_jobs)
        return weights

    def _curvatures(self) -> FloatArray:
        alpha, direction = self.system.penalty.l2, self.direction
        self.curved, sums = self._apply_curvature(self.responses)
        free = self.direction_free = self._free_part(direction)
        sums += alpha * self._product(direction, direction, self.responses)
        return self._by_run(sums - alpha * np.einsum("fk,fk->k", free, free))

    def _advance(self, length: FloatArray) -> FloatArray:
        alpha, direction, n = self.system.penalty.l2, self.direction, self.n_rows
        add_times(self.iterate, length, direction, self.n_jobs)
        add_times(self.residual, -length * alpha, direction, self.n_jobs)
        add_times(self.residual[:n], -length, self.curved, self.n_jobs)
        self.residual[n:-1] += length * alpha * self.direction_free
        self.preconditioned = self._preconditioned()
        return self._inner(self.residual, *self.preconditioned)

    def _redirect(self, ratio: FloatArray) -> None:
        direction, responses = self.preconditioned
        add_times(direction, ratio, self.direction, self.n_jobs)
        add_times(responses, ratio, self.responses, self.n_jobs)
        self.direction, self.responses = direction, responses

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        self.responses = _take_columns(self.responses, keep)
        self.of_given = _take_columns(self.of_given, keep)
        self.squared, self.given_free = self.squared[keep], self.given_free[:, keep]
        self.buffer = np.empty((len(self.buffer), len(self.active)))

    def _preconditioned(self) -> tuple[Vector, Vector]:
        inverse, n = self.inverse, self.n_rows
        scaled = self.residual / inverse.mu
        columns = rmatvec(self.right, scaled[:n], self.buffer)
        free = free_part(columns, self.system.penalty.n_free)
        free += scaled[n:-1]
        # The columns leave out the multiple of g in the residual.
        of_given = self.of_given[inverse.chosen] * self.residual[-1]
        coefficients = inverse.coefficients_of(
            inverse.mu * matvec(self.rows_left, columns) + of_given
        )
        shares = inverse.row_coefficients(coefficients)
        add_rmatvec(self.rows_right, -shares, columns)
        scaled[inverse.chosen] -= shares
        responses = matvec(self.left, columns)
        responses += scaled[-1] * self.of_given
        return scaled, responses

    def _inner(self, a: Vector, b: Vector, responses: Vector) -> FloatArray:
        """Return each run's ``a' b``, given the responses to ``b``, clipped at 0."""
        return np.maximum(self._by_run(self._product(a, b, responses)), 0.0)

    def _product(self, a: Vector, b: Vector, responses: Vector) -> FloatArray:
        """Return each output's ``a' b``, given the responses to ``b``."""
        n, n_jobs = self.n_rows, self.n_jobs
        with_given = b[-1] * self.squared + weighted_inner(None, b[:n], self.of_given, n_jobs)
        with_given += np.einsum("fk,fk->k", b[n:-1], self.given_free)
        sums = a[-1] * with_given + weighted_inner(None, a[:n], responses, n_jobs)
        return np.asarray(sums + np.einsum("fk,fk->k", a[n:-1], self._free_part(b)))

    def _free_part(self, vector: Vector) -> Vector:
        of_rows = np.einsum("nf,nk->fk", self.free, vector[: self.n_rows])
        return np.asarray(vector[-1] * self.given_free + of_rows + vector[self.n_rows : -1])
