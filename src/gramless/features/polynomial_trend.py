"""Polynomial features of degree 2, and indicators of categories."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.state import State, array_in, check_columns, require
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.features.base import SeparableMap
from gramless.features.landmarks import dense_rows
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.dense import ComputedMatrix
from gramless.preprocessing.rows import Rows, check_rows, check_width

# Standardised inputs are clipped to this, because squares of outliers would dominate a fit.
_MAX_DEVIATIONS = 6.0
_ONE = -1  # as an index, this selects the last column of `_scores`, which holds ones


class PolynomialTrend(SeparableMap):
    """A constant, standardised inputs, products of two of them, and indicators of categories.

    The kernel is a polynomial of degree 2. A linear model on these features is at most quadratic in
    each input and constant beyond 6 standard deviations, whereas one on binned features is
    piecewise constant. The indicator of a category is 1 in its rows and 0 in others, minus the
    share of its rows. It has the same scale as a standardised input, so that the penalty of an
    effect does not depend on the number of its rows.

    Parameters
    ----------
    columns : array-like of int, optional
        The inputs to use, the most important first; all by default. Constant inputs are ignored.
    n_multiplied : int, default=10
        Number of the first of these inputs whose squares and products of two are features.
    categorical : array-like of int, optional
        Categorical inputs; none by default.
    most_categories : int, default=200
        Largest number of categories with a feature, of all inputs together. The most frequent ones
        are used.
    variance : float, default=100.0
        Sum of the mean squares of the features over the rows of the fit. It is less if there are
        categories.
    n_jobs : int or None, default=None
        Number of threads; None means all processors.

    Attributes
    ----------
    centre_, spread_ : array (n_features,)
        Mean and standard deviation of each input. The deviation of unused inputs is infinite.
    categories_ : array (n_categories, 2)
        The input and the value of each category that has a feature.
    factors_ : array (n_features_out, 2)
        The two inputs that are multiplied. -1 stands for a factor of 1, ``n_features_in_ + k`` for
        the indicator of category k.
    means_, scales_ : array (n_features_out,)
        A feature is ``scale * (product - mean)``, with a mean of 0 for the constant.
    n_features_in_ : int
        As in scikit-learn.

    Notes
    -----
    A feature takes 2 operations and, while it is computed, 8 bytes per row.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> trend = PolynomialTrend(n_multiplied=2).fit(X)
    >>> trend.factors_.tolist()
    [[-1, -1], [0, -1], [1, -1], [2, -1], [0, 0], [0, 1], [1, 1]]
    >>> float((trend.transform(X) ** 2).mean(axis=0).sum().round(6))
    100.0
    """

    fitted_name: ClassVar[str] = "centre_"
    size_unit: ClassVar[str] = "features"

    centre_: FloatArray
    spread_: FloatArray
    categories_: FloatArray
    factors_: IntArray
    means_: FloatArray
    scales_: FloatArray
    n_features_in_: int

    def __init__(
        self,
        columns: ArrayLike | None = None,
        n_multiplied: int = 10,
        categorical: ArrayLike | None = None,
        most_categories: int = 200,
        variance: float = 100.0,
        n_jobs: int | None = None,
    ) -> None:
        self.columns, self.n_multiplied = columns, n_multiplied
        self.categorical, self.most_categories = categorical, most_categories
        self.variance, self.n_jobs = variance, n_jobs

    def fit(self, X: TableLike, y: object = None, sample_weight: FloatArray | None = None) -> Self:
        """Learn weighted means and deviations, and the categories with features.

        For means and deviations, a row of weight 2 counts like two equal rows. The frequency of a
        category is its number of rows of positive weight, whatever their weights.
        """
        rows = dense_rows(check_rows(self, X, reset=True))
        if sample_weight is not None:
            rows, sample_weight = rows[sample_weight > 0.0], sample_weight[sample_weight > 0.0]
        n_inputs = rows.shape[1]
        columns = np.arange(n_inputs)
        if self.columns is not None:
            columns = np.asarray(self.columns, np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            centre, spread = _moments(rows, sample_weight)
        varies = np.isfinite(spread) & (spread > 0.0)
        categorical = np.asarray([] if self.categorical is None else self.categorical, np.int64)
        used = columns[varies[columns] & ~np.isin(columns, categorical)]
        self.centre_ = np.where(varies, centre, 0.0)
        self.spread_ = np.full(n_inputs, np.inf)
        self.spread_[used] = spread[used]
        first, second = np.triu_indices(min(len(used), self.n_multiplied))
        linear = np.stack([used, np.full(len(used), _ONE)], axis=1)
        quadratic = np.stack([used[first], used[second]], axis=1)
        self.categories_ = _frequent_categories(rows, categorical, self.most_categories)
        indicators = n_inputs + np.arange(len(self.categories_))
        indicators = np.stack([indicators, np.full(len(indicators), _ONE)], axis=1)
        factors = np.concatenate([[[_ONE, _ONE]], linear, quadratic, indicators])
        self.factors_ = factors.astype(np.int64)
        products = self._products(rows)
        self.means_, deviations = _moments(products, sample_weight)
        self.means_[0], deviations[0] = 0.0, 1.0
        # The deviation of a rare category's indicator is small. Dividing by it would make the
        # weight small, and so the penalty of the effect.
        deviations[len(deviations) - len(indicators) :] = 1.0
        inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0.0)
        self.scales_ = np.sqrt(self.variance / len(inverse)) * inverse
        return self

    def transform(self, X: TableLike) -> AnyArray:
        self._check_fitted()
        return self._features(dense_rows(check_rows(self, X, reset=False)))

    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        check_width(type(self).__name__, X, self.n_inputs)
        n_columns, n_jobs = self.n_features_out, self.n_jobs
        return ComputedMatrix(X, self._compute, n_columns, dtype=np.float64, n_jobs=n_jobs)

    def terms(self, weights: FloatArray) -> AnyArray:
        """Return the coefficients of the products of two factors, and of a constant term.

        The constant term collects the means that are subtracted from the products.
        """
        scaled = self.scales_[:, None] * weights
        return np.concatenate([scaled, -(self.means_ @ scaled)[None]])

    def factors(self, X: FloatArray, columns: IntArray) -> AnyArray:
        """Return the part of each product that depends on ``columns``, and a column of ones.

        Factors that depend on other inputs are replaced by 1.
        """
        kept = np.zeros(X.shape[1], bool)
        kept[columns] = True
        scores = self._scores(X)
        kept_categories = kept[self.categories_[:, 0].astype(np.intp)]
        scores[:, ~np.concatenate([kept, kept_categories, [True]])] = 1.0
        return np.concatenate([self._multiply(scores), np.ones((len(X), 1))], axis=1)

    def _compute(self, X: Rows, out: AnyArray) -> None:
        out[...] = self._features(dense_rows(X))

    def _features(self, X: FloatArray) -> FloatArray:
        return self.scales_ * (self._products(X) - self.means_)

    def _products(self, X: FloatArray) -> FloatArray:
        return self._multiply(self._scores(X))

    def _multiply(self, scores: FloatArray) -> FloatArray:
        # Factors with the index -1 select the last column, which holds ones.
        return scores[:, self.factors_[:, 0]] * scores[:, self.factors_[:, 1]]

    def _scores(self, X: FloatArray) -> FloatArray:
        """Return standardised inputs, indicators of categories, and a column of ones."""
        n_inputs = X.shape[1]
        scores = np.ones((len(X), n_inputs + len(self.categories_) + 1))
        with np.errstate(over="ignore"):
            standardised = (X - self.centre_) / self.spread_
        np.clip(standardised, -_MAX_DEVIATIONS, _MAX_DEVIATIONS, out=scores[:, :n_inputs])
        columns, values = self.categories_.T
        scores[:, n_inputs:-1] = X[:, columns.astype(np.intp)] == values
        return scores

    @property
    def used_columns(self) -> BoolArray:
        used = np.isfinite(self.spread_)
        used[self.categories_[:, 0].astype(np.intp)] = True
        return used

    def check_state(self, state: State) -> None:
        centre = array_in(state, "centre_", np.float64, (None,), finite=True)
        spread = array_in(state, "spread_", np.float64, (len(centre),))
        require(len(centre) > 0 and (spread > 0.0).all(), "spread_ must be positive")
        factors = array_in(state, "factors_", np.int64, (None, 2))
        categories = state.get("categories_", np.empty((0, 2)))
        categories = array_in({"categories_": categories}, "categories_", np.float64, (None, 2))
        columns = categories[:, 0]
        are_inputs = np.isin(columns, np.arange(len(centre))).all()
        require(bool(are_inputs), "categories_ have inputs that do not exist")
        n_scores = len(centre) + len(categories)
        in_range = (factors >= _ONE).all() and (factors < n_scores).all()
        require(in_range, "factors_ have inputs that do not exist")
        for name in ("means_", "scales_"):
            array_in(state, name, np.float64, (len(factors),), finite=True)
        check_columns(state, len(centre))

    def _set_attributes(self, attributes: dict[str, object]) -> None:
        # Files of earlier versions have no categories.
        super()._set_attributes({"categories_": np.empty((0, 2)), **attributes})

    @property
    def n_inputs(self) -> int:
        return len(self.centre_)

    @property
    def n_features_out(self) -> int:
        return len(self.factors_)


def _moments(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def _frequent_categories(rows: FloatArray, columns: IntArray, most: int) -> FloatArray:
    """Return the inputs and values of the most frequent categories, sorted by both."""
    categories, counts = [np.empty((0, 2))], [np.empty(0, np.intp)]
    for column in columns:
        values, value_counts = np.unique(rows[:, column], return_counts=True)
        if len(values) <= 2:
            # The indicator of one value also determines the other.
            values, value_counts = values[1:], value_counts[1:]
        categories.append(np.stack([np.full(len(values), float(column)), values], axis=1))
        counts.append(value_counts)
    kept = np.argsort(-np.concatenate(counts), kind="stable")[:most]
    return np.concatenate(categories)[np.sort(kept)]
