"""What estimators without targets share: tables to rows, rows to features, their projections."""

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
from gramless.base.random import RandomState, seed_from
from gramless.base.state import State, StatefulEstimator, array_in, part_in, require
from gramless.base.types import AnyArray, FloatArray, IntArray, TableLike
from gramless.estimators.features import check_fitted_features, feature_blocks, given_map, named_map
from gramless.estimators.given_rows import rows_with_weight, take_given_rows
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count, check_number, is_auto, scalings_of
from gramless.features.base import FeatureMap, SizedMap
from gramless.kernels import bandwidth_vector
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.normalised import RowScaledMatrix
from gramless.preprocessing.equal_rows import equal_rows
from gramless.preprocessing.median import median_distance, neighbour_distance, scaled_sample
from gramless.preprocessing.rows import Rows, checked_weights
from gramless.preprocessing.scaling import Scaler
from gramless.unsupervised.lanczos import SingularTriplets

_NEIGHBOURS = 10  # rank of the neighbour, among 1,000 rows, whose distance is the bandwidth


class TableEstimator(StatefulEstimator, ABC):
    """Common base of estimators whose tables have gaps and categories, or are sparse."""

    categorical_features: str | ArrayLike
    inputs_: RowInputs

    def _learn_inputs(
        self, X: TableLike, y: ArrayLike | None = None, **options: object
    ) -> tuple[Rows, AnyArray]:
        """Learn inputs from rows; return these, and targets; ``options`` check them."""
        # Rows are checked together with targets, even where there are none.
        y = np.zeros(_num_samples(X)) if y is None else y
        self.inputs_, rows, targets = RowInputs.fit(self, X, y, self.categorical_features, options)
        return rows, targets

    def _without_ignored(
        self, X: TableLike, sample_weight: ArrayLike | None
    ) -> tuple[TableLike, ArrayLike | None, IntArray | None]:
        """Return the rows with a weight and their weights, and their numbers if not all rows."""
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
    """Common base of estimators that project features to their leading singular vectors."""

    _bandwidth_rule: ClassVar[Literal["median", "neighbors"]] = "median"
    """The bandwidth where neither the estimator nor its feature map is given one."""

    features: str | SizedMap = "binning"
    bandwidth: float | ArrayLike | str = "auto"
    scaling: str = "auto"
    categorical_features: str | ArrayLike = "auto"
    n_grids: int | str = "auto"
    random_state: RandomState = None
    n_jobs: int | None = None
    tol: float = 1e-4
    max_iter: int = 200

    def _distinct_rows(
        self, X: TableLike, sample_weight: ArrayLike | None
    ) -> tuple[Rows, FloatArray, float]:
        """Learn inputs; return the distinct rows, their weights, and how many rows each stands for.

        Rows of weight 0 are left out. The weights are 1 on average, the number is a mean. Samples
        of rows and bandwidths then do not depend on whether rows are repeated or weighted.
        """
        X, sample_weight, _ = self._without_ignored(X, sample_weight)
        rows, _ = self._learn_inputs(X)
        n_rows = rows.shape[0]
        weights = self._relative_weights(sample_weight, n_rows)
        first, group = equal_rows(rows)
        if len(first) < n_rows or weights.min() < weights.max():
            sums = np.asarray(np.bincount(group, weights=weights), np.float64)
            rows, weights = take_rows(rows, first), sums
        return rows, weights / weights.mean(), n_rows / len(weights)

    def _fit_row_features(
        self, rows: Rows, weights: FloatArray | None = None
    ) -> tuple[FeatureMatrix, int]:
        """Learn units and features from inputs; return the matrix of these and the seed."""
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
        """Return the bandwidth in units of the scaled inputs, as given or by a rule."""
        given = self.bandwidth
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

    def _relative_weights(self, sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
        """Return the weight of each row, checked, the largest between 1/2 and 1."""
        weights = checked_weights(sample_weight, n_rows, type(self).__name__)
        # Powers of two do not round: repeated and weighted rows have the same sums of weights.
        return np.ldexp(weights, -np.frexp(weights.max())[1])

    def _products(self, X: TableLike, weights: FloatArray) -> FloatArray:
        """Return the features of new rows times weights (n_columns, K), block by block."""
        none = np.zeros((0, weights.shape[1]))
        return np.concatenate([none, *(part.matvec(weights) for part in self._feature_blocks(X))])

    def _feature_blocks(self, X: TableLike) -> Iterator[FeatureMatrix]:
        rows = self.inputs_.transform(self, X)
        return feature_blocks(self.features_, self.scaler_, rows, self.n_jobs)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "features_")

    def _decompose(
        self, matrix: FeatureMatrix, n_components: int, seed: int, least: float = 0.0
    ) -> SingularTriplets:
        """Keep leading singular vectors, but for those of singular values up to ``least``.

        Such values are rounding errors.
        """
        found = self._triplets(matrix, n_components, seed)
        n_kept = np.count_nonzero(found.singular_values > least)
        self.singular_values_: FloatArray = found.singular_values[:n_kept]
        self.components_: FloatArray = np.ascontiguousarray(found.right.T[:n_kept])
        self.n_iter_: int = found.n_iter
        return found

    def _triplets(self, matrix: FeatureMatrix, n_components: int, seed: int) -> SingularTriplets:
        """Return leading singular vectors; warn where they are not as exact as asked for."""
        found = SingularTriplets.of(
            matrix,
            min(n_components, *matrix.shape),
            tol=check_number(self, "tol"),
            max_iter=check_count(self, "max_iter"),
            seed=seed,
        )
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__}: singular vectors have residuals of up to "
                f"{found.residuals.max():.1e} after {found.n_iter} iterations, more than "
                f"tol={self.tol:g}; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        features, _ = check_fitted_features(state)
        n_components = len(part_in(state, "components_", np.ndarray))
        width = features._n_features_out
        array_in(state, "components_", np.float64, (n_components, width), finite=True)
        values = array_in(state, "singular_values_", np.float64, (None,), finite=True)
        require(len(values) >= n_components, "components have no singular values")


def degree_normalised(
    matrix: FeatureMatrix, weights: FloatArray, owner: str, added: float = 0.0
) -> FeatureMatrix:
    """Return features over the roots of the degrees of rows, times the roots of their weights.

    The degree of a row is the weighted sum of its similarities, ``D = Z (Z.T weights)``, and
    ``added`` times the mean of all; it must be positive where the weight is.
    """
    degrees, known = matrix.matvec(matrix.rmatvec(weights)), weights > 0
    degrees += added * np.average(degrees, weights=weights)
    n_isolated = np.count_nonzero(known & ~(degrees > 0))
    if n_isolated:
        raise InputError(
            f"{owner}: the similarities of {n_isolated:,} rows do not add up to a positive degree; "
            f"use a larger bandwidth, more components, or features of bins."
        )
    return RowScaledMatrix(matrix, np.sqrt(weights / np.where(known, degrees, 1.0)))
