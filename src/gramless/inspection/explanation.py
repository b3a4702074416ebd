"""What a fitted model makes of its inputs: permutation importance, partial dependence, grid use.

Columns are those of the table as it was given, before any encoding. A changed table takes the
values of a column from other rows of the same table, so that they stay possible and keep the type
that the model knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gramless.base.columns import is_frame, named_columns
from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, TableLike
from gramless.datasets import Table
from gramless.estimators.base import KernelMachine
from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap
from gramless.features.hybrid import parts_of
from gramless.features.smooth import SmoothBinning

Rows: TypeAlias = TableLike | Table
"""A table with named columns, a data frame, an array or a CSR matrix."""
Given: TypeAlias = Any
"""A table of any kind: those of ``Rows``, whose operations no common annotation describes."""
Predictor: TypeAlias = Callable[[Given], FloatArray]
"""From a table of the kind that was given to numbers, ``(n_rows,)`` or ``(n_rows, n_outputs)``."""

_SLICES, _CATEGORIES = 10, 12
_LARGEST_CODE = 99
_ENDS, _MIDDLES = np.linspace(0.0, 1.0, 21), (np.arange(6) + 0.5) / 6.0
"""Quantiles at which the dependence on one number is shown, and that on two."""


def shape_of(X: Rows) -> tuple[int, int]:
    """Return the number of rows and columns of a table of any kind."""
    table: Given = X
    n_rows, n_columns = np.shape(table)
    return n_rows, n_columns


def sampled_rows(n_samples: int, most: int, seed: int = 0, purpose: str = "rows shown") -> AnyArray:
    """Return row numbers in ascending order: all, or ``most`` drawn without replacement."""
    if n_samples <= most:
        return np.arange(n_samples)
    return np.sort(stream(seed, purpose).choice(n_samples, most, replace=False))


def column_values(X: Rows, column: int) -> tuple[AnyArray, bool]:
    """Return a column as plain values, and whether these are categories.

    Numbers are float64 with NaN where missing, categories str with ``""`` where missing.
    """
    if is_frame(X):
        plain = list(named_columns(X).values())[column]()
        if plain.is_category:
            return np.array([*plain.category_labels()], dtype=object), True
        return plain.values.astype(np.float64), False
    matrix: Given = X
    if sp.issparse(X):
        values = matrix[:, [column]].toarray()[:, 0]
    else:
        values = np.asarray(matrix)[:, column]
    return values.astype(np.float64), False


def _with_column_from(X: Given, column: int, rows: AnyArray) -> Given:
    """Return a new table with one column's values taken from other rows."""
    if isinstance(X, Table):
        columns = {name: X.column(name) for name in X.names or ()}
        name = list(columns)[column]
        return Table(columns | {name: columns[name][rows]}, source=X.source)
    # The type is asked: a pandas frame shows a column called "with_columns" as an attribute.
    if hasattr(type(X), "isetitem"):
        changed = X.copy()
        changed.isetitem(column, X.iloc[rows, column].array)
        return changed
    if hasattr(type(X), "with_columns"):
        return X.with_columns(X.to_series(column)[rows])
    if sp.issparse(X):
        parts = [X[:, :column], X[rows][:, [column]], X[:, column + 1 :]]
        return sp.hstack(parts, format="csr")
    changed = np.array(X)
    changed[:, column] = changed[rows, column]
    return changed


