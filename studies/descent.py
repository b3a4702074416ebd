"""Trainers of RB16's section 4: coordinate descent with many steps at once, and from threads."""

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

LOOKS_AN_EPOCH, MOST_EPOCHS = 10, 20_000
"""How often the objective is looked at; where a run is given up."""
LONG_RUN = RandomDescent(tol=1e-7, max_iter=400)
"""What finds the minimum that gaps are measured from."""
_LOSSES: dict[str, Loss] = {"squared": Squared(), "squared_hinge": SquaredHinge()}


@dataclass(frozen=True)
class Descent:
    """What a trainer of this file is given.

    Parameters
    ----------
    features : {"binning", "fourier"}
        Random bins of the Laplacian kernel, or shifted Fourier features of the Gaussian one.
    size : int
        Grids or columns.
    bandwidth : float
        In ``units``, as :class:`studies.settings.Setting` has it.
    at_once : str
        Steps at once, or threads, such as ``"1 2 4"``: 1 must be the first.
    units : str, default="standard"
    penalty : float, default=1e-4
        Of the mean loss and the absolute values of the weights.
    loss : {"squared", "squared_hinge"}, default="squared"
    gap : float, default=1e-3
        ``(F - F*) / F*`` that a run must reach.
    repeats : int, default=3
        Runs with different seeds, or in turns: their median counts.
    epochs : int, default=500
        The most of a timed run.
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
        """Return what options name.

        Raises
        ------
        InputError
            If an option is missing or not known, or the first of ``at_once`` is not 1.
        """
        read = read_options(cls, options, "descent's options")
        if read.counts[0] != 1:
            raise InputError(f"descent: at_once must begin with 1, got {read.at_once!r}")
        return read

    @property
    def counts(self) -> list[int]:
        """How many steps at once, or threads."""
        return [int(count) for count in numbers_in(self.at_once)]


@dataclass(frozen=True, eq=False)
class _Task:
    """The problem over stored columns, and what makes features of new rows."""

    problem: Problem
    stored: StoredColumns
    features_of: Callable[[Any], FeatureMatrix]
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
        """Return what RB16's equation 29 says of so many steps at once."""
        n_columns = self.problem.matrix.shape[1]
        return law_of_speedup(n_at_once, self.stored.max_nonzeros, n_columns)

    def snapshot(self, weights: NDArray[np.float64], facts: dict[str, Any]) -> Snapshot:
        weights = weights.copy()
        facts["columns"] = int(self.problem.matrix.shape[1])
        facts["nonzeros_a_row"] = int(self.stored.max_nonzeros)

        def outputs(rows: Any) -> NDArray[np.float64]:
            return self.features_of(rows).matvec(weights)

        return Snapshot(
            lambda rows: self.encoding.decode(outputs(rows)),
            lambda rows: self.encoding.responses(outputs(rows)),
            self.problem.penalty.value(weights),
            facts,
        )


