"""Inputs along which predictions must not fall, or not rise: ``monotonic_cst``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gramless.base.errors import InputError
from gramless.base.state import StatefulEstimator
from gramless.base.types import IntArray


def rising_inputs(model: StatefulEstimator, n_outputs: int) -> IntArray | None:
    """Return for each input 1, -1 or 0, as the columns of the table say; None if all are 0."""
    if model.monotonic_cst is None:
        return None
    owner, columns = type(model).__name__, _of_columns(model)
    if not columns.any():
        return None
    if n_outputs > 1:
        raise InputError(
            f"{owner}: monotonic_cst is for one output: numbers of one column, or two classes."
        )
    inputs = model.inputs_
    sources = np.asarray(inputs.sources(model.n_features_in_))
    rising = columns[sources].copy()
    if inputs.categorical is not None:
        rising[inputs.categorical] = 0
    lost = np.setdiff1d(np.flatnonzero(columns), sources[rising != 0])
    if len(lost) > 0:
        raise InputError(
            f"{owner}: monotonic_cst names column {lost[0]}, which holds categories: they have no "
            f"order."
        )
    return rising


def _of_columns(model: StatefulEstimator) -> IntArray:
    """Return the constraint of each column of the table."""
    given, owner, n_columns = model.monotonic_cst, type(model).__name__, model.n_features_in_
    if isinstance(given, Mapping):
        names = [str(name) for name in vars(model).get("feature_names_in_", ())]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InputError(
                f"{owner}: monotonic_cst names the column {unknown[0]!r}, which the table does not "
                f"have."
            )
        given = [given.get(name, 0) for name in names]
    found = np.asarray(given)
    if found.shape != (n_columns,) or not np.isin(found, (-1, 0, 1)).all():
        raise InputError(
            f"{owner}: monotonic_cst must hold -1, 0 or 1 for each of {n_columns} columns, or be a "
            f"dict by their names; got {model.monotonic_cst!r}."
        )
    return found.astype(np.int64)