def permutation_importance(
    error: Callable[[Given], float],
    X: Rows,
    columns: Sequence[int],
    *,
    n_repeats: int = 3,
    seed: int = 0,
) -> FloatArray:
    """Return how much an error grows when one column is shuffled among the rows.

    Parameters
    ----------
    error : callable
        ``error(X)`` judges the predictions for a table whose rows keep their order.
    X : array, CSR matrix, data frame or Table (n_rows, n_columns)
        Rows with known targets, best ones that the fit has not seen.
    columns : sequence of int
        Positions of the columns to shuffle, one at a time.
    n_repeats : int, default=3
        How often each is shuffled.
    seed : int, default=0
        Seed of the orders.

    Returns
    -------
    array (len(columns), n_repeats)
        All columns are shuffled in the same ways. Near 0 where the model can do
        without the column, also because another one says the same.

    Notes
    -----
    Predicts all rows ``1 + len(columns) * n_repeats`` times.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> error = lambda rows: float(np.mean((rows[:, 0] - X[:, 0]) ** 2))
    >>> permutation_importance(error, X, [0, 1]).mean(axis=1).round()
    array([2., 0.])
    """
    n_rows = shape_of(X)[0]
    orders = [stream(seed, "shuffled columns", k).permutation(n_rows) for k in range(n_repeats)]
    before = error(X)
    grown = [
        [error(_with_column_from(X, column, order)) - before for order in orders]
        for column in columns
    ]
    return np.array(grown).reshape(len(columns), n_repeats)


def partial_dependence(response: Predictor, X: Rows, column: int, donors: AnyArray) -> FloatArray:
    """Return the mean response when every row has the same value in one column.

    The values are those of the rows ``donors``; the result has one row per value.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> partial_dependence(lambda rows: rows[:, 0] * rows[:, 1], X, 0, np.array([0, 1]))
    array([0., 2.])
    """
    same = [np.full(shape_of(X)[0], donor) for donor in donors]
    return np.array([np.mean(response(_with_column_from(X, column, r)), axis=0) for r in same])


@dataclass(frozen=True)
class Dependence:
    """The dependence of responses on one column, averaged over the rows.

    ``values`` are ascending numbers or the names of categories. ``shares`` has, for a number, the
    share of the rows below it plus half of those equal to it; for a category, the share of the rows
    that hold it. ``means`` has shape (n_values, n_outputs).
    """

    name: str
    values: AnyArray
    shares: FloatArray
    means: FloatArray


def dependence_on(response: Predictor, X: Rows, column: int, name: str) -> Dependence:
    """Return the partial dependence on a column at its quantiles, or its main categories.

    At most 12 different whole numbers from 0 to 99 are categories, in ascending order: such columns
    are mostly codes.

    Parameters
    ----------
    response : callable
        ``response(X)`` returns (n_rows, n_outputs).
    X : array, CSR matrix, data frame or Table (n_rows, n_columns)
        Rows whose predictions are averaged.
    column : int
        Position of the column that is set.
    name : str
        What to call it in the result.

    Returns
    -------
    Dependence

    Notes
    -----
    At most 21 predictions of all rows, 12 for categories.

    Examples
    --------
    >>> X = np.array([[0.5, 1.0], [1.5, 3.0]])
    >>> found = dependence_on(lambda rows: rows[:, :1] * rows[:, 1:], X, 0, "x1")
    >>> found.means.tolist(), found.shares
    ([[1.0], [3.0]], array([0.25, 0.75]))
    """
    values, categorical = column_values(X, column)
    if not categorical and _are_codes(values):
        return _dependence_on_codes(response, X, column, name, values)
    donors = _category_rows(values) if categorical else _quantile_rows(values, _ENDS)
    chosen = values[donors]
    if categorical:
        shares = np.mean(values == chosen[:, None], axis=1)
    else:
        known = np.sort(values[~np.isnan(values)])
        sides = np.searchsorted(known, chosen) + np.searchsorted(known, chosen, "right")
        shares = sides / (2.0 * max(1, len(known)))
    return Dependence(name, chosen, shares, partial_dependence(response, X, column, donors))


@dataclass(frozen=True)
class JointDependence:
    """The dependence of responses on two columns together, averaged over the rows.

    ``values`` are ascending numbers or names of categories of each column, ``means`` has shape
    (n_values, n_other_values, n_outputs). ``interaction`` is the variance, of each output, of what
    is left of the means without the sum of an effect of each column.
    """

    names: tuple[str, str]
    values: tuple[AnyArray, AnyArray]
    means: FloatArray
    interaction: FloatArray


