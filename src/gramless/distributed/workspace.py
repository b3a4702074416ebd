"""Arrays that the functions of blocks use again."""

from __future__ import annotations

import math

import numpy as np

from gramless.base.types import FloatArray


class Workspace:
    """The threads of the functions of blocks, and arrays that the next function overwrites.

    Dask has its workers give memory back at once, and fresh memory costs a fifth of a product.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads
        self._arrays: dict[str, FloatArray] = {}

    def empty(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return an array of any values, whose memory the last one of this name had."""
        size = math.prod(shape)
        known = self._arrays.get(name)
        if known is None or len(known) < size:
            known = self._arrays[name] = np.empty(size)
        return known[:size].reshape(shape)
