"""A smooth kernel beside the grids, over the inputs that the grids found to matter."""

from __future__ import annotations

import numpy as np

from gramless.base.types import FloatArray, IntArray
from gramless.features.grids import Grids
from gramless.features.nystrom import Nystrom
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.scaling import Scaler


def fineness(grids: Grids, matrix: BinnedMatrix, weights: Vector, scaler: Scaler) -> FloatArray:
    """Return how finely the grids of a fitted model divide each column of the scaled rows.

    The root of the mean squared inverse width, in units of the scaler, each grid counted by the
    variance of what it adds to the predictions of the rows.

    Parameters
    ----------
    grids : Grids
    matrix : BinnedMatrix
        The rows that the model was fitted to.
    weights : array (n_columns,) or (n_columns, K)
    scaler : Scaler

    Returns
    -------
    array (n_inputs,)
        With length 1, or 0 where nothing matters.
    """
    finite = np.isfinite(grids.widths) & np.isfinite(scaler.unit)
    inverse = np.where(finite, scaler.unit, 0.0) / np.where(finite, grids.widths, 1.0)
    counts = matrix.gram_diagonal() / matrix.scale**2
    shares = contributions(counts, matrix.offsets, weights)
    found = np.sqrt(np.einsum("r,rj->j", shares, inverse**2))
    length = np.sqrt(np.einsum("j,j->", found, found))
    return np.asarray(found / length if length > 0 else found)


def contributions(counts: FloatArray, offsets: IntArray, weights: Vector) -> FloatArray:
    """Return the variance of what each grid adds to the predictions, summed over outputs.

    Parameters
    ----------
    counts : array (n_bins,)
        Number of rows in each bin.
    offsets : array (n_grids + 1,)
    weights : array (n_bins,) or (n_bins, K)

    Examples
    --------
    >>> counts, offsets = np.array([2.0, 2.0, 4.0]), np.array([0, 2, 3])
    >>> contributions(counts, offsets, np.array([1.0, -1.0, 5.0]))
    array([1., 0.])
    """
    w = weights.reshape(len(weights), -1)
    starts = np.asarray(offsets[:-1], np.intp)
    n_rows = np.add.reduceat(counts, starts)[:, None]
    means = np.add.reduceat(counts[:, None] * w, starts) / n_rows
    squares = np.add.reduceat(counts[:, None] * w**2, starts) / n_rows
    return np.maximum(squares - means**2, 0.0).sum(axis=1)


def smooth_map(
    scaler: Scaler,
    fineness: FloatArray,
    length: float,
    n_landmarks: int,
    seed: int,
    n_jobs: int | None,
) -> Nystrom:
    """Return an unfitted Gaussian kernel whose bandwidths follow the grids.

    Parameters
    ----------
    scaler : Scaler
    fineness : array (n_inputs,)
        From :func:`fineness`.
    length : float
        The distance of two rows is this many times that in units of the fineness.
    n_landmarks : int
    seed : int
    n_jobs : int or None

    Returns
    -------
    Nystrom
    """
    with np.errstate(divide="ignore"):
        bandwidth = np.where(np.isfinite(scaler.unit), scaler.unit, 1.0) / (length * fineness)
    return Nystrom(
        "gaussian",
        bandwidth=bandwidth,
        categorical=scaler.categorical,
        n_components=n_landmarks,
        random_state=seed,
        n_jobs=n_jobs,
    )
