"""Median distances between rows, as bandwidths for estimators without targets."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from gramless.base.lazy_rows import take_rows
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import BoolArray, FloatArray
from gramless.preprocessing.rows import Rows, dense_columns

SAMPLE_ROWS = 1000
_N_PAIRS = 2000  # pairs of rows whose distances are computed


def median_distance(
    X: Rows,
    seed: int,
    categorical: BoolArray | None = None,
    metric: Literal["cityblock", "euclidean"] = "cityblock",
    *,
    numbers_per_block: int = 1 << 18,
) -> float:
    """Return the median distance between random pairs of rows.

    Two different categories have the distance 1. If the median is 0, because at least half of the
    pairs coincide, the result is the median of the positive distances. It is 1.0 if there are none,
    if there are fewer than two rows, or if the median is infinite. At most 4,000 rows are read.

    Parameters
    ----------
    X : array or CSR array (n_rows, n_inputs)
    seed : int
    categorical : array of bool (n_inputs,), optional
        Mask of the categorical inputs.
    metric : {"cityblock", "euclidean"}, default="cityblock"
    numbers_at_once : int, default=2**18
        Size of blocks of differences. Blocks that fit into the cache take a third of the time.
    """
    n_rows = X.shape[0]
    if n_rows < 2:
        return 1.0
    generator = stream(seed, "median pairs")
    first = generator.integers(n_rows, size=_N_PAIRS)
    second = (first + generator.integers(1, n_rows, size=_N_PAIRS)) % n_rows
    width = X.nnz // n_rows if sp.issparse(X) else X.shape[1]
    parts = []
    for a, b in row_blocks(_N_PAIRS, max(1, numbers_per_block // max(1, width))):
        # Distances that overflow become infinite or NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            differences = abs(X[first[a:b]].astype(float) - X[second[a:b]].astype(float))
            if categorical is not None and sp.issparse(differences):
                is_category = categorical[differences.indices]
                differences.data[is_category] = differences.data[is_category] > 0
            elif categorical is not None:
                differences[:, categorical] = differences[:, categorical] > 0
            if metric == "euclidean":
                parts.append(_euclidean_lengths(differences))
            else:
                parts.append(np.asarray(differences.sum(axis=1)))
    distances = np.nan_to_num(np.concatenate(parts), nan=np.inf, posinf=np.inf)
    positive = distances[distances > 0]
    if len(positive) == 0:
        return 1.0
    median = float(np.median(distances)) or float(np.median(positive))
    return median if np.isfinite(median) else 1.0


def scaled_sample(X: Rows, unit: FloatArray, seed: int) -> Rows:
    """Return at most 1,000 random rows in float64, each input divided by its unit."""
    n_rows = X.shape[0]
    sample = stream(seed, "neighbours").choice(n_rows, min(n_rows, SAMPLE_ROWS), replace=False)
    rows = take_rows(X, np.sort(sample))
    if sp.issparse(rows):
        return sp.csr_array(rows.astype(np.float64) @ sp.diags_array(1.0 / unit))
    return np.asarray(rows, np.float64) / unit


def neighbour_distance(
    X: Rows,
    n_neighbours: int,
    categorical: BoolArray,
    metric: Literal["cityblock", "euclidean"] = "cityblock",
) -> float:
    """Return the median distance of the rows to their neighbour of rank ``n_neighbours``.

    Two different categories have the distance 1. If the median is 0, the result is the median of
    the positive distances. It is 1.0 if there are none, if there are fewer than two rows, or if the
    median is infinite. All pairs of rows are compared, so there should be few rows.
    """
    from sklearn.metrics import pairwise_distances

    if X.shape[0] < 2:
        return 1.0
    numbers, power = X[:, np.flatnonzero(~categorical)], 2 if metric == "euclidean" else 1
    if sp.issparse(numbers):
        # scikit-learn computes sparse distances with 32-bit indices only.
        indices, ends = (part.astype(np.int32) for part in (numbers.indices, numbers.indptr))
        numbers = sp.csr_array((numbers.data, indices, ends), numbers.shape)
    distances = np.zeros((X.shape[0], X.shape[0]))
    if numbers.shape[1] > 0:
        with one_blas_thread():
            distances += pairwise_distances(numbers, metric=metric) ** power
    for _, column in dense_columns(X, categorical):
        distances += column[:, None] != column
    rank = min(n_neighbours, len(distances) - 1)
    nearest = np.partition(distances, rank, axis=1)[:, rank] ** (1.0 / power)
    median = float(np.median(nearest))
    positive = nearest[nearest > 0]
    if len(positive) == 0 or not np.isfinite(median):
        return 1.0
    return median if median > 0 else float(np.median(positive))


def _euclidean_lengths(differences: Rows) -> FloatArray:
    # Rows are scaled by their largest entry, because squares could over- or underflow. Division by
    # powers of two is exact.
    largest = differences.max(axis=1)
    if sp.issparse(differences):
        largest = largest.toarray().ravel()
    is_regular = (largest > 0) & (largest < np.inf)
    size = 2.0 ** np.floor(np.log2(largest, out=np.zeros(len(largest)), where=is_regular))
    if sp.issparse(differences):
        scaled = sp.csr_array(differences)
        scaled.data = scaled.data / np.repeat(size, np.diff(scaled.indptr))
    else:
        scaled = differences / size[:, None]
    return np.sqrt(np.asarray((scaled * scaled).sum(axis=1))) * size
