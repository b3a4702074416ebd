"""Features of projections of the rows."""

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

_FARTHEST = 1e100
"""To which inputs are moved, lest their combinations overflow."""


class ProjectedMap(FeatureMap):
    """A feature map whose inputs are linear combinations of the rows' inputs; see :meth:`of`.

    A Gaussian kernel of ``P'x`` is one whose distances ``(x - y)' P P' (x - y)`` count directions
    of the inputs, not only the inputs themselves.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None means every processor.

    Attributes
    ----------
    projection_ : array (n_features, n_directions)
        ``P``, whose columns are the linear combinations.
    map_ : FeatureMap
        Fitted to projected rows.
    n_features_in_ : int
        As in scikit-learn.

    Notes
    -----
    A row's projection takes n_features * n_directions operations. Rows are projected when their
    features are computed, a block at a time.
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
        """Return the features that a map, fitted to projected rows, has of rows."""
        made = cls(n_jobs)
        made.projection_, made.map_ = projection, fitted
        made.n_features_in_ = len(projection)
        return made

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Fit the same map to the same projections of other rows."""
        self._check_fitted()
        self.map_.fit(np.asarray(self._projected(check_rows(self, X, reset=True))))
        return self

    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        self._check_fitted()
        return self.map_.transform(np.asarray(self._projected(check_rows(self, X, reset=False))))

    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        check_width(type(self).__name__, X, self.n_inputs)
        return self.map_.rows_matrix(self._projected(X))

    def _projected(self, X: Rows) -> Rows:
        if sp.issparse(X):
            return self._project(X)
        width, dtype = self.map_.n_inputs, np.dtype(np.float64)
        return OrderedRows(X, transform=self._project, width=width, dtype=dtype)

    def _project(self, X: AnyArray | sp.csr_array) -> FloatArray:
        near = X if sp.issparse(X) else np.clip(np.asarray(X, np.float64), -_FARTHEST, _FARTHEST)
        with one_blas_thread():
            return np.asarray(near @ self.projection_, np.float64)

    @property
    def used_columns(self) -> BoolArray:
        return np.asarray((self.projection_ != 0.0).any(axis=1))

    def check_state(self, state: State) -> None:
        projection = array_in(state, "projection_", np.float64, (None, None), finite=True)
        inner = state.get("map_")
        fits = isinstance(inner, FeatureMap) and inner.n_inputs == projection.shape[1] > 0
        require(fits, "map_ is something else, or takes other inputs than projection_ gives")
        check_columns(state, len(projection))

    @property
    def n_inputs(self) -> int:
        return len(self.projection_)

    @property
    def numbers_per_row(self) -> int:
        return self.map_.numbers_per_row

    @property
    def _n_features_out(self) -> int:
        return self.map_._n_features_out