def joint_dependence_on(
    response: Predictor, X: Rows, columns: tuple[int, int], names: tuple[str, str]
) -> JointDependence:
    """Return the partial dependence on two columns: middles of sixths, or their main categories.

    Parameters
    ----------
    response : callable
        ``response(X)`` returns (n_rows, n_outputs).
    X : array, CSR matrix, data frame or Table (n_rows, n_columns)
        Rows whose predictions are averaged.
    columns : pair of int
        Positions of the two columns that are set.
    names : pair of str
        What to call them in the result.

    Returns
    -------
    JointDependence

    Notes
    -----
    At most 36 predictions of all rows.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> found = joint_dependence_on(lambda rows: rows[:, :1] * rows[:, 1:], X, (0, 1), ("a", "b"))
    >>> found.means[:, :, 0].tolist(), found.interaction
    ([[0.0, 0.0], [1.0, 3.0]], array([0.25]))
    """
    read = [column_values(X, column) for column in columns]
    first, second = (
        _category_rows(values)[: len(_MIDDLES)] if categorical else _quantile_rows(values, _MIDDLES)
        for values, categorical in read
    )
    n_rows = shape_of(X)[0]
    changed = (_with_column_from(X, columns[0], np.full(n_rows, donor)) for donor in first)
    means = np.array([partial_dependence(response, own, columns[1], second) for own in changed])
    effects = means.mean(axis=0, keepdims=True) + means.mean(axis=1, keepdims=True)
    left = means - effects + means.mean(axis=(0, 1))
    values = read[0][0][first], read[1][0][second]
    return JointDependence(names, values, means, np.mean(left**2, axis=(0, 1)))


def _are_codes(values: FloatArray) -> bool:
    distinct = np.unique(values[~np.isnan(values)])
    if not 0 < len(distinct) <= _CATEGORIES:
        return False
    return bool(
        (distinct == np.round(distinct)).all() and 0 <= distinct[0] <= distinct[-1] <= _LARGEST_CODE
    )


def _dependence_on_codes(
    response: Predictor, X: Rows, column: int, name: str, values: FloatArray
) -> Dependence:
    # Missing values are one code, the last.
    codes, donors, counts = np.unique(values, return_index=True, return_counts=True)
    labels = np.array(["" if np.isnan(code) else f"{code:.0f}" for code in codes], dtype=object)
    means = partial_dependence(response, X, column, donors)
    return Dependence(name, labels, counts / len(values), means)


def _quantile_rows(values: FloatArray, levels: AnyArray) -> AnyArray:
    """Return rows whose values are quantiles in ascending order, all distinct."""
    order = np.argsort(values, kind="stable")[: np.count_nonzero(~np.isnan(values))]
    if not len(order):
        return order
    at = np.round(levels * (len(order) - 1.0)).astype(np.intp)
    _, first = np.unique(values[order[at]], return_index=True)
    return order[at[first]]


def _category_rows(values: AnyArray) -> AnyArray:
    """Return one row for each of the most frequent categories, by decreasing frequency."""
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    return first[np.argsort(-counts, kind="stable")[:_CATEGORIES]]


def main_effect(values: AnyArray, responses: FloatArray) -> float:
    """Return the share of the variance of responses that one column explains by itself.

    Numbers are cut at their deciles; interactions with other columns are not counted.
    """
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        cuts = (
            np.unique(np.quantile(known, np.arange(1, _SLICES) / _SLICES)) if len(known) else known
        )
        # From both sides, so that a value which fills a whole slice is a group of its own.
        sides = [np.searchsorted(cuts, values, side) for side in ("left", "right")]
        values = np.where(np.isnan(values), -1, sum(sides))
    _, group = np.unique(values.astype(str), return_inverse=True)
    centred = (responses - responses.mean(axis=0)).reshape(len(responses), -1)
    sums = np.stack([np.bincount(group, weights=output) for output in centred.T])
    between, total = float((sums**2 / np.bincount(group)).sum()), float((centred**2).sum())
    return between / total if total > 0 else 0.0


