"""Trainers of RB16's section 4: coordinate descent with simultaneous steps, and with threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless import RandomBinning, RandomFourier
from gramless.base.errors import InputError
from gramless.base.threads import map_blocks
from gramless.inspection.diagnostics import law_of_speedup
from gramless.losses import Loss, Squared, SquaredHinge
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L1
from gramless.solvers.objective import Problem
from gramless.solvers.random_descent import (
    RandomDescent,
    SharedSteps,
    SimultaneousSteps,
    StoredColumns,
)
from studies.settings import numbers_in, read_options, unit_of
from studies.study import Clock, Snapshot, Training
from studies.targets import TargetEncoding

# The objective is evaluated 10 times per epoch; a run stops without success after MAX_EPOCHS.
CHECKS_PER_EPOCH, MAX_EPOCHS = 10, 20_000
# Gaps are relative to the objective that this solver reaches.
LONG_RUN = RandomDescent(tol=1e-7, max_iter=400)
_LOSSES: dict[str, Loss] = {"squared": Squared(), "squared_hinge": SquaredHinge()}


@dataclass(frozen=True)
class Descent:
    """The options of the trainers in this module.

    Parameters
    ----------
    features : {"binning", "fourier"}
        Random bins of the Laplacian kernel, or shifted Fourier features of the Gaussian kernel.
    size : int
        Number of grids or columns.
    bandwidth : float
        The bandwidth in ``units``, see :class:`studies.settings.Setting`.
    at_once : str
        Numbers of simultaneous steps, or of threads, such as ``"1 2 4"``. The first must be 1.
    units : str, default="standard"
    penalty : float, default=1e-4
        The L1 penalty, relative to the mean loss.
    loss : {"squared", "squared_hinge"}, default="squared"
    gap : float, default=1e-3
        Relative gap ``(F - F*) / F*`` at which a run stops.
    repeats : int, default=3
        Number of runs with different seeds, or of timed runs, whose median is recorded.
    epochs : int, default=500
        Maximum number of epochs of a timed run.
    """

    features: str
    size: int
    bandwidth: float
    at_once: str
    units: str = "standard"
    penalty: float = 1e-4
    loss: str = "squared"
    gap: float = 1e-3
    repeats: int = 3
    epochs: int = 500

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Descent:
        """Return the options given by a job's options.

        Raises
        ------
        InputError
            If an option is missing or unknown, or the first number in ``at_once`` is not 1.
        """
        descent = read_options(cls, options, "descent's options")
        if descent.counts[0] != 1:
            raise InputError(f"descent: at_once must begin with 1, got {descent.at_once!r}")
        return descent

    @property
    def counts(self) -> list[int]:
        """The numbers of simultaneous steps, or of threads."""
        return [int(count) for count in numbers_in(self.at_once)]


@dataclass(frozen=True, eq=False)
class _Task:
    """The problem with its stored columns, and a function that computes features of new rows."""

    problem: Problem
    stored: StoredColumns
    compute_features: Callable[[Any], FeatureMatrix]
    encoding: TargetEncoding

    @classmethod
    def of(cls, options: Descent, training: Training) -> _Task:
        feature_map: Any
        bandwidth = options.bandwidth * unit_of(options.units, training.X)  # type: ignore[arg-type]
        if options.features == "binning":
            feature_map = RandomBinning(
                bandwidth=bandwidth, n_grids=options.size, random_state=training.seed
            )
        else:
            feature_map = RandomFourier(
                bandwidth=bandwidth,
                n_components=options.size,
                map="shifted",
                sampling="iid",
                random_state=training.seed,
            )
        encoding = TargetEncoding.of(
            training.task, training.y, centred=training.task == "regression"
        )
        targets = encoding.encode(training.y)
        matrix = feature_map.fit_matrix(training.X)
        problem = Problem(matrix, targets, L1(options.penalty), _LOSSES[options.loss])
        return cls(problem, StoredColumns.of(problem), feature_map.feature_matrix, encoding)

    def law(self, n_at_once: int) -> float:
        """Return the speed-up of simultaneous steps by RB16's equation 29."""
        n_columns = self.problem.matrix.shape[1]
        return law_of_speedup(n_at_once, self.stored.max_nonzeros, n_columns)

    def snapshot(self, weights: NDArray[np.float64], facts: dict[str, Any]) -> Snapshot:
        weights = weights.copy()
        facts["columns"] = int(self.problem.matrix.shape[1])
        facts["nonzeros_a_row"] = int(self.stored.max_nonzeros)

        def outputs(rows: Any) -> NDArray[np.float64]:
            return self.compute_features(rows).matvec(weights)

        return Snapshot(
            lambda rows: self.encoding.decode(outputs(rows)),
            lambda rows: self.encoding.responses(outputs(rows)),
            self.problem.penalty.value(weights),
            facts,
        )


