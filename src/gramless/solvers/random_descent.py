"""Randomised coordinate descent, by simultaneous steps or by threads that share weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from gramless.base.arrays import inner
from gramless.base.random import stream
from gramless.base.threads import map_blocks, thread_count
from gramless.base.types import AnyArray, FloatArray
from gramless.loops import coordinate_descent as loops
from gramless.losses import Huber, Logistic, Loss, SmoothPinball, Squared, SquaredHinge
from gramless.matrices.base import Vector
from gramless.solvers.base import Capabilities, IterativeSolver
from gramless.solvers.objective import Problem, columns

_DRAWS_PER_BLOCK = 1 << 16  # number of coordinates that are drawn at a time
_CODES: dict[type[Loss], int] = {
    **{Squared: loops.SQUARED, SquaredHinge: loops.SQUARED_HINGE, Logistic: loops.LOGISTIC},
    **{Huber: loops.HUBER, SmoothPinball: loops.PINBALL},
}
_CAPABILITIES = Capabilities(losses=tuple(_CODES), l1=True)


@dataclass(frozen=True)
class RandomDescent(IterativeSolver):
    """Coordinate descent that takes several random steps at once (RB16, section 4).

    Each step draws ``n_simultaneous`` distinct coordinates uniformly, computes their
    proximal steps from the same weights (RB16, equations 24-26), and takes them all. The
    steps are shortened so that together they descend on average: ``M_j`` is replaced by
    ``(1 + (omega - 1)(tau - 1) / max(1, D - 1)) M_j``, with ``tau`` simultaneous steps, D
    columns and at most ``omega`` non-zeros in a row (Richtarik & Takac 2015, Theorem 19).
    RB16's equation 29 is the speed-up of this algorithm.

    Parameters
    ----------
    n_simultaneous : int, default=1
        Number of simultaneous steps, at most the number of columns.
    tol : float, default=1e-2
        An output has converged when the largest violation of optimality by a weight
        (``Penalty.distance``) is at most ``tol`` times the penalty's ``l1``, or times the
        largest gradient at zero weights if that is smaller or ``l1`` is 0. This is checked
        after each epoch.
    max_iter : int, default=1000
        Maximum number of epochs, each of ``n_columns`` updates, rounded up to whole steps.
    seed : int, default=0
        Seed of the order of steps.
    n_jobs : int or None, default=None
        Threads over outputs. Results do not depend on it.

    Notes
    -----
    The columns are stored in SciPy's CSC format: 12 bytes for each non-zero (16 beyond 2^31
    non-zeros), and twice that during the conversion. An epoch reads each non-zero about twice in
    its updates, once in a matvec, which recomputes the responses so that rounding does not
    accumulate, and once in an rmatvec for the gradient. Each output takes two vectors of
    ``n_columns`` and two of ``n_rows``. The same seed gives the same bits; outputs do not affect
    each other.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L1
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L1(1.0))
    >>> RandomDescent().solve(problem).weights
    array([0., 3.])
    """

    n_simultaneous: int = 1
    tol: float = 1e-2
    max_iter: int = 1000
    seed: int = 0
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = _CAPABILITIES

    def begin(self, problem: Problem, start: Vector | None, has_callback: bool) -> _Outputs:
        run = partial(SimultaneousSteps, n_simultaneous=self.n_simultaneous, seed=self.seed)
        return _Outputs(_create_outputs(run, problem, start), self.tol, self.n_jobs)


@dataclass(frozen=True)
class ParallelRandomDescent(IterativeSolver):
    """Algorithm 2 of RB16: threads that step along random coordinates without locks.

    Each thread draws coordinates from a separate stream. It takes full steps based on the current
    shared responses, and adds to them atomically. With several threads, unlike in all other
    solvers of this package, the last bits and the number of epochs depend on timing. With one
    thread, the same seed gives the same bits.

    As in the paper, steps are not shortened, so many threads on few columns can overshoot. The
    objective in the history then increases.

    Parameters
    ----------
    tol : float, default=1e-2
        As in :class:`RandomDescent`.
    max_iter : int, default=1000
        Maximum number of epochs, each of ``n_columns`` updates shared by the threads.
    seed : int, default=0
        Seed of the order of steps.
    n_jobs : int or None, default=None
        Number of threads, tau of Algorithm 2. It changes the results.

    Notes
    -----
    Memory and work are those of :class:`RandomDescent`. Threads synchronise once per epoch;
    outputs are solved one after the other.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L1
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L1(1.0))
    >>> ParallelRandomDescent(n_jobs=1).solve(problem).weights
    array([0., 3.])
    """

    tol: float = 1e-2
    max_iter: int = 1000
    seed: int = 0
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = _CAPABILITIES

    def begin(self, problem: Problem, start: Vector | None, has_callback: bool) -> _Outputs:
        run = partial(SharedSteps, n_threads=thread_count(self.n_jobs), seed=self.seed)
        return _Outputs(_create_outputs(run, problem, start), self.tol, n_jobs=1)


@dataclass(frozen=True)
class StoredColumns:
    """The data that all outputs share: the matrix as CSC arrays, and the loss.

    ``loss`` holds its code in ``loops/coordinate_descent.py`` and two parameters. The curvatures
    are ``M_j = beta sum_i s_i z_ij^2``, with the row weights ``s`` and the ``smoothness`` beta of
    the loss (RB16, below equation 25). ``max_nonzeros`` is omega, the largest number of non-zeros
    in a row.
    """

    matrix: tuple[AnyArray, AnyArray, FloatArray]
    loss: tuple[int, float, float]
    curvatures: FloatArray
    max_nonzeros: int

    @classmethod
    def of(cls, problem: Problem) -> StoredColumns:
        loss, rows = problem.loss, problem.matrix.tocsr()
        max_nonzeros, stored = int(np.diff(rows.indptr).max(initial=0)), rows.tocsc()
        # The loops expect the parameters in the order of the loss's fields.
        first, second = [*map(float, vars(loss).values()), 0.0, 0.0][:2]
        curvatures = loss.smoothness * problem.matrix.gram_diagonal(problem.row_weights)
        arrays = stored.indptr, stored.indices, stored.data
        return cls(arrays, (_CODES[type(loss)], first, second), curvatures, max_nonzeros)


class _Output(ABC):
    def __init__(self, problem: Problem, stored: StoredColumns, start: Vector | None) -> None:
        penalty = problem.penalty
        self.problem, self.stored = problem, stored
        self.row_weights = problem.row_weights
        self.weights = np.zeros(problem.matrix.shape[1])
        self.penalty = (
            float(penalty.l1),
            float(penalty.l2),
            problem.matrix.shape[1] - problem.penalty.n_free,
        )
        at_zero = float(np.abs(problem.loss_gradient(self.weights)).max(initial=0.0))
        # If the gradient at zero is 0, zero weights are optimal: avoid a division by 0.
        self.scale = min(penalty.l1 or at_zero, at_zero) or 1.0
        if start is not None:
            self.weights += start
        self.measure()

    @abstractmethod
    def epoch(self) -> None:
        """Make ``n_columns`` updates, and call :meth:`measure`."""

    def measure(self) -> None:
        """Recompute the responses, the objective and the residual."""
        problem = self.problem
        self.responses = problem.matrix.matvec(self.weights)
        slopes = problem.loss.gradient(self.responses, problem.targets)
        gradient = problem.matrix.rmatvec(self.row_weights * slopes)
        distance = problem.penalty.distance(self.weights, gradient)
        self.residual = float(distance.max(initial=0.0)) / self.scale
        self.objective = self.value()

    def value(self) -> float:
        losses = self.problem.loss.value(self.responses, self.problem.targets)
        mean = inner(self.row_weights, losses)
        return mean + self.problem.penalty.value(self.weights)

    def arguments(self, curvatures: FloatArray) -> tuple[object, ...]:
        # The arguments that both loops take after the drawn coordinates.
        stored, targets = self.stored, self.problem.targets
        rows = self.row_weights, targets, self.responses
        return stored.matrix, *rows, curvatures, stored.loss, self.penalty, self.weights


class SimultaneousSteps(_Output):
    """The state of :class:`RandomDescent` for one output, with targets (n_rows,)."""

    def __init__(
        self,
        problem: Problem,
        stored: StoredColumns,
        n_simultaneous: int,
        seed: int,
        start: Vector | None = None,
    ) -> None:
        super().__init__(problem, stored, start)
        n_columns = len(self.weights)
        tau = self.n_simultaneous = min(n_simultaneous, n_columns)
        excess = (stored.max_nonzeros - 1) * (tau - 1) / max(1, n_columns - 1)
        self.curvatures = (1.0 + max(0.0, excess)) * stored.curvatures
        self.order = np.arange(n_columns)
        self.generator = stream(seed, "random descent")
        self.steps_per_draw = max(1, _DRAWS_PER_BLOCK // max(1, tau))

    def step(self, n_steps: int) -> None:
        n_drawn, arguments = self.steps_per_draw, self.arguments(self.curvatures)
        for done in range(0, n_steps, n_drawn):
            shape = (min(n_drawn, n_steps - done), self.n_simultaneous)
            loops.simultaneous_steps(self.generator.random(shape), self.order, *arguments)

    def epoch(self) -> None:
        self.step(-(-len(self.weights) // max(1, self.n_simultaneous)))
        self.measure()


class SharedSteps(_Output):
    """The state of :class:`ParallelRandomDescent` for one output, shared by its threads."""

    def __init__(
        self,
        problem: Problem,
        stored: StoredColumns,
        n_threads: int,
        seed: int,
        start: Vector | None = None,
    ) -> None:
        super().__init__(problem, stored, start)
        purpose = "parallel random descent"
        self.generators = [stream(seed, purpose, thread) for thread in range(n_threads)]

    def epoch(self) -> None:
        n_columns, n_threads = len(self.weights), len(self.generators)
        arguments = self.arguments(self.stored.curvatures)

        def work(generator: np.random.Generator, n_updates: int) -> None:
            for done in range(0, n_updates, _DRAWS_PER_BLOCK):
                drawn = generator.integers(n_columns, size=min(_DRAWS_PER_BLOCK, n_updates - done))
                loops.shared_steps(drawn, *arguments)

        shares = [(n_columns + k) // n_threads for k in range(n_threads)]
        map_blocks(work, zip(self.generators, shares, strict=True), n_threads)
        self.measure()


class _Outputs:
    def __init__(self, outputs: Sequence[_Output], tol: float, n_jobs: int | None) -> None:
        self.outputs, self.tol, self.n_jobs = outputs, tol, n_jobs

    @property
    def weights(self) -> Vector:
        return np.ascontiguousarray(np.array([output.weights for output in self.outputs]).T)

    def converged(self) -> bool:
        return all(output.residual <= self.tol for output in self.outputs)

    def step(self) -> bool:
        active = [(output,) for output in self.outputs if not output.residual <= self.tol]
        map_blocks(lambda output: output.epoch(), active, self.n_jobs)
        return True

    def record(self) -> dict[str, float]:
        return {
            "objective": sum(output.objective for output in self.outputs),
            "residual": float(np.max([output.residual for output in self.outputs], initial=0.0)),
        }


def _create_outputs(
    run: Callable[..., _Output], problem: Problem, start: Vector | None
) -> list[_Output]:
    stored, targets = StoredColumns.of(problem), columns(problem.targets).T
    starts = [None] * len(targets) if start is None else columns(np.asarray(start)).T
    problems = [replace(problem, targets=np.array(y, np.float64)) for y in targets]
    return [run(each, stored, start=w) for each, w in zip(problems, starts, strict=True)]
