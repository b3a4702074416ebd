"""The training loop: steps over a stream, early stopping on held-out rows, and resumption."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.types import AnyArray, FloatArray
from gramless.preprocessing.rows import Rows
from gramless.streaming.chunk_checks import is_sparse
from gramless.streaming.doubly_stochastic import DoublyStochastic, Step
from gramless.streaming.feature_blocks import PreparedRows
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.sources import RowSource, StreamEnded

_LARGEST = 1e18
"""Weights and their products with features stay in the range of float32 below this length."""


@dataclass(frozen=True)
class EncodedSource:
    """A source with projected rows and numbers as targets; NaN and infinity are refused."""

    source: RowSource
    project: Callable[[Rows], Rows]
    encode: Callable[[AnyArray], FloatArray]

    def read(self, start: int, stop: int) -> tuple[Rows, FloatArray]:
        """Return rows and targets at some positions."""
        X, y = self.source.read(start, stop)
        return self._encoded(X, y, f"rows {start:,} to {stop:,}, counted without those held out,")

    def held_out(self) -> tuple[Rows, FloatArray] | None:
        """Return the held-out rows and their targets, None if there are none."""
        X, y = self.source.held_out()
        return self._encoded(X, y, "the rows held out") if X.shape[0] else None

    def _encoded(self, X: Rows, y: AnyArray, which: str) -> tuple[Rows, FloatArray]:
        targets = self.encode(y)
        values = X.data if is_sparse(X) else X
        if not (np.isfinite(values).all() and np.isfinite(targets).all()):
            raise InputError(
                f"Of the stream, {which} hold NaN or infinity; fill gaps and drop infinities first."
            )
        return self.project(X), targets


@dataclass(frozen=True)
class Evaluation:
    """The quality of the averaged function on held-out rows.

    Parameters
    ----------
    iteration : int
        Number of steps so far.
    n_blocks : int
        Number of blocks of features so far.
    loss : float
        Mean over the rows, summed over the outputs.
    error : float
        Share of wrong classes, or RMSE in units of the target's deviation.

    Examples
    --------
    >>> Evaluation(iteration=100, n_blocks=20, loss=0.3, error=0.25).error
    0.25
    """

    iteration: int
    n_blocks: int
    loss: float
    error: float


@dataclass(frozen=True)
class Limits:
    """When a run ends, and how often it is evaluated."""

    max_steps: int
    patience: int | None  # evaluations within which the least loss must fall; None: any number
    tol: float  # relative decrease that counts
    deadline: Deadline
    min_interval: int = 10  # steps between two evaluations, at least
    interval_growth: float = 0.05  # and at least this share of those taken


@dataclass(frozen=True)
class LearnedFunction:
    """Weights (n_columns, n_outputs) and constants (n_outputs,) after some iteration."""

    weights: NDArray[np.float32]
    constant: FloatArray
    iteration: int


@dataclass
class Training:
    """A run of doubly stochastic steps, and what it has found so far."""

    machine: DoublyStochastic
    batch_rows: int
    averaged: bool  # whether the result is the average over the steps, or the last function
    error: Callable[[FloatArray, FloatArray], float]  # of responses and targets
    history: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    best: LearnedFunction | None = None
    seconds: float = 0.0  # including earlier parts of the run

    def run(
        self,
        source: EncodedSource,
        limits: Limits,
        after: Callable[[Step, Evaluation | None], bool],
    ) -> str:
        """Take steps until a limit is reached, and return which.

        ``after`` is called with each step and its evaluation; True stops the run. Returns
        ``"max_steps"``, ``"patience"``, ``"time"``, ``"stopped"``, ``"diverged"`` or ``"ended"``.
        """
        started = time.perf_counter() - self.seconds
        held = source.held_out()
        held_out = None if held is None else (self.machine.products.prepare(held[0]), held[1])
        status = self._reached(limits)
        while status is None:
            first = self.machine.iteration * self.batch_rows
            try:
                step = self._step(*source.read(first, first + self.batch_rows))
            except StreamEnded:
                return "ended"
            evaluation = None
            if held_out is not None and self._evaluation_is_due(limits) and not self.diverged:
                evaluation = self._evaluate(*held_out, keep_best=limits.patience is not None)
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

    def take(self, X: Rows, targets: FloatArray) -> None:
        """Take a step outside of a run, if none has diverged; the result is then its function."""
        self.best = None
        if not self.diverged:
            step = self._step(X, targets)
            self.history.append({**asdict(step), "seconds": self.seconds})

    @property
    def diverged(self) -> bool:
        """Tell whether weights are so large that steps cannot go on."""
        f = self.machine.expansion
        # Written so that NaN counts as divergence.
        return not (f.squared_norm < _LARGEST**2 and np.abs(f.constant).max() < _LARGEST)

    def result(self) -> LearnedFunction:
        """Return the best function so far, or the present one without evaluations."""
        return self._present() if self.best is None else self.best

    def state(self) -> dict[str, object]:
        """Return what :meth:`restore` needs to continue to the same bits."""
        return {
            "iteration": self.machine.iteration,
            "expansion": self.machine.expansion.state(),
            "best": None if self.best is None else asdict(self.best),
            "seconds": self.seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state; ``history`` and ``evaluations`` are restored separately."""
        self.machine.iteration, self.seconds = state["iteration"], state["seconds"]
        self.machine.expansion.restore(state["expansion"])
        self.best = None if state["best"] is None else LearnedFunction(**state["best"])

    @staticmethod
    def check_state(state: State, block_columns: int, n_outputs: int, n_steps: int) -> None:
        """Check a state from a file, of a run that has taken so many steps."""
        require(state.get("iteration") == n_steps, "run_ has another number of steps")
        number_in(state, "seconds", float, 0.0)
        if state.get("best") is not None:
            best = part_in(state, "best", dict)
            found = check_function(best, "weights", "constant", block_columns)
            require(found == n_outputs, "best has another number of outputs")
            number_in(best, "iteration", int)
        expansion = part_in(state, "expansion", dict)
        FeatureExpansion.check_state(expansion, block_columns, n_outputs, n_steps)

    def _step(self, X: Rows, targets: FloatArray) -> Step:
        # A diverging step may overflow once before that is noticed.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.machine.step(X, targets)

    def _present(self) -> LearnedFunction:
        f = self.machine.expansion
        if not self.averaged:
            return LearnedFunction(f.weights(), f.constant, self.machine.iteration)
        return LearnedFunction(f.averaged_weights(), f.averaged_constant, self.machine.iteration)

    def _reached(self, limits: Limits) -> str | None:
        """Return the limit that the steps so far have reached, if any."""
        if self._has_settled(limits):
            return "patience"
        return "max_steps" if self.machine.iteration >= limits.max_steps else None

    def _evaluation_is_due(self, limits: Limits) -> bool:
        before = self.evaluations[-1]["iteration"] if self.evaluations else 0
        interval = max(limits.min_interval, int(limits.interval_growth * before))
        return self.machine.iteration >= before + interval

    def _evaluate(self, rows: PreparedRows, targets: FloatArray, keep_best: bool) -> Evaluation:
        """Evaluate the present function on prepared rows."""
        present, f = self._present(), self.machine.expansion
        groups = in_groups(present.weights, f.block_columns * f.group_blocks)
        responses = self.machine.products.responses(rows, groups, f.n_blocks)
        responses += present.constant
        loss = float(self.machine.loss.comparable_value(responses, targets).sum()) / len(targets)
        error = self.error(responses, targets)
        loss = loss if np.isfinite(loss) else np.inf
        if keep_best and (self.best is None or loss < min(e["loss"] for e in self.evaluations)):
            self.best = present
        found = Evaluation(self.machine.iteration, f.n_blocks, loss, error)
        self.evaluations.append(asdict(found))
        return found

    def _has_settled(self, limits: Limits) -> bool:
        """Tell whether the latest evaluations hardly lowered the loss."""
        losses = [e["loss"] for e in self.evaluations]
        if limits.patience is None or len(losses) <= limits.patience:
            return False
        before = min(losses[: -limits.patience])
        return min(losses) >= before - limits.tol * abs(before)


