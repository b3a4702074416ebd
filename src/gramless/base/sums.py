"""Sums without BLAS, whose threads would wait, spinning, on cores that our own need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def inner(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the sum of all products of two arrays of one shape.

    Examples
    --------
    >>> inner(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(np.einsum("i,i->", a.ravel(), b.ravel()))


def weighted_sums(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``weights @ values``, (1,) or (K,), for values (n,) or (n, K).

    Examples
    --------
    >>> weighted_sums(np.array([0.5, 0.5]), np.array([1.0, 3.0]))
    array([2.])
    """
    return np.atleast_1d(np.einsum("n,n...->...", weights, values))
