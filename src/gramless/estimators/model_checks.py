"""Checks of models read from files, on whose sizes the compiled loops rely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from gramless.base.memory import memory_budget
from gramless.estimators.inputs import RowInputs
from gramless.estimators.stream_parameters import MOST_SHRINKING
from gramless.features.binning_map import BinningMap
from gramless.features.gaps import GapFiller
from gramless.features.scaling import SCALINGS, Scaler
from gramless.features.sized import SizedMap
from gramless.features.table import TableEncoder
from gramless.kernels import Windowed, as_spectral_kernel
from gramless.losses import Multinomial
from gramless.streaming.preparation import Preparation
from gramless.streaming.schedules import InverseTime
from gramless.streaming.summary import Projection
from gramless.tuning.posterior import Posterior

if TYPE_CHECKING:
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.streamed import StreamedMachine

_MAX_BINS, _MOST_SCALE = 2**31 - 2, 1e3
_MOST_IN_RUN = 1e18
_FREQUENCY_BYTES = 24
_JUDGED = ("iteration", "n_blocks", "loss", "error")


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
    n_features = _check_inputs(state.get("inputs_"), n_inputs, state.get("n_features_in_"))
    require(state.get("n_features_in_") == n_features, "n_features_in_ does not fit")
    _check_names(state.get("feature_names_in_"), n_features)
    _number(state.get("alpha_"), "alpha_", float)
    if is_classifier(model):
        _check_classes(state.get("classes_"), 2 if n_outputs is None else n_outputs)
    elif state.get("posterior_") is not None:
        _check_posterior(state["posterior_"], n_columns, n_outputs)


def check_streamed(model: StreamedMachine) -> None:
    """Check that the parts of a fitted doubly stochastic estimator fit each other.

    Parameters
    ----------
    model : StreamedMachine

    Raises
    ------
    ValueError
        With what does not fit.
    """
    state = vars(model)
    n_inputs = _check_preparation(state.get("preparation_"), state.get("n_features_in_"))
    _check_names(state.get("feature_names_in_"), state["n_features_in_"])
    block_columns = 2 * _check_blocks(state, n_inputs)
    n_outputs = _check_function(state, "weights_", "constant_", block_columns)
    losses = {type(loss) for loss in type(model)._losses.values()}
    if is_classifier(model):
        _check_classes(state.get("classes_"), 2 if n_outputs == 1 else n_outputs)
        losses |= {Multinomial} if n_outputs > 2 else set()
    else:
        _check_scales(state, n_outputs)
    require(type(state.get("loss_")) in losses, "loss_ is none of the estimator")
    for name, least in (("alpha_", 0.0), ("variance_", 0.0), ("batch_rows_", 1), ("n_iter_", 1)):
        _number(state.get(name), name, type(least))
        require(least <= state[name] < np.inf, f"{name} is out of range")
    schedule: Any = state.get("schedule_")
    require(isinstance(schedule, InverseTime), "schedule_ is no schedule")
    require(
        schedule.step(1) * state["alpha_"] <= MOST_SHRINKING, "schedule_ or alpha_ is too large"
    )
    for name in ("status_", "reason_"):
        require(isinstance(state.get(name), str), f"{name} is no text")
    _check_records(state.get("history_"), "history_", ("iteration",), state["n_iter_"])
    _check_records(state.get("evaluations_"), "evaluations_", _JUDGED, None)
    if "run_" in state:
        _check_run(state["run_"], block_columns, n_outputs, state["n_iter_"])


def _check_preparation(preparation: Any, n_features: Any) -> int:
    """Return the number of inputs of the kernel."""
    require(isinstance(preparation, Preparation), "preparation_ is none that gramless writes")
    fields, projection = vars(preparation), preparation.projection
    units = _array(fields, "units", np.float64, None)
    require(units.ndim == 1 and units.size > 0 and bool((units > 0).all()), "units are wrong")
    _finite(fields, "center", np.float64, units.shape)
    _number(n_features, "n_features_in_", int)
    if projection is None:
        require(n_features == len(units), "n_features_in_ is not that of preparation_")
    else:
        require(isinstance(projection, Projection), "projection is none that gramless writes")
        _finite(vars(projection), "mean", np.float64, (n_features,))
        _finite(vars(projection), "components", np.float64, (n_features, len(units)))
    return len(units)


def _check_blocks(state: Mapping[str, Any], n_inputs: int) -> int:
    """Return the frequencies of a block."""
    as_spectral_kernel(state["kernel_"])
    _number(state.get("seed_"), "seed_", int)
    require(0 <= state["seed_"] < 2**64, "seed_ is out of range")
    size: Any = state.get("block_size_")
    _number(size, "block_size_", int)
    fits = size > 0 and _FREQUENCY_BYTES * size * n_inputs <= memory_budget()
    require(fits, "block_size_ is not positive, or a block takes more memory than there is")
    return int(size)


def _check_function(state: Mapping[str, Any], weights: str, constant: str, columns: int) -> int:
    """Return the number of outputs of weights of whole blocks and a constant."""
    array = _finite(state, weights, np.float32, None)
    fits = array.ndim == 2 and array.size > 0 and len(array) % columns == 0
    require(fits, f"{weights} does not fit block_size_")
    _finite(state, constant, np.float64, array.shape[1:])
    return int(array.shape[1])


def _check_scales(state: Mapping[str, Any], n_outputs: int) -> None:
    _finite(state, "target_mean_", np.float64, (n_outputs,))
    scale = _finite(state, "target_scale_", np.float64, (n_outputs,))
    require(bool((scale > 0).all()), "target_scale_ is not positive")
    one = state.get("one_output_")
    require(one is False or (one is True and n_outputs == 1), "one_output_ does not fit")


def _check_records(records: Any, what: str, names: tuple[str, ...], length: int | None) -> None:
    """Check arrays of numbers of one length, some of which must be there unless all are empty."""
    require(isinstance(records, dict), f"{what} is no record")
    for name in records:
        array = records[name]
        fits = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "if"
        require(fits, f"{what} holds something else than numbers")
        length = len(array) if length is None else length
        require(len(array) == length, f"{what} has columns of several lengths")
    require(not records or records.keys() >= set(names), f"{what} lacks a column")
    require(bool(records) or not length, f"{what} is empty")


def _check_run(run: Any, columns: int, n_outputs: int, n_steps: int) -> None:
    """Check the state of a run that goes on."""
    require(isinstance(run, dict) and isinstance(run.get("expansion"), dict), "run_ is no run")
    require(run.get("iteration") == n_steps, "run_ has another number of steps")
    _number(run.get("seconds"), "seconds", float)
    require(0.0 <= run["seconds"] < np.inf, "seconds are out of range")
    if run.get("best") is not None:
        require(isinstance(run["best"], dict), "best is no function")
        found = _check_function(run["best"], "weights", "constant", columns)
        require(found == n_outputs, "best has another number of outputs")
        _number(run["best"].get("iteration"), "iteration", int)
    f = run["expansion"]
    n_columns = len(_array(f, "weights", np.float32, None))
    require(n_columns % columns == 0, "the run's weights do not fit block_size_")
    for name in ("weights", "averaged"):
        _finite(f, name, np.float32, (n_columns, n_outputs))
    _finite(f, "sums", np.float64, (n_columns // columns, n_outputs))
    seen = _finite(f, "seen", np.float64, (n_columns // columns, 2))
    for name in ("offset", "intercept", "averaged_constant"):
        _finite(f, name, np.float64, (n_outputs,))
    for name in ("scale", "squared_norm", "left", "mean"):
        _number(f.get(name), name, float)
        require(bool(abs(f[name]) < _MOST_IN_RUN), f"{name} is out of range")
    positive = abs(f["scale"]) > 1.0 / _MOST_IN_RUN and 0.0 < f["left"] <= seen[:, 0].min(initial=1)
    require(positive, "the run's scale or average is 0")
    _number(f.get("n_averaged"), "n_averaged", int)
    require(f["n_averaged"] == n_steps, "the run has averaged another number of steps")


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


def _check_inputs(inputs: Any, n_inputs: int, n_features: Any) -> int:
    """Return the number of columns of a table of which the inputs are made."""
    require(isinstance(inputs, RowInputs), "inputs_ is none that gramless writes")
    _check_mask(inputs.categorical, n_inputs)
    encoder, gaps = inputs.encoder, inputs.gaps
    if encoder is not None:
        alone = gaps is None and inputs.kept is None
        require(isinstance(encoder, TableEncoder) and alone, "inputs_ has a wrong encoder")
        require(len(encoder.output_names) == n_inputs, "inputs_ does not fit the grids")
        return len(encoder.names)
    if gaps is None:
        return n_inputs if inputs.kept is None else inputs.check_kept(n_inputs, n_features)
    require(isinstance(gaps, GapFiller) and inputs.kept is None, "inputs_ fills no gaps")
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


def _finite(state: Mapping[str, Any], name: str, dtype: Any, shape: tuple[int, ...] | None) -> Any:
    array = _array(state, name, dtype, shape)
    require(bool(np.isfinite(array).all()), f"{name} is not finite")
    return array


def _number(value: Any, name: str, kind: type) -> None:
    kinds = (int, float) if kind is float else (int,)
    require(isinstance(value, kinds) and not isinstance(value, bool), f"{name} is no number")
