"""Rows of another width, and sparse rows that lie about their shape, never reach a loop."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import (
    ExactKernel,
    Hybrid,
    KernelRegressor,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
)
from gramless.base.errors import InputError
from gramless.preprocessing.imputer import Imputer
from gramless.preprocessing.scaling import Scaler
from gramless.streaming.bandwidth_selection import Preparation

X = np.random.default_rng(0).normal(size=(60, 5))
MAPS = [
    RandomBinning(n_grids=4),
    SmoothBinning(n_grids=4),
    RandomFourier(n_components=8),
    RandomFourier(n_components=8, sampling="structured"),
    Nystrom(n_components=8),
    ExactKernel(),
    Hybrid([RandomBinning(n_grids=4), Nystrom(n_components=8)]),
]


@pytest.mark.parametrize("feature_map", MAPS, ids=str)
def test_maps_inside_estimators_reject_rows_of_another_width(feature_map):
    # Fitted as estimators do it: to rows that are validated, without n_features_in_.
    feature_map.fit_rows(X)
    assert not hasattr(feature_map, "n_features_in_")
    for rows in (X[:, :1], X[:, :4], np.c_[X, X], sp.csr_array(X[:, :2])):
        for method in ("transform", "feature_matrix", "rows_matrix"):
            with pytest.raises(InputError, match=f"rows have {rows.shape[1]} inputs, not 5"):
                getattr(feature_map, method)(rows)


PARTS = {
    "units": Scaler.fit("standard", X).rows,
    "ranks": Scaler.fit("quantile", X).rows,
    "both": Scaler.fit("both", X).rows,
    "gaps": Imputer.fit(X).transform,
    "preparation": Preparation(None, np.zeros(5), np.ones(5)).project,
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_reject_rows_of_another_width(part):
    assert PARTS[part](X).shape[0] == 60
    for rows in (X[:, :1], X[:, :4], np.c_[X, X], X[0]):
        with pytest.raises(InputError, match="not 5 as in the fit"):
            PARTS[part](rows)


def test_estimators_and_maps_raise_the_same_error():
    model = KernelRegressor(RandomBinning(n_grids=4), bandwidth=1.0, alpha=1.0).fit(X, X[:, 0])
    for take in (model.predict, RandomBinning(n_grids=4).fit(X).transform):
        for rows in (X[:, :4], np.full((2, 5), np.inf)):
            with pytest.raises(InputError):
                take(rows)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_invalid_sparse_indices_are_rejected(kind):
    for part, at, wrong in (
        ("indices", 3, 10**6),
        ("indices", 3, -1),
        ("indptr", 1, 10**6),
        ("indptr", 2, -1),
        ("indptr", -1, 10**6),
    ):
        rows = kind(X)
        getattr(rows, part)[at] = wrong
        with pytest.raises(InputError, match=r"lie outside of its shape .* X\.check_format\(\)"):
            RandomBinning(n_grids=4).fit(rows)
