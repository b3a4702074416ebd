"""Partial dependence and grid use of fitted models.

Columns are those of the table before any encoding. When the values of a column are replaced, the
new values come from other rows of the same table, so that they are plausible and keep their type.
"""

from __future__ import annotations

from collections.abc import Callable
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

Rows: TypeAlias = TableLike | Table  # a named table, a data frame, an array or a CSR matrix
AnyRows: TypeAlias = Any  # Rows; no annotation describes the operations they have in common
Predictor: TypeAlias = Callable[[AnyRows], FloatArray]  # returns (n_rows,) or (n_rows, n_outputs)

_N_SLICES, _MAX_CATEGORIES = 10, 12
_MAX_CODE = 99  # few whole numbers up to this are treated as categories
# Quantiles for the dependence on one number, and for the joint dependence on two.
_LEVELS, _PAIR_LEVELS = np.linspace(0.0, 1.0, 21), (np.arange(6) + 0.5) / 6.0


def shape_of(X: Rows) -> tuple[int, int]:
    table: AnyRows = X
    n_rows, n_columns = np.shape(table)
    return n_rows, n_columns


def sample_rows(
    n_samples: int, max_rows: int, seed: int = 0, purpose: str = "rows shown"
) -> AnyArray:
    """Return ascending row indices: all, or ``max_rows`` drawn without replacement."""
    if n_samples <= max_rows:
        return np.arange(n_samples)
    return np.sort(stream(seed, purpose).choice(n_samples, max_rows, replace=False))


def column_values(X: Rows, column: int) -> tuple[AnyArray, bool]:
    """Return the values of a column, and whether they are categories.

    Numbers are float64 with NaN for missing values, categories str with ``""`` for missing values.
    """
    if is_frame(X):
        plain = list(named_columns(X).values())[column]()
        if plain.is_category:
            return np.array([*plain.category_labels()], dtype=object), True
        return plain.values.astype(np.float64), False
    matrix: AnyRows = X
    if sp.issparse(X):
        values = matrix[:, [column]].toarray()[:, 0]
    else:
        values = np.asarray(matrix)[:, column]
    return values.astype(np.float64), False


def with_column_from(X: AnyRows, column: int, rows: AnyArray) -> AnyRows:
    """Return a copy of a table in which a column has the values of other rows."""
    if isinstance(X, Table):
        columns = {name: X.column(name) for name in X.names or ()}
        name = list(columns)[column]
        columns[name] = columns[name][rows]
        return Table(columns, source=X.source, declared=X.declared, types=X.types)
    # The type decides, because a pandas frame has attributes named like its columns.
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


def partial_dependence(response: Predictor, X: Rows, column: int, donors: AnyArray) -> FloatArray:
    """Return the mean response if all rows have the same value in one column.

    The values are those of the rows ``donors``; the result has one row for each of them.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> partial_dependence(lambda rows: rows[:, 0] * rows[:, 1], X, 0, np.array([0, 1]))
    array([0., 2.])
    """
    n_rows = shape_of(X)[0]
    changed = (with_column_from(X, column, np.full(n_rows, donor)) for donor in donors)
    return np.array([np.mean(response(rows), axis=0) for rows in changed])


@dataclass(frozen=True)
class Dependence:
    """The partial dependence of responses on one column.

    ``values`` are ascending numbers or the names of categories. ``shares`` has, for a category, its
    share of the rows; for a number, the share of rows below it plus half of those equal to it.
    ``means`` has shape (n_values, n_outputs).
    """

    name: str
    values: AnyArray
    shares: FloatArray
    means: FloatArray


def dependence_on(response: Predictor, X: Rows, column: int, name: str) -> Dependence:
    """Return the partial dependence on a column at its quantiles or its most frequent categories.

    A column of at most 12 different whole numbers from 0 to 99 is treated as categories in
    ascending order, because such columns are mostly codes.

    Parameters
    ----------
    response : callable
        ``response(X)`` returns (n_rows, n_outputs).
    X : array, CSR matrix, data frame or Table (n_rows, n_columns)
        Rows whose predictions are averaged.
    column : int
        Index of the column.
    name : str
        Its name in the result.

    Returns
    -------
    Dependence

    Notes
    -----
    At most 21 predictions of all rows, or 13 for categories and codes.

    Examples
    --------
    >>> X = np.array([[0.5, 1.0], [1.5, 3.0]])
    >>> result = dependence_on(lambda rows: rows[:, :1] * rows[:, 1:], X, 0, "x1")
    >>> result.means.tolist(), result.shares
    ([[1.0], [3.0]], array([0.25, 0.75]))
    """
    values, is_categorical = column_values(X, column)
    if not is_categorical and _are_codes(values):
        # Missing values are the last code.
        codes, donors, counts = np.unique(values, return_index=True, return_counts=True)
        labels = np.array(["" if np.isnan(code) else f"{code:.0f}" for code in codes], dtype=object)
        means = partial_dependence(response, X, column, donors)
        return Dependence(name, labels, counts / len(values), means)
    donors = _category_rows(values) if is_categorical else _quantile_rows(values, _LEVELS)
    donated = values[donors]
    if is_categorical:
        shares = np.mean(values == donated[:, None], axis=1)
    else:
        known = np.sort(values[~np.isnan(values)])
        ranks = np.searchsorted(known, donated) + np.searchsorted(known, donated, "right")
        shares = ranks / (2.0 * max(1, len(known)))
    return Dependence(name, donated, shares, partial_dependence(response, X, column, donors))