def simultaneous_descent(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Count the epochs that descent with simultaneous steps needs to reach a gap.

    Parameters
    ----------
    training : Training
    options : mapping
        Fields of :class:`Descent`.
    clock : Clock
        Phases ``"features"``, ``"best"``, for the long run, and ``"descent"``.

    Yields
    ------
    Snapshot
        One for each number of simultaneous steps, with the facts ``at_once``, ``epochs`` (the
        median over the runs, None if a run did not reach the gap), ``speed_up`` in steps, and
        ``law``, the speed-up by RB16's equation 29.
    """
    descent = Descent.read(options)
    task, best = _task_and_best(descent, training, clock)
    epochs_alone: float | None = None
    for at_once in descent.counts:
        with clock.phase("descent"):
            run = partial(epochs_to_gap, task.problem, task.stored, best, descent.gap, at_once)
            runs = map_blocks(run, [(seed,) for seed in range(descent.repeats)], None)
        has_converged = all(np.isfinite(epochs) for epochs, _ in runs)
        epochs = float(median(epochs for epochs, _ in runs)) if has_converged else None
        epochs_alone = epochs if at_once == 1 else epochs_alone
        facts = {
            "at_once": at_once,
            "epochs": epochs,
            "speed_up": at_once * epochs_alone / epochs if epochs_alone and epochs else None,
            "law": task.law(at_once),
        }
        yield task.snapshot(runs[0][1], facts)


def _task_and_best(descent: Descent, training: Training, clock: Clock) -> tuple[_Task, float]:
    """Return the task and its minimal objective, timed as ``"features"`` and ``"best"``."""
    with clock.phase("features"):
        task = _Task.of(descent, training)
    with clock.phase("best"):
        best = LONG_RUN.solve(task.problem).history[-1]["objective"]
    return task, best


def epochs_to_gap(
    problem: Problem, stored: StoredColumns, best: float, gap: float, at_once: int, seed: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the epochs needed to reach a gap, NaN if they are too many, and the last weights.

    An epoch is as many updates as there are columns. The number is interpolated: between two
    evaluations of the objective, the logarithm of the gap is assumed to be linear.

    Parameters
    ----------
    problem : Problem
    stored : StoredColumns
        The columns of the problem's matrix.
    best : float
        F*, the minimal objective, which must be positive.
    gap : float
        The relative gap ``(F - F*) / F*`` to reach from zero weights.
    at_once : int
        Number of simultaneous steps.
    seed : int
        Seed of the order of the columns.
    """
    run = SimultaneousSteps(problem, stored, at_once, seed)
    n_columns, goal = len(run.weights), best * (1.0 + gap)
    n_steps = max(1, n_columns // (CHECKS_PER_EPOCH * at_once))
    updates, previous = 0, run.value()
    while updates < MAX_EPOCHS * n_columns:
        run.step(n_steps)
        value = run.value()
        if value <= goal:
            # The gap may be zero, or negative by rounding.
            log_before, log_after = np.log(previous - best), np.log(max(value - best, 1e-300))
            share = (log_before - np.log(goal - best)) / (log_before - log_after)
            return float(updates + share * n_steps * at_once) / n_columns, run.weights
        updates, previous = updates + n_steps * at_once, value
    return float("nan"), run.weights


def shared_descent(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Time RB16's Algorithm 2 to a gap, alternating between the numbers of threads.

    Parameters
    ----------
    training : Training
    options : mapping
        Fields of :class:`Descent`.
    clock : Clock
        Phases ``"features"``, which includes storing the columns, ``"best"`` and ``"descent"``.

    Yields
    ------
    Snapshot
        One for each number of threads, with the facts ``at_once``, the number of threads,
        ``run_seconds``, the median time of the updates, ``epochs``, ``speed_up`` in seconds, None
        if a run did not reach the gap, and ``law``.
    """
    descent = Descent.read(options)
    task, best = _task_and_best(descent, training, clock)
    goal = best * (1.0 + descent.gap)
    runs: dict[int, list[_TimedRun]] = {n_threads: [] for n_threads in descent.counts}
    with clock.phase("descent"):
        # A run of one epoch loads the compiled loops.
        _run_shared(task, 1, goal, max_epochs=1)
        for _ in range(descent.repeats):
            for n_threads in descent.counts:
                runs[n_threads].append(_run_shared(task, n_threads, goal, descent.epochs))
    seconds_alone = median(run.seconds for run in runs[1])
    for n_threads, repeats in runs.items():
        has_converged = all(run.has_converged for run in (*runs[1], *repeats))
        seconds = median(run.seconds for run in repeats)
        facts = {
            "at_once": n_threads,
            "run_seconds": seconds,
            "epochs": median(run.epochs for run in repeats),
            "speed_up": seconds_alone / seconds if has_converged else None,
            "law": task.law(n_threads),
        }
        yield task.snapshot(repeats[-1].weights, facts)


@dataclass(frozen=True, eq=False)
class _TimedRun:
    """The result of a run of Algorithm 2 from zero weights."""

    seconds: float
    epochs: int
    has_converged: bool
    weights: NDArray[np.float64]


def _run_shared(task: _Task, n_threads: int, goal: float, max_epochs: int) -> _TimedRun:
    """Run until the objective reaches the goal, evaluated once per epoch; time the updates only."""
    problem = task.problem
    if isinstance(problem.matrix, BinnedMatrix):
        # The products between epochs use the same number of threads as the updates.
        matrix = problem.matrix
        matrix = BinnedMatrix(matrix.codes, matrix.offsets, has_unseen=False, n_jobs=n_threads)
        problem = replace(problem, matrix=matrix)
    run, epochs = _TimedSteps(problem, task.stored, n_threads, 0), 0
    started, untimed = time.perf_counter(), run.measure_seconds
    while run.objective > goal and epochs < max_epochs:
        run.epoch()
        epochs += 1
    seconds = time.perf_counter() - started - (run.measure_seconds - untimed)
    return _TimedRun(seconds, epochs, run.objective <= goal, run.weights)


class _TimedSteps(SharedSteps):
    """Algorithm 2 that sums the seconds spent on objectives and products."""

    measure_seconds = 0.0

    def measure(self) -> None:
        started = time.perf_counter()
        super().measure()
        self.measure_seconds += time.perf_counter() - started
