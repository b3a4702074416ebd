"""Base classes of the estimators without targets."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.random import RandomStateLike, seed_from
from gramless.base.state import State, StatefulEstimator, array_in, part_in, require
from gramless.base.types import AnyArray, FloatArray, IntArray, TableLike
from gramless.estimators.features import check_fitted_features, feature_blocks, given_map, named_map
from gramless.estimators.given_rows import rows_with_weight, take_given_rows
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count, check_number, is_auto, scalings_of
from gramless.features.base import FeatureMap, SizedMap
from gramless.kernels import bandwidth_vector
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.transformed import RowScaledMatrix
from gramless.preprocessing.equal_rows import equal_rows
from gramless.preprocessing.median import median_distance, neighbour_distance, scaled_sample
from gramless.preprocessing.rows import Rows, checked_weights
from gramless.preprocessing.scaling import Scaler
from gramless.unsupervised.lanczos import SingularTriplets

_NEIGHBOUR_RANK = 10  # the bandwidth is the distance of this neighbour among 1,000 rows


class TableEstimator(StatefulEstimator, ABC):
    categorical_features: str | ArrayLike
    inputs_: RowInputs

    def _learn_inputs(
        self, X: TableLike, y: ArrayLike | None = None, **options: object
    ) -> tuple[Rows, AnyArray]:
        """Learn the inputs; return the encoded rows and targets, validated with ``options``."""
        # Rows are validated together with targets, even if there are none.
        y = np.zeros(_num_samples(X)) if y is None else y
        self.inputs_, rows, targets = RowInputs.fit(self, X, y, self.categorical_features, options)
        return rows, targets

    def _without_ignored(
        self, X: TableLike, sample_weight: ArrayLike | None
    ) -> tuple[TableLike, ArrayLike | None, IntArray | None]:
        """Return the rows of positive weight and their weights, and their indices if not all."""
        used = rows_with_weight(type(self).__name__, sample_weight, X)
        if used is None:
            return X, sample_weight, None
        return take_given_rows(X, used), take_given_rows(sample_weight, used), used

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class ProjectingMachine(TableEstimator, ABC):
    """Base of estimators that project features to their leading singular vectors."""

    # The bandwidth if neither the estimator nor its feature map has one.
    _bandwidth_rule: ClassVar[Literal["median", "neighbors"]] = "median"

    features: str | SizedMap = "binning"
    bandwidth: float | ArrayLike | str = "auto"
    scaling: str = "auto"
    categorical_features: str | ArrayLike = "auto"
    n_grids: int | str = "auto"
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    tol: float = 1e-4
    max_iter: int = 200

    def _distinct_rows(
        self, X: TableLike, sample_weight: ArrayLike | None
    ) -> tuple[Rows, FloatArray, float]:
        """Learn the inputs; return the distinct rows, their weights, and the mean multiplicity.

        Rows of weight 0 are left out; the mean of the weights is 1. Samples of rows and bandwidths
        then do not depend on whether rows are repeated or weighted.
        """
        X, sample_weight, _ = self._without_ignored(X, sample_weight)
        rows, _ = self._learn_inputs(X)
        n_rows = rows.shape[0]
        weights = self._relative_weights(sample_weight, n_rows)
        first, group = equal_rows(rows)
        # Groups have an order of their own, in which a weighted row and its copies give the same
        # table. Rows are therefore reordered if their weights differ, even if all are distinct.
        if len(first) < n_rows or weights.min() < weights.max():
            sums = np.asarray(np.bincount(group, weights=weights), np.float64)
            rows, weights = take_rows(rows, first), sums
        return rows, weights / weights.mean(), n_rows / len(weights)

    def _fit_row_features(
        self, rows: Rows, weights: FloatArray | None = None
    ) -> tuple[FeatureMatrix, int]:
        """Learn the scaling and the features; return the feature matrix and the seed."""
        seed, kind = seed_from(self.random_state), scalings_of(self.scaling, sp.issparse(rows))[0]
        self.scaler_: Scaler = Scaler.fit(kind, rows, weights, self.inputs_.categorical)
        rows = self.scaler_.rows(rows, self.n_jobs)
        return self._learn_features(rows, seed), seed

    def _learn_features(self, rows: Rows, seed: int) -> FeatureMatrix:
        feature_map = self._feature_map(rows.shape, seed)
        self.bandwidth_ = self._bandwidth(rows, feature_map, seed)
        feature_map.set_params(
            bandwidth=self.scaler_.unscaled(self.bandwidth_), categorical=self.scaler_.categorical
        )
        matrix: FeatureMatrix = feature_map.fit_rows(rows)
        self.features_: FeatureMap = feature_map
        return matrix

    @property
    def _kernel_features(self) -> str | SizedMap:
        # SpectralClustering, whose default is "auto", overrides it.
        return self.features

    def _feature_map(self, shape: tuple[int, int], seed: int) -> SizedMap:
        n_grids = None if is_auto(self.n_grids) else check_count(self, "n_grids")
        features = self._kernel_features
        if not isinstance(features, str):
            owner = type(self).__name__
            return given_map(features, owner, shape, n_grids, seed, self.n_jobs)
        feature_map = named_map(features, shape, 1, n_grids, seed, self.n_jobs)
        feature_map.check_memory(shape)
        return feature_map

    def _bandwidth(self, rows: Rows, feature_map: SizedMap, seed: int) -> FloatArray | float:
        """Return the bandwidth in units of the scaled inputs."""
        bandwidth = self.bandwidth
        if is_auto(bandwidth):
            of_map = self.features.bandwidth if isinstance(self.features, SizedMap) else None
            if of_map is None or isinstance(of_map, str):
                bandwidth = self._bandwidth_rule
            else:
                bandwidth = of_map
        if not isinstance(bandwidth, str):
            # The inputs of sparse rows are only the columns that have non-zeros, but users give one
            # bandwidth per column. This only raises InputError; of_inputs selects those of inputs.
            n_bandwidths = rows.shape[1] if self.inputs_.kept is None else self.n_features_in_
            bandwidth_vector(bandwidth, n_bandwidths)
            return self.inputs_.of_inputs(np.asarray(bandwidth, np.float64))
        sample = scaled_sample(rows, self.scaler_.unit, seed)
        categorical, metric = self.scaler_.categorical_mask, feature_map.metric
        if bandwidth == "median":
            return median_distance(sample, seed, categorical, metric)
        if bandwidth == "neighbors":
            return neighbour_distance(sample, _NEIGHBOUR_RANK, categorical, metric)
        raise InputError(
            f"{type(self).__name__}: bandwidth must be a number, one number per input, 'auto', "
            f"'median' or 'neighbors'; got {bandwidth!r}."
        )

    def _relative_weights(self, sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
        """Return the checked weights of the rows, scaled so that the largest is in [1/2, 1)."""
        weights = checked_weights(sample_weight, n_rows, type(self).__name__)
        # Powers of two do not round, so that repeated and weighted rows have equal sums.
        return np.ldexp(weights, -np.frexp(weights.max())[1])

    def _products(self, X: TableLike, weights: FloatArray) -> FloatArray:
        """Return the features of new rows times weights (n_columns, K), block by block."""
        empty = np.zeros((0, weights.shape[1]))
        return np.concatenate([empty, *(part.matvec(weights) for part in self._feature_blocks(X))])

    def _feature_blocks(self, X: TableLike) -> Iterator[FeatureMatrix]:
        rows = self.inputs_.transform(self, X)
        return feature_blocks(self.features_, self.scaler_, rows, self.n_jobs)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "features_")

    def _decompose(
        self, matrix: FeatureMatrix, n_components: int, seed: int, min_value: float = 0.0
    ) -> SingularTriplets:
        """Set the components to the leading singular vectors with values above ``min_value``.

        Singular values up to ``min_value`` are rounding errors. The returned triplets still
        contain them.
        """
        triplets = self._triplets(matrix, n_components, seed)
        n_kept = np.count_nonzero(triplets.singular_values > min_value)
        self.singular_values_: FloatArray = triplets.singular_values[:n_kept]
        self.components_: FloatArray = np.ascontiguousarray(triplets.right.T[:n_kept])
        self.n_iter_: int = triplets.n_iter
        return triplets

    def _triplets(self, matrix: FeatureMatrix, n_components: int, seed: int) -> SingularTriplets:
        """Return the leading singular triplets; warn if they have not converged to ``tol``."""
        triplets = SingularTriplets.of(
            matrix,
            min(n_components, *matrix.shape),
            tol=check_number(self, "tol"),
            max_iter=check_count(self, "max_iter"),
            seed=seed,
        )
        if not triplets.converged:
            warnings.warn(
                f"{type(self).__name__}: singular vectors have residuals of up to "
                f"{triplets.residuals.max():.1e} after {triplets.n_iter} iterations, more than "
                f"tol={self.tol:g}; increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return triplets

    def check_state(self, state: State) -> None:
        """Raise InputError if the parts of a model from a file are inconsistent."""
        features, _ = check_fitted_features(state)
        n_components = len(part_in(state, "components_", np.ndarray))
        width = features.n_features_out
        array_in(state, "components_", np.float64, (n_components, width), finite=True)
        values = array_in(state, "singular_values_", np.float64, (None,), finite=True)
        require(len(values) >= n_components, "components have no singular values")


def normalise_by_degree(
    matrix: FeatureMatrix, weights: FloatArray, owner: str, regularization: float = 0.0
) -> FeatureMatrix:
    """Return the features with rows multiplied by ``sqrt(weights / degrees)``.

    The degree of a row is the weighted sum of its similarities, ``D = Z (Z.T weights)``, plus
    ``regularization`` times the mean degree. Raise InputError if a row of positive weight has no
    positive degree.
    """
    degrees, has_weight = matrix.matvec(matrix.rmatvec(weights)), weights > 0
    degrees += regularization * np.average(degrees, weights=weights)
    n_isolated = np.count_nonzero(has_weight & ~(degrees > 0))
    if n_isolated:
        raise InputError(
            f"{owner}: the similarities of {n_isolated:,} rows do not add up to a positive degree; "
            f"use a larger bandwidth, more components, or features of bins."
        )
    return RowScaledMatrix(matrix, np.sqrt(weights / np.where(has_weight, degrees, 1.0)))
