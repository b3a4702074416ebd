"""Metric learning: distances along the directions of the inputs in which targets vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.spatial.distance import cdist

from gramless.base.arrays import weighted_sums
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.features.landmarks import RadialValues
from gramless.kernels import Gaussian
from gramless.preprocessing.scaling import Scaler
from gramless.selection.task import SelectionTask
from gramless.solvers.objective import columns

# A projection is not worth its time for tables with fewer rows or more inputs.
_MIN_ROWS, _MAX_INPUTS = 2000, 512
# Sizes of the samples.
_TRAINING_ROWS, _VALIDATION_ROWS, _GRADIENT_ROWS, _LANDMARKS = 1500, 800, 600, 200
_LENGTH, _RIDGES = 0.7, (0.01, 0.1, 1.0)  # bandwidth in median distances of rows, and penalties
_MIN_SHARE = 1e-5  # directions with a smaller share of the squared gradients are left out
_JITTER = 1e-6
_FARTHEST = 1e4  # rows of the samples are clipped to this many units of each column


def learned_projection(
    task: SelectionTask, scaler: Scaler, fineness: FloatArray
) -> FloatArray | None:
    """Return a projection of scaled rows after which distances predict clearly better.

    A Gaussian kernel over the scaled columns, weighted by their ``fineness``, is fitted to a sample
    of the training rows. The mean ``M`` of the outer products of its gradients measures how much
    predictions vary along each direction; with the distances ``(x - y)' M (x - y)`` it is fitted
    again (Radhakrishnan, Beaglehole, Pandit & Belkin 2024, *Mechanism for feature learning in
    neural networks and backpropagation-free machine learning models*). The projection is returned
    if that lowers the squared error of a sample of the validation rows below the configuration's
    ``projection_max_error_ratio`` times that of the first fit.

    Returns
    -------
    array (n_columns, n_directions) or None
        The bandwidth that was tried is 1 over projected rows. None if there are few rows or
        categorical columns, and if directions predict no better.

    Notes
    -----
    Takes some 20 to 40 ms for 10 to 100 columns, whatever the number of rows.
    """
    split, used = task.split, fineness > 0.0
    if len(split[0]) < _MIN_ROWS or not 2 <= used.sum() <= _MAX_INPUTS:
        return None
    if task.monotone is not None or scaler.categorical_mask[used].any():
        return None
    drawn = [
        stream(task.seed, "directions", k).permutation(rows)[:most]
        for k, (rows, most) in enumerate(
            zip(split, (_TRAINING_ROWS, _VALIDATION_ROWS), strict=True)
        )
    ]
    training, validation = (_Sample.of(task, rows, scaler, used) for rows in drawn)
    with one_blas_thread():
        before = _GaussianFit.of(training, validation, np.diag(fineness[used]))
        after = _GaussianFit.of(training, validation, before.directions(training))
    if after.error >= task.config.projection_max_error_ratio * before.error:
        return None
    projection = np.zeros((len(used), after.projection.shape[1]))
    projection[used] = after.projection / (scaler.unit[used, None] * after.bandwidth)
    return projection


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some columns of some rows (n, n_columns), in their units, targets (n, K) and weights (n,)."""

    rows: FloatArray
    targets: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, task: SelectionTask, chosen: IntArray, scaler: Scaler, used: BoolArray) -> _Sample:
        data = task.data.for_squares
        values = np.asarray(scaler.rows(data.rows[chosen], task.n_jobs), np.float64)[:, used]
        values = np.clip(values / scaler.unit[used], -_FARTHEST, _FARTHEST)
        given = data.weights_of(chosen)
        # All of them may be 0 where few rows of the table have a weight.
        counts = None if given is None or not given.any() else data.counts_of(chosen)
        weights = np.ones(len(chosen)) if counts is None else counts
        return cls(values, columns(np.asarray(data.targets[chosen], np.float64)), weights)


@dataclass(frozen=True, eq=False)
class _GaussianFit:
    """Ridge regression by a Gaussian kernel with landmarks, over projections of the rows.

    ``weights`` (n_landmarks, K) are those of the kernel values; ``error`` is the mean squared error
    of validation rows.
    """

    projection: FloatArray
    landmarks: FloatArray
    bandwidth: float
    weights: FloatArray
    error: float

    @classmethod
    def of(cls, training: _Sample, validation: _Sample, projection: FloatArray) -> _GaussianFit:
        rows, others = training.rows @ projection, validation.rows @ projection
        landmarks = rows[:_LANDMARKS]
        distances = cdist(landmarks, rows[_LANDMARKS : 2 * _LANDMARKS])
        bandwidth = _LENGTH * float(np.median(distances)) or 1.0
        values, held_back = (_gaussian(part, landmarks, bandwidth) for part in (rows, others))
        mean = weighted_sums(training.weights, training.targets) / training.weights.sum()
        centred, weighted = training.targets - mean, training.weights[:, None] * values
        gram, right = values.T @ weighted, weighted.T @ centred
        inner = values[:_LANDMARKS] + _JITTER * len(landmarks) * np.eye(len(landmarks))
        best = None
        for ridge in _RIDGES:
            weights = cho_solve(cho_factor(gram + ridge * inner), right)
            squares = np.square(held_back @ weights + mean - validation.targets).mean(axis=1)
            error = float(np.average(squares, weights=validation.weights))
            if best is None or error < best.error:
                best = cls(projection, landmarks, bandwidth, weights, error)
        assert best is not None
        return best

    def directions(self, training: _Sample) -> FloatArray:
        """Return the projection with the squared distances of the mean outer product.

        The gradients are those at some training rows; the directions with the largest come first.
        """
        rows = training.rows[:_GRADIENT_ROWS] @ self.projection
        values = _gaussian(rows, self.landmarks, self.bandwidth)
        products = np.zeros((rows.shape[1], rows.shape[1]))
        for weights in self.weights.T:
            parts = values * weights
            gradients = parts @ self.landmarks - parts.sum(axis=1)[:, None] * rows
            products += gradients.T @ gradients
        shares, axes = eigh(products)
        shares, axes = shares[::-1] / max(shares.sum(), np.finfo(float).tiny), axes[:, ::-1]
        kept = shares > _MIN_SHARE
        kept[0] = True
        return self.projection @ (axes[:, kept] * np.sqrt(np.maximum(shares[kept], 0.0)))


def _gaussian(rows: FloatArray, landmarks: FloatArray, bandwidth: float) -> FloatArray:
    return RadialValues(Gaussian(), landmarks, np.full(landmarks.shape[1], bandwidth))(rows)
