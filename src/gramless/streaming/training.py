"""A run: steps over a stream, judged on rows held back, stopped in time, able to go on later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.preprocessing.rows import Rows
from gramless.streaming.doubly_stochastic import DoublyStochastic, Step
from gramless.streaming.sources import RowSource, StreamEnded

_FEWEST_BETWEEN, _GROWTH = 10, 0.05
"""Held-back rows judge every ten steps, later every 5 % more of them."""
_LARGEST = 1e18
"""Weights and their products with features stay in the range of float32 below this length."""


@dataclass(frozen=True)
class Encoded:
    """A source whose rows are projected and whose targets are numbers.

    Parameters
    ----------
    source : RowSource
    project, encode : callable
    """

    source: RowSource
    project: Callable[[Rows], Rows]
    encode: Callable[[NDArray[Any]], NDArray[np.float64]]

    def read(self, start: int, stop: int) -> tuple[Rows, NDArray[np.float64]]:
        """Return rows and targets of some positions.

        Raises
        ------
        InputError
            On NaN and infinity.
        """
        X, y = self.source.read(start, stop)
        return self._numbers(X, y, f"rows {start:,} to {stop:,}, counted without those held out,")

    def held_out(self) -> tuple[Rows, NDArray[np.float64]] | None:
        """Return the rows kept back and their targets, None if there are none."""
        X, y = self.source.held_out()
        return self._numbers(X, y, "the rows held out") if X.shape[0] else None

    def _numbers(self, X: Rows, y: NDArray[Any], which: str) -> tuple[Rows, NDArray[np.float64]]:
        targets = self.encode(y)
        values = X.data if sp.issparse(X) else X
        if not (np.isfinite(values).all() and np.isfinite(targets).all()):
            raise InputError(
                f"Of the stream, {which} hold NaN or infinity; fill gaps and drop infinities first."
            )
        return self.project(X), targets


@dataclass(frozen=True)
class Evaluation:
    """How the averaged function does on held-back rows.

    Attributes
    ----------
    iteration : int
    n_blocks : int
    loss : float
        Mean, summed over the outputs.
    error : float
        Share of wrong classes, or root mean squared error in units of the target's deviation.
    """

    iteration: int
    n_blocks: int
    loss: float
    error: float


@dataclass(frozen=True)
class Limits:
    """When a run ends.

    Parameters
    ----------
    max_steps : int
    patience : int or None
        Evaluations in which the least loss must fall; None never stops early.
    tol : float
        By which share of it.
    deadline : Deadline
    """

    max_steps: int
    patience: int | None
    tol: float
    deadline: Deadline


@dataclass(frozen=True)
class Function:
    """The blocks' weights that a run has settled on.

    Parameters
    ----------
    weights : array (n_columns, n_outputs)
        float32.
    constant : array (n_outputs,)
    iteration : int
        After so many steps.
    """

    weights: NDArray[np.float32]
    constant: NDArray[np.float64]
    iteration: int


@dataclass
class Training:
    """A run of doubly stochastic steps.

    Parameters
    ----------
    machine : DoublyStochastic
    batch_rows : int
    averaged : bool
        Whether the average over the steps is the result, or the last function.
    error : callable
        ``error(responses, targets)``, the smaller the better.
    history, evaluations : list of dict
        Of steps so far, and of evaluations.
    best : Function or None
        Of the evaluations so far.
    seconds : float
        Spent so far, in earlier parts of the run.
    """

    machine: DoublyStochastic
    batch_rows: int
    averaged: bool
    error: Callable[[NDArray[np.float64], NDArray[np.float64]], float]
    history: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    best: Function | None = None
    seconds: float = 0.0

    def run(
        self,
        source: Encoded,
        limits: Limits,
        after: Callable[[Step, Evaluation | None], Any],
    ) -> str:
        """Take steps until a limit, and say which it was.

        Parameters
        ----------
        source : Encoded
            The rows that it holds out judge, if there are some.
        limits : Limits
        after : callable
            Called with each step and its evaluation, if there was one; True stops the run.

        Returns
        -------
        str
            ``"max_steps"``, ``"patience"``, ``"time"``, ``"stopped"``, ``"diverged"``, or
            ``"ended"`` where an iterator had no more rows.
        """
        started = time.perf_counter() - self.seconds
        judges = self._judges(source)
        status = self._reached(limits)
        while status is None:
            first = self.machine.iteration * self.batch_rows
            try:
                step = self._step(*source.read(first, first + self.batch_rows))
            except StreamEnded:
                return "ended"
            evaluation = None
            if judges is not None and self._is_due() and not self.diverged:
                evaluation = self._evaluate(*judges)
            self.seconds = time.perf_counter() - started
            self.history.append({**asdict(step), "seconds": self.seconds})
            if self.diverged:
                return "diverged"
            if after(step, evaluation):
                return "stopped"
            status = self._reached(limits)
            if status is None and limits.deadline.beyond(1.0):
                return "time"
        return status

    def take(self, X: Rows, targets: NDArray[np.float64]) -> None:
        """Take one step with some rows, outside of a run; the present function is the result.

        No step follows those that have diverged.
        """
        self.best = None
        if not self.diverged:
            step = self._step(X, targets)
            self.history.append({**asdict(step), "seconds": self.seconds})

    @property
    def diverged(self) -> bool:
        """Tell whether weights are so large that steps cannot go on."""
        f = self.machine.expansion
        # Of NaN, nothing is below anything.
        return not (f.squared_norm < _LARGEST**2 and np.abs(f.constant).max() < _LARGEST)

    def result(self) -> Function:
        """Return the best function so far; the present one where nothing judges."""
        return self._present() if self.best is None else self.best

    def state(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs to go on to the same bits."""
        best = None if self.best is None else asdict(self.best)
        return {
            "iteration": self.machine.iteration,
            "expansion": self.machine.expansion.state(),
            "best": best,
            "seconds": self.seconds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Become what gave a state; ``history`` and ``evaluations`` are given apart."""
        self.machine.iteration, self.seconds = state["iteration"], state["seconds"]
        self.machine.expansion.restore(state["expansion"])
        self.best = None if state["best"] is None else Function(**state["best"])

    def _step(self, X: Rows, targets: NDArray[np.float64]) -> Step:
        # Steps that diverge may overflow once, before that is noticed.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.machine.step(X, targets)

    def _present(self) -> Function:
        f = self.machine.expansion
        if not self.averaged:
            return Function(f.weights(), f.constant, self.machine.iteration)
        return Function(f.averaged_weights(), f.averaged_constant, self.machine.iteration)

    def _judges(self, source: Encoded) -> tuple[Any, NDArray[np.float64]] | None:
        """Return prepared rows and targets that judge, None if there are none."""
        held = source.held_out()
        return None if held is None else (self.machine.products.prepare(held[0]), held[1])

    def _reached(self, limits: Limits) -> str | None:
        """Tell which limit the steps so far have reached."""
        if self._has_settled(limits):
            return "patience"
        return "max_steps" if self.machine.iteration >= limits.max_steps else None

    def _is_due(self) -> bool:
        before = self.evaluations[-1]["iteration"] if self.evaluations else 0
        return self.machine.iteration >= before + max(_FEWEST_BETWEEN, int(_GROWTH * before))

    def _evaluate(self, rows: Any, targets: NDArray[np.float64]) -> Evaluation:
        """Judge the present function by prepared rows; keep it if it is the best."""
        present = self._present()
        f = self.machine.expansion
        groups = in_groups(present.weights, f.block_columns * f.group_blocks)
        responses = self.machine.products.responses(rows, groups, f.n_blocks)
        responses += present.constant
        loss = float(self.machine.loss.value(responses, targets).sum()) / len(targets)
        error = self.error(responses, targets)
        loss = loss if np.isfinite(loss) else np.inf
        if self.best is None or loss < min(e["loss"] for e in self.evaluations):
            self.best = present
        found = Evaluation(self.machine.iteration, f.n_blocks, loss, error)
        self.evaluations.append(asdict(found))
        return found

    def _has_settled(self, limits: Limits) -> bool:
        """Tell whether the latest evaluations hardly lowered the loss."""
        losses = [e["loss"] for e in self.evaluations]
        if limits.patience is None or len(losses) <= limits.patience:
            return False
        return min(losses) >= (1.0 - limits.tol) * min(losses[: -limits.patience])


def in_groups(weights: NDArray[np.float32], group_columns: int) -> list[NDArray[np.float32]]:
    """Cut weights (n_columns, n_outputs) into those of groups of blocks; the last may be short.

    Examples
    --------
    >>> [len(group) for group in in_groups(np.zeros((10, 1), np.float32), 4)]
    [4, 4, 2]
    """
    return [weights[k : k + group_columns] for k in range(0, len(weights), group_columns)]


def columns_of(rows: list[dict[str, float]]) -> dict[str, NDArray[Any]]:
    """Turn one record a step into one array a quantity.

    Examples
    --------
    >>> columns_of([{"loss": 2.0}, {"loss": 1.0}])
    {'loss': array([2., 1.])}
    """
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def rows_of(columns: dict[str, NDArray[Any]]) -> list[dict[str, float]]:
    """Do the reverse of :func:`columns_of`.

    Examples
    --------
    >>> rows_of({"loss": np.array([2.0, 1.0])})
    [{'loss': 2.0}, {'loss': 1.0}]
    """
    names = list(columns)
    table = zip(*(columns[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in table]
