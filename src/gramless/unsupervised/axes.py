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

_MOST_INPUTS = 1000
"""Of more inputs no axes are computed: a row would take longer than its bins."""
_MOST_AXES = 256
_ROWS_AN_AXIS = 8
"""Axes of fewer rows would follow these rows rather than their law."""
_LEAST_VARIANCE = 1e-4
"""Relative to that along the first axis; axes of less are rounding errors, or nearly."""


@dataclass(frozen=True)
class PrincipalAxes(Stateful):
    """Principal axes of standardised inputs: ``directions`` (n_inputs, k), columns of length 1.

    ``unit`` (n_inputs,) is what each input is divided by.
    """

    unit: FloatArray
    directions: FloatArray

    def check(self) -> None:
        """Check that the parts of axes from a file fit each other."""
        unit = array_in(vars(self), "unit", np.float64, (None,), finite=True)
        require((unit > 0.0).all(), "unit is not positive")
        array_in(vars(self), "directions", np.float64, (len(unit), None), finite=True)

    @classmethod
    def of(cls, sample: Rows, categorical: BoolArray) -> Self:
        """Compute the axes of a few rows; there are none of fewer than two inputs that vary."""
        n_rows, n_inputs = sample.shape
        unit, none = np.ones(n_inputs), np.zeros((n_inputs, 0))
        if n_inputs > _MOST_INPUTS or n_rows < 2 * _ROWS_AN_AXIS:
            return cls(unit, none)
        dense = np.asarray(sample.toarray() if sp.issparse(sample) else sample, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            centred = dense - dense.mean(axis=0)
            spread = np.sqrt(np.mean(centred**2, axis=0))
        used = np.flatnonzero(np.isfinite(spread) & (spread > 1e-150) & ~categorical)
        if len(used) < 2:
            return cls(unit, none)
        unit[used] = spread[used]
        scaled = centred[:, used] / spread[used]
        with one_blas_thread():
            variances, vectors = scipy.linalg.eigh(scaled.T @ scaled / n_rows)
        most = min(_MOST_AXES, n_rows // _ROWS_AN_AXIS)
        kept = np.flatnonzero(variances > _LEAST_VARIANCE * variances[-1])[::-1][:most]
        directions = np.zeros((n_inputs, len(kept)))
        directions[used] = vectors[:, kept]
        return cls(unit, directions)

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return self.directions.shape[1]

    def beside(self, X: Rows) -> Rows:
        """Return rows with their coordinates along the axes behind the inputs."""
        if self.n_axes == 0:
            return X
        with one_blas_thread():
            along = X @ (self.directions / self.unit[:, None])
        if sp.issparse(X):
            return sp.hstack([X, sp.csr_array(along)], format="csr")
        return np.hstack([X, along])

    def attribution(self) -> sp.csr_array:
        """Return the share (n_inputs + k, n_inputs) that each input has in inputs and axes."""
        ones = sp.eye_array(len(self.unit), format="csr")
        return sp.csr_array(sp.vstack([ones, sp.csr_array(self.directions.T**2)]))
