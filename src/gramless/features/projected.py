"""A feature map of projected rows."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp

from gramless.base.lazy_rows import OrderedRows
from gramless.base.state import State, array_in, check_columns, require
from gramless.base.threads import one_blas_thread
from gramless.base.types import AnyArray, BoolArray, FloatArray, TableLike
from gramless.features.base import FeatureMap
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.rows import Rows, check_rows, check_width

# Dense inputs are clipped to [-1e100, 1e100], because projections of larger ones could overflow.
_MAX_INPUT = 1e100


class ProjectedMap(FeatureMap):
    """A fitted feature map of linear combinations of the inputs; see :meth:`of`.

    A Gaussian kernel on ``P'x`` uses the squared distance ``(x - y)' P P' (x - y)``, so it weights
    directions of the inputs rather than single inputs.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Number of threads; None means all processors.

    Attributes
    ----------
    projection_ : array (n_features, n_directions)
        The matrix ``P``.
    map_ : FeatureMap
        The map of projected rows.
    n_features_in_ : int
        As in scikit-learn.

    Notes
    -----
    The projection of a row takes ``n_features * n_directions`` operations. Rows are projected a
    block at a time, when their features are computed.
    """

    fitted_name: ClassVar[str] = "map_"
    size_unit: ClassVar[str] = "landmarks"

    projection_: FloatArray
    map_: FeatureMap
    n_features_in_: int

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @classmethod
    def of(cls, projection: FloatArray, fitted: FeatureMap, n_jobs: int | None = None) -> Self:
        """Build the map from a projection and a map already fitted to projected rows."""
        projected = cls(n_jobs)
        projected.projection_, projected.map_ = projection, fitted
        projected.n_features_in_ = len(projection)
        return projected

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Refit the inner map, keeping the projection.

        Unlike in scikit-learn, the instance must come from :meth:`of`.
        """
        self._check_fitted()
        self.map_.fit(np.asarray(self._lazy_projection(check_rows(self, X, reset=True))))
        return self

    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        self._check_fitted()
        return self.map_.transform(
            np.asarray(self._lazy_projection(check_rows(self, X, reset=False)))
        )

    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        check_width(type(self).__name__, X, self.n_inputs)
        return self.map_.rows_matrix(self._lazy_projection(X))

    def _lazy_projection(self, X: Rows) -> Rows:
        if sp.issparse(X):
            return self._project_block(X)
        width, dtype = self.map_.n_inputs, np.dtype(np.float64)
        return OrderedRows(X, transform=self._project_block, width=width, dtype=dtype)

    def _project_block(self, X: AnyArray | sp.csr_array) -> FloatArray:
        if not sp.issparse(X):
            X = np.clip(np.asarray(X, np.float64), -_MAX_INPUT, _MAX_INPUT)
        with one_blas_thread():
            return np.asarray(X @ self.projection_, np.float64)

    @property
    def used_columns(self) -> BoolArray:
        return np.asarray((self.projection_ != 0.0).any(axis=1))

    def check_state(self, state: State) -> None:
        projection = array_in(state, "projection_", np.float64, (None, None), finite=True)
        inner = state.get("map_")
        is_valid = isinstance(inner, FeatureMap) and inner.n_inputs == projection.shape[1] > 0
        require(is_valid, "map_ must be a feature map of as many inputs as projection_ has columns")
        check_columns(state, len(projection))

    @property
    def n_inputs(self) -> int:
        return len(self.projection_)

    @property
    def numbers_per_row(self) -> int:
        return self.map_.numbers_per_row

    @property
    def n_features_out(self) -> int:
        return self.map_.n_features_out
