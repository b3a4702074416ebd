"""Kernel ridge regression added to the best features, each fitted alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from gramless.base.random import stream
from gramless.base.types import IntArray
from gramless.features.binning import GivenBinning
from gramless.features.hybrid import parts_of
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.selection.budget import Cost
from gramless.selection.candidate import DENSE_TIME_SHARE, GrownFeatures, Refinement
from gramless.selection.candidates.kernel_ridge import sampled_trials
from gramless.selection.candidates.smooth_kernels import fineness_of
from gramless.selection.goal import scaled_score
from gramless.selection.kernel_ridge import (
    BYTES_PER_PAIR,
    GaussianTrials,
    NestedRidge,
    sampled_splits,
)
from gramless.selection.selected import AddedKernel, SelectedModel
from gramless.selection.splits import MIN_ROWS_TO_VALIDATE_ONCE
from gramless.selection.task import SelectionTask

# The first fit has 60 rows per class, but at least 400 and at most 1,500. With landmarks it has all
# rows and half as many landmarks, but at least 400, because few rows predict poorly whether many
# rows help.
_ROWS_PER_CLASS, _MIN_ROWS, _MAX_ROWS = 60, 400, 1500
# For one output (numbers, two classes) and for more: up to the first number of rows each one is a
# landmark. Larger tables have fewer landmarks, but all rows are fitted. That predicts better in
# less time than fitting as many rows as fit with each one a landmark.
_MAX_LANDMARK_ROWS, _N_LANDMARKS = (2500, 5000), (1500, 2500)
_MAX_FITTED_ROWS = 40_000
# Bandwidths are selected on a sample. More rows support narrower kernels.
_BANDWIDTH_FACTOR = 0.7
# Maximum share of categorical inputs, whose kernel values take long.
_MAX_CATEGORICAL = 0.5
# The blend with the first fit must lower the score below the first share, or the second if there
# are landmarks, or the third for numbers, and the blend with the next fit below the last.
_HOPEFUL, _HOPEFUL_LANDMARKS, _HOPEFUL_NUMBERS, _PROMISING = 0.998, 0.993, 0.97, 0.99
# Seconds per row and pair of landmarks, and bytes per number of the rows that are scaled.
_SECONDS_PER_PAIR, _BYTES_PER_CELL = 5e-11, 24
# Factors of the features for classes and for numbers. They keep rounded weights short. For numbers,
# the sum of this factor and that of the predictions by kernel ridge regression is 1.
_FACTORS_OF_FEATURES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
_SHARES_OF_FEATURES = (0.25, 0.5, 0.75, 1.0)
# Range and tolerance of the factor of the predictions by kernel ridge regression.
_MAX_FACTOR, _TOLERANCE = 50.0, 0.01


class KernelRidgeBlend(Refinement):
    """Kernel ridge regression, added to the predictions of the best features.

    The errors of grids and smooth kernels differ from those of a kernel machine with many
    landmarks. For classes, inputs have equal weights: if they were weighted as the grids weight
    them, the kernel machine would predict better alone, but add less. For numbers it adds more.
    """

    name = "the blend with kernel ridge regression"
    time_share = DENSE_TIME_SHARE

    def is_wanted(self, task: SelectionTask) -> bool:
        """Return whether there are 300 rows or more, and the blend is not ruled out."""
        is_open = task.least_squares is not None and not task.fixed.fixes_model
        is_wanted = task.config.blends and task.monotone is None
        is_wanted &= task.n_rows >= MIN_ROWS_TO_VALIDATE_ONCE
        is_wanted &= task.goal.loss.is_of_classes or task.goal.loss.name == "squared"
        categorical = task.data.categorical
        is_numeric = categorical is None or categorical.mean() <= _MAX_CATEGORICAL
        return is_open and is_wanted and bool(is_numeric) and not task.validation_has_ended

    def refinement_cost(self, task: SelectionTask, best: GrownFeatures) -> Cost:
        """Return the cost of the fit to most rows."""
        parts, n_landmarks = _rows_and_landmarks(task)
        n_rows = sum(map(len, parts))
        n_landmarks = n_landmarks or n_rows
        n_bytes = BYTES_PER_PAIR * n_landmarks**2 + _BYTES_PER_CELL * n_rows * len(best.scaler.unit)
        return Cost(_SECONDS_PER_PAIR * n_rows * n_landmarks**2, n_bytes)

    def refine(self, task: SelectionTask, best: GrownFeatures) -> BlendedFeatures | None:
        """Blend with a small fit and, if that helps, with one to as many rows as allowed."""
        data, n_jobs, loss = task.data, task.n_jobs, task.goal.loss
        parts, n_landmarks = _rows_and_landmarks(task)
        n_first = min(max(_ROWS_PER_CLASS * data.n_outputs, _MIN_ROWS), _MAX_ROWS)
        n_few = max(n_first // 2, _MIN_ROWS)
        if not loss.is_of_classes:
            weighted, share = _weighted_trials(task, best), _HOPEFUL_NUMBERS
            if weighted is None:
                return None
            kernels = weighted
            first = NestedRidge.with_landmarks(kernels.best, data, parts[:1], n_few, n_jobs)
        elif n_landmarks == 0:
            kernels, share = task.once(sampled_trials), _HOPEFUL
            first = NestedRidge.exact(kernels.first, data, [parts[0][:n_first]], n_jobs)
        else:
            kernels, share = task.once(sampled_trials), _HOPEFUL_LANDMARKS
            first = NestedRidge.with_landmarks(kernels.first, data, parts[:1], n_few, n_jobs)
        # A blend must not win by a factor of the features, because calibration also finds that.
        raw, (_, held_back) = best.result.raw, task.split
        targets, weights = data.targets[held_back], data.weights_of(held_back)
        factors = _FACTORS_OF_FEATURES if loss.is_of_classes else _SHARES_OF_FEATURES
        losses = [loss.by_row(factor * raw, targets) for factor in factors]
        lowest = int(np.argmin([np.average(rows, weights=weights) for rows in losses]))
        score, _ = best.goal.scored(data, factors[lowest] * raw, held_back)
        if _blended(task, best, first).score >= scaled_score(score, share):
            return None
        kernel = kernels.best
        if n_landmarks > 0:
            kernel = replace(kernel, length=_BANDWIDTH_FACTOR * kernel.length)
            ridge = NestedRidge.with_landmarks(kernel, data, parts, n_landmarks, n_jobs)
        else:
            ridge = NestedRidge.exact(kernel, data, parts, n_jobs)
        blended = _blended(task, best, ridge)
        # The loss must fall by more than the standard error of the gain.
        gains = losses[lowest] - loss.by_row(blended.result.raw, targets)
        gain = np.average(gains, weights=weights)
        error = np.sqrt(np.average((gains - gain) ** 2, weights=weights) / len(gains))
        is_better = gain > error and blended.score < scaled_score(score, _PROMISING)
        return blended if is_better else None


@dataclass(frozen=True, kw_only=True, eq=False)
class BlendedFeatures(GrownFeatures):
    """Features to which a kernel machine is added; ``factors`` are those of both."""

    can_be_refined: ClassVar[bool] = False  # the factors suit these features only
    ridge: NestedRidge
    factors: tuple[float, float]

    def finish(self, task: SelectionTask) -> SelectedModel:
        ridge = self.ridge
        expansion = ridge.kernel.over(self.scaler, task.data, ridge.landmarks, task.n_jobs)
        weights = self.factors[1] * ridge.weights[-1]
        added = AddedKernel(expansion=expansion, weights=weights, factor=self.factors[0])
        return replace(super().finish(task), added=added)


def _weighted_trials(task: SelectionTask, best: GrownFeatures) -> GaussianTrials | None:
    """Return kernels of samples, with inputs weighted by their fineness; None without grids."""
    if not isinstance(parts_of(best.feature_map)[0], GivenBinning):
        return None
    fine = fineness_of(best)
    if not fine.any():
        return None
    scaler = best.scaler.weighted(fine / fine.max())
    return GaussianTrials.of(task, sampled_splits([task.split], task.seed), [scaler])


def _rows_and_landmarks(task: SelectionTask) -> tuple[list[IntArray], int]:
    """Return the rows to fit, and the number of landmarks, 0 if each row is one.

    The training rows come first, then the others of the final fit if any, in random order.
    """
    generator, n_fitted, training = stream(task.seed, "blend"), task.data.n_fitted, task.split[0]
    is_training = np.zeros(task.n_rows, bool)
    is_training[training] = True
    parts = [training, np.flatnonzero(~is_training[:n_fitted])]
    share = min(1.0, _MAX_FITTED_ROWS / n_fitted)
    # Without the copies, all rows would stay in memory.
    parts = [generator.permutation(rows)[: round(share * len(rows))].copy() for rows in parts]
    has_several = int(task.data.n_outputs > 1)
    is_small = n_fitted <= _MAX_LANDMARK_ROWS[has_several]
    return [rows for rows in parts if len(rows)], 0 if is_small else _N_LANDMARKS[has_several]


def _blended(task: SelectionTask, best: GrownFeatures, ridge: NestedRidge) -> BlendedFeatures:
    """Return the best features with the first fit of kernel ridge regression added."""
    data, (_, held_back) = task.data, task.split
    raw = ridge.predicted(data, held_back, task.n_jobs)
    targets, weights = data.targets[held_back], data.weights_of(held_back)
    factors = blend_factors(task.goal.loss, best.result.raw, raw, targets, weights)
    both = factors[0] * best.result.raw + factors[1] * raw
    score, own_loss = best.goal.scored(data, both, held_back)
    validation = replace(best.result, raw=both, score=score, loss=own_loss)
    fields = vars(best) | {"validation": validation}
    return BlendedFeatures(**fields, ridge=ridge, factors=factors)


def blend_factors(
    loss: Loss, first: Vector, second: Vector, targets: Vector, weights: np.ndarray | None
) -> tuple[float, float]:
    """Return the factors of two raw predictions whose sum has the lowest mean loss.

    For classes, the factor of the first is a power of two. For numbers, which both predict without
    bias, the factors are multiples of a quarter, and their sum is 1.
    """

    def mean_loss(factor: float, of_first: float) -> float:
        losses = loss.by_row(of_first * first + factor * second, targets)
        return float(np.average(losses, weights=weights))

    if not loss.is_of_classes:
        shares = ((share, 1.0 - share) for share in _SHARES_OF_FEATURES)
        return min(shares, key=lambda both: mean_loss(both[1], both[0]))
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
