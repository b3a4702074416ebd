"""Principal axes of a sample of rows, which grids divide like inputs."""

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

_MAX_INPUTS = 1000  # with more inputs, the axes of a row would take longer than its bins
_MAX_AXES = 256
_ROWS_PER_AXIS = 4  # axes of fewer rows would fit these rows instead of their distribution
_MIN_DEVIATION = 1e-150
_MIN_VARIANCE = 1e-4  # share of the first axis's variance; smaller ones are nearly rounding


@dataclass(frozen=True, repr=False)
class PrincipalAxes(Stateful):
    """Principal axes of inputs that are divided by ``unit``.

    ``directions`` (n_inputs, k) are orthonormal. ``centre`` is the mean of the divided inputs.
    """

    unit: FloatArray
    centre: FloatArray
    directions: FloatArray

    def check(self) -> None:
        unit = array_in(vars(self), "unit", np.float64, (None,), finite=True)
        require((unit > 0.0).all(), "unit is not positive")
        array_in(vars(self), "centre", np.float64, unit.shape, finite=True)
        array_in(vars(self), "directions", np.float64, (len(unit), None), finite=True)

    @classmethod
    def of(cls, sample: Rows, unit: FloatArray, max_axes: int = _MAX_AXES) -> Self:
        """Return the axes of a sample of rows in order of decreasing variance.

        There are at most ``max_axes``, and at most one for 4 rows. Axes with less than 1e-4 of the
        first one's variance and inputs with an infinite ``unit`` are left out. There are no axes of
        fewer than two inputs.
        """
        n_rows, n_inputs = sample.shape
        used, units = np.flatnonzero(np.isfinite(unit)), np.where(np.isfinite(unit), unit, 1.0)
        n_axes = min(max_axes, n_rows // _ROWS_PER_AXIS)
        if len(used) < 2:
            return cls(units, np.zeros(n_inputs), np.zeros((n_inputs, 0)))
        scaled = _dense(sample)[:, used] / unit[used]
        centre = np.zeros(n_inputs)
        centre[used] = scaled.mean(axis=0)
        centred = scaled - centre[used]
        with one_blas_thread():
            variances, vectors = scipy.linalg.eigh(centred.T @ centred / n_rows)
        kept = np.flatnonzero(variances > _MIN_VARIANCE * variances[-1])[::-1][:n_axes]
        directions = np.zeros((n_inputs, len(kept)))
        directions[used] = vectors[:, kept]
        return cls(units, centre, directions)

    @property
    def n_axes(self) -> int:
        return self.directions.shape[1]

    def coordinates(self, X: Rows) -> FloatArray:
        """Return the coordinates of rows along the axes."""
        with one_blas_thread():
            result: FloatArray = X @ (self.directions / self.unit[:, None])
        return result

    def append_to(self, X: Rows) -> Rows:
        """Return rows with their coordinates along the axes as additional columns."""
        if self.n_axes == 0:
            return X
        coordinates = self.coordinates(X)
        if sp.issparse(X):
            return sp.hstack([X, sp.csr_array(coordinates)], format="csr")
        return np.hstack([X, coordinates])

    def distribute(self, X: Rows, amounts: FloatArray) -> FloatArray:
        """Distribute amounts (n_samples, k) of the axes over the inputs, (n_samples, n_inputs).

        A coordinate along an axis is a sum over the inputs. Each input gets a part in proportion to
        the square of its term, its direction times the distance of the row from the centre.
        """
        squares = self.directions**2
        distances = (_dense(X) / self.unit - self.centre) ** 2
        # All terms of a row in the centre are 0: its amounts are divided by the directions alone.
        distances += _MIN_VARIANCE
        with one_blas_thread():
            result: FloatArray = distances * ((amounts / (distances @ squares)) @ squares.T)
        return result


def spreads(sample: Rows, categorical: BoolArray) -> FloatArray:
    """Return the standard deviation of each input that axes use, infinity for other inputs.

    Axes do not use constants and categories, nor any input if there are more than 1,000.
    """
    if sample.shape[1] > _MAX_INPUTS:
        return np.full(sample.shape[1], np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = _dense(sample).std(axis=0)
    is_used = np.isfinite(deviations) & (deviations > _MIN_DEVIATION) & ~categorical
    result: FloatArray = np.where(is_used, deviations, np.inf)
    return result


def _dense(sample: Rows) -> FloatArray:
    return np.asarray(sample.toarray() if sp.issparse(sample) else sample, np.float64)
