"""Shapley values of the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError, MissingDependencyError
from gramless.base.memory import check_memory
from gramless.base.types import AnyArray, FloatArray
from gramless.estimators.base import KernelMachine, shapley_values_of
from gramless.estimators.classifier import KernelClassifier
from gramless.inspection.explanation import Rows, column_values, input_columns, shape_of

_COPIES = 3.0  # numbers per cell of the table, in addition to one per output


@dataclass(frozen=True)
class Attributions:
    """Shapley values of predictions.

    The attributes have the names of shap's ``Explanation``, to which :meth:`to_shap` converts them.

    Attributes
    ----------
    values : array (n_samples, n_features) or (n_samples, n_features, n_outputs)
        The contribution of each column of the table to the raw prediction of each row.
    base_values : array (n_samples,) or (n_samples, n_outputs)
        The mean raw prediction of the background, the same for all rows. The base value plus the
        sum of the values of a row is the raw prediction of that row.
    data : array (n_samples, n_features)
        The table: numbers, or objects if columns hold text, dates or categories.
    feature_names : list of str
        Names of the columns.
    output_names : list of str or None
        The classes of a classifier with several outputs, otherwise None.

    Examples
    --------
    >>> result = Attributions(np.array([[0.5, -0.25]]), np.ones(1), np.zeros((1, 2)), ["a", "b"])
    >>> float(result.base_values[0] + result.values[0].sum())
    1.25
    """

    values: FloatArray
    base_values: FloatArray
    data: AnyArray
    feature_names: list[str]
    output_names: list[str] | None = None

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation`` for the functions of ``shap.plots``.

        If there are several outputs, select one before drawing: ``attributions.to_shap()[..., 0]``.

        Raises
        ------
        MissingDependencyError
            If shap is not installed.
        """
        try:
            import shap
        except ImportError as error:
            raise MissingDependencyError(
                "to_shap needs the package shap, which is not installed: pip install shap."
            ) from error
        return shap.Explanation(**vars(self))

    def importances(self) -> FloatArray:
        """Return the mean absolute value of each column, (n_features,) or (n_features, n_outputs).

        Examples
        --------
        >>> values = np.array([[1.0, 2.0], [-3.0, 0.0]])
        >>> Attributions(values, np.zeros(2), values, ["a", "b"]).importances()
        array([2., 1.])
        """
        return np.asarray(np.abs(self.values).mean(axis=0))


def shapley_values(model: KernelMachine, X: Rows, background: Rows | None = None) -> Attributions:
    """Return the Shapley values of the predictions of a fitted model.

    The value of a column is its contribution to the difference between the raw prediction of the
    row and the mean raw prediction of the background. The values are "interventional" Shapley
    values: the payoff of a set of columns is the mean raw prediction of the background rows after
    their values in these columns are replaced by those of the row.

    The raw prediction depends on the model. For :class:`KernelRegressor` it is the result of
    ``predict``; with the losses "poisson", "gamma" and "tweedie" it is the logarithm of the
    prediction. For a classifier it is ``decision_function``, which is the log odds with
    ``loss="logistic"``. For :class:`KernelSurvival` it is the logarithm of the risk. For several
    quantiles it is the value before ``predict`` sorts them, and for a fit with an offset it
    excludes the offset.

    Parameters
    ----------
    model : KernelRegressor, KernelClassifier or KernelSurvival
        Fitted model.
    X : array, sparse matrix or data frame (n_samples, n_features)
        The rows to explain.
    background : table of the same kind (m, n_features), optional
        Background rows, all of which are used. By default about 200 training rows, which the model
        keeps as ``background_``.

    Returns
    -------
    Attributions

    Raises
    ------
    InputError
        If the model is of another class, if the values do not fit into memory, if the background
        has no rows, or if it is None and the model has no background rows, because it was fitted to
        sparse rows or saved by an earlier version.

    Notes
    -----
    All inputs that a column was encoded to (its rank, an indicator of missing numbers) are one
    player. The values are exact in these cases:

    - grids that divide up to 12 columns, or 8 columns if they have very many bins;
    - product kernels over up to 12 columns (the Gaussian, the Laplacian and most others, also as
      Fourier features);
    - all other features of up to 6 columns, such as the kernels "matern" and
      "rational_quadratic", smooth bins, and kernels along learned directions.

    With more columns, values are estimated from at most 50 background rows and random orders of
    the players. The orders are always the same, and each is used together with its reverse. The
    same estimate is used if exact values would take minutes, because the background rows lie in
    very many bins. Exact values of other features use 50 background rows if predictions are slow.
    The sum of the values is exact in every case.

    10,000 rows of a default model of 10 columns take 0.8 s on two cores. Nearly all of it is for
    the smooth kernels of the model; without them it is 0.1 s. The time for smooth kernels doubles
    with each additional column up to 12.

    Examples
    --------
    >>> from gramless import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(1000, 3))
    >>> model = KernelRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> result = shapley_values(model, X[:5])
    >>> result.values.shape, result.feature_names
    ((5, 3), ['x1', 'x2', 'x3'])
    >>> sums = result.base_values + result.values.sum(axis=1)
    >>> bool(np.allclose(sums, model.predict(X[:5]), atol=1e-10))
    True
    """
    if not isinstance(model, KernelMachine):
        raise InputError(
            f"shapley_values: model must be a KernelRegressor, KernelClassifier or KernelSurvival, "
            f"got {type(model).__name__}; for a pipeline, pass its last step and the transformed "
            "rows."
        )
    check_is_fitted(model, "weights_")
    n_rows, n_columns = shape_of(X)
    n_outputs = model.weights_[:1].size
    n_numbers = n_rows * n_columns * (n_outputs + _COPIES)
    check_memory("shapley_values", 8.0 * n_numbers, "explain fewer rows at a time")
    if background is not None:
        background_rows = model.inputs_.transform(model, background)
    elif model.background_ is not None:
        background_rows = model.background_
    else:
        raise InputError(
            "shapley_values: the model has no background rows, because it was fitted to sparse "
            "rows or saved by an earlier version; give some as background."
        )
    if not background_rows.shape[0]:
        raise InputError("shapley_values: the background has no rows; give at least 1.")
    values, base = shapley_values_of(model, model.inputs_.transform(model, X), background_rows)
    has_one_output = model.weights_.ndim == 1
    output_names = None
    if isinstance(model, KernelClassifier) and not has_one_output:
        output_names = [str(name) for name in model.classes_]
    columns = [column_values(X, j) for j in range(n_columns)]
    has_categories = any(is_categorical for _, is_categorical in columns)
    data = [values.astype(object) if has_categories else values for values, _ in columns]
    return Attributions(
        values[:, :, 0] if has_one_output else values,
        np.full(n_rows, base[0]) if has_one_output else np.tile(base, (n_rows, 1)),
        np.stack(data, axis=1),
        list(input_columns(model)),
        output_names,
    )
