"""The training loop: steps over a stream, early stopping on held-out rows, and resumption."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.progress import Deadline
from gramless.base.state import State, array_in, number_in, part_in, require
from gramless.base.types import AnyArray, FloatArray
from gramless.preprocessing.rows import Rows
from gramless.streaming.chunk_checks import is_sparse
from gramless.streaming.doubly_stochastic import DoublyStochastic, Step
from gramless.streaming.feature_blocks import PreparedRows
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.sources import RowSource, StreamEnded

# Up to this norm, weights and their products with features stay in the range of float32.
_MAX_NORM = 1e18


@dataclass(frozen=True)
class EncodedSource:
    """A source with projected rows and numerical targets; NaN and infinity raise InputError."""

    source: RowSource
    project: Callable[[Rows], Rows]
    encode: Callable[[AnyArray], FloatArray]

    def read(self, start: int, stop: int) -> tuple[Rows, FloatArray]:
        X, y = self.source.read(start, stop)
        return self._encode_chunk(
            X, y, f"Rows {start:,} to {stop:,} of the stream (without those held out)"
        )

    def held_out(self) -> tuple[Rows, FloatArray] | None:
        """Return the held-out rows and their targets, or None if there are none."""
        X, y = self.source.held_out()
        return self._encode_chunk(X, y, "The held-out rows of the stream") if X.shape[0] else None

    def _encode_chunk(self, X: Rows, y: AnyArray, which: str) -> tuple[Rows, FloatArray]:
        targets = self.encode(y)
        values = X.data if is_sparse(X) else X
        if not (np.isfinite(values).all() and np.isfinite(targets).all()):
            raise InputError(f"{which} contain NaN or infinity; impute or remove them first.")
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
        Mean loss of the rows, summed over the outputs.
    error : float
        Share of misclassified rows, or RMSE in units of the target's standard deviation.

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
    """Conditions that end a run, and the interval of its evaluations."""

    max_steps: int
    patience: int | None  # evaluations without improvement before the run ends; None: no limit
    tol: float  # minimum relative decrease of the loss that counts as an improvement
    deadline: Deadline
    min_interval: int = 10  # minimum number of steps between two evaluations
    interval_growth: float = 0.05  # minimum interval as a share of the steps so far


@dataclass(frozen=True)
class LearnedFunction:
    """Weights (n_columns, n_outputs) and constants (n_outputs,) after an iteration."""

    weights: NDArray[np.float32]
    constant: FloatArray
    iteration: int


@dataclass
class Training:
    """A run of doubly stochastic steps, its history and its best function so far."""

    machine: DoublyStochastic
    batch_rows: int
    averaged: bool  # True if the result is the average over the steps, not the last function
    error: Callable[[FloatArray, FloatArray], float]  # a function of responses and targets
    history: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    best: LearnedFunction | None = None
    seconds: float = 0.0  # including earlier parts of the run

    def run(
        self,
        source: EncodedSource,
        limits: Limits,
        after_step: Callable[[Step, Evaluation | None], bool],
    ) -> str:
        """Take steps until the run ends, and return the reason.

        ``after_step`` is called with each step and its evaluation, or None if it was not evaluated.
        It is not called if the run has diverged. Return True from ``after_step`` to stop. The
        reason is ``"max_steps"``, ``"patience"``, ``"time"``, ``"stopped"``, ``"diverged"`` or
        ``"ended"``.
        """
        started = time.perf_counter() - self.seconds
        held = source.held_out()
        held_out = None if held is None else (self.machine.products.prepare(held[0]), held[1])
        status = self._find_reached_limit(limits)
        while status is None:
            first = self.machine.iteration * self.batch_rows
            try:
                step = self._step(*source.read(first, first + self.batch_rows))
            except StreamEnded:
                return "ended"
            evaluation = None
            last = self.evaluations[-1]["iteration"] if self.evaluations else 0
            interval = max(limits.min_interval, int(limits.interval_growth * last))
            is_due = self.machine.iteration >= last + interval
            if held_out is not None and is_due and not self.has_diverged:
                evaluation = self._evaluate(*held_out, keep_best=limits.patience is not None)
            self.seconds = time.perf_counter() - started
            self.history.append({**asdict(step), "seconds": self.seconds})
            if self.has_diverged:
                return "diverged"
            if after_step(step, evaluation):
                return "stopped"
            status = self._find_reached_limit(limits)
            if status is None and limits.deadline.is_past(share=1.0):
                return "time"
        return status

    def partial_step(self, X: Rows, targets: FloatArray) -> None:
        """Take a step outside of a run, unless the run has diverged; forget the best function."""
        self.best = None
        if not self.has_diverged:
            step = self._step(X, targets)
            self.history.append({**asdict(step), "seconds": self.seconds})

    @property
    def has_diverged(self) -> bool:
        f = self.machine.expansion
        # NaN must count as divergence too, so this negates comparisons.
        return not (f.squared_norm < _MAX_NORM**2 and np.abs(f.constant).max() < _MAX_NORM)

    def result(self) -> LearnedFunction:
        """Return the best evaluated function, or the current one if none was kept."""
        return self._current() if self.best is None else self.best

    def state(self) -> dict[str, object]:
        """Return the state with which :meth:`restore` continues to the same bits."""
        return {
            "iteration": self.machine.iteration,
            "expansion": self.machine.expansion.state(),
            "best": None if self.best is None else asdict(self.best),
            "seconds": self.seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state, without ``history`` and ``evaluations``."""
        self.machine.iteration, self.seconds = state["iteration"], state["seconds"]
        self.machine.expansion.restore(state["expansion"])
        self.best = None if state["best"] is None else LearnedFunction(**state["best"])

    @staticmethod
    def check_state(state: State, block_columns: int, n_outputs: int, n_steps: int) -> None:
        """Raise an error if a state from a file is invalid or not of a run of ``n_steps`` steps."""
        require(state.get("iteration") == n_steps, "run_ has another number of steps")
        number_in(state, "seconds", float, 0.0)
        if state.get("best") is not None:
            best = part_in(state, "best", dict)
            n_best_outputs = check_function(best, "weights", "constant", block_columns)
            require(n_best_outputs == n_outputs, "best has another number of outputs")
            number_in(best, "iteration", int)
        expansion = part_in(state, "expansion", dict)
        FeatureExpansion.check_state(expansion, block_columns, n_outputs, n_steps)

    def _step(self, X: Rows, targets: FloatArray) -> Step:
        # A diverging step may overflow before the divergence is detected.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.machine.step(X, targets)

    def _current(self) -> LearnedFunction:
        f = self.machine.expansion
        if not self.averaged:
            return LearnedFunction(f.weights(), f.constant, self.machine.iteration)
        return LearnedFunction(f.averaged_weights(), f.averaged_constant, self.machine.iteration)

    def _find_reached_limit(self, limits: Limits) -> str | None:
        if self._has_settled(limits):
            return "patience"
        return "max_steps" if self.machine.iteration >= limits.max_steps else None

    def _evaluate(self, rows: PreparedRows, targets: FloatArray, keep_best: bool) -> Evaluation:
        current, f = self._current(), self.machine.expansion
        groups = split_into_groups(current.weights, f.block_columns * f.group_blocks)
        responses = self.machine.products.responses(rows, groups, f.n_blocks)
        responses += current.constant
        loss = float(self.machine.loss.comparable_value(responses, targets).sum()) / len(targets)
        error = self.error(responses, targets)
        loss = loss if np.isfinite(loss) else np.inf
        if keep_best and (self.best is None or loss < min(e["loss"] for e in self.evaluations)):
            self.best = current
        evaluation = Evaluation(self.machine.iteration, f.n_blocks, loss, error)
        self.evaluations.append(asdict(evaluation))
        return evaluation

    def _has_settled(self, limits: Limits) -> bool:
        losses = [e["loss"] for e in self.evaluations]
        if limits.patience is None or len(losses) <= limits.patience:
            return False
        earlier = min(losses[: -limits.patience])
        return min(losses) >= earlier - limits.tol * abs(earlier)


