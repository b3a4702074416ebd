"""Kernel ridge regression added to the best model of classes, each fitted alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from gramless.base.random import stream
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.selection.budget import Cost
from gramless.selection.candidate import DENSE_TIME_SHARE, Fitted, GrownFeatures, Refinement
from gramless.selection.candidates.kernel_ridge import screen_kernel_ridge
from gramless.selection.goal import scaled_score
from gramless.selection.kernel_ridge import GaussianRidge, GaussianTrials, sampled_splits
from gramless.selection.selected import AddedKernel, SelectedModel
from gramless.selection.splits import MIN_ROWS_TO_VALIDATE_ONCE
from gramless.selection.task import SelectionTask

# The first fit has 60 rows per class, but at least 400 and at most 1,500. The next fit has 1,500
# rows and the last one 5,000; two classes gain little from the last fit.
_ROWS_PER_CLASS, _MIN_ROWS, _NEXT_ROWS, _MAX_ROWS = 60, 400, 1500, 5000
# Maximum share of categorical inputs, whose kernel values take long.
_MAX_CATEGORICAL = 0.5
# The blend with the first rows, then with the next, must lower the score to these shares.
_HOPEFUL, _PROMISING = 0.998, 0.99
# Seconds per cube of the number of fitted rows, and bytes per pair of rows and per row and input.
_SECONDS_PER_CUBE, _BYTES_PER_PAIR = 1e-10, 24
# Factors of the features. Powers of two keep rounded weights short.
_FACTORS_OF_FEATURES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
# Range and tolerance of the factor of the predictions by kernel ridge regression.
_MAX_FACTOR, _TOLERANCE = 50.0, 0.01


class KernelRidgeBlend(Refinement):
    """Kernel ridge regression, added to the predictions of the best features.

    The errors of grids and smooth kernels differ from those of a kernel machine in which every row
    is a landmark. If its inputs were weighted as the grids weight them, it would predict better
    alone, but add less.
    """

    name = "the blend with kernel ridge regression"
    time_share = DENSE_TIME_SHARE

    def is_wanted(self, task: SelectionTask) -> bool:
        """Return whether 300 rows or more have classes, and the blend is not ruled out."""
        is_open = task.least_squares is not None and not task.fixed.fixes_model
        has_rows = task.n_rows >= MIN_ROWS_TO_VALIDATE_ONCE and task.goal.loss.is_of_classes
        is_wanted = task.config.blends and has_rows and task.monotone is None
        categorical = task.data.categorical
        is_numeric = categorical is None or categorical.mean() <= _MAX_CATEGORICAL
        return is_open and is_wanted and bool(is_numeric) and not task.validation_has_ended

    def refinement_cost(self, task: SelectionTask, best: GrownFeatures) -> Cost:
        """Return the cost of two fits to the largest number of rows that is blended."""
        n, width = _most_rows(task), len(best.scaler.unit)
        return Cost(_SECONDS_PER_CUBE * n**3, _BYTES_PER_PAIR * n * (n + width))

    def refine(self, task: SelectionTask, best: GrownFeatures) -> BlendedFeatures | None:
        """Blend with a fit to some of the training rows and, if that helps, to more of them."""
        screen = task.once(screen_kernel_ridge)
        if screen is None:
            kernels = GaussianTrials.of(task, sampled_splits([task.split], task.seed))
        else:
            kernels = screen.kernels
        training = stream(task.seed, "blend").permutation(task.split[0])
        n_first = min(max(_ROWS_PER_CLASS * task.data.n_outputs, _MIN_ROWS), _NEXT_ROWS)
        first = _blended(task, best, kernels.first, training[:n_first])
        if first.score >= scaled_score(best.score, _HOPEFUL):
            return None
        blended = _blended(task, best, kernels.best, training[:_NEXT_ROWS])
        if not _is_promising(task, best, blended):
            return None
        most = min(len(training), _most_rows(task))
        return (
            blended if most <= _NEXT_ROWS else _blended(task, best, kernels.best, training[:most])
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class BlendedFeatures(GrownFeatures):
    """Features to which a kernel machine is added; ``factors`` are those of both."""

    kernel: GaussianRidge
    factors: tuple[float, float]

    def finish(self, task: SelectionTask) -> SelectedModel:
        """Return the model with kernel ridge regression fitted again, to at most 5,000 rows."""
        data, n_jobs = task.data, task.n_jobs
        rows = stream(task.seed, "blend").permutation(data.n_fitted)[: _most_rows(task)]
        expansion, weights = self.kernel.fitted_over(self.scaler, data, rows, n_jobs)
        added = AddedKernel(
            expansion=expansion, weights=self.factors[1] * weights, factor=self.factors[0]
        )
        return replace(super().finish(task), added=added)


def _most_rows(task: SelectionTask) -> int:
    most = _NEXT_ROWS if task.data.n_outputs == 1 else _MAX_ROWS
    return min(most, task.data.n_fitted)


def _blended(
    task: SelectionTask, best: GrownFeatures, kernel: GaussianRidge, rows: np.ndarray
) -> BlendedFeatures:
    """Return the best features with kernel ridge regression on some training rows added."""
    data, loss, (_, held_back) = task.data, task.goal.loss, task.split
    raw, _ = kernel.predicted(data, rows, held_back, task.n_jobs)
    weight = data.weights_of(held_back)
    factors = blend_factors(loss, best.result.raw, raw, data.targets[held_back], weight)
    both = factors[0] * best.result.raw + factors[1] * raw
    score, own_loss = best.goal.scored(data, both, held_back)
    validation = replace(best.result, raw=both, score=score, loss=own_loss)
    fields = vars(best) | {"validation": validation}
    return BlendedFeatures(**fields, kernel=kernel, factors=factors)


def blend_factors(
    loss: Loss, first: Vector, second: Vector, targets: Vector, weights: np.ndarray | None
) -> tuple[float, float]:
    """Return the factors of two raw predictions whose sum has the lowest mean loss.

    The factor of the first is a power of two.
    """

    def mean_loss(factor: float, of_first: float) -> float:
        losses = loss.by_row(of_first * first + factor * second, targets)
        return float(np.average(losses, weights=weights))

    tried = []
    for of_first in _FACTORS_OF_FEATURES:
        result = minimize_scalar(
            mean_loss,
            args=(of_first,),
            bounds=(0.0, _MAX_FACTOR),
            method="bounded",
            options={"xatol": _TOLERANCE},
        )
        tried.append((float(result.fun), of_first, float(result.x)))
    return min(tried)[1:]


def _is_promising(task: SelectionTask, best: Fitted, blended: Fitted) -> bool:
    """Return whether the blend is clearly better.

    The loss must fall by more than the standard error of the gain, and the score must fall below
    99 % of the best.
    """
    assert best.validation is not None
    assert blended.validation is not None
    rows, loss = best.validation.rows, task.goal.loss
    targets, weights = task.data.targets[rows], task.data.weights_of(rows)
    gains = loss.by_row(best.validation.raw, targets) - loss.by_row(blended.validation.raw, targets)
    gain = np.average(gains, weights=weights)
    error = np.sqrt(np.average((gains - gain) ** 2, weights=weights) / len(gains))
    return bool(gain > error) and blended.score < scaled_score(best.score, _PROMISING)
