"""What estimators without targets share: tables to rows, rows to features, their decomposition."""

from __future__ import annotations

import warnings
from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from
from gramless.base.state import (
    State,
    StatefulEstimator,
    array_in,
)
from gramless.base.types import FloatArray, TableLike
from gramless.estimators.features import check_fitted_features, feature_blocks, given_map, named_map
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count, check_number, is_auto, scalings_of
from gramless.features.base import FeatureMap, SizedMap
from gramless.kernels import bandwidth_vector
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.neighbours import neighbour_distance, scaled_sample
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler
from gramless.unsupervised.decomposition import FeatureDecomposition

BandwidthRule = Literal["median", "neighbors"]

_NEIGHBOURS = 10
"""Rank of the neighbour, among 1,000 rows, whose distance is the bandwidth."""


@dataclass(eq=False, repr=False, kw_only=True)
class UnsupervisedMachine(StatefulEstimator, ABC):
    """Common base of :class:`KernelPCA` and :class:`SpectralClustering`: their features."""

    _bandwidth_rule: ClassVar[BandwidthRule]
    """The bandwidth where neither the estimator nor its feature map is given one."""

    features: str | SizedMap = "binning"
    bandwidth: float | ArrayLike | str = "auto"
    scaling: str = "auto"
    categorical_features: str | ArrayLike = "auto"
    n_grids: int | str = "auto"
    tol: float = 1e-4
    max_iter: int = 200
    random_state: RandomState = None
    n_jobs: int | None = None

    def _fit_features(self, X: TableLike) -> tuple[FeatureMatrix, int]:
        """Learn inputs, units and features from rows; return their matrix and the seed."""
        check_number(self, "tol")
        check_count(self, "max_iter")
        # Rows are checked together with targets, and there are none.
        no_targets = np.zeros(_num_samples(X))
        self.inputs_, rows, _ = RowInputs.fit(self, X, no_targets, self.categorical_features, {})
        seed, kind = seed_from(self.random_state), scalings_of(self.scaling, sp.issparse(rows))[0]
        self.scaler_: Scaler = Scaler.fit(kind, rows, categorical=self.inputs_.categorical)
        rows = self.scaler_.rows(rows, self.n_jobs)
        feature_map = self._feature_map(rows.shape, seed)
        self.bandwidth_ = self._bandwidth(rows, feature_map, seed)
        feature_map.set_params(
            bandwidth=self.scaler_.unscaled(self.bandwidth_), categorical=self.scaler_.categorical
        )
        matrix = feature_map.fit_rows(rows)
        self.features_: FeatureMap = feature_map
        return matrix, seed

    def _feature_map(self, shape: tuple[int, int], seed: int) -> Any:
        """Return the unfitted feature map."""
        n_grids = None if is_auto(self.n_grids) else check_count(self, "n_grids")
        if not isinstance(self.features, str):
            owner = type(self).__name__
            return given_map(self.features, owner, shape, n_grids, seed, self.n_jobs)
        feature_map = named_map(self.features, shape, 1, n_grids, seed, self.n_jobs)
        feature_map.check_memory(shape)
        return feature_map

    def _bandwidth(self, rows: Rows, feature_map: SizedMap, seed: int) -> Any:
        """Return the bandwidth in units of the scaled inputs, as given or by a rule."""
        given: Any = self.bandwidth
        if is_auto(given):
            own = self.features.bandwidth if isinstance(self.features, SizedMap) else None
            given = self._bandwidth_rule if own is None or isinstance(own, str) else own
        if not isinstance(given, str):
            # An input of sparse rows may be one of many columns.
            all_inputs = rows.shape[1] if self.inputs_.kept is None else self.n_features_in_
            bandwidth_vector(given, all_inputs)
            return self.inputs_.of_inputs(np.asarray(given, np.float64))
        sample = scaled_sample(rows, self.scaler_.unit, seed)
        categorical, metric = self.scaler_.categorical_mask, feature_map.metric
        if given == "median":
            return median_distance(sample, seed, categorical, metric)
        if given == "neighbors":
            return neighbour_distance(sample, _NEIGHBOURS, categorical, metric)
        raise InputError(
            f"{type(self).__name__}: bandwidth must be a number, one number an input, 'auto', "
            f"'median' or 'neighbors'; got {given!r}."
        )

    def _decompose(
        self, matrix: FeatureMatrix, n_components: int, seed: int, least: float = 0.0
    ) -> FeatureDecomposition:
        """Return leading singular vectors; warn where they are not as exact as asked for.

        Those of singular values up to ``least``, which are rounding errors, are not kept.
        """
        found = FeatureDecomposition.of(
            matrix,
            min(n_components, *matrix.shape),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            seed=seed,
        )
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__}: singular vectors have residuals of up to "
                f"{found.residuals.max():.1e} after {found.n_iter} iterations, more than "
                f"tol={self.tol:g}; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        n_kept = np.count_nonzero(found.singular_values > least)
        self.singular_values_: FloatArray = found.singular_values[:n_kept]
        self.components_: FloatArray = np.ascontiguousarray(found.right.T[:n_kept])
        self.n_iter_: int = found.n_iter
        return found

    def _products(self, X: TableLike, weights: FloatArray) -> FloatArray:
        """Return the features of new rows times weights (n_columns, K), block by block."""
        rows = self.inputs_.transform(self, X)
        blocks = feature_blocks(self.features_, self.scaler_, rows, self.n_jobs)
        none = np.zeros((0, weights.shape[1]))
        return np.concatenate([none, *(part.matvec(weights) for part in blocks)])

    def _check_fitted(self) -> None:
        check_is_fitted(self, "components_")

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        features, _ = check_fitted_features(state)
        values = array_in(state, "singular_values_", np.float64, (None,), finite=True)
        shape = len(values), features._n_features_out
        array_in(state, "components_", np.float64, shape, finite=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
