"""Input that is wrong or extreme: a clear error, or the right answer, and never a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.errors import InputError, KernelError

FIXED: dict[str, Any] = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
SCALINGS = ["auto", "none", "standard", "quantile"]


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def regressor(**options: Any) -> KernelRegressor:
    return KernelRegressor(RandomBinning(n_grids=16), **{**FIXED, **options})


def searching(n_grids: int = 8, **options: Any) -> KernelRegressor:
    return KernelRegressor(RandomBinning(n_grids=n_grids), random_state=0, **options)


def standard() -> KernelRegressor:
    """Return one that searches, but not for the scaling of inputs that are as they should be."""
    return searching(scaling="standard")


def classifier(**options: Any) -> KernelClassifier:
    return KernelClassifier(RandomBinning(n_grids=16), **{**FIXED, **options})


X: NDArray[np.float64] = np.random.default_rng(0).uniform(-2, 2, size=(60, 3))
y: NDArray[np.float64] = np.sin(X[:, 0]) + X[:, 1]
X.flags.writeable = y.flags.writeable = False


def with_entry(array: NDArray, value: float) -> NDArray[np.float64]:
    changed = array.copy()
    changed[(5,) * array.ndim if array.ndim == 1 else (5, 1)] = value
    return changed


@cache
def plain(**options: Any) -> KernelRegressor:
    """Return what is found of the rows as they are."""
    return searching(**options).fit(X, y)


@cache
def fitted_regressor() -> KernelRegressor:
    return regressor().fit(X, y)


# Rows that cannot be used.

BAD_ROWS: dict[str, tuple[Any, str]] = {
    "infinity": (with_entry(X, np.inf), "X contains infinity"),
    "minus infinity": (with_entry(X, -np.inf), "X contains infinity"),
    "infinite long double": (
        X.astype(np.longdouble) * np.longdouble("1e600"),
        "infinity|large|beyond",
    ),
    "sparse infinity": (sp.csc_array(with_entry(X, np.inf)), "X contains infinity"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "one dimension": (X[:, 0], "Expected 2D array, got 1D array"),
    "a number": (3.0, "Expected 2D array, got scalar array"),
    "three dimensions": (X[:, :, None], "dim 3"),
    "text": (np.full((60, 3), "a"), "strings"),
    "numbers as text": (X.astype(str), "strings"),
    "dates among numbers": (np.array([[date(2020, 1, 1), 1.0, 2.0]] * 60), "float"),
    "text among numbers": (np.array([["a", 1.0, 2.0]] * 60, dtype=object), "could not convert"),
    "complex": (X + 1j, "Complex data not supported"),
    "sparse complex": (sp.csr_array(X + 1j), "Complex data not supported"),
    "ragged": ([[1.0, 2.0], [3.0]] * 30, "inhomogeneous|sequence"),
    "fewer rows than targets": (X[1:], r"inconsistent numbers of samples: \[59, 60\]"),
}


def test_fit_raises_input_error_for_invalid_rows() -> None:
    for rows, message in BAD_ROWS.values():
        for model, targets in ((searching(), y), (classifier(), y > 0)):
            with pytest.raises(InputError, match=message):
                model.fit(rows, targets)


def test_predict_raises_input_error_for_invalid_rows() -> None:
    for rows, message in list(BAD_ROWS.values())[:-1]:
        with pytest.raises(InputError, match=message):
            fitted_regressor().predict(rows)


def test_predict_raises_for_another_number_of_columns() -> None:
    for n_columns in [1, 2, 4]:
        rows = np.ones((5, n_columns))
        message = f"X has {n_columns} features, but KernelRegressor is expecting 3 features"
        for form in (rows, sp.csr_array(rows)):
            with pytest.raises(ValueError, match=message):
                fitted_regressor().predict(form)


def test_wide_sparse_rows_reject_quantile_scaling_and_missing_values() -> None:
    rows = sp.csr_array(np.hstack([X, np.zeros((len(X), 5000))]))
    with pytest.raises(InputError, match=r"quantile.*sparse.*toarray"):
        regressor(scaling="quantile").fit(rows, y)
    model = regressor().fit(rows, y)
    rows.data[0] = np.nan
    for use in (model.predict, lambda rows: regressor().fit(rows, y)):
        with pytest.raises(InputError, match="X contains NaN"):
            use(rows)


# Targets and weights that cannot be used.

BAD_TARGETS: dict[str, tuple[Any, str]] = {
    "NaN": (with_entry(y, np.nan), "y contains NaN"),
    "infinity": (with_entry(y, np.inf), "y contains infinity"),
    "none": (None, "requires y"),
    "too few": (y[1:], r"inconsistent numbers of samples: \[60, 59\]"),
    "three dimensions": (np.zeros((60, 2, 2)), "dim 3"),
    "text": (np.full(60, "a"), "KernelRegressor: could not convert targets such as 'a'"),
    "text of two readings": (
        ["1,234", "5,678"] * 30,
        "targets such as '1,234' to numbers without amb",
    ),
    "a missing target": (
        np.array([1.0, None, 2.0] * 20, dtype=object),
        "KernelRegressor: the target of row 1 is missing.*20 of 60 rows; remove",
    ),
    "complex": (y + 1j, "Complex data not supported"),
}


def test_regressor_rejects_targets_that_are_not_numbers() -> None:
    for targets, message in BAD_TARGETS.values():
        with pytest.raises(ValueError, match=message):
            searching().fit(X, targets)


BAD_LABELS: dict[str, tuple[Any, str]] = {
    "measurements": (y, "Unknown label type: continuous"),
    "NaN": (np.where(np.arange(60) == 5, np.nan, 1.0), "NaN"),
    "two columns": (np.column_stack([y > 0, 2 * (y < 0)]), "targets of several columns must be"),
    "one class": (np.zeros(60), r"KernelClassifier.*one class.*0\.0"),
    "one class of text": (np.full(60, "a"), r"KernelClassifier.*one class.*'a'"),
    "none": (None, "requires y"),
    "too few": (y[1:] > 0, r"inconsistent numbers of samples: \[60, 59\]"),
    "numbers among text": (
        np.array([1, "a"] * 30, dtype=object),
        r"KernelClassifier: labels are of type int and str; .*astype\(str\)",
    ),
    "a missing label": (
        np.array(["a", None, "b"] * 20, dtype=object),
        "KernelClassifier: the label of row 1 is missing.*20 of 60 rows; remove",
    ),
    "dates": (np.array([date(2020, 1, 1), date(2020, 1, 2)] * 30), r"of type date.*astype\(str\)"),
}


def test_classifier_rejects_invalid_labels() -> None:
    for targets, message in BAD_LABELS.values():
        with pytest.raises((ValueError, TypeError), match=message):
            classifier().fit(X, targets)


def test_classifier_rejects_pandas_intervals_as_labels() -> None:
    labels = pytest.importorskip("pandas").cut(y, 3)
    with pytest.raises(InputError, match=r"labels are of type Interval; .*y\.astype\(str\)"):
        classifier().fit(X, labels)


def test_classifier_rejects_hundreds_of_labels_that_look_like_numbers() -> None:
    for spell in [str, lambda cell: f"{cell} EUR"]:
        labels = [spell(k / 7) for k in range(120)] * 10
        rows = np.arange(1200.0).reshape(-1, 1)
        with pytest.raises(InputError, match="120 classes that look like numbers.*KernelRegressor"):
            classifier().fit(rows, labels)


def test_regressor_converts_targets_given_as_text_to_numbers() -> None:
    for spell in [str, lambda cell: str(cell).replace(".", ",")]:
        model = regressor().fit(X, [spell(value) for value in y])
        np.testing.assert_array_equal(model.predict(X), fitted_regressor().predict(X))


def test_classifier_rejects_weights_that_leave_one_class() -> None:
    with pytest.raises(InputError, match="one class"):
        classifier().fit(X, y > 0, sample_weight=y > 0)


BAD_WEIGHTS: dict[str, tuple[Any, str]] = {
    "negative": (with_entry(np.ones(60), -1.0), "Negative values.*sample_weight"),
    "all zero": (np.zeros(60), "zero"),
    "NaN": (with_entry(np.ones(60), np.nan), "sample_weight contains NaN"),
    "infinity": (with_entry(np.ones(60), np.inf), "sample_weight contains infinity"),
    "too few": (np.ones(59), r"\(59,\), expected \(60,\)"),
    "two dimensions": (np.ones((60, 2)), "1D"),
    "text": (np.full(60, "a"), "string"),
    "complex": (np.ones(60) * 1j, "[Cc]omplex"),
}


def test_fit_raises_input_error_for_invalid_weights() -> None:
    for weight, message in BAD_WEIGHTS.values():
        for model, targets in ((searching(), y), (classifier(), y > 0)):
            with pytest.raises(InputError, match=message):
                model.fit(X, targets, sample_weight=weight)


# Parameters that cannot be used: refused by name, before any work is done.

BAD_PARAMETERS: list[tuple[str, Any]] = [
    *(("bandwidth", value) for value in (0, -1.0, np.nan, "wide", None, {}, 1j)),
    *(("bandwidth", value) for value in ([1.0, 2.0], [1.0, 2.0, 0.0], [[1.0, 2.0, 3.0]], [])),
    *(("alpha", value) for value in (-1e-9, np.nan, np.inf, "strong", None, [1.0], {}, 1j)),
    *(("scaling", value) for value in ("minmax", None, 3, ["standard"])),
    *(("relevance", value) for value in ("some", None, True)),
    *(("solver", value) for value in ("newtons", None, 3)),
    *(("tol", value) for value in (-1.0, np.nan, "small", None)),
    *(("max_iter", value) for value in (0, -5, 1.5, "many", None)),
    *(("n_jobs", value) for value in (0, 1.5, "all", True)),
    *(("features", value) for value in ("cosine", None, 3, RandomBinning)),
    *(("features", RandomBinning(n_grids=n)) for n in (0, -2, 1.5, "many", None)),
]


class Untouchable(RandomBinning):
    """A feature map that lets no work begin."""

    def fit_rows(self, X: Any) -> Any:
        raise AssertionError("rows were binned before the parameters were checked")


def test_fit_names_an_invalid_parameter_before_binning_rows() -> None:
    for name, value in BAD_PARAMETERS:
        options = {"features": Untouchable(n_grids=16), "random_state": 0, name: value}
        part = "n_grids" if isinstance(value, RandomBinning) else name
        with pytest.raises(InputError, match=part):
            KernelRegressor(**options).fit(X, y)


def test_fit_rejects_invalid_seeds() -> None:
    for value in [-1, "seed", 1.5]:
        with pytest.raises(ValueError, match="(?i)seed"):
            KernelRegressor(random_state=value).fit(X, y)


def test_binning_rejects_a_gaussian_kernel_and_suggests_laplacian() -> None:
    with pytest.raises(KernelError, match=r"Gaussian.*laplacian"):
        KernelRegressor(RandomBinning("gaussian")).fit(X, y)


# Rows that are unusual but right: the same predictions as the plain ones.

PADDED = np.zeros((120, 6))
PADDED[::2, 1::2] = X
UNUSUAL_ROWS: dict[str, Any] = {
    "list": X.tolist(),
    "column-major": np.asfortranarray(X),
    "strided": PADDED[::2, 1::2],
    "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
    "objects": X.astype(object),
    "long double": X.astype(np.longdouble),
    "other byte order": X.astype(">f8"),
    "matrix of rows": [np.array(row) for row in X],
}


def test_memory_layout_and_type_of_rows_do_not_change_predictions() -> None:
    for rows in UNUSUAL_ROWS.values():
        model = regressor().fit(rows, y)
        np.testing.assert_array_equal(model.predict(rows), fitted_regressor().predict(X))


def test_masked_entries_are_missing_values() -> None:
    masked, gaps = np.ma.masked_greater(X, 1.0), np.where(X > 1.0, np.nan, X)
    expected = regressor().fit(gaps, y).predict(gaps)
    np.testing.assert_array_equal(regressor().fit(masked, y).predict(masked), expected)


def test_integer_types_do_not_change_predictions() -> None:
    for values, dtypes in (
        (np.abs(np.round(4 * X)), ("f2", "i1", "u8", "f4", "O")),
        ((X > 0).astype(np.float64), ("?",)),
    ):
        expected = standard().fit(values, y).predict(values)
        for dtype in dtypes:
            result = standard().fit(values.astype(dtype), y).predict(values.astype(dtype))
            np.testing.assert_array_equal(result, expected)


SPARSE = sp.coo_array(np.where(np.abs(X) > 1, X, 0.0))


def sparse_forms() -> dict[str, Any]:
    csr = SPARSE.tocsr()
    wide = csr.copy()
    wide.indices, wide.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    zeros = sp.csr_array(SPARSE.toarray() + 1.0)
    zeros.data -= 1.0
    twice = sp.coo_array(
        (np.tile(SPARSE.data / 2, 2), (np.tile(SPARSE.row, 2), np.tile(SPARSE.col, 2))),
        shape=SPARSE.shape,
    )
    unsorted = csr[:, ::-1][:, ::-1]
    doubled = sp.csr_array((60, 3))
    doubled.data, doubled.indices = np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2)
    doubled.indptr = 2 * csr.indptr
    return {
        **{name: SPARSE.asformat(name) for name in ("csc", "coo", "bsr", "lil", "dok")},
        "spmatrix": sp.csr_matrix(SPARSE),
        "int64 indices": wide,
        "explicit zeros": zeros,
        "duplicates in COO": twice,
        "duplicates in CSR": doubled,
        "unsorted": unsorted,
    }


def test_sparse_formats_do_not_change_predictions() -> None:
    for form in sparse_forms():
        rows = sparse_forms()[form]
        fixed, sorted_rows = regressor().fit(rows, y), regressor().fit(SPARSE.tocsr(), y)
        np.testing.assert_allclose(
            fixed.predict(rows), sorted_rows.predict(SPARSE.tocsr()), rtol=1e-9
        )
        dense = regressor().fit(SPARSE.toarray(), y)
        np.testing.assert_allclose(fixed.predict(rows), dense.predict(SPARSE.toarray()), rtol=1e-3)


def test_sparse_formats_do_not_change_the_searched_model() -> None:
    for form in ["csc", "duplicates in CSR"]:
        rows = sparse_forms()[form]
        model = searching().fit(rows, y)
        np.testing.assert_allclose(
            model.predict(rows), of_sparse_rows().predict(SPARSE.tocsr()), rtol=1e-9
        )


@cache
def of_sparse_rows() -> KernelRegressor:
    return searching().fit(SPARSE.tocsr(), y)


def test_empty_sparse_rows_are_predicted_by_the_mean() -> None:
    rows = sp.csr_array((60, 3))
    np.testing.assert_allclose(searching().fit(rows, y).predict(rows), y.mean())


def test_fit_and_predict_do_not_modify_their_arguments() -> None:
    rows, targets, weight = X.copy(), y.copy(), np.ones(60)
    for scaling in ("standard", "quantile"):
        searching(scaling=scaling).fit(rows, targets, sample_weight=weight).predict(rows)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(targets, y)
    assert (weight == 1).all()


# Extreme numbers. A power of two scales without rounding: predictions must not change.


@pytest.mark.parametrize(
    ("scaling", "exponent"),
    [("auto", -1000), ("auto", 530), ("none", 1000), ("standard", -530), ("quantile", 1000)],
)
def test_scaling_inputs_by_a_power_of_two_keeps_predictions(scaling: str, exponent: int) -> None:
    rows = X * 2.0**exponent
    model = searching(scaling=scaling).fit(rows, y)
    np.testing.assert_allclose(model.predict(rows), plain(scaling=scaling).predict(X), rtol=1e-6)


def test_scaling_one_input_by_a_power_of_two_keeps_predictions() -> None:
    for exponent in (-1000, 1000):
        rows = X * np.array([1.0, 2.0**exponent, 1.0])
        result = standard().fit(rows, y).predict(rows)
        np.testing.assert_allclose(result, plain(scaling="standard").predict(X), rtol=1e-6)


def test_scaling_targets_by_a_power_of_two_scales_predictions() -> None:
    for targets, exponents in ((y, (-1000, 530, 1018)), (np.c_[y, 1 - y], (-530, 1000))):
        expected = standard().fit(X, targets).predict(X)
        for exponent in exponents:
            scaled = standard().fit(X, targets * 2.0**exponent).predict(X)
            np.testing.assert_allclose(scaled * 2.0**-exponent, expected, rtol=1e-9)


def test_targets_near_the_largest_float_keep_their_signs() -> None:
    largest = np.finfo(float).max / 16
    predicted = searching().fit(X, np.where(y > 0, largest, -largest)).predict(X)
    assert (np.sign(predicted) == np.where(y > 0, 1, -1)).mean() > 0.9


def test_scaling_weights_by_a_power_of_two_keeps_predictions() -> None:
    for exponent in [-1060, -500, 500, 1020]:
        model = standard().fit(X, y, sample_weight=WEIGHT * 2.0**exponent)
        np.testing.assert_allclose(model.predict(X), weighted().predict(X), rtol=1e-9)


WEIGHT = 1.0 + (np.arange(60) % 3)


@cache
def weighted() -> KernelRegressor:
    return standard().fit(X, y, sample_weight=WEIGHT)


def test_one_huge_entry_leaves_predictions_finite() -> None:
    for scaling in SCALINGS:
        rows = with_entry(X, 1e300)
        model = searching(scaling=scaling).fit(rows, y)
        assert np.isfinite(model.predict(rows)).all()
        if scaling in ("auto", "quantile"):
            assert model.score(rows, y) > 0.7


def test_large_offsets_of_an_input_do_not_reduce_the_score() -> None:
    rows = X + np.array([0.0, 1.7e9, 0.0])
    model, score = searching().fit(rows, y), plain().score(X, y)
    assert model.score(rows, y) == pytest.approx(score, abs=0.02)
    sparse = searching(scaling="standard").fit(sp.csr_array(rows), y)
    assert sparse.score(sp.csr_array(rows), y) == pytest.approx(score, abs=0.05)


def test_predictions_of_extreme_rows_are_finite() -> None:
    for scaling in ("none", "standard", "quantile"):
        model = regressor(scaling=scaling).fit(X, y)
        for new in (1e305, -1e305, 5e-324, np.finfo(float).max):
            predicted = model.predict(np.full((2, 3), new))
            assert np.isfinite(predicted).all()
            if scaling != "quantile" and abs(new) > 1:
                assert (predicted == model.intercept_).all()


def test_extreme_bandwidths_interpolate_or_predict_the_mean_or_are_rejected() -> None:
    for bandwidth in (1e-300, 1e-30, 1e30, 1e300, np.inf):
        model = regressor(bandwidth=bandwidth, alpha=1e-9)
        try:
            predicted = model.fit(X, y).predict(X)
        except InputError as error:
            assert "bandwidth" in str(error)  # noqa: PT017
            assert bandwidth < 1e-20
            continue
        expected = y if bandwidth < 1 else np.full(60, y.mean())
        np.testing.assert_allclose(predicted, expected, atol=1e-3)


def test_extreme_penalties_interpolate_or_predict_the_mean() -> None:
    for alpha in [0.0, 1e-320, 1e-12, 1e12, 1e300]:
        predicted = regressor(alpha=alpha, bandwidth=0.1).fit(X, y).predict(X)
        expected = y if alpha < 1 else np.full(60, y.mean())
        np.testing.assert_allclose(predicted, expected, atol=0.02)


# Degenerate tables.


def test_one_to_three_rows_are_interpolated() -> None:
    for n_rows in [1, 2, 3]:
        for scaling in SCALINGS:
            model = searching(scaling=scaling, alpha=1e-6).fit(X[:n_rows], y[:n_rows])
            np.testing.assert_allclose(model.predict(X[:n_rows]), y[:n_rows], atol=1e-2)
        rows, labels = X[:2], np.array(["b", "a"])
        assert (classifier().fit(rows, labels).predict(rows) == labels).all()


@pytest.mark.parametrize(
    ("form", "value"),
    [
        *((np.asarray, value) for value in (0.0, 0.1, 1e300)),
        (sp.csr_array, 0.0),
        (sp.csr_array, 1.7e9),
    ],
)
def test_constant_columns_do_not_reduce_the_score(value: float, form: Any) -> None:
    rows = np.column_stack([X, np.full(60, value)])
    model = searching(scaling="standard").fit(form(rows), y)
    assert model.score(form(rows), y) > 0.9
    flat = searching().fit(form(np.full((60, 2), value)), y)
    np.testing.assert_allclose(flat.predict(form(np.full((60, 2), value))), y.mean(), rtol=1e-9)


def test_repeated_rows_are_predicted_by_their_mean_target() -> None:
    rows, targets = np.repeat(X[:4], 15, axis=0), np.tile(np.arange(15.0), 4)
    predicted = searching().fit(rows, targets).predict(rows)
    np.testing.assert_allclose(predicted, 7.0, atol=0.1)


def test_tables_with_more_columns_than_rows_or_one_column_are_fitted() -> None:
    for shape in [(10, 40), (50, 120), (60, 1)]:
        rows = np.random.default_rng(1).normal(size=shape)
        targets = rows[:, 0]
        # With a given alpha predictions are not shrunk, although so many inputs predict no new row.
        model = searching(16).set_params(alpha=1e-6)
        assert model.fit(rows, targets).score(rows, targets) > 0.8
        labels = rows[:, 0] > 0
        assert searching_classifier().fit(rows, labels).score(rows, labels) > 0.8


def searching_classifier() -> KernelClassifier:
    return KernelClassifier(RandomBinning(n_grids=16), random_state=0)
