"""Principal axes of a few rows as further inputs of grids, beside those of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from gramless.base.state import Stateful, array_in, require
from gramless.base.threads import one_blas_thread
from gramless.base.types import BoolArray, FloatArray
from gramless.preprocessing.rows import Rows

_MOST_INPUTS = 1000  # of more inputs no axes are computed: a row would take longer than its bins
_MOST_AXES = 256
_ROWS_AN_AXIS = 4  # axes of fewer rows would follow these rows rather than their distribution
_LEAST_SPREAD = 1e-150
_LEAST_VARIANCE = 1e-4
"""Relative to that along the first axis; axes of less are rounding errors, or nearly."""


@dataclass(frozen=True, repr=False)
class PrincipalAxes(Stateful):
    """Principal axes of inputs, each divided by its ``unit``: ``directions`` (n_inputs, k).

    The directions have length 1 and are orthogonal. ``centre`` is the mean of the divided inputs.
    """

    unit: FloatArray
    centre: FloatArray
    directions: FloatArray

    def check(self) -> None:
        """Check that the parts of axes from a file fit each other."""
        unit = array_in(vars(self), "unit", np.float64, (None,), finite=True)
        require((unit > 0.0).all(), "unit is not positive")
        array_in(vars(self), "centre", np.float64, unit.shape, finite=True)
        array_in(vars(self), "directions", np.float64, (len(unit), None), finite=True)

    @classmethod
    def of(cls, sample: Rows, unit: FloatArray, most: int = _MOST_AXES) -> Self:
        """Compute the axes of a few rows, along which they vary most first.

        ``unit`` is what each input is divided by, infinity for those to be left out. There are no
        axes of fewer than two inputs.
        """
        n_rows, n_inputs = sample.shape
        used, units = np.flatnonzero(np.isfinite(unit)), np.where(np.isfinite(unit), unit, 1.0)
        most = min(most, n_rows // _ROWS_AN_AXIS)
        if len(used) < 2:
            return cls(units, np.zeros(n_inputs), np.zeros((n_inputs, 0)))
        scaled = _dense(sample)[:, used] / unit[used]
        centre = np.zeros(n_inputs)
        centre[used] = scaled.mean(axis=0)
        centred = scaled - centre[used]
        with one_blas_thread():
            variances, vectors = scipy.linalg.eigh(centred.T @ centred / n_rows)
        kept = np.flatnonzero(variances > _LEAST_VARIANCE * variances[-1])[::-1][:most]
        directions = np.zeros((n_inputs, len(kept)))
        directions[used] = vectors[:, kept]
        return cls(units, centre, directions)

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return self.directions.shape[1]

    def along(self, X: Rows) -> FloatArray:
        """Return the coordinates of rows along the axes."""
        with one_blas_thread():
            found: FloatArray = X @ (self.directions / self.unit[:, None])
        return found

    def beside(self, X: Rows) -> Rows:
        """Return rows with their coordinates along the axes behind the inputs."""
        if self.n_axes == 0:
            return X
        along = self.along(X)
        if sp.issparse(X):
            return sp.hstack([X, sp.csr_array(along)], format="csr")
        return np.hstack([X, along])

    def shared(self, X: Rows, amounts: FloatArray) -> FloatArray:
        """Share amounts (n_samples, k) of the axes among the inputs, (n_samples, n_inputs).

        An axis is a sum over the inputs: each takes a part by the square of its term, which is its
        direction times the distance of the row from the centre.
        """
        squares = self.directions**2
        distances = (_dense(X) / self.unit - self.centre) ** 2
        # A row in the centre of an axis has no terms.
        distances += _LEAST_VARIANCE
        with one_blas_thread():
            found: FloatArray = distances * ((amounts / (distances @ squares)) @ squares.T)
        return found


def spreads(sample: Rows, categorical: BoolArray) -> FloatArray:
    """Return the standard deviation of each input, infinity for those that no axis is made of.

    These are constant ones, categories, and all of more than 1,000.
    """
    if sample.shape[1] > _MOST_INPUTS:
        return np.full(sample.shape[1], np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = _dense(sample).std(axis=0)
    used = np.isfinite(spread) & (spread > _LEAST_SPREAD) & ~categorical
    found: FloatArray = np.where(used, spread, np.inf)
    return found


def _dense(sample: Rows) -> FloatArray:
    return np.asarray(sample.toarray() if sp.issparse(sample) else sample, np.float64)