def input_columns(model: KernelMachine) -> dict[str, AnyArray]:
    """Return the positions of the inputs that each column of the table became, by its name.

    Positions are those in ``relevance_`` and in the scaler's rows: two where numbers were missing
    in training, otherwise one.
    """
    names = vars(model).get("feature_names_in_")
    if names is None:
        names = [f"x{j + 1}" for j in range(model.n_features_in_)]
    sources = model.inputs_.sources(len(names))
    return {str(name): np.flatnonzero(sources == j) for j, name in enumerate(names)}


@dataclass(frozen=True)
class GridUse:
    """The columns that the grids of a model use, and which of them they use together.

    ``counts`` has the number of columns of each grid, ``share`` each column's share of the total
    weight of the grids. ``pairs`` lists two columns and the weight of the small grids that use
    both, heaviest first. ``selective`` tells whether some grid omits a column that another uses.
    """

    counts: AnyArray
    share: FloatArray
    pairs: list[tuple[int, int, float]]
    selective: bool


def grid_use(uses: BoolArray, weights: FloatArray, most: int = 12) -> GridUse:
    """Count the columns that grids use, and which of them they use together.

    ``uses`` has shape (n_grids, n_columns). Weights that are all 0 count alike. Grids of more than
    ``most`` columns say nothing about pairs.

    Examples
    --------
    >>> use = grid_use(np.array([[True, True, False], [False, True, True]]), np.array([3.0, 1.0]))
    >>> use.share, use.pairs
    (array([0.75, 1.  , 0.25]), [(0, 1, 0.75), (1, 2, 0.25)])
    """
    total = weights.sum()
    weights = weights / total if total > 0 else np.full(len(uses), 1.0 / len(uses))
    counts = np.count_nonzero(uses, axis=1)
    small = counts <= most
    chosen = sp.csr_array(uses[small].astype(np.float64))
    together = sp.coo_array(sp.triu(chosen.T @ (chosen * weights[small][:, None]), k=1))
    found = zip(together.row.tolist(), together.col.tolist(), together.data.tolist(), strict=True)
    pairs = sorted(((i, j, w) for i, j, w in found if w > 0), key=lambda pair: (-pair[2], pair))
    selective = bool((counts < np.count_nonzero(uses.any(axis=0))).any())
    return GridUse(counts, weights @ uses, pairs, selective)


def model_grid_use(model: KernelMachine, X: Rows) -> GridUse:
    """Return the use of the table's columns by the grids of a fitted model.

    A grid weighs as much as its part of the prediction varies over the rows. Columns are in the
    order of :func:`input_columns`.
    """
    rows = model.scaler_.rows(model.inputs_.transform(model, X), model.n_jobs)
    inputs = list(input_columns(model).values())
    features = model.features_
    parts = parts_of(features)
    blocks = list(features.rows_matrix(rows).blocks())
    values = (block.matrix.matvec(model.weights_[block.start : block.stop]) for block in blocks)
    weights = np.array([float(np.sum(own.var(axis=0))) for own in values])
    ends = np.cumsum([part._n_features_out for part in parts])
    owners = np.searchsorted(ends, [block.start for block in blocks], side="right")
    counts = np.bincount(owners, minlength=len(parts)).tolist()
    masks = [_used_by_blocks(part, n) for part, n in zip(parts, counts, strict=True)]
    # An input and, where both are given to the grids, its rank.
    used = np.concatenate(masks).reshape(len(weights), -1, sum(map(len, inputs)))
    if model.scaler_.whitening is not None:
        used = model.scaler_.whitening.uses_of_inputs(used)
    columns = [used[:, :, own].any(axis=(1, 2)) for own in inputs]
    return grid_use(np.column_stack(columns), weights)


def _used_by_blocks(features: FeatureMap, n_blocks: int) -> BoolArray:
    """Return which columns each grid divides; of other features which they use, for each block."""
    if isinstance(features, BinningMap | SmoothBinning):
        return features.divided_inputs
    return np.tile(features.used_columns, (n_blocks, 1))
