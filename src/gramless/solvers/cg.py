"""Ridge regression by preconditioned conjugate gradients, over the columns or over the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.loops import conjugate as loops
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.penalties import Penalty
from gramless.solvers.base import RIDGE, Capabilities, Solver
from gramless.solvers.intercept import free_part, last_columns
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.preconditioners import (
    Inverse,
    Preconditioner,
    SampledInverse,
    SampledRows,
    energy,
)
from gramless.solvers.vectors import (
    add_times,
    matvec,
    over_blocks,
    pull_back,
    rmatvec,
    weighted_inner,
)


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    """Ridge regression, ``(Z' S Z + alpha I) w = Z' S y`` (RB16, equation 8).

    Parameters
    ----------
    preconditioner : Preconditioner, default=SampledRows()
        ``Identity()`` gives the paper's plain CG.
    tol : float, default=1e-4
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero. The objective's relative
        gap is then of the order of ``tol**2``.
    max_iter : int, default=200
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.

    Notes
    -----
    One matvec and one rmatvec an iteration serve all outputs that have not
    converged. Memory an output for two vectors of ``n_columns`` and eight of ``n_rows``
    where columns are more than rows and nobody looks at the weights on the way, else
    for four of ``n_columns`` and two of ``n_rows``.

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

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem, see :meth:`Solver.solve`."""
        self.check_problem(problem)
        runs, at_zero = self._begin(problem, start, callback is not None)
        shape = problem.weights_shape
        history = [_record(at_zero, runs)]
        status = "max_iter"
        for iteration in range(1, self.max_iter + 1):
            if runs.drop_converged():
                status = "converged"
                break
            runs.step()
            history.append(_record(at_zero, runs))
            if callback is not None and callback(iteration, runs.result().reshape(shape)):
                status = "stopped"
                break
        else:
            status = "converged" if runs.drop_converged() else status
        return Solution(runs.result().reshape(shape), status, len(history) - 1, history)

    def _begin(
        self, problem: Problem, start: Vector | None, watched: bool
    ) -> tuple[ConjugateRuns | RowRuns, float]:
        """Return the runs at their start, and the objective at zero weights."""
        row_weights, targets = problem.row_weights[:, None], columns(problem.targets)
        weighted = row_weights * targets
        inverse = self.preconditioner.inverse(problem)
        first = None if start is None else columns(start)
        runs: ConjugateRuns | RowRuns
        # In the space of rows, looking at the weights costs a product: not with a callback.
        if not watched and fit_for_rows(inverse, problem.matrix):
            system = RowSystem.of_squares(problem, first)
            runs = RowRuns(system, inverse, self.tol, self.n_jobs)
        else:
            right = rmatvec(problem.matrix, weighted)
            ridge = problem.penalty.diagonal(right[:, 0])
            whole = System(problem.matrix, RowCurvature(row_weights), ridge, right)
            runs = ConjugateRuns(whole, inverse, self.tol, self.n_jobs, first)
        return runs, 0.5 * inner(weighted, targets)


def _record(at_zero: float, runs: ConjugateRuns | RowRuns) -> dict[str, float]:
    return {
        "objective": at_zero - runs.decrease,
        "residual": float(runs.relative.max(initial=0.0)),
    }


WORTH_KEEPING = 0.75
"""Dropping converged outputs copies all others, so wait until a quarter has converged."""


class Curvature(Protocol):
    """The ``C`` of ``Z' C Z``: a number for each row and output, or a K x K block for each row."""

    coupled: ClassVar[bool]

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply the responses (m, len(active)) of some rows and outputs by ``C``, in place."""


@dataclass(frozen=True)
class RowCurvature:
    """One number a row, (n_rows, 1), or a row and output, (n_rows, K)."""

    weights: NDArray[np.float64]
    coupled: ClassVar[bool] = False

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply by the outputs' weights."""
        weights = self.weights[rows]
        responses *= weights if weights.shape[1] == 1 else weights[:, active]


@dataclass(frozen=True)
class SoftmaxCurvature:
    """``s (diag(p) - p p')`` of each row, for probabilities ``p`` (n_rows, K)."""

    row_weights: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    coupled: ClassVar[bool] = True

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply by each row's block."""
        p = self.probabilities[rows]
        responses -= np.einsum("nk,nk->n", p, responses)[:, None]
        responses *= p
        responses *= self.row_weights[rows, None]


@dataclass(frozen=True)
class System:
    """The equations ``(Z' C Z + diag(ridge)) w = right`` for K right-hand sides."""

    matrix: FeatureMatrix
    curvature: Curvature
    ridge: NDArray[np.float64]
    right: Vector

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        """Return ``Z' C Z w`` for the active outputs, without the ridge."""

        def curve(rows: slice, responses: Vector) -> Vector:
            self.curvature.apply(rows, responses, active)
            return responses

        return pull_back(self.matrix, w, curve, out)


class ConjugateRuns:
    """Conjugate gradients on all outputs that have not converged, side by side.

    Coupled outputs share the lengths of their steps: they form a single run.
    """

    def __init__(
        self,
        system: System,
        inverse: Inverse,
        tol: float,
        n_jobs: int | None,
        start: Vector | None = None,
    ) -> None:
        self.system, self.inverse, self.tol, self.n_jobs = system, inverse, tol, n_jobs
        right = system.right
        self.active = np.arange(right.shape[1])
        self.found = np.zeros_like(right) if start is None else start.astype(float)
        self.residual = right.copy()
        if start is not None:
            self.residual -= system.times(self.found, self.active)
            self.residual -= self.found * system.ridge[:, None]
        self.decrease = 0.5 * inner(self.found, right + self.residual)
        self.weights = self.found
        self.room = np.empty_like(right)
        coefficients = inverse.coefficients(self.residual)
        self.energy = by_run(
            energy(inverse, self.residual, coefficients, n_jobs), self.system.curvature
        )
        at_zero = (
            self.energy
            if start is None
            else by_run(energy(inverse, right, n_jobs=n_jobs), self.system.curvature)
        )
        self.scale = np.sqrt(at_zero)
        self.direction = self.residual * inverse.diagonal[:, None]
        inverse.subtract(coefficients, self.direction)
        self.relative = relative_norm(self.energy, self.scale)

    def step(self) -> None:
        """Advance all active outputs by one iteration."""
        product = self.system.times(self.direction, self.active, self.room)
        curvature = by_run(
            self._over_rows(loops.add_ridge, self.direction, self.system.ridge, product),
            self.system.curvature,
        )
        length = np.divide(
            self.energy, curvature, out=np.zeros_like(curvature), where=curvature > 0
        )
        self.decrease += 0.5 * float(length @ self.energy) / self._runs_in_one()
        whole = self._over_rows(
            partial(loops.advance, length),
            self.direction,
            product,
            self.inverse.diagonal,
            self.weights,
            self.residual,
        )
        coefficients = self.inverse.coefficients(self.residual)
        there = by_run(
            np.maximum(whole - self.inverse.energy(coefficients), 0.0), self.system.curvature
        )
        ratio = np.divide(there, self.energy, out=np.zeros_like(there), where=self.energy > 0)
        self._over_rows(
            lambda residual, inverse, direction, _: loops.redirect(
                ratio, residual, inverse, direction
            ),
            self.residual,
            self.inverse.diagonal,
            self.direction,
        )
        self.inverse.subtract(coefficients, self.direction)
        self.energy = there
        self.relative[self.active] = relative_norm(there, self.scale[self.active])

    def drop_converged(self) -> bool:
        """Drop the converged outputs once they are many; tell whether all have converged."""
        keep = self.relative[self.active] > self.tol
        if np.count_nonzero(keep) <= WORTH_KEEPING * len(keep):
            self.result()
            self.active = self.active[keep]
            self.weights = np.ascontiguousarray(self.weights[:, keep])
            self.residual = np.ascontiguousarray(self.residual[:, keep])
            self.direction = np.ascontiguousarray(self.direction[:, keep])
            self.energy = self.energy[keep]
            self.room = np.empty_like(self.residual)
        return not keep.any()

    def result(self) -> Vector:
        """Return the weights of all outputs."""
        if self.weights is not self.found:
            self.found[:, self.active] = self.weights
        return self.found

    def _runs_in_one(self) -> int:
        return len(self.active) if self.system.curvature.coupled else 1

    def _over_rows(self, function: Callable[..., None], *arrays: Vector) -> Vector:
        """Call ``function(*row blocks, sums)`` in parallel; add the sums in order."""

        def work(first: int, last: int) -> Vector:
            sums = np.zeros(len(self.active))
            function(*(array[first:last] for array in arrays), sums)
            return sums

        return np.sum(over_blocks(work, self.residual, self.n_jobs), axis=0)


def by_run(sums: Vector, curvature: Curvature) -> Vector:
    """Turn sums over outputs into sums over runs: coupled outputs all get the total."""
    return np.full_like(sums, sums.sum()) if curvature.coupled else sums


def relative_norm(energy: Vector, scale: Vector) -> Vector:
    """Return norms, given their squares, relative to a scale where that is above 0."""
    norm = np.sqrt(np.maximum(energy, 0.0))
    return np.divide(norm, scale, out=norm, where=scale > 0)


def fit_for_rows(inverse: Inverse, matrix: FeatureMatrix) -> TypeGuard[SampledInverse]:
    """Tell whether runs over the rows would have shorter vectors and be as precise."""
    n_rows, n_columns = matrix.shape
    # With all rows in the sample, inner products over rows lose too many digits.
    return isinstance(inverse, SampledInverse) and len(inverse.chosen) < n_rows < n_columns


@dataclass
class Combination:
    """For each output a vector ``t g + Z' u + f``, with ``f`` in the free columns alone.

    The parts are (K,), (n_rows, K) and (n_free, K).
    """

    of_given: NDArray[np.float64]
    of_rows: Vector
    of_free: Vector

    def add(self, length: NDArray[np.float64], other: Combination, n_jobs: int | None) -> None:
        """Add ``length`` (K,) times other vectors."""
        self.of_given = self.of_given + length * other.of_given
        add_times(self.of_rows, length, other.of_rows, n_jobs)
        self.of_free = self.of_free + length * other.of_free

    def kept(self, keep: NDArray[np.bool_]) -> Combination:
        """Return the vectors of some outputs."""
        rows = np.ascontiguousarray(self.of_rows[:, keep])
        return Combination(self.of_given[keep], rows, self.of_free[:, keep])


@dataclass(frozen=True)
class RowSystem:
    """``(Z' C Z + alpha I) w = right``, without alpha in the free columns, and a start.

    ``given`` is the ``g`` (n_columns, K) of all combinations, None where none contains it, and
    ``responses`` are those to it, where they are known. The residual is that at the start.
    """

    matrix: FeatureMatrix
    curvature: Curvature
    alpha: float
    n_free: int
    given: Vector | None
    responses: Vector | None
    right: Combination
    start: Combination
    residual: Combination

    @classmethod
    def towards(
        cls,
        matrix: FeatureMatrix,
        curvature: Curvature,
        penalty: Penalty,
        right: Vector,
        factors: NDArray[np.float64],
    ) -> RowSystem:
        """Return the system of the right-hand sides ``factors * right``, started at zero."""
        nothing = _nothing(matrix.shape[0], penalty.n_free, right.shape[1])
        whole = Combination(factors, nothing.of_rows, nothing.of_free)
        n_free = penalty.n_free
        return cls(matrix, curvature, penalty.l2, n_free, right, None, whole, nothing, whole)

    @classmethod
    def of_squares(cls, problem: Problem, start: Vector | None) -> RowSystem:
        """Return the equations of a squared-loss problem."""
        matrix, row_weights = problem.matrix, problem.row_weights[:, None]
        weighted = row_weights * columns(problem.targets)
        alpha, n_free = problem.penalty.l2, problem.penalty.n_free
        nothing = _nothing(matrix.shape[0], n_free, weighted.shape[1])
        right = residual = Combination(nothing.of_given, weighted, nothing.of_free)
        first, responses = nothing, None
        if start is not None:
            ones, responses = np.ones(weighted.shape[1]), matvec(matrix, start)
            first = Combination(ones, nothing.of_rows, nothing.of_free)
            left = weighted - row_weights * responses
            residual = Combination(-alpha * ones, left, alpha * free_part(start, n_free))
        curvature = RowCurvature(row_weights)
        return cls(matrix, curvature, alpha, n_free, start, responses, right, first, residual)


@dataclass(frozen=True)
class Given:
    """The responses to ``g``, its squared norms and its entries in the free columns."""

    responses: Vector
    squared: NDArray[np.float64]
    free: Vector

    @classmethod
    def of(cls, system: RowSystem, n_jobs: int | None) -> Given:
        """Compute them with one matvec, unless the responses are known."""
        g, nothing = system.given, system.right.of_free
        n_outputs = nothing.shape[1]
        if g is None:
            shape = system.matrix.shape[0], n_outputs
            return cls(np.zeros(shape), np.zeros(n_outputs), np.zeros_like(nothing))
        squared = weighted_inner(None, g, g, n_jobs)
        responses = matvec(system.matrix, g) if system.responses is None else system.responses
        return cls(responses, squared, free_part(g, system.n_free))

    def kept(self, keep: NDArray[np.bool_]) -> Given:
        """Return those of some outputs."""
        responses = np.ascontiguousarray(self.responses[:, keep])
        return Given(responses, self.squared[keep], self.free[:, keep])


class RowRuns:
    """The iterates of :class:`ConjugateRuns`, but for rounding, kept as combinations of rows.

    A step multiplies by the transpose, twice by the sampled rows, and by the matrix, so vectors
    over columns are written once and read once. Memory for eight vectors of ``n_rows`` and two of
    ``n_columns`` an output. ``room`` (n_columns, K) may be written over: fresh memory is costly.
    """

    def __init__(
        self,
        system: RowSystem,
        inverse: SampledInverse,
        tol: float,
        n_jobs: int | None,
        room: Vector | None = None,
    ) -> None:
        self.system, self.inverse, self.tol, self.n_jobs = system, inverse, tol, n_jobs
        self.active = np.arange(len(system.right.of_given))
        self.given = Given.of(system, n_jobs)
        self.free = last_columns(system.matrix, system.n_free)
        shape = system.matrix.shape[1], len(self.active)
        self.room = np.empty(shape) if room is None else room
        self.weights = self.found = _copied(system.start)
        self.residual = _copied(system.residual)
        self.direction, self.responses = self._preconditioned(self.residual)
        self.energy = self._inner(self.residual, self.direction, self.responses)
        at_zero = self.energy
        if system.residual is not system.right:
            at_zero = self._energy_of_rows(system.right.of_rows)
        self.scale = np.sqrt(at_zero)
        self.relative = relative_norm(self.energy, self.scale)
        there = self.found.of_given * self.given.responses
        both = self._product(system.right, self.found, there)
        both += self._product(self.residual, self.found, there)
        self.decrease = 0.5 * float(both.sum())

    def step(self) -> None:
        """Advance all active outputs by one iteration."""
        alpha, direction = self.system.alpha, self.direction
        curved = self.responses.copy()
        self.system.curvature.apply(slice(None), curved, self.active)
        free = self._free_part(direction)
        curvature = weighted_inner(None, self.responses, curved, self.n_jobs)
        curvature += alpha * self._product(direction, direction, self.responses)
        curvature = by_run(
            curvature - alpha * np.einsum("fk,fk->k", free, free), self.system.curvature
        )
        length = np.divide(
            self.energy, curvature, out=np.zeros_like(curvature), where=curvature > 0
        )
        runs_in_one = len(self.active) if self.system.curvature.coupled else 1
        self.decrease += 0.5 * float(np.einsum("k,k->", length, self.energy)) / runs_in_one
        self.weights.add(length, direction, self.n_jobs)
        self.residual.add(-length * alpha, direction, self.n_jobs)
        add_times(self.residual.of_rows, -length, curved, self.n_jobs)
        self.residual.of_free += length * alpha * free
        towards, responses = self._preconditioned(self.residual)
        there = self._inner(self.residual, towards, responses)
        ratio = np.divide(there, self.energy, out=np.zeros_like(there), where=self.energy > 0)
        towards.add(ratio, direction, self.n_jobs)
        add_times(responses, ratio, self.responses, self.n_jobs)
        self.direction, self.responses, self.energy = towards, responses, there
        self.relative[self.active] = relative_norm(there, self.scale[self.active])

    def drop_converged(self) -> bool:
        """Drop the converged outputs once they are many; tell whether all have converged."""
        keep = self.relative[self.active] > self.tol
        if np.count_nonzero(keep) <= WORTH_KEEPING * len(keep):
            self._store()
            self.active, self.energy = self.active[keep], self.energy[keep]
            self.weights, self.residual = self.weights.kept(keep), self.residual.kept(keep)
            self.direction = self.direction.kept(keep)
            self.responses = np.ascontiguousarray(self.responses[:, keep])
            self.given = self.given.kept(keep)
            self.room = np.empty((len(self.room), len(self.active)))
        return not keep.any()

    def result(self) -> Vector:
        """Return the weights of all outputs; the next step overwrites them."""
        self._store()
        all_here = len(self.active) == len(self.scale)
        weights = self.room if all_here else np.empty((len(self.room), len(self.scale)))
        if self.found.of_rows.any():
            rmatvec(self.system.matrix, self.found.of_rows, weights)
        else:
            weights[:] = 0.0
        free = free_part(weights, self.system.n_free)
        free += self.found.of_free
        if self.system.given is not None:
            add_times(weights, self.found.of_given, self.system.given, self.n_jobs)
        return weights

    def _preconditioned(self, residual: Combination) -> tuple[Combination, Vector]:
        """Return the preconditioned residual and the responses to it."""
        inverse, mu = self.inverse, self.inverse.mu
        scaled = Combination(residual.of_given / mu, residual.of_rows / mu, residual.of_free / mu)
        columns = rmatvec(self.system.matrix, scaled.of_rows, self.room)
        free = free_part(columns, self.system.n_free)
        free += scaled.of_free
        # The columns leave out the share of g in the residual.
        there = self.given.responses[inverse.chosen] * residual.of_given
        coefficients = inverse.solved(mu * matvec(inverse.rows, columns) + there)
        inverse.subtract(coefficients, columns)
        scaled.of_rows[inverse.chosen] -= inverse.subtracted(coefficients)
        responses = matvec(self.system.matrix, columns)
        responses += scaled.of_given * self.given.responses
        return scaled, responses

    def _energy_of_rows(self, rows: Vector) -> NDArray[np.float64]:
        """Return each run's ``r' inverse r`` for ``r = Z' rows``."""
        columns = rmatvec(self.system.matrix, rows, self.room)
        coefficients = self.inverse.coefficients(columns)
        whole = weighted_inner(None, columns, columns, self.n_jobs) / self.inverse.mu
        energy = whole - self.inverse.energy(coefficients)
        return np.maximum(by_run(energy, self.system.curvature), 0.0)

    def _inner(self, a: Combination, b: Combination, responses: Vector) -> NDArray[np.float64]:
        """Return each run's ``a' b``, given the responses to ``b``, clipped at 0."""
        return np.maximum(by_run(self._product(a, b, responses), self.system.curvature), 0.0)

    def _product(self, a: Combination, b: Combination, responses: Vector) -> NDArray[np.float64]:
        """Return each output's ``a' b``, given the responses to ``b``."""
        with_given = b.of_given * self.given.squared
        with_given += weighted_inner(None, b.of_rows, self.given.responses, self.n_jobs)
        with_given += np.einsum("fk,fk->k", b.of_free, self.given.free)
        sums = a.of_given * with_given + weighted_inner(None, a.of_rows, responses, self.n_jobs)
        return np.asarray(sums + np.einsum("fk,fk->k", a.of_free, self._free_part(b)))

    def _free_part(self, vector: Combination) -> Vector:
        """Return a vector's entries in the free columns."""
        of_rows = np.einsum("nf,nk->fk", self.free, vector.of_rows)
        return np.asarray(vector.of_given * self.given.free + of_rows + vector.of_free)

    def _store(self) -> None:
        """Copy the weights of the active outputs into those of all."""
        if self.weights is not self.found:
            self.found.of_given[self.active] = self.weights.of_given
            self.found.of_rows[:, self.active] = self.weights.of_rows
            self.found.of_free[:, self.active] = self.weights.of_free


def _nothing(n_rows: int, n_free: int, n_outputs: int) -> Combination:
    return Combination(
        np.zeros(n_outputs), np.zeros((n_rows, n_outputs)), np.zeros((n_free, n_outputs))
    )


def _copied(vector: Combination) -> Combination:
    return Combination(vector.of_given.copy(), vector.of_rows.copy(), vector.of_free.copy())
