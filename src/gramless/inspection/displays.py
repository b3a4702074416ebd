"""Displays of importances and Shapley values with the interface of scikit-learn's displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.types import AnyArray, FloatArray
from gramless.estimators.base import KernelMachine
from gramless.inspection.attributions import Attributions, shapley_values
from gramless.inspection.explanation import Rows, input_columns
from gramless.inspection.pictures import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_RED, _BLUE, _GREY = "#d1495b", "#1b6ca8", "0.5"
_MAX_OFFSET = 0.4  # maximum vertical jitter; rows of features are 1 apart
_N_SLOTS = 80  # points within this fraction of the range of values would overlap


class _FeatureDisplay:
    """Base of displays with one horizontal row for each feature."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _prepare_axes(self, ax: Axes | None, names: list[str]) -> Axes:
        require_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(6.4, 1.2 + 0.34 * len(names)), layout="constrained")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)  # the first name is on top
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class FeatureImportancesDisplay(_FeatureDisplay):
    """Bars of ``feature_importances_`` with the largest on top.

    Parameters
    ----------
    importances : array (n_features,)
        Importance of each column.
    feature_names : list of str
        Names of the columns.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Set by :meth:`plot`.

    Examples
    --------
    >>> display = FeatureImportancesDisplay(np.array([0.2, 0.8]), ["a", "b"]).plot()
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['b', 'a']
    """

    def __init__(self, importances: FloatArray, feature_names: list[str]) -> None:
        self.importances, self.feature_names = importances, feature_names

    @classmethod
    def from_estimator(
        cls, estimator: KernelMachine, *, max_features: int = 20, ax: Axes | None = None
    ) -> Self:
        """Draw the importances of a fitted model.

        Parameters
        ----------
        estimator : KernelRegressor, KernelClassifier or KernelSurvival
            Fitted model.
        max_features : int, default=20
            Maximum number of columns to draw.
        ax : matplotlib axes, optional
            Axes to draw on; by default new ones.

        Returns
        -------
        FeatureImportancesDisplay
        """
        check_is_fitted(estimator, "weights_")
        names = list(input_columns(estimator))
        return cls(estimator.feature_importances_, names).plot(ax, max_features=max_features)

    def plot(self, ax: Axes | None = None, *, max_features: int = 20, **options: Any) -> Self:
        """Draw the importances as bars with the largest on top.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; by default new ones.
        max_features : int, default=20
            Maximum number of columns to draw.
        **options
            Keyword arguments of matplotlib's ``barh``.

        Returns
        -------
        FeatureImportancesDisplay
        """
        order = _indices_of_largest(self.importances, max_features)
        axes = self._prepare_axes(ax, [self.feature_names[j] for j in order])
        axes.barh(range(len(order)), self.importances[order], **{"color": _BLUE, **options})
        axes.set_xlabel("share of the mean absolute Shapley values")
        return self


