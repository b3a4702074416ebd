"""Whitening: uncorrelated linear combinations of the inputs."""

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
    """The transformation ``(x - mean) axes`` to uncorrelated numbers of variance 1.

    Attributes
    ----------
    mean : array (n_features,)
    axes : array (n_features, n_features)
        The columns are the principal components of the standardised inputs, each divided by its
        standard deviation, those of largest variance first. Standardisation makes the result
        independent of the units of the inputs. Axes along which rows do not vary are 0.
    """

    mean: FloatArray
    axes: FloatArray

    def check(self) -> None:
        """Raise ``ValueError`` if the fields of a whitening from a file are inconsistent."""
        mean = array_in(vars(self), "mean", np.float64, (None,), finite=True)
        array_in(vars(self), "axes", np.float64, (len(mean), len(mean)), finite=True)

    @classmethod
    def fit(cls, rows: FloatArray, weight: FloatArray, unit: FloatArray) -> Self:
        """Return the whitening of rows.

        Parameters
        ----------
        rows : array (n_rows, n_features)
        weight : array (n_rows,)
            Sample weights.
        unit : array (n_features,)
            Standard deviations of the inputs, infinite for constants.
        """
        share = weight / weight.sum()
        # The mean of differences from one row keeps the digits of timestamps.
        mean = rows[0] + share @ (rows - rows[0])
        standardised = (rows - mean) / unit
        with one_blas_thread():
            values, vectors = eigh((standardised * share[:, None]).T @ standardised)
        values, vectors = values[::-1], vectors[:, ::-1]
        # The signs of eigenvectors are arbitrary: the largest entry is made positive.
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
        """Return whitened rows, in single precision if ``X`` is."""
        # A matrix product could add the terms of a row in an order that depends on the block.
        out = np.zeros(X.shape, np.float32 if X.dtype == np.float32 else np.float64)

        def whiten_block(start: int, stop: int) -> None:
            sums = np.zeros((X.shape[1], stop - start))
            for j in range(X.shape[1]):
                column = X[start:stop, j] - self.mean[j]
                sums += self.axes[j][:, None] * column
            out[start:stop] = sums.T

        map_blocks(whiten_block, row_blocks(len(X), _BLOCK_ROWS), n_jobs)
        return out

    def uses_of_inputs(self, uses: BoolArray) -> BoolArray:
        """Convert masks of used axes (..., n_features) to masks of the inputs they combine."""
        inputs: BoolArray = uses @ (self.axes != 0.0).T
        return inputs
