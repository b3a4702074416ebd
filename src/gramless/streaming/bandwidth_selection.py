"""Selection of the scaling and the bandwidth on a sample, and the preparation of rows by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from gramless.base.errors import InputError
from gramless.base.numeric import clip_infinities
from gramless.base.random import stream
from gramless.base.state import Stateful, array_in, part_in, require
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.kernels import Kernel, SpectralKernel, bandwidth_vector
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.chunk_checks import is_sparse
from gramless.streaming.principal_components import Projection
from gramless.streaming.summary_statistics import Summary

FACTORS = 0.25, 0.5, 1.0, 2.0  # bandwidths to try with bandwidth="auto", in median distances
# Penalties of kernel ridge regression, of which the best is used. Smaller penalties would favour
# wide kernels, whose fine structure gradient steps learn too slowly.
_ALPHAS = tuple(10.0**-k for k in range(1, 6))
_MIN_ROWS = 40  # smaller samples use the median distance
# A standard deviation below this share of the mean may be the rounding error of a constant.
_CONSTANT_TOL = 1e-12


@dataclass(frozen=True, repr=False)
class Preparation(Stateful):
    """A conversion of rows to inputs of the kernel at bandwidth 1.

    Rows are projected, centred and divided by the units.
    """

    projection: Projection | None  # to principal components, if any
    center: FloatArray  # (n_inputs,), zeros if rows are sparse
    units: FloatArray  # (n_inputs,): bandwidths in units of the inputs; infinity drops an input

    def check(self) -> None:
        units = array_in(vars(self), "units", np.float64, (None,))
        require(units.size > 0 and (units > 0).all(), "units are not positive")
        array_in(vars(self), "center", np.float64, units.shape, finite=True)
        if self.projection is not None:
            projection = part_in(vars(self), "projection", Projection)
            fits = projection.components.shape[1] == len(units)
            require(fits, "projection does not fit the units")

    @property
    def n_features(self) -> int:
        """Number of columns of the rows before the projection."""
        return len(self.units if self.projection is None else self.projection.mean)

    @property
    def inverse(self) -> FloatArray:
        # The inverse of a tiny unit would be infinite, and infinity times 0 is NaN.
        with np.errstate(over="ignore"):
            return clip_infinities(1.0 / self.units)

    def project(self, X: Rows) -> Rows:
        """Return the principal components of rows, or the rows if there is no projection."""
        if self.projection is not None:
            return self.projection.apply(X)
        check_width("Preparation", X, len(self.units))
        return X

    def unit_rows(self, X: Rows) -> FloatArray:
        inputs: FloatArray = (_to_dense(self.project(X)) - self.center) * self.inverse
        return inputs


def select_preparation(
    summary: Summary,
    targets: FloatArray,
    projection: Projection | None,
    bandwidth: ArrayLike | str,
    scalings: Sequence[str],
    kernel: SpectralKernel,
    seed: int,
) -> tuple[Preparation, str]:
    """Return the preparation of rows, and the reason for its bandwidth in words.

    ``targets`` are those of the summary's sample. The bandwidth is in units of the scaled inputs,
    or of the components, which only ``"whiten"`` scales. ``"auto"`` tries multiples of the median
    distance with each scaling, which takes two to three seconds. Other bandwidths, and ``"auto"``
    with fewer than 40 sampled rows, use the first scaling.
    """
    sample = _to_dense(summary.sample if projection is None else projection.apply(summary.sample))
    center = np.zeros(sample.shape[1])
    if projection is None and not is_sparse(summary.sample):
        center = summary.mean
    scales = [_input_scales(summary, projection, kind) for kind in scalings]
    if not isinstance(bandwidth, str):
        widths = bandwidth_vector(bandwidth, len(center))
        return Preparation(projection, center, scales[0] * widths), "bandwidth as given"
    if bandwidth not in ("auto", "median"):
        raise InputError(
            f"bandwidth must be 'auto', 'median', a number or one number for each input; "
            f"got {bandwidth!r}."
        )
    medians = [
        scale * median_distance((sample - center) / scale, seed, None, kernel.metric)
        for scale in scales
    ]
    if bandwidth == "median" or len(sample) < _MIN_ROWS:
        reason = f"scaling {scalings[0]}, the median distance"
        return Preparation(projection, center, medians[0]), reason
    candidates = [(kind, factor) for kind in scalings for factor in FACTORS]
    units = [median * factor for median in medians for factor in FACTORS]
    order = stream(seed, "sample order").permutation(len(sample))
    rows = (sample - center)[order]
    best, errors = select_units(kernel, rows, targets[order], units)
    kind, factor = candidates[best]
    reason = f"scaling {kind}, {factor:g} times the median distance, the best of {len(errors)}"
    return Preparation(projection, center, units[best]), reason


def select_units(
    kernel: Kernel,
    rows: FloatArray,
    targets: FloatArray,
    candidates: Sequence[FloatArray],
    alphas: Sequence[float] = _ALPHAS,
) -> tuple[int, list[float]]:
    """Return the index of the candidate with the lowest validation error, and all errors.

    Exact kernel ridge regression is fitted to the first half of the rows. The error is the mean
    squared error on the second half, at the best penalty. A candidate costs one eigendecomposition
    of half the rows: a quarter of a second for 2,000 rows.
    """
    half = len(rows) // 2
    center = targets[:half].mean(axis=0)
    best_errors = []
    with one_blas_thread():
        for units in candidates:
            scaled = rows / units
            # All penalties share one eigendecomposition.
            values, vectors = eigh(kernel.gram(scaled[:half]))
            projected = vectors.T @ (targets[:half] - center)
            validation = kernel.gram(scaled[half:], scaled[:half]) @ vectors
            errors = []
            for alpha in alphas:
                shrunk = projected / (np.maximum(values, 0.0) + half * alpha)[:, None]
                errors.append(float(np.mean((targets[half:] - center - validation @ shrunk) ** 2)))
            best_errors.append(min(errors))
    return int(np.argmin(best_errors)), best_errors


def _input_scales(summary: Summary, projection: Projection | None, kind: str) -> FloatArray:
    """Return the divisors of the inputs; infinity drops a constant input."""
    if projection is not None:
        axes = projection.components
        if kind != "whiten":
            return np.ones(axes.shape[1])
        assert summary.covariance is not None
        return np.sqrt(np.einsum("jk,jk->k", axes, summary.covariance @ axes))
    deviations = np.sqrt(summary.variance)
    constant = deviations <= _CONSTANT_TOL * np.abs(summary.mean)
    return np.where(constant, np.inf, deviations if kind == "standard" else 1.0)


def _to_dense(rows: Rows) -> FloatArray:
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)
