"""Distances to neighbours: a bandwidth that needs no targets."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances

from gramless.base.lazy_rows import taken
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.base.types import BoolArray, FloatArray
from gramless.preprocessing.rows import Rows, dense_columns

SAMPLE_ROWS = 1000


def scaled_sample(X: Rows, unit: FloatArray, seed: int) -> Rows:
    """Return at most 1,000 random rows in float64, each input divided by its unit."""
    n_rows = X.shape[0]
    drawn = stream(seed, "neighbours").choice(n_rows, min(n_rows, SAMPLE_ROWS), replace=False)
    rows = taken(X, np.sort(drawn))
    if sp.issparse(rows):
        return sp.csr_array(rows.astype(np.float64) @ sp.diags_array(1.0 / unit))
    return np.asarray(rows, np.float64) / unit


def neighbour_distance(
    X: Rows,
    n_neighbours: int,
    categorical: BoolArray,
    metric: Literal["cityblock", "euclidean"] = "cityblock",
) -> float:
    """Return the median distance of a row to its neighbour of some rank, among all of few rows.

    Rows that differ in a categorical input are 1 apart in it. If more than half of the distances
    are 0, it is the median of the positive ones, or 1.0 if there are none.
    """
    if X.shape[0] < 2:
        return 1.0
    numbers, power = X[:, np.flatnonzero(~categorical)], 2 if metric == "euclidean" else 1
    if sp.issparse(numbers):
        # Scikit-learn has sparse distances of short indices alone.
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
