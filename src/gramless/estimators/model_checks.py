"""Checks of models read from files, on whose sizes the compiled loops rely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from gramless.features.binning import RandomBinning
from gramless.features.scaling import SCALINGS, Scaler
from gramless.features.table import TableEncoder

if TYPE_CHECKING:
    from gramless.estimators.base import KernelMachine

_MAX_BINS = 2**31 - 2
_MOST_SCALE = 1e3


def require(condition: bool, complaint: str) -> None:
    """Raise ``ValueError(complaint)`` unless the condition holds.

    Examples
    --------
    >>> require(True, "never said")
    """
    if not condition:
        raise ValueError(complaint)


def check_binning(state: Mapping[str, Any]) -> None:
    """Check that the arrays of a random binning map fit each other.

    Parameters
    ----------
    state : mapping
        Fitted attributes by name, and the parts of the grids and tables.

    Raises
    ------
    ValueError
        With what does not fit.
    """
    widths = _array(state, "widths_", np.float64, None)
    require(widths.ndim == 2 and widths.size > 0, "widths_ is not a table of grids")
    n_grids, n_features = shape = widths.shape
    shifts = _array(state, "shifts_", np.float64, shape)
    require(bool((widths > 0).all() and np.isfinite(shifts).all()), "widths_ or shifts_ are wrong")
    _array(state, "multipliers", np.int64, shape)
    _array(state, "cell_offsets", np.int64, (n_grids,))
    offsets = _array(state, "offsets_", np.int64, (n_grids + 1,))
    # Compared, not subtracted: differences of hostile numbers overflow.
    rising = bool((offsets[1:] > offsets[:-1]).all()) and offsets[0] == 0
    require(rising and offsets[-1] <= n_grids * _MAX_BINS, "offsets_ do not rise from 0")
    require(int(np.diff(offsets).max()) <= _MAX_BINS, "a grid has too many bins")
    _array(state, "keys", np.int64, (int(offsets[-1]),))
    _array(state, "bandwidth_", np.float64, (n_features,))
    _array(state, "nu_", np.float64, (n_grids,))
    _number(state.get("seed_"), "seed_", int)
    scale = state.get("scale_", 1.0)
    _number(scale, "scale_", float)
    require(0.0 < scale < _MOST_SCALE, "scale_ is not positive and finite")
    _number(state.get("kappa_"), "kappa_", float)
    _number(state.get("kappa_bar_"), "kappa_bar_", float)
    if "n_features_in_" in state:
        require(state["n_features_in_"] == n_features, "n_features_in_ is not that of the grids")
    _check_names(state.get("feature_names_in_"), n_features)


def check_machine(model: KernelMachine) -> None:
    """Check that the parts of a fitted regressor or classifier fit each other.

    Parameters
    ----------
    model : KernelMachine

    Raises
    ------
    ValueError
        With what does not fit.
    """
    state = vars(model)
    features = state.get("features_")
    require(isinstance(features, RandomBinning), "features_ is not a fitted feature map")
    assert isinstance(features, RandomBinning)
    require(hasattr(features, "offsets_"), "features_ is not fitted")
    n_columns, n_inputs = int(features.offsets_[-1]), features.widths_.shape[1]
    n_outputs = _check_coefficients(state, n_columns)
    _check_scaler(state.get("scaler_"), n_inputs)
    encoder = state.get("encoder_")
    n_features = n_inputs
    if encoder is not None:
        require(isinstance(encoder, TableEncoder), "encoder_ is not a table encoder")
        n_features = len(encoder.names)
        require(len(encoder.output_names) == n_inputs, "encoder_ does not fit the grids")
    require(state.get("n_features_in_") == n_features, "n_features_in_ does not fit")
    _check_names(state.get("feature_names_in_"), n_features)
    _number(state.get("alpha_"), "alpha_", float)
    if is_classifier(model):
        _check_classes(state.get("classes_"), 2 if n_outputs is None else n_outputs)


def _check_coefficients(state: Mapping[str, Any], n_columns: int) -> int | None:
    """Return the number of outputs, None where there is one without a dimension of its own."""
    coef = _array(state, "coef_", np.float64, None)
    fits = coef.ndim in (1, 2) and coef.shape[0] == n_columns and coef.size > 0
    require(fits, "coef_ does not fit the bins")
    if coef.ndim == 1:
        _number(state.get("intercept_"), "intercept_", float)
        return None
    _array(state, "intercept_", np.float64, coef.shape[1:])
    return int(coef.shape[1])


def _check_scaler(scaler: Any, n_inputs: int) -> None:
    require(isinstance(scaler, Scaler) and scaler.kind in SCALINGS, "scaler_ is no scaler")
    fields = vars(scaler)
    _array(fields, "unit", np.float64, (n_inputs,))
    knots = _array(fields, "knots", np.float64, None)
    _array(fields, "levels", np.float64, knots.shape)
    require(knots.ndim == 2 and len(knots) == n_inputs, "scaler_ does not fit the grids")
    require(scaler.kind != "quantile" or knots.shape[1] > 0, "scaler_ has no quantiles")
    _number(scaler.spread, "scaler_.spread", float)


def _check_classes(classes: Any, n_classes: int) -> None:
    fits = isinstance(classes, np.ndarray) and classes.shape == (n_classes,)
    require(fits, "classes_ does not fit coef_")


def _check_names(names: Any, n_features: int) -> None:
    if names is None:
        return
    fits = isinstance(names, np.ndarray) and names.dtype == object and names.shape == (n_features,)
    require(fits, "feature_names_in_ does not fit")


def _array(state: Mapping[str, Any], name: str, dtype: Any, shape: tuple[int, ...] | None) -> Any:
    array: Any = state.get(name)
    fits = isinstance(array, np.ndarray) and array.dtype == dtype
    require(fits, f"{name} is no array of {np.dtype(dtype)}")
    require(shape is None or array.shape == shape, f"{name} has a wrong shape")
    return array


def _number(value: Any, name: str, kind: type) -> None:
    kinds = (int, float) if kind is float else (int,)
    require(isinstance(value, kinds) and not isinstance(value, bool), f"{name} is no number")
