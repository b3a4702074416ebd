"""The median trick: a bandwidth of the size of the distances between rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.preprocessing.rows import Rows

_PAIRS = 2000
_NUMBERS_AT_ONCE = 1 << 23


def median_distance(
    X: Rows,
    seed: int,
    categorical: NDArray[np.bool_] | None = None,
    metric: Literal["cityblock", "euclidean"] = "cityblock",
) -> float:
    """Return the median distance between random pairs of different rows.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    seed : int
        Names the pairs drawn.
    categorical : array (n_features,) of bool, optional
        Inputs where rows that differ are 1 apart.
    metric : {"cityblock", "euclidean"}, default="cityblock"
        Sums of differences, or the root of the sum of their squares.

    Returns
    -------
    float
        1.0 when more than half of the pairs coincide and no distance is positive.

    Notes
    -----
    Reads at most 4,000 rows; holds at most some 8 million numbers of their differences.

    Examples
    --------
    >>> import numpy as np
    >>> median_distance(np.array([[0.0], [3.0]]), seed=0)
    3.0
    >>> median_distance(np.array([[0.0, 0.0], [3.0, 4.0]]), seed=0, metric="euclidean")
    5.0
    """
    n_rows = X.shape[0]
    if n_rows < 2:
        return 1.0
    generator = stream(seed, "median pairs")
    first = generator.integers(n_rows, size=_PAIRS)
    second = (first + generator.integers(1, n_rows, size=_PAIRS)) % n_rows
    # Pairs of wide rows are many numbers.
    rows: Any = X
    width = rows.nnz // n_rows if sp.issparse(rows) else rows.shape[1]
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, width))
    parts = []
    for a, b in row_blocks(_PAIRS, at_once):
        with np.errstate(over="ignore"):
            gaps = abs(rows[first[a:b]].astype(float) - rows[second[a:b]].astype(float))
        if categorical is not None:
            _cap(gaps, categorical)
        parts.append(_lengths(gaps) if metric == "euclidean" else np.asarray(gaps.sum(axis=1)))
    distances = np.concatenate(parts)
    positive = distances[distances > 0]
    if len(positive) == 0 or not np.isfinite(positive).all():
        return 1.0
    median = float(np.median(distances))
    return median if median > 0 else float(np.median(positive))


def _lengths(gaps: Any) -> NDArray[np.float64]:
    """Return the roots of sums of squares, of numbers whose squares are no numbers too."""
    largest = gaps.max()
    # A power of two divides without rounding.
    size = 2.0 ** np.floor(np.log2(largest)) if 0 < largest < np.inf else 1.0
    gaps = gaps / size
    return np.sqrt(np.asarray((gaps * gaps).sum(axis=1))) * size


def _cap(gaps: Any, categorical: NDArray[np.bool_]) -> None:
    """Make all distances 1, or 0, in some columns."""
    if sp.issparse(gaps):
        chosen = categorical[gaps.indices]
        gaps.data[chosen] = gaps.data[chosen] > 0
    else:
        gaps[:, categorical] = gaps[:, categorical] > 0