@dataclass(frozen=True)
class JointDependence:
    """The joint partial dependence of responses on two columns.

    ``values`` are ascending numbers or names of categories of each column; ``means`` has shape
    (n_values, n_other_values, n_outputs). ``interaction`` has, for each output, the variance of the
    means after subtracting the additive effects of both columns.
    """

    names: tuple[str, str]
    values: tuple[AnyArray, AnyArray]
    means: FloatArray
    interaction: FloatArray


def joint_dependence_on(
    response: Predictor, X: Rows, columns: tuple[int, int], names: tuple[str, str]
) -> JointDependence:
    """Return the partial dependence on two columns at six quantiles or categories of each.

    Parameters
    ----------
    response : callable
        ``response(X)`` returns (n_rows, n_outputs).
    X : array, CSR matrix, data frame or Table (n_rows, n_columns)
        Rows whose predictions are averaged.
    columns : pair of int
        Indices of the two columns.
    names : pair of str
        Their names in the result.

    Returns
    -------
    JointDependence

    Notes
    -----
    At most 36 predictions of all rows.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0]])
    >>> result = joint_dependence_on(lambda rows: rows[:, :1] * rows[:, 1:], X, (0, 1), ("a", "b"))
    >>> result.means[:, :, 0].tolist(), result.interaction
    ([[0.0, 0.0], [1.0, 3.0]], array([0.25]))
    """
    both = [column_values(X, j) for j in columns]
    first, second = (
        _category_rows(values)[: len(_PAIR_LEVELS)]
        if is_categorical
        else _quantile_rows(values, _PAIR_LEVELS)
        for values, is_categorical in both
    )
    n_rows = shape_of(X)[0]
    changed = (with_column_from(X, columns[0], np.full(n_rows, donor)) for donor in first)
    means = np.array([partial_dependence(response, rows, columns[1], second) for rows in changed])
    effects = means.mean(axis=0, keepdims=True) + means.mean(axis=1, keepdims=True)
    residuals = means - effects + means.mean(axis=(0, 1))
    values = both[0][0][first], both[1][0][second]
    return JointDependence(names, values, means, np.mean(residuals**2, axis=(0, 1)))


def _are_codes(values: FloatArray) -> bool:
    distinct = np.unique(values[~np.isnan(values)])
    if not 0 < len(distinct) <= _MAX_CATEGORIES:
        return False
    return bool(
        (distinct == np.round(distinct)).all() and 0 <= distinct[0] <= distinct[-1] <= _MAX_CODE
    )


def _quantile_rows(values: FloatArray, levels: AnyArray) -> AnyArray:
    """Return indices of rows whose values are the distinct quantiles, in ascending order."""
    order = np.argsort(values, kind="stable")[: np.count_nonzero(~np.isnan(values))]
    if not len(order):
        return order
    ranks = np.round(levels * (len(order) - 1.0)).astype(np.intp)
    _, first = np.unique(values[order[ranks]], return_index=True)
    return order[ranks[first]]


def _category_rows(values: AnyArray) -> AnyArray:
    """Return the index of a row of each frequent category, in order of frequency."""
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    return first[np.argsort(-counts, kind="stable")[:_MAX_CATEGORIES]]


def main_effect(values: AnyArray, responses: FloatArray) -> float:
    """Return the share of the variance of responses that one column explains by itself.

    Numbers are grouped by their deciles; interactions with other columns are not counted.
    """
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        levels = np.arange(1, _N_SLICES) / _N_SLICES
        cuts = np.unique(np.quantile(known, levels)) if len(known) else known
        # The sum of both positions makes a value that fills a whole slice a separate group.
        positions = [np.searchsorted(cuts, values, side) for side in ("left", "right")]
        values = np.where(np.isnan(values), -1, sum(positions))
    _, group = np.unique(values.astype(str), return_inverse=True)
    centred = (responses - responses.mean(axis=0)).reshape(len(responses), -1)
    sums = np.stack([np.bincount(group, weights=output) for output in centred.T])
    between, total = float((sums**2 / np.bincount(group)).sum()), float((centred**2).sum())
    return between / total if total > 0 else 0.0