class AttributionsDisplay(_FeatureDisplay):
    """Shapley values of many rows as points, or of one row as steps from the mean.

    Parameters
    ----------
    attributions : Attributions
        The result of :func:`shapley_values`.
    output : int, default=0
        Index of the output to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Set by :meth:`plot`.

    Examples
    --------
    >>> from gramless import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(400, 2))
    >>> model = KernelRegressor(effort=1, random_state=0).fit(X, X[:, 1] ** 2)
    >>> display = AttributionsDisplay.from_estimator(model, X[:50])
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['x2', 'x1']
    """

    def __init__(self, attributions: Attributions, output: int = 0) -> None:
        self.attributions, self.output = attributions, output

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelMachine,
        X: Rows,
        *,
        background: Rows | None = None,
        output: int = 0,
        row: int | None = None,
        max_features: int = 12,
        ax: Axes | None = None,
    ) -> Self:
        """Explain rows and draw their Shapley values.

        Parameters
        ----------
        estimator : KernelRegressor, KernelClassifier or KernelSurvival
            Fitted model.
        X, background
            See :func:`shapley_values`.
        output : int, default=0
            Index of the output or class to draw.
        row, max_features, ax
            See :meth:`plot`.

        Returns
        -------
        AttributionsDisplay
        """
        display = cls(shapley_values(estimator, X, background), output)
        return display.plot(ax, row=row, max_features=max_features)

    def plot(
        self, ax: Axes | None = None, *, row: int | None = None, max_features: int = 12
    ) -> Self:
        """Draw the Shapley values.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; by default new ones.
        row : int, optional
            Draw only this row, as steps from the mean prediction to the prediction of the row. By
            default every row is a point on the line of each column. The point is red if the value
            of the row in this column is large, blue if it is small, and grey if it is missing or
            the column does not hold numbers.
        max_features : int, default=12
            Maximum number of columns to draw: those with the largest mean absolute Shapley values,
            or the largest absolute values of ``row``. With ``row``, one more bar is the sum of all
            other columns.

        Returns
        -------
        AttributionsDisplay
        """
        require_matplotlib()
        values, base = self.attributions.values, self.attributions.base_values
        if values.ndim == 3:
            values, base = values[:, :, self.output], base[:, self.output]
        if not len(values):
            raise InputError("AttributionsDisplay: there are no rows to draw.")
        if row is None:
            self._draw_points(ax, values, max_features)
        else:
            self._draw_steps(ax, values[row], float(base[row]), row, max_features)
        return self

    def _draw_points(self, ax: Axes | None, values: FloatArray, max_features: int) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        data, names = self.attributions.data, self.attributions.feature_names
        order = _indices_of_largest(np.abs(values).mean(axis=0), max_features)
        axes = self._prepare_axes(ax, [names[j] for j in order])
        gradient = LinearSegmentedColormap.from_list("values", [_BLUE, "0.8", _RED])
        # Points without a rank would otherwise be transparent.
        colours = gradient.with_extremes(bad=_GREY)
        for line, j in enumerate(order):
            ranks, heights = _rank_values(data[:, j]), line + _jitter_offsets(values[:, j])
            axes.scatter(
                values[:, j], heights, c=ranks, cmap=colours, vmin=0.0, vmax=1.0, s=9,
                linewidths=0, plotnonfinite=True,
            )  # fmt: skip
        axes.axvline(0.0, color="0.5", lw=0.8, zorder=0)
        axes.set_xlabel("effect on the raw prediction\nred: large input values; blue: small")

    def _draw_steps(
        self, ax: Axes | None, values: FloatArray, base: float, row: int, max_features: int
    ) -> None:
        data, names = self.attributions.data[row], self.attributions.feature_names
        order = _indices_of_largest(np.abs(values), max_features)
        labels = [f"{names[j]} = {_format_value(data[j])}" for j in order]
        steps = values[order]
        if len(order) < len(values):
            steps = np.append(steps, values.sum() - steps.sum())
            labels.append(f"{len(values) - len(order)} others")
        axes = self._prepare_axes(ax, labels)
        ends = base + np.cumsum(steps)
        colours = [_RED if step > 0 else _BLUE for step in steps]
        lines = np.arange(len(ends))
        axes.barh(lines, steps, left=ends - steps, color=colours)
        axes.vlines(ends[:-1], lines[:-1], lines[1:], color="0.4", lw=0.8)
        axes.axvline(base, color="0.5", lw=0.8, zorder=0)
        # Bars would otherwise end at the frame.
        axes.use_sticky_edges = False
        axes.margins(x=0.05)
        axes.set_xlabel(
            f"raw prediction: mean {_format_value(base)}, of this row {_format_value(ends[-1])}"
        )


def _indices_of_largest(sizes: FloatArray, n: int) -> AnyArray:
    return np.argsort(-sizes, kind="stable")[:n]


def _format_value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rank_values(values: AnyArray) -> FloatArray:
    """Return ranks in [0, 1], equal for equal values; NaN if the values are not numbers."""
    if not all(isinstance(value, float) for value in values.tolist()):
        return np.full(len(values), np.nan)
    numbers = values.astype(np.float64)
    _, indices = np.unique(numbers, return_inverse=True)
    ranks = indices / max(1, int(indices.max()))
    return np.where(np.isnan(numbers), np.nan, ranks)


def _jitter_offsets(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    slot = np.zeros(len(values), np.intp)
    if high > low:
        slot = ((values - low) / (high - low) * _N_SLOTS).astype(np.intp)
    order = np.argsort(slot, kind="stable")
    counts = np.bincount(slot)
    rank = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    signs = np.where(rank % 2 == 0, 1.0, -1.0)
    offsets = np.empty(len(values))
    offsets[order] = signs * ((rank + 1) // 2) * 2.0 * _MAX_OFFSET / max(1, int(counts.max()))
    return offsets
