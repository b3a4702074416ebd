"""The feature map of an estimator, given by name or as an object, and features of new rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.base import clone

from gramless.base.errors import InputError
from gramless.base.state import State, check_columns, number_in, part_in, require
from gramless.base.threads import row_blocks
from gramless.estimators.inputs import RowInputs
from gramless.features.base import FeatureMap, SizedMap
from gramless.features.binning import BinningMap
from gramless.features.registry import map_class
from gramless.kernels import Windowed
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler
from gramless.selection.budget import most_drawn

MIN_GRIDS, MAX_GRIDS = 512, 2048
# Sizes of named maps: grids times rows times outputs, and rows times columns squared, are at most
# these if the ranges allow it.
_MAX_NONZEROS, _MAX_GRAM_WORK = 1 << 24, 1e12
_COLUMN_RANGE, _COLUMN_MULTIPLE = (512, 4096), 64
# Features of new rows are computed for blocks of at most this many rows and values.
_BLOCK_ROWS, _BLOCK_VALUES = 65_536, 1 << 25


def named_map(
    name: str,
    shape: tuple[int, int],
    n_outputs: int,
    n_grids: int | None,
    seed: int,
    n_jobs: int | None,
) -> SizedMap:
    """Return a feature map whose size suits the shape of the rows.

    ``n_grids`` is only for maps to bins. Raise InputError if the features do not fit into memory.

    Examples
    --------
    >>> named_map("fourier", (10**6, 5), 1, None, seed=0, n_jobs=1).n_components
    960
    """
    feature_map: SizedMap = map_class(name)(random_state=seed, n_jobs=n_jobs)
    n_rows, n_inputs = shape
    if name == "smooth":
        feature_map = feature_map.set_params(kernel=Windowed.for_inputs(n_inputs))
    if feature_map.size_name == "n_grids":
        default = int(np.clip(_MAX_NONZEROS // (n_rows * n_outputs), MIN_GRIDS, MAX_GRIDS))
        feature_map = feature_map.resized(n_grids or min(default, most_drawn(n_inputs)))
    else:
        _check_no_grids(feature_map, n_grids)
    if feature_map.size_name == "n_components":
        columns = int(np.clip(np.sqrt(_MAX_GRAM_WORK / n_rows), *_COLUMN_RANGE))
        feature_map = feature_map.resized(columns // _COLUMN_MULTIPLE * _COLUMN_MULTIPLE)
    # A default number of grids is reduced later to what fits into memory.
    if n_grids is not None or name != "binning":
        feature_map.check_memory(shape)
    return feature_map


def given_map(
    features: object,
    owner: str,
    shape: tuple[int, int],
    n_grids: int | None,
    seed: int,
    n_jobs: int | None,
) -> SizedMap:
    """Return a copy of the user's feature map, completed by the parameters of the estimator.

    Raise InputError if the map names categories or does not fit into memory. ``owner`` is the
    name of the estimator in error messages.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> given_map(RandomBinning(), "KernelRegressor", (9, 2), 64, seed=1, n_jobs=None)
    RandomBinning(n_grids=64, random_state=1)
    """
    if not isinstance(features, SizedMap):
        raise InputError(
            f"features must be a name or a feature map such as RandomBinning(), got {features!r}."
        )
    feature_map: SizedMap = clone(features)
    feature_map.check_parameters()
    if feature_map.categorical is not None:
        raise InputError(
            f"{owner}: name categories in categorical_features, not in the feature map."
        )
    if n_grids is not None and feature_map.size_name == "n_grids":
        feature_map.set_params(n_grids=n_grids)
    else:
        _check_no_grids(feature_map, n_grids)
    if feature_map.random_state is None:
        feature_map.set_params(random_state=seed)
    if feature_map.n_jobs is None:
        feature_map.set_params(n_jobs=n_jobs)
    feature_map.check_memory(shape)
    return feature_map


def _check_no_grids(feature_map: SizedMap, n_grids: int | None) -> None:
    if n_grids is not None:
        name = type(feature_map).__name__
        raise InputError(
            f"n_grids is for features of bins; {name} has none: pass "
            f"features={name}({feature_map.size_name}=...)."
        )


def feature_blocks(
    features: FeatureMap, scaler: Scaler, rows: Rows, n_jobs: int | None
) -> Iterator[FeatureMatrix]:
    """Yield the features of blocks of new rows."""
    block_rows = _BLOCK_ROWS
    if not isinstance(features, BinningMap):
        block_rows = min(block_rows, _BLOCK_VALUES // features.numbers_per_row)
    for a, b in row_blocks(rows.shape[0], max(1, block_rows)):
        yield features.rows_matrix(scaler.rows(rows[a:b], n_jobs))


def check_fitted_features(state: State) -> tuple[FeatureMap, Scaler]:
    """Return the features and scaler in a file; raise an error if they do not fit each other."""
    features, scaler = state.get("features_"), part_in(state, "scaler_", Scaler)
    if not isinstance(features, FeatureMap):
        raise ValueError("features_ is not a feature map")
    require(len(scaler.unit) == features.n_inputs, "scaler_ does not fit the features")
    n_features = number_in(state, "n_features_in_", int, 1)
    part_in(state, "inputs_", RowInputs).check_sizes(len(scaler.knots), n_features)
    check_columns(state, n_features)
    return features, scaler
