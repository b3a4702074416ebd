"""Whitened inputs: no correlation, the same bits everywhere, and what cannot be whitened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.preprocessing.scaling import Scaler


@pytest.fixture
def X() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(600, 4)) @ rng.normal(size=(4, 4))
    return mixed * [1.0, 1e6, 1e-6, 1.0] + [0.0, 5.0, 1.0, -1e3]


@given(st.integers(0, 1000), st.integers(1, 6))
def test_whitened_rows_have_unit_variance_and_no_correlation(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, width)) @ rng.normal(size=(width, width)) + rng.normal(size=width)
    weight = rng.uniform(0.5, 2.0, size=60)
    rows = Scaler.fit("whiten", X, weight).rows(X)
    np.testing.assert_allclose(np.average(rows, axis=0, weights=weight), 0.0, atol=1e-6)
    covariance = np.cov(rows.T, aweights=weight, bias=True).reshape(width, width)
    np.testing.assert_allclose(covariance, np.eye(width), atol=1e-5)


def test_units_of_inputs_do_not_change_whitened_rows(X: NDArray) -> None:
    rows = Scaler.fit("whiten", X).rows(X)
    moved = X * [3.0, 1e-3, 1e5, 1.0] + [1.0, 2.0, 3.0, 4.0]
    np.testing.assert_allclose(Scaler.fit("whiten", moved).rows(moved), rows, atol=1e-5)


def test_directions_without_variance_are_ignored(X: NDArray) -> None:
    dependent = np.column_stack([X, X[:, 0] + X[:, 3], np.full(len(X), 7.0)])
    scaler = Scaler.fit("whiten", dependent)
    np.testing.assert_array_equal(scaler.unit, [1, 1, 1, 1, np.inf, np.inf])
    assert (scaler.rows(dependent)[:, 4:] == 0.0).all()
    constant = Scaler.fit("whiten", np.ones((5, 2)))
    assert np.isinf(constant.unit).all()
    assert constant.spread == 1.0


def test_whitened_row_does_not_depend_on_other_rows(X: NDArray) -> None:
    scaler, many = Scaler.fit("whiten", X), np.tile(X, (20, 1))
    rows = scaler.rows(X)
    for n_jobs in (1, 2):
        np.testing.assert_array_equal(scaler.rows(many, n_jobs), np.tile(rows, (20, 1)))
    np.testing.assert_array_equal(scaler.rows(X[7:8]), rows[7:8])
    np.testing.assert_array_equal(scaler.ordered(X, slice(3, 9)), rows[3:9])


def test_spread_is_the_mean_distance(X: NDArray) -> None:
    scaler = Scaler.fit("whiten", X)
    rows = scaler.rows(X)
    distances = np.abs(rows[:, None] - rows).sum(axis=2)
    assert scaler.spread == pytest.approx(distances.mean(), rel=1e-9)


def test_sparse_rows_and_categories_are_rejected(X: NDArray) -> None:
    with pytest.raises(InputError, match="whitening of sparse rows"):
        Scaler.fit("whiten", sp.csr_array(X))
    with pytest.raises(InputError, match="whitening of sparse rows"):
        Scaler.fit("whiten", X).rows(sp.csr_array(X))
    with pytest.raises(InputError, match="some are categories"):
        Scaler.fit("whiten", X, categorical=np.array([False, True, False, False]))


def test_loaded_state_is_checked(X: NDArray) -> None:
    scaler = Scaler.fit("whiten", X)
    again = Scaler.from_state(scaler.state())
    np.testing.assert_array_equal(again.rows(X), scaler.rows(X))
    narrow = Scaler.fit("whiten", X[:, :3]).whitening
    for wrong in (replace(scaler, whitening=None), replace(scaler, whitening=narrow)):
        with pytest.raises(ValueError, match="whitening"):
            wrong.check()
