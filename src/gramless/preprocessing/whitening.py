"""Whitening: linear combinations of the inputs that do not vary together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import eigh

from gramless.base.state import Stateful, array_in
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray

_BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class Whitening(Stateful):
    """Combinations ``(x - mean) axes`` of the inputs, of variance 1 and without correlation.

    The axes are the principal components of the standardised inputs, each divided by its standard
    deviation, the ones that vary most first. So the units of the inputs do not matter. The axes of
    directions in which rows do not vary are 0.
    """

    mean: FloatArray  # (n_features,)
    axes: FloatArray  # (n_features, n_features)

    def check(self) -> None:
        """Check that the parts of a whitening from a file fit each other."""
        mean = array_in(vars(self), "mean", np.float64, (None,), finite=True)
        array_in(vars(self), "axes", np.float64, (len(mean), len(mean)), finite=True)

    @classmethod
    def fit(cls, rows: FloatArray, weight: FloatArray, unit: FloatArray) -> Self:
        """Return the whitening of rows with weights; ``unit`` are the deviations of the inputs.

        Inputs with an infinite deviation are constants.
        """
        share = weight / weight.sum()
        # Differences from a row keep the digits of timestamps.
        mean = rows[0] + share @ (rows - rows[0])
        standardised = (rows - mean) / unit
        with one_blas_thread():
            values, vectors = eigh((standardised * share[:, None]).T @ standardised)
        values, vectors = values[::-1], vectors[:, ::-1]
        largest = np.argmax(np.abs(vectors), axis=0)
        vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
        varies = values > len(values) * np.finfo(np.float64).eps * values[0]
        deviation = np.sqrt(np.where(varies, values, np.inf))
        return cls(mean, np.ascontiguousarray(vectors / deviation / unit[:, None]))

    @property
    def varies(self) -> BoolArray:
        """Mask of the axes along which rows vary."""
        varies: BoolArray = (self.axes != 0.0).any(axis=0)
        return varies

    def apply(self, X: AnyArray, n_jobs: int | None = None) -> AnyArray:
        """Return whitened rows, in single precision if the rows are.

        Terms are added one after the other, so that a row has the same bits wherever it is
        computed.
        """
        out = np.zeros(X.shape, np.float32 if X.dtype == np.float32 else np.float64)

        def fill(start: int, stop: int) -> None:
            sums = np.zeros((X.shape[1], stop - start))
            for j in range(X.shape[1]):
                column = X[start:stop, j] - self.mean[j]
                sums += self.axes[j][:, None] * column
            out[start:stop] = sums.T

        map_blocks(fill, row_blocks(len(X), _BLOCK_ROWS), n_jobs)
        return out

    def uses_of_inputs(self, uses: BoolArray) -> BoolArray:
        """Convert uses of axes (..., n_features) to uses of the inputs that these combine."""
        combined: BoolArray = uses @ (self.axes != 0.0).T
        return combined
