"""Sparse features, compared to the last bit."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def same_csr(a: sp.csr_array, b: sp.csr_array) -> bool:
    parts = ("data", "indices", "indptr")
    return a.shape == b.shape and all(np.array_equal(getattr(a, p), getattr(b, p)) for p in parts)
