"""What model selection decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gramless.base.types import FloatArray, IntArray
from gramless.features.base import FeatureMap
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_products import SingleRowProducts
from gramless.model_selection.data import Data
from gramless.model_selection.search_space import Hyperparameters
from gramless.model_selection.validation import ValidationResult
from gramless.preprocessing.scaling import Scaler

Order = IntArray | slice


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Factors by which deviations of raw predictions from a constant are multiplied, by output."""

    factors: FloatArray
    constant: FloatArray

    def applied_to(self, weights: Vector) -> Vector:
        """Return the weights of shrunk predictions, that of the intercept last."""
        shrunk = self.factors * weights
        shrunk[-1] += (1.0 - self.factors) * self.constant
        return shrunk


@dataclass(frozen=True, eq=False)
class SelectedModel:
    """What model selection decided: features of all rows, and the penalty of their fit.

    Attributes
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the rows of the final fit in ``order``, without the intercept's column; bins
        are scaled by the deviations of their weights' priors.
    bandwidth : float, array or None
        Of random features, in units of the scaled inputs.
    validation : ValidationResult or None
        Of a fit that did not know the rows held back; its weights are a start for the final one.
    growth, trials : list of dict
        The stages of growth, and everything that was tried.
    limits : list of str
        What a budget of time or memory cut short.
    weights : array (n_columns,) or (n_columns, K), optional
        The fit itself, that of the intercept last if there is one, where selection has made it.
    start : array of the same shape, optional
        Weights of an earlier fit, from which the final one starts where there is no validation.
    signs : array (n_grids,), optional
        Which way weights go along the input of a grid, see :class:`Goal`.
    rounding_step : float
        Of which weights shall be multiples, see :func:`coarsest_step`; 0 keeps all digits.
    count_power : float
        By which the priors of bins' weights depend on their rows, see :func:`prior_deviations`.
    shrinkage : Shrinkage, optional
        How far predictions are shrunk towards a constant after the final fit.
    products : SingleRowProducts, optional
        The same features of the same rows with products in single precision, where trials had them.
    """

    scaler: Scaler
    feature_map: FeatureMap
    matrix: FeatureMatrix
    order: Order = field(repr=False)
    settings: Hyperparameters
    bandwidth: Any
    relevance: FloatArray = field(repr=False)
    validation: ValidationResult | None
    growth: list[dict[str, float]] = field(repr=False)
    trials: list[dict[str, Any]] = field(repr=False)
    limits: list[str]
    loss: Loss
    weights: Vector | None = field(default=None, repr=False)
    start: Vector | None = field(default=None, repr=False)
    signs: IntArray | None = field(default=None, repr=False)
    rounding_step: float = 0.0
    count_power: float = 0.0
    shrinkage: Shrinkage | None = None
    products: SingleRowProducts | None = field(default=None, repr=False)

    @property
    def alpha(self) -> float:
        """Penalty of the mean loss over all rows."""
        return self.settings.alpha


def fitted_part(data: Data, order: Order, matrix: FeatureMatrix) -> tuple[Order, FeatureMatrix]:
    """Return order and features of the rows of the final fit, from those of all."""
    if data.n_judging == 0 or isinstance(order, slice):
        return order, matrix
    return order[: data.n_fitted], matrix.take_rows(slice(0, data.n_fitted))