def simultaneous_descent(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Count the epochs that descent with several steps at once takes to a gap.

    Parameters
    ----------
    training : Training
    options : mapping
        As :class:`Descent`.
    clock : Clock
        Phases ``"features"``, ``"best"``, the long run, and ``"descent"``.

    Yields
    ------
    Snapshot
        One for each number of steps at once. Its facts: ``at_once``, ``epochs`` (the median over
        the runs, None where one did not arrive), ``speed_up``, that in steps, and ``law``,
        RB16's equation 29.
    """
    chosen = Descent.read(options)
    task, best = _task_and_best(chosen, training, clock)
    alone: float | None = None
    for at_once in chosen.counts:
        with clock.phase("descent"):
            reach = partial(epochs_to_gap, task.problem, task.stored, best, chosen.gap, at_once)
            found = map_blocks(reach, [(seed,) for seed in range(chosen.repeats)], None)
        arrived = all(np.isfinite(epochs) for epochs, _ in found)
        epochs = float(median(epochs for epochs, _ in found)) if arrived else None
        alone = epochs if at_once == 1 else alone
        facts = {
            "at_once": at_once,
            "epochs": epochs,
            "speed_up": at_once * alone / epochs if alone and epochs else None,
            "law": task.law(at_once),
        }
        yield task.snapshot(found[0][1], facts)


def _task_and_best(chosen: Descent, training: Training, clock: Clock) -> tuple[_Task, float]:
    """Return the task and its least objective: phases ``"features"`` and ``"best"``."""
    with clock.phase("features"):
        task = _Task.of(chosen, training)
    with clock.phase("best"):
        best = LONG_RUN.solve(task.problem).history[-1]["objective"]
    return task, best


def epochs_to_gap(
    problem: Problem, stored: StoredColumns, best: float, gap: float, at_once: int, seed: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the epochs to a gap, NaN if they are too many, and the weights there.

    An epoch is as many updates as there are columns. Between two looks at the objective the
    logarithm of its gap is taken for linear.

    Parameters
    ----------
    problem : Problem
    stored : StoredColumns
        Those of the problem's matrix.
    best : float
        F*, the least objective, above 0.
    gap : float
        ``(F - F*) / F*`` that is to be reached from zero weights.
    at_once : int
        Steps at once.
    seed : int
        Of the columns' order.
    """
    run = SimultaneousSteps(problem, stored, at_once, seed)
    n_columns, goal = len(run.weights), best * (1.0 + gap)
    n_steps = max(1, n_columns // (LOOKS_AN_EPOCH * at_once))
    updates, before = 0, run.value()
    while updates < MOST_EPOCHS * n_columns:
        run.step(n_steps)
        value = run.value()
        if value <= goal:
            left, gained = np.log(before - best), np.log(max(value - best, 1e-300))
            share = (left - np.log(goal - best)) / (left - gained)
            return float(updates + share * n_steps * at_once) / n_columns, run.weights
        updates, before = updates + n_steps * at_once, value
    return float("nan"), run.weights


def shared_descent(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Time RB16's Algorithm 2 to a gap with different numbers of threads, in turns.

    Parameters
    ----------
    training : Training
    options : mapping
        As :class:`Descent`.
    clock : Clock
        Phases ``"features"``, in which columns are stored, ``"best"`` and ``"descent"``.

    Yields
    ------
    Snapshot
        One for each number of threads. Its facts: ``at_once``, the threads; ``run_seconds``, the
        median of the repeats, of the updates alone; ``epochs``; ``speed_up`` in seconds, None where
        a run did not arrive; ``law``.
    """
    chosen = Descent.read(options)
    task, best = _task_and_best(chosen, training, clock)
    goal = best * (1.0 + chosen.gap)
    runs: dict[int, list[_Timed]] = {threads: [] for threads in chosen.counts}
    with clock.phase("descent"):
        _run_shared(task, 1, goal, most_epochs=1)
        for _ in range(chosen.repeats):
            for threads in chosen.counts:
                runs[threads].append(_run_shared(task, threads, goal, chosen.epochs))
    alone = median(run.seconds for run in runs[1])
    for threads, own in runs.items():
        arrived = all(run.arrived for run in (*runs[1], *own))
        seconds = median(run.seconds for run in own)
        facts = {
            "at_once": threads,
            "run_seconds": seconds,
            "epochs": median(run.epochs for run in own),
            "speed_up": alone / seconds if arrived else None,
            "law": task.law(threads),
        }
        yield task.snapshot(own[-1].weights, facts)


@dataclass(frozen=True, eq=False)
class _Timed:
    """A run of Algorithm 2 from zero."""

    seconds: float
    epochs: int
    arrived: bool
    weights: NDArray[np.float64]


def _run_shared(task: _Task, n_threads: int, goal: float, most_epochs: int) -> _Timed:
    """Run until the objective, computed once an epoch, is at most the goal; time the updates."""
    problem = task.problem
    if isinstance(problem.matrix, BinnedMatrix):
        # Its own products, once an epoch, take as many threads.
        matrix = problem.matrix
        own = BinnedMatrix(matrix.codes, matrix.offsets, has_unseen=False, n_jobs=n_threads)
        problem = replace(problem, matrix=own)
    run, epochs = _TimedSteps(problem, task.stored, n_threads, 0), 0
    began, measured = time.perf_counter(), run.measuring
    while run.objective > goal and epochs < most_epochs:
        run.epoch()
        epochs += 1
    seconds = time.perf_counter() - began - (run.measuring - measured)
    return _Timed(seconds, epochs, run.objective <= goal, run.weights)


class _TimedSteps(SharedSteps):
    """Algorithm 2, with the seconds of objectives and products apart."""

    measuring = 0.0

    def measure(self) -> None:
        began = time.perf_counter()
        super().measure()
        self.measuring += time.perf_counter() - began
