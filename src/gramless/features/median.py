"""The median trick: a bandwidth of the size of the distances between rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gramless.base.random import stream
from gramless.features.inputs import Rows

_PAIRS = 2000


def median_distance(X: Rows, seed: int) -> float:
    """Return the median L1 distance between random pairs of different rows.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    seed : int
        Names the pairs drawn.

    Returns
    -------
    float
        1.0 when more than half of the pairs coincide and no distance is positive.

    Notes
    -----
    Reads at most 4,000 rows.

    Examples
    --------
    >>> import numpy as np
    >>> median_distance(np.array([[0.0], [3.0]]), seed=0)
    3.0
    """
    n_rows = X.shape[0]
    if n_rows < 2:
        return 1.0
    generator = stream(seed, "median pairs")
    first = generator.integers(n_rows, size=_PAIRS)
    second = (first + generator.integers(1, n_rows, size=_PAIRS)) % n_rows
    if sp.issparse(X):
        distances = np.asarray(abs(X[first].astype(float) - X[second].astype(float)).sum(axis=1))
    else:
        distances = np.abs(X[first].astype(float) - X[second].astype(float)).sum(axis=1)
    positive = distances[distances > 0]
    if len(positive) == 0 or not np.isfinite(positive).all():
        return 1.0
    median = float(np.median(distances))
    return median if median > 0 else float(np.median(positive))
