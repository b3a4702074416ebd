"""Checks of models read from files, on whose sizes the compiled loops rely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from gramless.estimators.inputs import RowInputs
from gramless.features.binning_map import BinningMap
from gramless.features.gaps import GapFiller
from gramless.features.scaling import SCALINGS, Scaler
from gramless.features.sized import SizedMap
from gramless.features.table import TableEncoder
from gramless.kernels import Windowed
from gramless.tuning.posterior import Posterior

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
    """Check what a map to plain bins knows besides, after :func:`check_grids`.

    Parameters
    ----------
    state : mapping
        Fitted attributes by name.

    Raises
    ------
    ValueError
        With what does not fit.
    """
    _array(state, "nu_", np.float64, (len(state["widths_"]),))
    _number(state.get("kappa_"), "kappa_", float)
    _number(state.get("kappa_bar_"), "kappa_bar_", float)


def check_smooth(state: Mapping[str, Any]) -> None:
    """Check what a map to smooth bins knows besides, after :func:`check_grids`.

    Parameters
    ----------
    state : mapping
        Fitted attributes by name.

    Raises
    ------
    ValueError
        With what does not fit.
    """
    require(isinstance(state.get("kernel_"), Windowed), "kernel_ is no kernel of smooth bins")
    _array(state, "categorical_", np.bool_, state["widths_"].shape[1:])
    check_drawn(state)


def check_grids(state: Mapping[str, Any]) -> None:
    """Check that the arrays of grids and of tables of their bins fit each other.

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
    scale = state.get("scale_", 1.0)
    _number(scale, "scale_", float)
    require(0.0 < scale < _MOST_SCALE, "scale_ is not positive and finite")
    if "n_features_in_" in state:
        require(state["n_features_in_"] == n_features, "n_features_in_ is not that of the grids")
    _check_names(state.get("feature_names_in_"), n_features)


def check_drawn(state: Mapping[str, Any]) -> None:
    """Check what a random binning map knows besides, after :func:`check_grids`.

    Parameters
    ----------
    state : mapping
        Fitted attributes by name.

    Raises
    ------
    ValueError
        With what does not fit.
    """
    _array(state, "bandwidth_", np.float64, state["widths_"].shape[1:])
    _number(state.get("seed_"), "seed_", int)


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
    n_columns, n_scaled = _check_features(state.get("features_"))
    n_inputs = _check_scaler(state.get("scaler_"), n_scaled)
    n_outputs = _check_coefficients(state, n_columns)
    n_features = _check_inputs(state.get("inputs_"), n_inputs)
    require(state.get("n_features_in_") == n_features, "n_features_in_ does not fit")
    _check_names(state.get("feature_names_in_"), n_features)
    _number(state.get("alpha_"), "alpha_", float)
    if is_classifier(model):
        _check_classes(state.get("classes_"), 2 if n_outputs is None else n_outputs)
    elif state.get("posterior_") is not None:
        _check_posterior(state["posterior_"], n_columns, n_outputs)


def _check_features(features: Any) -> tuple[int, int]:
    """Return the number of columns of a feature map, and of the inputs that it takes."""
    require(isinstance(features, (BinningMap, SizedMap)), "features_ is no feature map")
    if isinstance(features, BinningMap):
        require(hasattr(features, "offsets_"), "features_ is not fitted")
        return int(features.offsets_[-1]), int(features.widths_.shape[1])
    bandwidth = _array(vars(features), "bandwidth_", np.float64, None)
    require(bandwidth.ndim == 1 and bool((bandwidth > 0).all()), "bandwidth_ is no bandwidth")
    # A row says more about how the arrays fit each other than their shapes one by one.
    row = features.rows_matrix(np.zeros((1, len(bandwidth))))
    n_columns = features._n_features_out
    require(row.shape == (1, n_columns), "features_ has arrays that do not fit each other")
    require(bool(np.isfinite(row.matvec(np.ones(n_columns))).all()), "features_ is not finite")
    return n_columns, len(bandwidth)


def _check_inputs(inputs: Any, n_inputs: int) -> int:
    """Return the number of columns of a table of which the inputs are made."""
    require(isinstance(inputs, RowInputs), "inputs_ is none that gramless writes")
    _check_mask(inputs.categorical, n_inputs)
    encoder, gaps = inputs.encoder, inputs.gaps
    if encoder is not None:
        require(isinstance(encoder, TableEncoder) and gaps is None, "inputs_ has a wrong encoder")
        require(len(encoder.output_names) == n_inputs, "inputs_ does not fit the grids")
        return len(encoder.names)
    if gaps is None:
        return n_inputs
    require(isinstance(gaps, GapFiller), "inputs_ fills no gaps")
    fields = vars(gaps)
    marked = _array(fields, "marked", np.int64, None)
    require(marked.ndim == 1, "inputs_ does not fit the grids")
    n_features = n_inputs - len(marked)
    _array(fields, "fill", np.float64, (n_features,))
    require(bool(((marked >= 0) & (marked < n_features)).all()), "inputs_ marks no inputs")
    return n_features


def _check_mask(categorical: Any, n_inputs: int) -> None:
    if categorical is not None:
        _array({"categorical": categorical}, "categorical", np.bool_, (n_inputs,))


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


def _check_scaler(scaler: Any, n_columns: int) -> int:
    """Return the number of inputs of which the scaler makes the columns that grids divide."""
    require(isinstance(scaler, Scaler) and scaler.kind in SCALINGS, "scaler_ is no scaler")
    fields = vars(scaler)
    _array(fields, "unit", np.float64, (n_columns,))
    _check_mask(scaler.categorical, n_columns)
    require(scaler.kind != "both" or n_columns % 2 == 0, "scaler_ does not fit the grids")
    n_inputs = n_columns // 2 if scaler.kind == "both" else n_columns
    knots = _array(fields, "knots", np.float64, None)
    _array(fields, "levels", np.float64, knots.shape)
    require(knots.ndim == 2 and len(knots) == n_inputs, "scaler_ does not fit the grids")
    ranked = scaler.kind in ("quantile", "both")
    require(not ranked or knots.shape[1] > 0, "scaler_ has no quantiles")
    _number(scaler.spread, "scaler_.spread", float)
    return n_inputs


def _check_classes(classes: Any, n_classes: int) -> None:
    fits = isinstance(classes, np.ndarray) and classes.shape == (n_classes,)
    require(fits, "classes_ does not fit coef_")


def _check_posterior(posterior: Any, n_columns: int, n_outputs: int | None) -> None:
    require(isinstance(posterior, Posterior), "posterior_ is no posterior")
    draws = _array(vars(posterior), "draws", np.float64, None)
    fits = draws.ndim == 2 and len(draws) == n_columns + 1 and draws.size > 0
    require(fits, "posterior_ does not fit the bins")
    _number(posterior.prior, "posterior_.prior", float)
    if n_outputs is None:
        _number(posterior.noise, "posterior_.noise", float)
    else:
        _array(vars(posterior), "noise", np.float64, (n_outputs,))


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