def split_into_groups(
    weights: NDArray[np.float32], group_columns: int
) -> list[NDArray[np.float32]]:
    return [weights[k : k + group_columns] for k in range(0, len(weights), group_columns)]


def check_function(state: State, weights: str, constant: str, block_columns: int) -> int:
    """Check weights of complete blocks and a constant from a file; return the number of outputs."""
    array = array_in(state, weights, np.float32, (None, None), finite=True)
    fits = array.size > 0 and len(array) % block_columns == 0
    require(fits, f"{weights} does not fit block_size_")
    array_in(state, constant, np.float64, array.shape[1:], finite=True)
    return array.shape[1]


def check_records(state: State, name: str, needed: set[str], length: int | None = None) -> None:
    """Check arrays of :func:`records_to_columns` from a file: their type, length and names."""
    records = part_in(state, name, dict)
    for array in records.values():
        fits = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "if"
        require(fits, f"{name} holds something else than numbers")
        length = len(array) if length is None else length
        require(len(array) == length, f"{name} has columns of several lengths")
    require(not records or records.keys() >= needed, f"{name} lacks a column")
    require(bool(records) or not length, f"{name} is empty")


def records_to_columns(rows: Sequence[dict[str, float]]) -> dict[str, AnyArray]:
    """Return an array for each quantity, given a record for each step."""
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def columns_to_records(columns: Mapping[str, AnyArray]) -> list[dict[str, float]]:
    """Return a record for each step, the inverse of :func:`records_to_columns`."""
    names = list(columns)
    table = zip(*(columns[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in table]
