"""The feature map of an estimator, by name or as the user gives it, and in front of new rows."""

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

LEAST_GRIDS, MOST_GRIDS = 512, 2048
_NONZEROS = 1 << 24
"""Bounds grids times rows times outputs for maps to bins that are given by name."""
_COLUMNS = (512, 4096)
_GRAM_WORK = 1e12
"""Bounds rows times columns squared for maps to columns that are given by name."""
_ROUND = 64
_BLOCK_ROWS = 65_536
_BLOCK_NUMBERS = 1 << 25
"""Bounds rows times columns of a block of dense features of new rows."""


def named_map(
    name: str,
    shape: tuple[int, int],
    n_outputs: int,
    n_grids: int | None,
    seed: int,
    n_jobs: int | None,
) -> SizedMap:
    """Return a feature map of a size that suits the shape of the rows.

    ``n_grids`` is the user's choice, for maps to bins alone; maps that would not fit into
    memory are refused.

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
        by_rule = int(np.clip(_NONZEROS // (n_rows * n_outputs), LEAST_GRIDS, MOST_GRIDS))
        feature_map = feature_map.resized(n_grids or min(by_rule, most_drawn(n_inputs)))
    else:
        _refuse_grids(feature_map, n_grids)
    if feature_map.size_name == "n_components":
        columns = int(np.clip(np.sqrt(_GRAM_WORK / n_rows), *_COLUMNS))
        feature_map = feature_map.resized(columns // _ROUND * _ROUND)
    # Bins that are left open are of as many grids as there is memory for.
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

    Maps that name categories themselves or would not fit into memory are refused; ``owner``
    names the estimator in messages.

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
    chosen: SizedMap = clone(features)
    chosen.check_parameters()
    if chosen.categorical is not None:
        raise InputError(
            f"{owner}: name categories in categorical_features, not in the feature map."
        )
    if n_grids is not None and chosen.size_name == "n_grids":
        chosen.set_params(n_grids=n_grids)
    else:
        _refuse_grids(chosen, n_grids)
    if chosen.random_state is None:
        chosen.set_params(random_state=seed)
    if chosen.n_jobs is None:
        chosen.set_params(n_jobs=n_jobs)
    chosen.check_memory(shape)
    return chosen


def _refuse_grids(feature_map: SizedMap, n_grids: int | None) -> None:
    if n_grids is not None:
        name = type(feature_map).__name__
        raise InputError(
            f"n_grids is for features of bins; {name} has none: pass "
            f"features={name}({feature_map.size_name}=...)."
        )


def feature_blocks(
    features: FeatureMap, scaler: Scaler, rows: Rows, n_jobs: int | None
) -> Iterator[FeatureMatrix]:
    """Yield the features of new rows, a block at a time."""
    most = _BLOCK_ROWS
    if not isinstance(features, BinningMap):
        most = min(most, _BLOCK_NUMBERS // features.numbers_per_row)
    for a, b in row_blocks(rows.shape[0], max(1, most)):
        yield features.rows_matrix(scaler.rows(rows[a:b], n_jobs))


def check_fitted_features(state: State) -> tuple[FeatureMap, Scaler]:
    """Check that inputs, units and features in a file fit each other; return the last two."""
    features, scaler = state.get("features_"), part_in(state, "scaler_", Scaler)
    if not isinstance(features, FeatureMap):
        raise ValueError("features_ is no feature map")
    require(len(scaler.unit) == features.n_inputs, "scaler_ does not fit the features")
    n_features = number_in(state, "n_features_in_", int, 1)
    part_in(state, "inputs_", RowInputs).check_sizes(len(scaler.knots), n_features)
    check_columns(state, n_features)
    return features, scaler
