"""Doubly stochastic runs that take steps in turns, each on its own clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.kernels import Gaussian
from gramless.losses import Loss
from gramless.preprocessing.median import median_distance
from gramless.streaming.doubly_stochastic import (
    DoublyStochastic,
    FreeIntercept,
    NewtonStep,
    NoIntercept,
    Update,
)
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.sources import ArraySource
from gramless.streaming.step_sizes import (
    InverseTime,
    block_variance,
    first_step,
    largest_curvature,
    loss_curvature,
)
from gramless.streaming.strategies import Strategy
from gramless.streaming.training_loop import split_into_groups

_CACHE = 1 << 29
_SAMPLE = 1000
_THETA_ALPHA = 1.5


@dataclass(frozen=True)
class Task:
    """The problem and the settings shared by all runs.

    Parameters
    ----------
    X : array (n, n_inputs)
    targets : array (n, n_outputs)
    loss : Loss
    alpha : float
    block_size, batch_rows : int
        Frequencies per block and rows per batch, F and B in the papers.
    evaluated : array of int
        Rows on which the objective is measured while the clock is stopped.
    jobs : int or None
    """

    X: NDArray[Any]
    targets: NDArray[np.float64]
    loss: Loss
    alpha: float
    block_size: int
    batch_rows: int
    evaluated: NDArray[np.intp]
    jobs: int | None

    @property
    def bandwidth(self) -> float:
        """The median distance."""
        return median_distance(self.X, 0, None, "euclidean")


@dataclass
class Run:
    """One strategy on a task.

    Parameters
    ----------
    task : Task
    strategy : Strategy
    update : {"papers", "gradient", "newton"}
        Steps of the papers without an intercept, the same steps with an unpenalised intercept,
        or Newton steps of blocks.

    Attributes
    ----------
    seconds : float
        Time spent in steps.
    points : list of dict
        The measurements.
    """

    task: Task
    strategy: Strategy
    update: str
    seconds: float = 0.0
    points: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        task, n_inputs = self.task, self.task.X.shape[1]
        n_outputs = task.targets.shape[1]
        sample = task.X[:_SAMPLE].astype(float) / task.bandwidth
        curvature = largest_curvature(Gaussian(), sample, centered=self.update != "papers")
        first = first_step(task.loss, n_outputs, curvature, task.block_size, task.batch_rows)
        theta = _THETA_ALPHA / task.alpha
        blocks = FrequencyBlocks(Gaussian(), 0, task.block_size, n_inputs)
        inverse = np.full(n_inputs, 1.0 / task.bandwidth)
        products = CpuProducts(blocks, np.zeros(n_inputs), inverse, _CACHE, task.jobs)
        curvature_bound = loss_curvature(task.loss, n_outputs)
        schedule = InverseTime(theta, max(0.0, theta / first - 1.0))
        updates: dict[str, Update] = {
            "papers": NoIntercept(),
            "gradient": FreeIntercept(1.0 / curvature_bound),
            "newton": NewtonStep(curvature_bound, schedule.step(1), 1.0 / task.batch_rows),
        }
        self.trainer = DoublyStochastic(
            products,
            FeatureExpansion(2 * task.block_size, blocks.group_blocks, n_outputs),
            task.loss,
            task.alpha,
            schedule,
            self.strategy,
            updates[self.update],
            seed=0,
            variance=block_variance(Gaussian(), sample[:400], task.block_size, 0),
        )
        self.source = ArraySource(task.X, task.targets, seed=0)

    def step(self) -> None:
        """Take a step and add its time to the clock."""
        started = perf_counter()
        first = self.trainer.iteration * self.task.batch_rows
        self.trainer.step(*self.source.read(first, first + self.task.batch_rows))
        self.seconds += perf_counter() - started

    def measure(self) -> None:
        """Record loss, objective and error over the evaluated rows while the clock is stopped."""
        f, task = self.trainer.expansion, self.task
        targets = task.targets[task.evaluated]
        point: dict[str, float] = {
            "s": self.seconds,
            "steps": self.trainer.iteration,
            "blocks": f.n_blocks,
        }
        functions = {
            "": (f.averaged_weights(), f.averaged_constant),
            "last ": (f.weights(), f.constant),
        }
        for name, (weights, constant) in functions.items():
            outputs = responses(self.trainer, weights, task.X[task.evaluated]) + constant
            loss = float(task.loss.value(outputs, targets).sum()) / len(targets)
            norm = float(np.square(weights, dtype=np.float64).sum())
            point[f"{name}loss"] = loss
            point[f"{name}objective"] = loss + 0.5 * task.alpha * f.n_blocks * norm
            if targets.shape[1] > 1:
                wrong = outputs.argmax(axis=1) != targets.argmax(axis=1)
                point[f"{name}error"] = float(wrong.mean())
        self.points.append(point)


def responses(trainer: DoublyStochastic, weights: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return the outputs for rows with weights of all blocks, without the constant."""
    f, products = trainer.expansion, trainer.products
    groups = split_into_groups(weights, f.block_columns * f.group_blocks)
    return products.responses(products.prepare(X), groups, f.n_blocks)


def race(runs: dict[str, Run], times: list[float]) -> None:
    """Take steps in turns, and measure all runs when every clock has passed the next time."""
    for until in times:
        while late := [run for run in runs.values() if run.seconds < until]:
            min(late, key=lambda run: run.seconds).step()
        for run in runs.values():
            run.measure()