def in_groups(weights: NDArray[np.float32], group_columns: int) -> list[NDArray[np.float32]]:
    """Split weights (n_columns, n_outputs) into those of groups of blocks."""
    return [weights[k : k + group_columns] for k in range(0, len(weights), group_columns)]


def check_function(state: State, weights: str, constant: str, block_columns: int) -> int:
    """Check weights of whole blocks and a constant from a file; return their outputs."""
    array = array_in(state, weights, np.float32, (None, None), finite=True)
    fits = array.size > 0 and len(array) % block_columns == 0
    require(fits, f"{weights} does not fit block_size_")
    array_in(state, constant, np.float64, array.shape[1:], finite=True)
    return array.shape[1]


def check_records(state: State, name: str, needed: set[str], length: int | None = None) -> None:
    """Check arrays of :func:`columns_of` from a file: of one length, some of them needed."""
    records = part_in(state, name, dict)
    for array in records.values():
        fits = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "if"
        require(fits, f"{name} holds something else than numbers")
        length = len(array) if length is None else length
        require(len(array) == length, f"{name} has columns of several lengths")
    require(not records or records.keys() >= needed, f"{name} lacks a column")
    require(bool(records) or not length, f"{name} is empty")


def columns_of(rows: Sequence[dict[str, float]]) -> dict[str, AnyArray]:
    """Convert one record per step to one array per quantity."""
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def rows_of(columns: Mapping[str, AnyArray]) -> list[dict[str, float]]:
    """Invert :func:`columns_of`."""
    names = list(columns)
    table = zip(*(columns[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in table]