def input_columns(model: KernelMachine) -> dict[str, AnyArray]:
    """Return the indices of the inputs that each column of the table was encoded to, by name.

    The indices are those in ``relevance_`` and in the scaled rows. There are two for a column with
    missing numbers in training, otherwise one.
    """
    names = vars(model).get("feature_names_in_")
    if names is None:
        names = [f"x{j + 1}" for j in range(model.n_features_in_)]
    sources = model.inputs_.sources(len(names))
    return {str(name): np.flatnonzero(sources == j) for j, name in enumerate(names)}


@dataclass(frozen=True)
class GridUse:
    """The columns that the grids of a model divide, and the pairs of columns.

    ``counts`` has the number of columns of each grid, ``share`` the share of each column in the
    total weight of the grids. ``pairs`` lists two columns and the weight of the grids of few
    columns that divide both, the largest weight first. ``is_selective`` is True if a grid omits a
    column that another grid divides.
    """

    counts: AnyArray
    share: FloatArray
    pairs: list[tuple[int, int, float]]
    is_selective: bool


def grid_use(uses: BoolArray, weights: FloatArray, max_columns: int = 12) -> GridUse:
    """Return the columns and pairs of columns that grids divide.

    ``uses`` has shape (n_grids, n_columns). If all weights are 0, grids have equal weights. Grids
    of more than ``max_columns`` columns do not count for pairs.

    Examples
    --------
    >>> use = grid_use(np.array([[True, True, False], [False, True, True]]), np.array([3.0, 1.0]))
    >>> use.share, use.pairs
    (array([0.75, 1.  , 0.25]), [(0, 1, 0.75), (1, 2, 0.25)])
    """
    total = weights.sum()
    weights = weights / total if total > 0 else np.full(len(uses), 1.0 / len(uses))
    counts = np.count_nonzero(uses, axis=1)
    is_small = counts <= max_columns
    small = sp.csr_array(uses[is_small].astype(np.float64))
    joint = sp.coo_array(sp.triu(small.T @ (small * weights[is_small][:, None]), k=1))
    entries = zip(joint.row.tolist(), joint.col.tolist(), joint.data.tolist(), strict=True)
    pairs = sorted(((i, j, w) for i, j, w in entries if w > 0), key=lambda pair: (-pair[2], pair))
    is_selective = bool((counts < np.count_nonzero(uses.any(axis=0))).any())
    return GridUse(counts, weights @ uses, pairs, is_selective)


def model_grid_use(model: KernelMachine, X: Rows) -> GridUse:
    """Return the columns and pairs of columns that the grids of a fitted model divide.

    The weight of a grid is the variance over the rows of its contribution to the prediction.
    Columns are in the order of :func:`input_columns`.
    """
    rows = model.scaler_.rows(model.inputs_.transform(model, X), model.n_jobs)
    inputs = list(input_columns(model).values())
    features = model.features_
    parts = parts_of(features)
    blocks = list(features.rows_matrix(rows).blocks())
    outputs = (block.matrix.matvec(model.weights_[block.start : block.stop]) for block in blocks)
    weights = np.array([float(np.sum(output.var(axis=0))) for output in outputs])
    ends = np.cumsum([part.n_features_out for part in parts])
    owners = np.searchsorted(ends, [block.start for block in blocks], side="right")
    counts = np.bincount(owners, minlength=len(parts)).tolist()
    masks = [_inputs_of_blocks(part, n) for part, n in zip(parts, counts, strict=True)]
    # The middle axis is for an input and, if the grids get both, its rank.
    used = np.concatenate(masks).reshape(len(weights), -1, sum(map(len, inputs)))
    if model.scaler_.whitening is not None:
        used = model.scaler_.whitening.uses_of_inputs(used)
    columns = [used[:, :, indices].any(axis=(1, 2)) for indices in inputs]
    return grid_use(np.column_stack(columns), weights)


def _inputs_of_blocks(features: FeatureMap, n_blocks: int) -> BoolArray:
    """Return a mask of the inputs that each block of features uses; grids are one block each."""
    if isinstance(features, BinningMap | SmoothBinning):
        return features.divided_inputs
    return np.tile(features.used_columns, (n_blocks, 1))
