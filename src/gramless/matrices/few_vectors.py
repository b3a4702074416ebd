"""Products of rows in single precision with a few vectors, by a loop that is made for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import AnyArray, FloatArray
from gramless.loops.dense import responses_to_few

BlockProduct = Callable[[int, int], AnyArray]
"""Returns the product of some of the rows, given the first and the last of them."""


def product_with_few(rows: NDArray[np.float32], v: AnyArray) -> BlockProduct:
    """Return what multiplies blocks of rows (n_rows, m) with ``v`` (m, K).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [0.0, 1.0]], np.float32)
    >>> product_with_few(rows, np.array([[1.0, 0.0], [1.0, 2.0]]))(0, 2)
    array([[3., 4.],
           [1., 2.]])
    """
    n_outputs = v.shape[1]
    # The loop takes a multiple of 3: zeros fill them up.
    vectors = np.zeros((-(-n_outputs // 3) * 3, len(v)), np.float32)
    vectors[:n_outputs] = v.T

    def multiply(first: int, last: int) -> FloatArray:
        found = np.empty((last - first, len(vectors)))
        responses_to_few(rows[first:last], vectors, found)
        return found[:, :n_outputs]

    return multiply
