"""Sums of multiples of a power of two, which are exact in any order."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop


@loop
def add_multiples(values, scale, total):
    """Compute ``total[i] += round(values[i] * scale)`` in integers; halves round to even."""
    for i in range(len(values)):
        total[i] += np.int64(np.rint(values[i] * scale))
