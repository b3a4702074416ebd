"""Scratch memory that functions of blocks reuse."""

from __future__ import annotations

import math

import numpy as np

from gramless.base.types import FloatArray


class Workspace:
    """The number of threads for functions of blocks, and arrays that they overwrite.

    Workers of Dask return free memory to the system at once, and allocating it again costs a fifth
    of a product.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads
        self._arrays: dict[str, FloatArray] = {}

    def empty(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return an uninitialised array in the memory of the last array of this name."""
        size = math.prod(shape)
        known = self._arrays.get(name)
        if known is None or len(known) < size:
            known = self._arrays[name] = np.empty(size)
        return known[:size].reshape(shape)
