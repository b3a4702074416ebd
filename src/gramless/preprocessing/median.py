"""The median heuristic: a bandwidth of the size of the distances between rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.base.types import BoolArray, FloatArray
from gramless.preprocessing.rows import Rows

_PAIRS = 2000


def median_distance(
    X: Rows,
    seed: int,
    categorical: BoolArray | None = None,
    metric: Literal["cityblock", "euclidean"] = "cityblock",
    *,
    numbers_at_once: int = 1 << 23,
) -> float:
    """Return the median distance between random pairs of different rows.

    Rows that differ in a categorical input are 1 apart in it. If more than half of the pairs
    coincide, it is the median of the positive distances, or 1.0 if there are none. At most 4,000
    rows are read, and ``numbers_at_once`` bounds the differences held in memory.
    """
    n_rows = X.shape[0]
    if n_rows < 2:
        return 1.0
    generator = stream(seed, "median pairs")
    first = generator.integers(n_rows, size=_PAIRS)
    second = (first + generator.integers(1, n_rows, size=_PAIRS)) % n_rows
    width = X.nnz // n_rows if sp.issparse(X) else X.shape[1]
    parts = []
    for a, b in row_blocks(_PAIRS, max(1, numbers_at_once // max(1, width))):
        with np.errstate(over="ignore"):
            differences = abs(X[first[a:b]].astype(float) - X[second[a:b]].astype(float))
        if categorical is not None and sp.issparse(differences):
            chosen = categorical[differences.indices]
            differences.data[chosen] = differences.data[chosen] > 0
        elif categorical is not None:
            differences[:, categorical] = differences[:, categorical] > 0
        euclidean = metric == "euclidean"
        parts.append(_lengths(differences) if euclidean else np.asarray(differences.sum(axis=1)))
    distances = np.concatenate(parts)
    positive = distances[distances > 0]
    if len(positive) == 0 or not np.isfinite(positive).all():
        return 1.0
    median = float(np.median(distances))
    return median if median > 0 else float(np.median(positive))


def _lengths(differences: Rows) -> FloatArray:
    """Return Euclidean lengths, also where squares of the numbers would over- or underflow."""
    largest = differences.max()
    # A power of two divides without rounding.
    size = 2.0 ** np.floor(np.log2(largest)) if 0 < largest < np.inf else 1.0
    scaled = differences / size
    return np.sqrt(np.asarray((scaled * scaled).sum(axis=1))) * size
