"""Add Gaussian kernels to a grid model, scaling each input by how finely the grids divide it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramless.base.types import BoolArray, FloatArray
from gramless.features.grids import Grids
from gramless.features.nystrom import Nystrom
from gramless.features.projected import ProjectedMap
from gramless.matrices.codes import PlainBins
from gramless.matrices.weighted import first_part, remove_factors, unscale_weights
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler
from gramless.selection.budget import Cost
from gramless.selection.candidate import (
    DENSE_TIME_SHARE,
    MAX_NUMBERS,
    GrownFeatures,
    Refinement,
    dense_features,
)
from gramless.selection.candidates.kernel_ridge import sampled_trials
from gramless.selection.growth import covariances
from gramless.selection.kernel_ridge import compare_metrics
from gramless.selection.metric_learning import learned_projection
from gramless.selection.task import SelectionTask

_MIN_LANDMARKS = 100  # kernels with fewer landmarks are not worth their time
# Number of landmarks of a kernel on a learned projection, unless there are too many rows.
_PROJECTED_LANDMARKS = 400
# Use equal weights if their error on a sample is below this fraction of the weighted error.
_MAX_EQUAL_ERROR_RATIO = 0.97
# Shrink the bandwidth selected on a sample, because all rows support a narrower kernel.
_SAMPLE_BANDWIDTH_FACTOR = 0.6


class SmoothKernels(Refinement):
    """Gaussian kernels with landmarks beside the best features."""

    name = "the trial of smooth kernels"
    time_share = DENSE_TIME_SHARE

    def is_wanted(self, task: SelectionTask) -> bool:
        return _n_landmarks(task) >= _MIN_LANDMARKS and not task.validation_has_ended

    def refinement_cost(self, task: SelectionTask, best: GrownFeatures) -> Cost:
        n_kernels = len(task.config.smooth_inverse_bandwidths)
        n_numbers = n_kernels * _n_landmarks(task) * task.n_rows
        return task.budget.cost_of_dense_features(n_numbers, best.rows.shape[1])

    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures | None:
        """Try a kernel on a learned projection; unless it wins, return kernels on the inputs."""
        rows, scaler, n_landmarks = best.rows, best.scaler, _n_landmarks(task)
        fine = fineness_of(best)
        if not fine.any():
            return None
        training, whole = rows[: len(task.split[0])], np.asarray(rows)
        projection = None
        if task.config.projection_max_error_ratio > 0.0:
            projection = learned_projection(task, scaler, fine)
        if projection is not None:
            n_projected = max(n_landmarks, min(_PROJECTED_LANDMARKS, MAX_NUMBERS // task.n_rows))
            cost = task.budget.cost_of_dense_features(n_projected * task.n_rows, rows.shape[1])
            if task.budget.allows(self.name, cost, self.time_share):
                projected = np.asarray(training) @ projection
                kernels = _gaussians(task, projected, [_SAMPLE_BANDWIDTH_FACTOR], None, n_projected)
                maps = [ProjectedMap.of(projection, kernel, task.n_jobs) for kernel in kernels]
                fitted = best.beside(task, dense_features(maps, whole, task.n_jobs))
                if self.replaces(task, best, fitted):
                    return fitted
        bandwidths = smooth_bandwidths(task, scaler, fine, task.config.smooth_inverse_bandwidths)
        maps = _gaussians(task, training, bandwidths, scaler.categorical, n_landmarks)
        return best.beside(task, dense_features(maps, whole, task.n_jobs))


def _n_landmarks(task: SelectionTask) -> int:
    config = task.config
    wanted = min(config.n_landmarks, config.landmarks_an_output * task.budget.n_outputs)
    return min(wanted, MAX_NUMBERS // task.n_rows)


def fineness_of(best: GrownFeatures) -> FloatArray:
    """Return how finely the grids of fitted features divide each input, see :func:`fineness`."""
    bins = remove_factors(first_part(best.matrix))
    assert isinstance(bins, PlainBins)
    weights = unscale_weights(best.matrix, best.weights)[: bins.shape[1]]
    counts = bins.gram_diagonal() / bins.scale**2
    # The variance of each grid's contribution to the predictions of the rows.
    variances = covariances(counts, bins.offsets, weights, weights, bins.n_jobs)
    return fineness(best.binning.grids, variances, best.scaler)


def fineness(grids: Grids, variances: FloatArray, scaler: Scaler) -> FloatArray:
    """Return how finely the grids of a fitted model divide each column of the scaled rows.

    The fineness of a column is the root mean square of ``scaler.unit / width`` over the grids,
    weighted by ``variances`` (n_grids,), those of the grids' contributions to the predictions. The
    result has Euclidean length 1, or is zero if no grid contributes. Widths of combinations of the
    columns are ignored.
    """
    widths = grids.widths[:, : len(scaler.unit)]
    finite = np.isfinite(widths) & np.isfinite(scaler.unit)
    inverse = np.where(finite, scaler.unit, 0.0) / np.where(finite, widths, 1.0)
    shares = np.maximum(variances, 0.0)
    fine = np.sqrt(np.einsum("r,rj->j", shares, inverse**2))
    norm = np.sqrt(np.einsum("j,j->", fine, fine))
    return np.asarray(fine / norm if norm > 0 else fine)


def smooth_bandwidths(
    task: SelectionTask, scaler: Scaler, fine: FloatArray, inverse_bandwidths: Sequence[float]
) -> list[FloatArray]:
    """Return the bandwidths of Gaussian kernels over the scaled rows, one array per kernel.

    The bandwidths of a kernel are ``unit / inverse_bandwidth``. The ``unit`` of each column is
    that of the scaler divided by the :func:`fineness` of the grids. If a kernel with equally
    weighted inputs predicts a sample clearly better, as it does for the pixels of images, the unit
    is 0.6 times the bandwidth of that kernel.
    """
    trials = task.once(sampled_trials)
    # Other splits are other samples, and the ranks of monotone inputs are another scaling.
    is_comparable = len(trials.samples[0].parts) == 1 and task.monotone is None
    known = trials.of_scalings if is_comparable else ()
    weighted, equal = compare_metrics(task, scaler, fine / fine.max(), known)
    if equal.score >= _MAX_EQUAL_ERROR_RATIO * weighted.score:
        with np.errstate(divide="ignore", over="ignore"):
            unit = np.where(np.isfinite(scaler.unit), scaler.unit, 1.0) / fine
    else:
        unit = _SAMPLE_BANDWIDTH_FACTOR * equal.scaler.unscaled(equal.bandwidth)
        unit = np.concatenate([unit, np.full(len(scaler.unit) - len(unit), np.inf)])
    # Bandwidths of inputs near 1e308 become infinite, and such inputs are ignored.
    with np.errstate(over="ignore"):
        return [unit / inverse for inverse in inverse_bandwidths]


def _gaussians(
    task: SelectionTask,
    rows: Rows,
    bandwidths: Sequence[float | FloatArray],
    categorical: BoolArray | None,
    n_landmarks: int,
) -> list[Nystrom]:
    kernels = []
    for bandwidth in bandwidths:
        kernel = Nystrom(
            "gaussian",
            bandwidth=bandwidth,
            categorical=categorical,
            n_components=n_landmarks,
            random_state=task.seed,
            n_jobs=task.n_jobs,
        )
        kernel.fit_rows(rows)
        kernel.round_factor()
        kernels.append(kernel)
    return kernels
