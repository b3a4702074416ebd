"""The base class of solvers, the capabilities that each declares, and the iteration loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import as_float, is_whole, upper_limit_text
from gramless.base.progress import Watch
from gramless.base.state import Stateful
from gramless.losses import Loss, Squared
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.stacked import without_ones
from gramless.solvers.objective import Callback, Problem, Solution, columns

# These options must be at least 1; other whole numbers may be 0.
_SIZE_OPTIONS = "n_rows", "n_simultaneous", "batch_rows", "restart"


@dataclass(frozen=True)
class MatrixNeed:
    """A requirement on a matrix, beyond the products that every matrix has.

    Parameters
    ----------
    description : str
        The requirement in words; error messages say "needs ``description``".
    met_by : callable
        Return whether a matrix meets the requirement.
    remedy : str
        A sentence that names a solver for other matrices.

    Examples
    --------
    >>> need = MatrixNeed("more rows than columns", lambda Z: Z.shape[0] > Z.shape[1], "Use cg.")
    >>> need.remedy
    'Use cg.'
    """

    description: str
    met_by: Callable[[FeatureMatrix], bool]
    remedy: str


@dataclass(frozen=True)
class Capabilities:
    """The losses, penalties and matrices that a solver supports.

    Parameters
    ----------
    losses : tuple of classes of Loss, optional
        None for all smooth losses.
    bounded_curvature : bool, default=False
        Whether the curvature of the loss must be bounded (a finite ``smoothness``).
    l1 : bool, default=False
        Whether the solver supports L1 penalties and elastic nets.
    requires_l2 : bool, default=False
        Whether the penalty must have an L2 part: alpha above 0.
    matrix : MatrixNeed, optional
        None for all matrices.

    Examples
    --------
    >>> from gramless.losses import Logistic
    >>> Capabilities(losses=(Squared,)).lack(Logistic(), l1=False)
    "solves the squared loss only, not 'logistic'"
    """

    losses: tuple[type[Loss], ...] | None = None
    bounded_curvature: bool = False
    l1: bool = False
    requires_l2: bool = False
    matrix: MatrixNeed | None = None

    def lack(self, loss: Loss, *, l1: bool) -> str | None:
        """Return why a loss or an L1 penalty is not supported, or None if it is.

        The text continues a sentence that begins with the name of the solver.
        """
        if self.losses is None and not loss.smooth:
            return f"needs a smooth loss, and {loss.name!r} has corners"
        if self.bounded_curvature and not loss.smoothness < np.inf:
            return f"needs a loss of bounded curvature, and {loss.name!r} has no bound"
        if self.losses == (Squared,) and type(loss) is not Squared:
            return f"solves the squared loss only, not {loss.name!r}"
        if self.losses is not None and type(loss) not in self.losses:
            names = ", ".join(repr(kind.name) for kind in self.losses)
            return f"takes the losses {names} only, not {loss.name!r}"
        if l1 and not self.l1:
            return "needs a smooth penalty"
        return None

    def check_matrix(self, matrix: FeatureMatrix, who: str) -> None:
        """Raise InputError if the solver ``who`` does not support a matrix."""
        need = self.matrix
        if need is not None and not need.met_by(matrix):
            raise InputError(
                f"{who} needs {need.description}; got {type(without_ones(matrix)[0]).__name__} "
                f"of shape {matrix.shape}. {need.remedy}"
            )


RIDGE = Capabilities(losses=(Squared,))


class Solver(Stateful, ABC):
    """Base class of solvers: frozen dataclasses of options with one method, ``solve``.

    A subclass declares its ``capabilities`` and calls ``check_problem`` at the start of
    ``solve``. An entry of :data:`gramless.solvers.choose.SOLVERS` gives it a name.

    Attributes
    ----------
    capabilities : Capabilities
        By default, all smooth losses, smooth penalties and matrices.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class GradientDescent(Solver):
    ...     n_steps: int = 1000
    ...     step: float = 1.0
    ...
    ...     def solve(self, problem, start=None, callback=None):
    ...         self.check_problem(problem)
    ...         weights = np.zeros(problem.weights_shape) if start is None else start
    ...         for _ in range(self.n_steps):
    ...             weights = weights - self.step * problem.gradient(weights)
    ...         return Solution(weights, "max_iter", self.n_steps)
    >>> from gramless.matrices.dense import DenseMatrix
    >>> from gramless.penalties import L2
    >>> problem = Problem(DenseMatrix(np.ones((2, 1))), np.array([1.0, 3.0]), L2(1.0))
    >>> GradientDescent(step=0.1).solve(problem).weights.round(6)
    array([1.])
    """

    capabilities: ClassVar[Capabilities] = Capabilities()

    def __post_init__(self) -> None:
        check_options(self)

    @abstractmethod
    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a problem.

        Parameters
        ----------
        problem : Problem
            A problem that the solver's ``capabilities`` support.
        start : array (n_columns,) or (n_columns, K), optional
            Initial weights, zeros by default. Direct solvers ignore them.
        callback : callable, optional
            Called as ``callback(iteration, weights)`` after each iteration. The solver stops if it
            returns True.

        Returns
        -------
        Solution

        Raises
        ------
        InputError
            If the solver does not support the loss, the penalty or the matrix.
        """

    def check_problem(self, problem: Problem) -> None:
        """Raise InputError if the solver does not support a problem."""
        who, needs, l1 = type(self).__name__, self.capabilities, problem.penalty.l1 > 0.0
        lack = needs.lack(problem.loss, l1=l1)
        if lack is not None:
            remedy = "NewtonCG, solver='newton'"
            if not problem.loss.smooth:
                remedy = "SquaredHinge, Logistic or another smooth loss"
            elif l1:
                remedy = "GridDescent for L1 and elastic nets, or RandomDescent on any matrix"
            raise InputError(f"{who} {lack}; use {remedy}.")
        if needs.requires_l2 and problem.penalty.l2 <= 0.0:
            raise InputError(
                f"{who} needs alpha above 0: without a penalty its equations may have no "
                f"solution; use ConjugateGradient, solver='cg'."
            )
        needs.check_matrix(problem.matrix, who)


