"""A smooth kernel beside the grids, over the inputs that the grids found to matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramless.base.types import FloatArray
from gramless.features.grids import Grids
from gramless.model_selection.kernel_ridge import GaussianRidge, compare_metrics
from gramless.model_selection.search import Search
from gramless.model_selection.splits import Split
from gramless.preprocessing.scaling import Scaler

_CLEARLY_BETTER = 0.97
"""Inputs count alike if that lowers the error of a sample below this share."""
EQUAL_LENGTH = 0.6
"""The bandwidth of length 1, relative to that of a sample: there are more rows now."""


def fineness(grids: Grids, variances: FloatArray, scaler: Scaler) -> FloatArray:
    """Return how finely the grids of a fitted model divide each column of the scaled rows.

    The root of the mean squared inverse width, in units of the scaler, each grid counted by the
    variance (n_grids,) of what it adds to predictions. Its length is 1, or 0 where nothing matters.
    Combinations of the columns do not count.
    """
    widths = grids.widths[:, : len(scaler.unit)]
    finite = np.isfinite(widths) & np.isfinite(scaler.unit)
    inverse = np.where(finite, scaler.unit, 0.0) / np.where(finite, widths, 1.0)
    shares = np.maximum(variances, 0.0)
    found = np.sqrt(np.einsum("r,rj->j", shares, inverse**2))
    length = np.sqrt(np.einsum("j,j->", found, found))
    return np.asarray(found / length if length > 0 else found)


def smooth_bandwidths(
    search: Search,
    split: Split,
    scaler: Scaler,
    fineness: FloatArray,
    lengths: Sequence[float],
    known: Sequence[GaussianRidge] = (),
) -> list[FloatArray]:
    """Return bandwidths of Gaussian kernels over the scaled rows, one for each length.

    They follow the grids' :func:`fineness`: two rows are so many lengths apart in its units. Where
    a sample is clearly better predicted by a kernel over inputs that count alike, as the pixels of
    images are, they follow that one. The scaler is of kind "both"; the search gets the trials, but
    for those of equal inputs that are ``known``.
    """
    weighted, equal = compare_metrics(search, split, scaler, fineness / fineness.max(), known)
    if equal.score >= _CLEARLY_BETTER * weighted.score:
        with np.errstate(divide="ignore", over="ignore"):
            unit = np.where(np.isfinite(scaler.unit), scaler.unit, 1.0) / fineness
        return _of_lengths(unit, lengths)
    unit = EQUAL_LENGTH * equal.scaler.unscaled(equal.bandwidth)
    unit = np.concatenate([unit, np.full(len(scaler.unit) - len(unit), np.inf)])
    return _of_lengths(unit, lengths)


def _of_lengths(unit: FloatArray, lengths: Sequence[float]) -> list[FloatArray]:
    """Return a bandwidth for each length; infinite ones, of inputs near 1e308, ignore the input."""
    with np.errstate(over="ignore"):
        return [unit / length for length in lengths]
