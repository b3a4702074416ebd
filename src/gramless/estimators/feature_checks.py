"""Checks of feature maps read from files: their arrays fit each other, as the loops trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gramless.estimators.array_checks import (
    check_names,
    check_number,
    checked_array,
    finite_array,
    require,
)
from gramless.features.base import DenseMap, SizedMap
from gramless.features.binning import BinningMap, RandomBinning
from gramless.features.blocks import IndependentBlocks
from gramless.features.fourier import HadamardBlocks, RandomFourier
from gramless.features.hybrid import Hybrid
from gramless.features.landmarks import Precomputed
from gramless.features.nystrom import LandmarkMap
from gramless.features.smooth import SmoothBinning
from gramless.kernels import Windowed

_MAX_BINS = 2**31 - 2
_MOST_SCALE = 1e3


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
    widths = checked_array(state, "widths_", np.float64, None)
    require(widths.ndim == 2 and widths.size > 0, "widths_ is not a table of grids")
    n_grids, _ = shape = widths.shape
    shifts = checked_array(state, "shifts_", np.float64, shape)
    require(bool((widths > 0).all() and np.isfinite(shifts).all()), "widths_ or shifts_ are wrong")
    checked_array(state, "multipliers", np.int64, shape)
    checked_array(state, "cell_offsets", np.int64, (n_grids,))
    offsets = checked_array(state, "offsets_", np.int64, (n_grids + 1,))
    # Compared, not subtracted: differences of hostile numbers overflow.
    rising = bool((offsets[1:] > offsets[:-1]).all()) and offsets[0] == 0
    require(rising and offsets[-1] <= n_grids * _MAX_BINS, "offsets_ do not rise from 0")
    require(int(np.diff(offsets).max()) <= _MAX_BINS, "a grid has too many bins")
    checked_array(state, "keys", np.int64, (int(offsets[-1]),))
    scale = state.get("scale_", 1.0)
    check_number(scale, "scale_", float)
    require(0.0 < scale < _MOST_SCALE, "scale_ is not positive and finite")


def check_map(features: Any) -> None:
    """Check a feature map whose state was read from a file.

    Parameters
    ----------
    features : BinningMap or SizedMap
        With bins that :func:`check_grids` has accepted, if it is one of bins.

    Raises
    ------
    ValueError
        With what does not fit.
    """
    state = vars(features)
    if isinstance(features, BinningMap):
        checked_array(state, "nu_", np.float64, (len(state["widths_"]),))
        check_number(state.get("kappa_"), "kappa_", float)
        check_number(state.get("kappa_bar_"), "kappa_bar_", float)
    if isinstance(features, (RandomBinning, SmoothBinning)):
        checked_array(state, "bandwidth_", np.float64, state["widths_"].shape[1:])
        check_number(state.get("seed_"), "seed_", int)
    if isinstance(features, SmoothBinning):
        features.check_parameters()
        require(isinstance(state.get("kernel_"), Windowed), "kernel_ is no kernel of smooth bins")
        checked_array(state, "categorical_", np.bool_, state["widths_"].shape[1:])
    if isinstance(features, Hybrid):
        _check_hybrid(state)
    if isinstance(features, DenseMap):
        _check_dense(features)
    _, n_inputs = map_shape(features)
    require(state.get("n_features_in_", n_inputs) == n_inputs, "n_features_in_ does not fit")
    check_names(state.get("feature_names_in_"), n_inputs)


def map_shape(features: Any) -> tuple[int, int]:
    """Return the columns of a feature map that :func:`check_map` accepted, and its inputs.

    Raises
    ------
    ValueError
        If it is none, or not fitted.
    """
    require(isinstance(features, (BinningMap, SizedMap)), "features_ is no feature map")
    state = vars(features)
    binned = isinstance(features, (BinningMap, SmoothBinning))
    inputs = state.get("widths_" if binned else "bandwidth_")
    require(isinstance(inputs, np.ndarray), "features_ is not fitted")
    return int(features._n_features_out), int(inputs.shape[-1])


def _check_hybrid(state: Mapping[str, Any]) -> None:
    parts: Any = state.get("maps_")
    require(isinstance(parts, list) and len(parts) > 0, "maps_ holds no feature maps")
    require(all(isinstance(part, SizedMap) for part in parts), "maps_ holds something else")
    scales = finite_array(state, "scales_", np.float64, (len(parts),))
    require(bool((scales > 0).all()), "scales_ are not positive")
    bandwidth = _check_bandwidth(state)
    for part in parts:
        require(map_shape(part)[1] == len(bandwidth), "maps_ take another number of inputs")


def _check_bandwidth(state: Mapping[str, Any]) -> Any:
    bandwidth = checked_array(state, "bandwidth_", np.float64, None)
    fits = bandwidth.ndim == 1 and bandwidth.size > 0 and bool((bandwidth > 0).all())
    require(fits, "bandwidth_ is no bandwidth")
    return bandwidth


def _check_dense(features: DenseMap) -> None:
    state = vars(features)
    n_inputs = len(_check_bandwidth(state))
    check_number(state.get("seed_"), "seed_", int)
    require(0 <= state["seed_"] < 2**64, "seed_ is out of range")
    kernel = features.check_parameters()
    # A mask that does not fit is refused here.
    features._mask(state["bandwidth_"][None, :])
    if isinstance(features, RandomFourier):
        _check_fourier(features, n_inputs)
    elif isinstance(features, LandmarkMap):
        _check_landmarks(state, n_inputs, isinstance(kernel, Precomputed))
    elif isinstance(features, IndependentBlocks):
        _check_blocks(state, n_inputs)


def _check_fourier(features: RandomFourier, n_inputs: int) -> None:
    state = vars(features)
    finite_array(state, "center_", np.float64, (n_inputs,))
    spreads = finite_array(state, "spreads_", np.float64, (n_inputs,))
    require(bool((spreads >= 0).all()), "spreads_ are negative")
    names = {"phases_", "unit_frequencies_", "blocks_"}
    require(names <= state.keys(), "frequencies or phases are missing")
    if state["blocks_"] is None:
        finite_array(state, "unit_frequencies_", np.float64, None)
    else:
        require(isinstance(state["blocks_"], HadamardBlocks), "blocks_ is none that is written")
        parts = vars(state["blocks_"])
        checked_array(parts, "signs", np.int8, None)
        checked_array(parts, "orders", np.int32, None)
        finite_array(parts, "factors", np.float64, None)
        finite_array(parts, "scales", np.float64, None)
    if state["phases_"] is not None:
        finite_array(state, "phases_", np.float64, None)
    features._check_state()


def _check_landmarks(state: Mapping[str, Any], n_inputs: int, precomputed: bool) -> None:
    factor = finite_array(state, "factor_", np.float64, None)
    n = len(factor)
    require(factor.shape == (n, n) and n > 0, "factor_ is no square")
    require(bool((factor.diagonal() != 0).all()), "factor_ has no inverse")
    if precomputed:
        landmarks = checked_array(state, "landmarks_", np.int64, (n,))
        inside = bool(((landmarks >= 0) & (landmarks < n_inputs)).all())
        require(inside, "landmarks_ are no columns")
    else:
        finite_array(state, "landmarks_", np.float64, (n, n_inputs))
    check_number(state.get("n_double_"), "n_double_", int)
    require(0 <= state["n_double_"] <= n, "n_double_ is out of range")


def _check_blocks(state: Mapping[str, Any], n_inputs: int) -> None:
    thresholds = checked_array(state, "thresholds_", np.float64, None)
    n_leaves = thresholds.size + 1
    whole = thresholds.ndim == 1 and n_leaves & (n_leaves - 1) == 0
    require(whole and not np.isnan(thresholds).any(), "thresholds_ are those of no tree")
    finite_array(state, "centres_", np.float64, (n_leaves - 1, 2, n_inputs))
    landmarks = finite_array(state, "landmarks_", np.float64, None)
    n = len(landmarks)
    require(landmarks.shape == (n, n_inputs) and n > 0, "landmarks_ has a wrong shape")
    offsets = checked_array(state, "offsets_", np.int64, (n_leaves + 1,))
    rising = bool((offsets[1:] >= offsets[:-1]).all())
    require(rising and offsets[0] == 0 and offsets[-1] == n, "offsets_ do not rise from 0")
    # As Python's integers, which do not overflow.
    sizes = np.diff(offsets).tolist()
    numbers = finite_array(state, "factors_", np.float64, (sum(size**2 for size in sizes),))
    start = 0
    for size in sizes:
        diagonal = numbers[start : start + size**2 : size + 1]
        require(bool((diagonal != 0).all()), "factors_ have no inverse")
        start += size**2
