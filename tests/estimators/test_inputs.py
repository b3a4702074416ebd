"""Conversion of rows of every type: categories, missing values and invalid input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gramless import KernelRegressor
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.memory import limit_fit_memory
from gramless.estimators.inputs import RowInputs
from gramless.preprocessing.categories import MISSING_CODE

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

TARGETS = np.arange(4.0)


class Plain(BaseEstimator):
    """An estimator that only takes rows."""


def learned(X: Any, categorical: Any = "auto") -> tuple[RowInputs, Any, Plain]:
    estimator = Plain()
    inputs, rows, _ = RowInputs.fit(estimator, X, TARGETS, categorical, {})
    return inputs, rows, estimator


def frame(module: Any = pd) -> Any:
    return module.DataFrame(
        {"n": [1.0, None, 3.0, 5.0], "t": ["a", None, "b", "b"], "b": [True, False, True, True]}
    )


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.array([[1.0, 7.0, 0.0], [2.0, 8.0, np.nan], [3.0, np.nan, 1.0], [4.0, 7.0, 1.0]])


def test_frames_become_numbers_codes_and_gap_columns() -> None:
    for module in [pd, pl]:
        inputs, rows, estimator = learned(frame(module))
        np.testing.assert_array_equal(rows[:, :2], [[1, 0], [3, 1], [3, 0], [5, 0]])
        assert estimator.feature_names_in_.tolist() == ["n", "t", "b"]
        assert estimator.n_features_in_ == 3
        assert inputs.categorical is not None
        assert inputs.categorical.tolist() == [False, True, True, True]
        assert inputs.sources(3).tolist() == [0, 0, 1, 2]
        np.testing.assert_array_equal(inputs.transform(estimator, frame(module)), rows)


def test_data_frames_of_numbers_have_no_categories_unless_named() -> None:
    numbers = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [1, 1, 2, 2]})
    assert learned(numbers)[0].categorical is None
    for chosen in (["b"], [1], [False, True]):
        mask = learned(numbers, chosen)[0].categorical
        assert mask is not None
        assert mask.tolist() == [False, True]


def test_arrays_have_no_categories_unless_named(X: NDArray) -> None:
    inputs, rows, estimator = learned(X[:, :1])
    assert inputs.categorical is None
    assert rows.tolist() == X[:, :1].tolist()
    inputs, rows, estimator = learned(X, [1])
    assert inputs.categorical is not None
    assert inputs.categorical.tolist() == [False, True, False, True]
    np.testing.assert_array_equal(rows[:, 1], [0, 1, MISSING_CODE, 0])
    np.testing.assert_array_equal(rows[:, 3], [0, 1, 0, 0])
    assert inputs.sources(3).tolist() == [0, 1, 2, 2]
    assert estimator.n_features_in_ == 3
    np.testing.assert_array_equal(inputs.transform(estimator, X), rows)


def test_arrays_without_gaps_are_not_copied() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    rows[:, 0] = [1.0, 0.0, 2.0, 1.0]
    inputs, result, estimator = learned(rows, [0])
    assert result is rows
    assert inputs.transform(estimator, rows) is rows


def test_wide_sparse_rows_stay_sparse() -> None:
    rows = sp.csr_array(np.eye(4, 5000))
    inputs, result, estimator = learned(rows, [2])
    assert result.shape == (4, 4)
    assert sp.issparse(result)
    assert inputs.gaps is None
    assert inputs.categorical is not None
    assert inputs.sources(5000).tolist() == [0, 1, 2, 3]
    assert inputs.transform(estimator, np.eye(4, 5000)).shape == (4, 4)
    with pytest.raises(ValueError, match="NaN"):
        inputs.transform(estimator, np.full((1, 5000), np.nan))


def test_small_sparse_rows_become_dense(X: NDArray) -> None:
    for form in [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix]:
        dense, result = learned(X, [1]), learned(form(X), [1])
        np.testing.assert_array_equal(result[1], dense[1])
        np.testing.assert_array_equal(result[0].transform(result[2], form(X)), dense[1])


def test_sparse_rows_stay_sparse_if_memory_is_short() -> None:
    rows = sp.csr_array(np.eye(4))
    with limit_fit_memory(1000):
        assert sp.issparse(learned(rows)[1])
    with limit_fit_memory(1024):
        assert not sp.issparse(learned(rows)[1])


def test_new_sparse_rows_are_filled_in_blocks_if_memory_is_short(X: NDArray) -> None:
    inputs, rows, estimator = learned(X, [1])
    with limit_fit_memory(200):
        result = inputs.transform(estimator, sp.csr_array(X))
    assert isinstance(result, LazyRows)
    assert (result.shape, result.dtype) == (rows.shape, rows.dtype)
    np.testing.assert_array_equal(result[1:3], rows[1:3])


def test_sparse_rows_equal_dense_ones_after_a_fit_with_gaps(X: NDArray) -> None:
    inputs, _, estimator = learned(X)
    dense = np.array([[0.0, 7.0, 0.0]])
    result = inputs.transform(estimator, sp.csc_array(dense))
    np.testing.assert_array_equal(result, inputs.transform(estimator, dense))


def test_none_among_numbers_is_a_gap() -> None:
    inputs, rows, _ = learned(np.array([[1, None], [2, 3], [3, 4], [None, 5]], dtype=object))
    assert inputs.gaps is not None
    np.testing.assert_array_equal(rows[:, 2:], [[0, 1], [0, 0], [0, 0], [1, 0]])


def test_fit_rejects_invalid_rows() -> None:
    for rows, chosen, message in [
        (np.eye(4) * 1.5, [0], "input 0 is a category and holds 1.5"),
        (np.eye(4), [4], "categorical_features: there is no input 4"),
        (np.eye(4), ["a"], "categorical_features: no input is called 'a'"),
        (np.eye(4), "all", "categorical_features must be a list"),
        (np.full((4, 2), np.inf), "auto", "infinity"),
        (sp.csr_array(np.full((4, 5000), np.nan)), "auto", "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            learned(rows, chosen)


def test_transform_rejects_invalid_rows(X: NDArray) -> None:
    inputs, _, estimator = learned(X, [1])
    for rows, message in (
        (X[:, :2], "2 features"),
        (X + 0.5, "input 1 is a category"),
        (np.full((1, 3), np.inf), "infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            inputs.transform(estimator, rows)
    inputs, _, estimator = learned(frame())
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(InputError, match="2 features"),
    ):
        inputs.transform(estimator, X[:, :2])


def test_values_of_an_input_that_was_empty_in_fit_are_missing():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    rows[:, 1] = np.nan
    for categorical in ("auto", [1]):
        model = KernelRegressor(effort=1, random_state=0, categorical_features=categorical)
        model.fit(rows, rows[:, 0])
        with pytest.warns(UserWarning, match="input 1 held no values in fit"):
            result = model.predict(np.nan_to_num(rows, nan=5.0))
        np.testing.assert_array_equal(result, model.predict(rows))


def test_unknown_categories_of_an_array_are_named_if_they_are_most(recwarn):
    codes = np.tile([1.0, 2.0, np.nan], 20)[:, None]
    model = KernelRegressor(effort=1, random_state=0, categorical_features=[0])
    model.fit(codes, np.nan_to_num(codes[:, 0]))
    model.predict([[1], [7], [np.nan]])
    assert not recwarn.list
    with pytest.warns(UserWarning, match="input 0: 67 % of the values .* '7', '8'"):
        model.predict([[1], [7], [8], [np.nan], [np.nan]])
