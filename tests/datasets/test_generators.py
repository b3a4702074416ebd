"""Generated data sets: shapes, formulas and reproducibility."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gramless.base.errors import InputError
from gramless.datasets import friedman1, generators
from harness.waves import make_regression_like

MAKERS = [make_regression_like, friedman1]


def test_generators_return_the_given_shape_and_type() -> None:
    for make, dtype in product(MAKERS, (np.float32, np.float64)):
        X, y = make(50, 7, seed=1, dtype=dtype)  # type: ignore[operator]
        assert X.shape == (50, 7)
        assert y.shape == (50,)
        assert X.dtype == y.dtype == dtype
        assert 0 <= X.min() < X.max() < 1


@pytest.mark.parametrize("make", MAKERS)
def test_rows_do_not_depend_on_length_or_threads(
    make: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generators, "BLOCK_ROWS", 16)
    X, y = make(100, 6, seed=3, n_jobs=2)  # type: ignore[operator]
    shorter, labels = make(40, 6, seed=3, n_jobs=1)  # type: ignore[operator]
    assert_array_equal(X[:40], shorter)
    assert_array_equal(y[:40], labels)
    assert len(np.unique(X)) == X.size
    assert not np.array_equal(X, make(100, 6, seed=4)[0])  # type: ignore[operator]
    assert_array_equal(X, make(100, 6, seed=3, noise=0.0)[0])  # type: ignore[operator]


def test_make_regression_like_is_standardised() -> None:
    for n_columns in (1, 2, 12, 20):
        X, y = make_regression_like(60_000, n_columns, seed=5, noise=0.0)
        assert abs(y.mean()) < 0.03
        assert abs(y.var() - 1) < 0.05
        noisy = make_regression_like(60_000, n_columns, seed=5, noise=0.5)[1]
        assert abs((noisy - y).std() - 0.5) < 0.01
        assert X.shape[1] == n_columns


def test_friedman1_follows_its_formula() -> None:
    X, y = friedman1(200, 8, seed=2, noise=0.0)
    expected = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    assert_allclose(y, expected + 10 * X[:, 3] + 5 * X[:, 4])


def test_invalid_parameters_are_rejected() -> None:
    cases = [
        ({"n_rows": 0}, "at least 1"),
        ({"n_columns": 4}, "at least 5"),
        ({"noise": -1.0}, "not negative"),
        ({"noise": np.nan}, "not negative"),
        ({"dtype": int}, "float32 or float64"),
    ]
    for changes, message in cases:
        with pytest.raises(InputError, match=message):
            friedman1(**{"n_rows": 10, **changes})


@pytest.mark.slow
def test_large_tables_are_cheap() -> None:
    X, y = make_regression_like(5_000_000, 18)
    assert X.shape == (5_000_000, 18)
    assert np.isfinite(y).all()