def require_ridge(problem: Problem, who: str) -> None:
    lack = RIDGE.lack(problem.loss, l1=problem.penalty.l1 > 0.0)
    if lack is not None:
        raise InputError(f"{who} {lack}.")


def check_options(options: object) -> None:
    """Raise InputError if a number among the fields of a solver or preconditioner is invalid.

    Fields of type ``int`` must be whole numbers below 2**63 and those of type ``float`` finite.
    None may be negative, and sizes must be at least 1. ``n_jobs`` is checked when threads are
    started.
    """
    who = type(options).__name__
    for field in fields(options):  # type: ignore[arg-type]
        name, value, kind = field.name, vars(options)[field.name], field.type
        is_integer = kind in ("int", "int | None") and name != "n_jobs"
        if kind == "int | None" and value is None:
            continue
        minimum = int(name in _SIZE_OPTIONS)
        if is_integer and not is_whole(value, minimum):
            expected = f"a whole number of at least {minimum}{upper_limit_text(value)}"
            raise InputError(f"{who}: {name} must be {expected}, got {value!r}.")
        if kind == "float" and not 0.0 <= as_float(value) < np.inf:
            raise InputError(f"{who}: {name} must be a finite number, not negative; got {value!r}.")


def check_start(problem: Problem, start: Vector | None, who: str) -> None:
    n_columns, n_outputs = problem.matrix.shape[1], columns(problem.targets).shape[1]
    if start is not None and columns(start).shape != (n_columns, n_outputs):
        raise InputError(
            f"{who}: start must have {n_columns} rows, and {n_outputs} columns if these are "
            f"several; got shape {start.shape}."
        )


class State(Protocol):
    """The state of an iterative solver, with weights (n_columns, K)."""

    @property
    def weights(self) -> Vector: ...

    def converged(self) -> bool: ...

    def step(self) -> bool:
        """Improve the weights; return False if no step lowers the objective."""

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the current weights."""


class Iterations:
    """An iterator over the iterations of a solver, which records their history.

    ``status`` is ``"stopped"`` until the last iteration. After it, ``status`` is ``"converged"``,
    ``"max_iter"`` or ``"stalled"``, as in a :class:`~gramless.solvers.objective.Solution`.
    """

    def __init__(self, state: State, shape: tuple[int, ...], max_iter: int) -> None:
        self.status = "stopped"
        self.history = [state.record()]
        self._state, self._shape, self._max_iter = state, shape, max_iter

    @property
    def weights(self) -> Vector:
        """The current weights, (n_columns,) if the targets are one-dimensional."""
        return self._state.weights.reshape(self._shape)

    def __iter__(self) -> Iterator[tuple[int, Vector]]:
        for iteration in self._numbers():
            yield iteration, self.weights

    def _numbers(self) -> Iterator[int]:
        state, status = self._state, "max_iter"
        for iteration in range(1, self._max_iter + 1):
            if state.converged():
                break
            if not state.step():
                status = "stalled"
                break
            self.history.append(state.record())
            yield iteration
        self.status = "converged" if state.converged() else status

    def run(self, callback: Callback | None) -> Solution:
        """Iterate until the solver ends or the callback returns True."""
        for iteration in self._numbers():
            if callback is None:
                continue
            # Computing the weights may cost a product: skip it if the callback ignores them.
            needs_weights = not isinstance(callback, Watch) or callback.needs_weights(iteration)
            weights: Any = self.weights if needs_weights else None
            if callback(iteration, weights):
                break
        return Solution(self.weights, self.status, len(self.history) - 1, self.history)


class IterativeSolver(Solver):
    """Base class of solvers whose history has an entry for the start and for each iteration."""

    max_iter: int

    @abstractmethod
    def begin(self, problem: Problem, start: Vector | None, has_callback: bool) -> State:
        """Return the initial state; ``has_callback`` if a callback reads the weights."""

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        self.check_problem(problem)
        check_start(problem, start, type(self).__name__)
        has_callback = callback is not None and not isinstance(callback, Watch)
        state = self.begin(problem, start, has_callback)
        return Iterations(state, problem.weights_shape, self.max_iter).run(callback)
