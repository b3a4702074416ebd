"""Checks of estimators read from files, on whose sizes the compiled loops rely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from gramless.base.memory import memory_budget
from gramless.estimators.array_checks import (
    check_names,
    check_number,
    checked_array,
    finite_array,
    require,
)
from gramless.estimators.feature_checks import map_shape
from gramless.estimators.inputs import RowInputs
from gramless.estimators.stream_parameters import MOST_SHRINKING
from gramless.kernels import SpectralKernel
from gramless.losses import Multinomial
from gramless.preprocessing.encoder import TableEncoder
from gramless.preprocessing.imputer import Imputer
from gramless.preprocessing.scaling import SCALINGS, Scaler
from gramless.streaming.bandwidth_selection import Preparation
from gramless.streaming.principal_components import Projection
from gramless.streaming.step_sizes import InverseTime
from gramless.tuning.calibration import Calibration
from gramless.tuning.conformal import Conformal
from gramless.tuning.posterior import Posterior

if TYPE_CHECKING:
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.streamed import StreamedMachine

_MOST_IN_RUN = 1e18
_FREQUENCY_BYTES = 24
_JUDGED = ("iteration", "n_blocks", "loss", "error")


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
    n_columns, n_scaled = map_shape(state.get("features_"))
    n_inputs = _check_scaler(state.get("scaler_"), n_scaled)
    n_outputs = _check_coefficients(state, n_columns)
    n_features = _check_inputs(state.get("inputs_"), n_inputs, state.get("n_features_in_"))
    require(state.get("n_features_in_") == n_features, "n_features_in_ does not fit")
    check_names(state.get("feature_names_in_"), n_features)
    check_number(state.get("alpha_"), "alpha_", float)
    classifier = is_classifier(model)
    parts = {"errors_", "calibration_" if classifier else "posterior_"}
    require(parts <= state.keys(), "what held-back rows or draws tell is missing")
    if classifier:
        _check_classes(state.get("classes_"), 2 if n_outputs is None else n_outputs)
        _check_calibration(state["calibration_"], 1 if n_outputs is None else n_outputs)
    elif state["posterior_"] is not None:
        _check_posterior(state["posterior_"], n_columns, n_outputs)
    _check_errors(state["errors_"], None if classifier else n_outputs)


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
    check_names(state.get("feature_names_in_"), state["n_features_in_"])
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
        check_number(state.get(name), name, type(least))
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
    units = checked_array(fields, "units", np.float64, None)
    require(units.ndim == 1 and units.size > 0 and bool((units > 0).all()), "units are wrong")
    finite_array(fields, "center", np.float64, units.shape)
    check_number(n_features, "n_features_in_", int)
    if projection is None:
        require(n_features == len(units), "n_features_in_ is not that of preparation_")
    else:
        require(isinstance(projection, Projection), "projection is none that gramless writes")
        finite_array(vars(projection), "mean", np.float64, (n_features,))
        finite_array(vars(projection), "components", np.float64, (n_features, len(units)))
    return len(units)


def _check_blocks(state: Mapping[str, Any], n_inputs: int) -> int:
    """Return the frequencies of a block."""
    require(isinstance(state.get("kernel_"), SpectralKernel), "kernel_ has no frequencies")
    check_number(state.get("seed_"), "seed_", int)
    require(0 <= state["seed_"] < 2**64, "seed_ is out of range")
    size: Any = state.get("block_size_")
    check_number(size, "block_size_", int)
    fits = size > 0 and _FREQUENCY_BYTES * size * n_inputs <= memory_budget()
    require(fits, "block_size_ is not positive, or a block takes more memory than there is")
    return int(size)


def _check_function(state: Mapping[str, Any], weights: str, constant: str, columns: int) -> int:
    """Return the number of outputs of weights of whole blocks and a constant."""
    array = finite_array(state, weights, np.float32, None)
    fits = array.ndim == 2 and array.size > 0 and len(array) % columns == 0
    require(fits, f"{weights} does not fit block_size_")
    finite_array(state, constant, np.float64, array.shape[1:])
    return int(array.shape[1])


def _check_scales(state: Mapping[str, Any], n_outputs: int) -> None:
    finite_array(state, "target_mean_", np.float64, (n_outputs,))
    scale = finite_array(state, "target_scale_", np.float64, (n_outputs,))
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
    check_number(run.get("seconds"), "seconds", float)
    require(0.0 <= run["seconds"] < np.inf, "seconds are out of range")
    if run.get("best") is not None:
        require(isinstance(run["best"], dict), "best is no function")
        found = _check_function(run["best"], "weights", "constant", columns)
        require(found == n_outputs, "best has another number of outputs")
        check_number(run["best"].get("iteration"), "iteration", int)
    f = run["expansion"]
    n_columns = len(checked_array(f, "weights", np.float32, None))
    require(n_columns % columns == 0, "the run's weights do not fit block_size_")
    for name in ("weights", "averaged"):
        finite_array(f, name, np.float32, (n_columns, n_outputs))
    finite_array(f, "sums", np.float64, (n_columns // columns, n_outputs))
    seen = finite_array(f, "seen", np.float64, (n_columns // columns, 2))
    for name in ("offset", "intercept", "averaged_constant"):
        finite_array(f, name, np.float64, (n_outputs,))
    for name in ("scale", "squared_norm", "left", "mean"):
        check_number(f.get(name), name, float)
        require(bool(abs(f[name]) < _MOST_IN_RUN), f"{name} is out of range")
    positive = abs(f["scale"]) > 1.0 / _MOST_IN_RUN and 0.0 < f["left"] <= seen[:, 0].min(initial=1)
    require(positive, "the run's scale or average is 0")
    check_number(f.get("n_averaged"), "n_averaged", int)
    require(f["n_averaged"] == n_steps, "the run has averaged another number of steps")


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
    require(isinstance(gaps, Imputer) and inputs.kept is None, "inputs_ fills no gaps")
    fields = vars(gaps)
    marked = checked_array(fields, "marked", np.int64, None)
    require(marked.ndim == 1, "inputs_ does not fit the grids")
    n_features = n_inputs - len(marked)
    finite_array(fields, "fill", np.float64, (n_features,))
    require(bool(((marked >= 0) & (marked < n_features)).all()), "inputs_ marks no inputs")
    return n_features


def _check_mask(categorical: Any, n_inputs: int) -> None:
    if categorical is not None:
        checked_array({"categorical": categorical}, "categorical", np.bool_, (n_inputs,))


def _check_coefficients(state: Mapping[str, Any], n_columns: int) -> int | None:
    """Return the number of outputs, None where there is one without a dimension of its own."""
    coef = finite_array(state, "coef_", np.float64, None)
    fits = coef.ndim in (1, 2) and coef.shape[0] == n_columns and coef.size > 0
    require(fits, "coef_ does not fit the bins")
    if coef.ndim == 1:
        check_number(state.get("intercept_"), "intercept_", float)
        require(abs(state["intercept_"]) < np.inf, "intercept_ is not finite")
        return None
    finite_array(state, "intercept_", np.float64, coef.shape[1:])
    return int(coef.shape[1])


def _check_scaler(scaler: Any, n_columns: int) -> int:
    """Return the number of inputs of which the scaler makes the columns that grids divide."""
    require(isinstance(scaler, Scaler) and scaler.kind in SCALINGS, "scaler_ is no scaler")
    fields = vars(scaler)
    checked_array(fields, "unit", np.float64, (n_columns,))
    _check_mask(scaler.categorical, n_columns)
    require(scaler.kind != "both" or n_columns % 2 == 0, "scaler_ does not fit the grids")
    n_inputs = n_columns // 2 if scaler.kind == "both" else n_columns
    knots = finite_array(fields, "knots", np.float64, None)
    finite_array(fields, "levels", np.float64, knots.shape)
    require(knots.ndim == 2 and len(knots) == n_inputs, "scaler_ does not fit the grids")
    ranked = scaler.kind in ("quantile", "both")
    require(not ranked or knots.shape[1] > 0, "scaler_ has no quantiles")
    check_number(scaler.spread, "scaler_.spread", float)
    return n_inputs


def _check_classes(classes: Any, n_classes: int) -> None:
    fits = isinstance(classes, np.ndarray) and classes.shape == (n_classes,)
    require(fits, "classes_ does not fit coef_")


def _check_posterior(posterior: Any, n_columns: int, n_outputs: int | None) -> None:
    require(isinstance(posterior, Posterior), "posterior_ is no posterior")
    draws = finite_array(vars(posterior), "draws", np.float64, None)
    fits = draws.ndim == 2 and len(draws) == n_columns + 1 and draws.size > 0
    require(fits, "posterior_ does not fit the bins")
    check_number(posterior.prior, "posterior_.prior", float)
    require(0.0 <= posterior.prior < np.inf, "posterior_.prior is out of range")
    if n_outputs is None:
        check_number(posterior.noise, "posterior_.noise", float)
    else:
        finite_array(vars(posterior), "noise", np.float64, (n_outputs,))


def _check_calibration(calibration: Any, n_responses: int) -> None:
    if calibration is None:
        return
    require(isinstance(calibration, Calibration), "calibration_ is none that gramless writes")
    fields = vars(calibration)
    slopes = finite_array(fields, "slopes", np.float64, None)
    require(slopes.ndim == 1 and slopes.size > 0, "calibration_ has no slopes")
    knots = finite_array(fields, "knots", np.float64, (slopes.size + 1,))
    require(bool((knots[1:] >= knots[:-1]).all()), "the knots of calibration_ do not rise")
    require(calibration.n_responses == n_responses, "calibration_ does not fit coef_")
    check_number(calibration.floor, "calibration_.floor", float)
    require(0.0 < calibration.floor < 1.0, "calibration_.floor is out of range")


def _check_errors(errors: Any, n_outputs: int | None) -> None:
    if errors is None:
        return
    require(isinstance(errors, Conformal), "errors_ are none that gramless writes")
    scores = finite_array(vars(errors), "scores", np.float64, None)
    shape = (len(scores),) if n_outputs is None else (len(scores), n_outputs)
    require(scores.shape == shape and scores.size > 0, "errors_ do not fit coef_")
    finite_array(vars(errors), "masses", np.float64, shape)
