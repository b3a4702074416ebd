"""The doubly stochastic estimators on rows of any form, size and number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor

from .streamed_models import (
    FAST,
    GIVEN,
    NEW,
    N,
    X,
    regressor,
    same_run,
    y,
)

pytestmark = pytest.mark.filterwarnings("error")


FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "column by column": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "big endian": lambda X: X.astype(">f8"),
    "list": lambda X: X.tolist(),
    "CSR": sp.csr_array,
    "CSC matrix": sp.csc_matrix,
    "CSR of int64": lambda X: sp.csr_array(
        (lambda m: (m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)))(
            sp.csr_array(X)
        ),
        shape=X.shape,
    ),
}


def test_form_of_rows_does_not_change_predictions() -> None:
    rows = np.rint(X * 8.0) / 8.0
    expected = regressor(scaling="none").fit(rows, y).predict(rows)
    for form, change in FORMS.items():
        given = change(rows)
        model = regressor(scaling="none").fit(given, y)
        for new in (given, rows):
            np.testing.assert_allclose(model.predict(new), expected, atol=2e-4, err_msg=form)


def test_integer_rows_are_fitted_like_floats() -> None:
    for dtype in [np.uint8, np.int32, np.int64, bool]:
        rows = (X > 0) if dtype is bool else np.clip(np.rint(20.0 * X + 64.0), 0, 127)
        plain = rows.astype(np.float64)
        model = DoublyStochasticRegressor(**FAST).fit(rows.astype(dtype), y)
        expected = DoublyStochasticRegressor(**FAST).fit(plain, y)
        np.testing.assert_array_equal(model.preparation_.units, expected.preparation_.units)
        np.testing.assert_allclose(
            model.predict(rows.astype(dtype)), expected.predict(plain), atol=1e-5
        )


def test_read_only_and_mapped_rows_are_fitted(tmp_path: Path) -> None:
    rows, targets = X.copy(), y.copy()
    rows.flags.writeable = targets.flags.writeable = False
    expected = regressor().fit(X, y)
    same_run(regressor().fit(rows, targets), expected)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = regressor().fit(mapped, targets)
    same_run(model, expected)
    np.testing.assert_array_equal(model.predict(mapped), expected.predict(X))
    np.testing.assert_array_equal(rows, X)


def test_data_frame_is_fitted_like_an_array_and_its_names_are_checked() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = regressor().fit(frame, y)
    same_run(model, regressor().fit(X, y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


def test_large_offsets_and_units_do_not_change_the_score() -> None:
    for scaling in ["standard", "none"]:
        options = {**FAST, "scaling": scaling, "bandwidth": "median"}
        score = DoublyStochasticRegressor(**options).fit(X, y).score(X, y)
        assert score > 0.6
        for rows in (X + 1e9, X - 1e9, X * 1e140, X * 1e-140):
            model = DoublyStochasticRegressor(**options).fit(rows, y)
            assert abs(model.score(rows, y) - score) < 1e-4
        for targets in (y * 1e140, y * 1e-140, y + 1e9):
            model = DoublyStochasticRegressor(**options).fit(X, targets)
            assert abs(model.score(X, targets) - score) < 1e-4


def test_constant_columns_are_left_out() -> None:
    constants = [np.full(N, value) for value in (0.0, 0.1, 1e9 / 3.0, -1e-300)]
    model = DoublyStochasticRegressor(**FAST).fit(np.column_stack([X, *constants]), y)
    assert np.isinf(model.preparation_.units).tolist() == [False] * 3 + [True] * 4
    other = np.column_stack([X, *(value + 5.0 for value in constants)])
    np.testing.assert_array_equal(
        model.predict(other), model.predict(np.column_stack([X, *constants]))
    )
    same = np.full((200, 2), 0.7)
    for rows in (same, sp.csr_array(same)):
        result = DoublyStochasticRegressor(**FAST).fit(rows, y[:200]).predict(rows)
        np.testing.assert_allclose(result, y[:200].mean(), atol=0.05)


def test_constant_targets_are_predicted_exactly() -> None:
    for value in (0.0, 0.1, 1e9):
        result = regressor().fit(X, np.full(N, value)).predict(NEW)
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-12)


def test_predictions_of_extreme_rows_are_finite() -> None:
    model = regressor().fit(X, y)
    for value in (1e30, 1e300, -1.7e308, 1e-320):
        rows = np.full((2, 3), value)
        for form in (rows, sp.csr_array(rows)):
            assert np.isfinite(model.predict(form)).all()


def test_one_to_seven_rows_are_fitted() -> None:
    for n in [1, 2, 3, 7]:
        for options in (GIVEN, FAST, {**FAST, "fit_intercept": False}):
            model = DoublyStochasticRegressor(**options).fit(X[:n], y[:n])
            assert np.isfinite(model.predict(NEW)).all()
        if n > 1:
            labels = np.arange(n) % 2
            assert DoublyStochasticClassifier(**FAST).fit(X[:n], labels).score(X[:n], labels) > 0.5
        np.testing.assert_allclose(regressor().fit(X[:1], y[:1]).predict(NEW), y[0])


def test_one_input_is_fitted() -> None:
    column = X[:, :1]
    model = regressor(bandwidth=1.0, max_steps=60).fit(column, np.sin(2.0 * X[:, 0]))
    assert model.score(column, np.sin(2.0 * X[:, 0])) > 0.95


def test_duplicated_rows_have_equal_predictions() -> None:
    rows, targets = np.repeat(X[:20], 12, axis=0), np.repeat(y[:20], 12)
    model = DoublyStochasticRegressor(**FAST).fit(rows, targets)
    assert model.score(rows, targets) > 0.8
    result = model.predict(rows).reshape(20, 12)
    np.testing.assert_allclose(result, result[:, :1] + np.zeros((20, 12)), atol=1e-5)


def test_batch_size_is_limited_to_the_rows() -> None:
    model = regressor(batch_size=4096, patience=None).fit(X, y)
    assert model.batch_rows_ == N
    assert model.score(X, y) > 0.75


def test_step_size_does_not_depend_on_the_order_of_rows() -> None:
    # The first half of the rows shows one narrow cluster, and little curvature.
    rows = np.concatenate([0.3 * X[: N // 2], 0.3 * X[N // 2 :] + 6.0])
    targets = (np.arange(N) >= N // 2) + 0.1 * y
    order = np.random.default_rng(1).permutation(N)
    options = {**FAST, "bandwidth": 3.0, "scaling": "none", "patience": None}
    result = DoublyStochasticRegressor(**options).fit(rows, targets)
    shuffled = DoublyStochasticRegressor(**options).fit(rows[order], targets[order])
    np.testing.assert_allclose(result.schedule_.step(1), shuffled.schedule_.step(1), rtol=1e-6)
    np.testing.assert_allclose(result.variance_, shuffled.variance_, rtol=0.1)
