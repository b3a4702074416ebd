"""Rows as they come to rows as the kernel sees them: components, center, units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError
from gramless.kernels import SpectralKernel, bandwidth_vector
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.choosing import best_units
from gramless.streaming.orders import shuffled
from gramless.streaming.summary import Projection, Summary

FloatArray = NDArray[np.float64]

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0)
"""Times the median distance: what is tried."""

_FEWEST_TO_TRY = 40
_ROUNDING = 1e-12
"""A deviation below this share of the mean may be rounding of a constant."""


@dataclass(frozen=True)
class Preparation:
    """How rows become rows of the kernel at bandwidth 1: projected, centred, divided.

    Parameters
    ----------
    projection : Projection or None
        To principal components.
    center : array (n_inputs,)
        0 where rows are sparse.
    units : array (n_inputs,)
        Bandwidths in units of the inputs (or components); infinity leaves an input out.
    """

    projection: Projection | None
    center: FloatArray
    units: FloatArray

    @property
    def inverse(self) -> FloatArray:
        """1 / units, finite."""
        with np.errstate(over="ignore"):
            return np.minimum(1.0 / self.units, np.finfo(np.float64).max)

    def project(self, X: Rows) -> Rows:
        """Return rows in principal components, or as they are.

        Raises
        ------
        InputError
            If the rows have other columns than those of the fit.
        """
        if self.projection is not None:
            return self.projection.apply(X)
        check_width("Preparation", X, len(self.units))
        return X

    def unit_rows(self, X: Rows) -> FloatArray:
        """Return a few rows as the kernel sees them, dense float64."""
        found: FloatArray = (_dense(self.project(X)) - self.center) * self.inverse
        return found


def prepare(
    summary: Summary,
    targets: FloatArray,
    projection: Projection | None,
    bandwidth: ArrayLike | str,
    scalings: Sequence[str],
    kernel: SpectralKernel,
    seed: int,
) -> tuple[Preparation, str]:
    """Return how rows are prepared, and why so.

    Parameters
    ----------
    summary : Summary
    targets : array (n_sample, n_outputs)
        Of the summary's sample.
    projection : Projection or None
    bandwidth : "auto", "median", float or array (n_inputs,)
        In units of the scaled inputs, or of the components, which are never scaled. ``"auto"``
        tries :data:`BANDWIDTHS` times the median distance, with each scaling.
    scalings : list of {"standard", "none"}
        To choose from; without a trial, the first.
    kernel : SpectralKernel
    seed : int

    Returns
    -------
    preparation : Preparation
    reason : str

    Raises
    ------
    InputError
        If the bandwidth is none of these.

    Notes
    -----
    A trial costs two to three seconds: exact ridge regressions of half the sample.
    """
    sample = _dense(summary.sample if projection is None else projection.apply(summary.sample))
    center = np.zeros(sample.shape[1])
    if projection is None and not sp.issparse(summary.sample):
        center = summary.mean
    scales = [_scales(summary, projection, kind) for kind in scalings]
    if not isinstance(bandwidth, str):
        widths = bandwidth_vector(bandwidth, len(center))
        return Preparation(projection, center, scales[0] * widths), "bandwidth as given"
    if bandwidth not in ("auto", "median"):
        raise InputError(
            f"bandwidth must be 'auto', 'median', a number or one number an input; "
            f"got {bandwidth!r}."
        )
    medians = [
        scale * median_distance((sample - center) / scale, seed, None, kernel.metric)
        for scale in scales
    ]
    if bandwidth == "median" or len(sample) < _FEWEST_TO_TRY:
        reason = f"scaling {scalings[0]}, the median distance"
        return Preparation(projection, center, medians[0]), reason
    tried = [(kind, factor) for kind in scalings for factor in BANDWIDTHS]
    units = [median * factor for median in medians for factor in BANDWIDTHS]
    order = shuffled(seed, "sample order", 0, len(sample))
    best, errors = best_units(kernel, (sample - center)[order], targets[order], units)
    kind, factor = tried[best]
    reason = f"scaling {kind}, {factor:g} times the median distance, the best of {len(errors)}"
    return Preparation(projection, center, units[best]), reason


def _scales(summary: Summary, projection: Projection | None, kind: str) -> FloatArray:
    """Return what inputs are divided by: infinity for constants."""
    if projection is not None:
        return np.ones(projection.components.shape[1])
    deviations = np.sqrt(summary.variance)
    constant = deviations <= _ROUNDING * np.abs(summary.mean)
    return np.where(constant, np.inf, deviations if kind == "standard" else 1.0)


def _dense(rows: Any) -> FloatArray:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
