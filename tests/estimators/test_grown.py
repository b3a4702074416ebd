"""Grown grids behind estimators: scikit-learn's checks, files, forms of rows, coverage."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from gramless import KernelClassifier, KernelRegressor
from gramless.base.errors import InputError
from gramless.estimators.grown import GrownBinning
from gramless.selection.budget import (
    _ROWS_PER_OUTPUT,
    MAX_COLUMNS,
    MIN_ROWS,
    MIN_ROWS_OF_CLASSES,
)

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 6)).astype(np.float32).astype(np.float64)
NUMBERS = 3.0 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2] + RNG.normal(size=1200)
NEW = np.concatenate([X[:100], RNG.normal(size=(300, 6)) * 3]).astype(np.float32).astype(np.float64)
TARGETS: dict[str, NDArray[Any]] = {
    "numbers": NUMBERS,
    "two outputs": np.column_stack([NUMBERS, X[:, 3] - 7.0]),
    "two classes": np.where(NUMBERS > 0, "yes", "no"),
    "three classes": np.digitize(NUMBERS, [-2.0, 2.0]),
}


def machine(kind: str, **options: Any) -> Any:
    estimator = KernelClassifier if "classes" in kind else KernelRegressor
    return estimator(**{"grids": "grown", "n_grids": 24, "random_state": 0, "n_jobs": 2, **options})


@cache
def fitted(kind: str) -> Any:
    return machine(kind).fit(X, TARGETS[kind])


def answers(model: Any, rows: Any) -> dict[str, NDArray[Any]]:
    """Return all that a model says of rows."""
    result = {"predict": model.predict(rows)}
    if isinstance(model, KernelClassifier):
        result["responses"] = model.decision_function(rows)
        result["probabilities"] = model.predict_proba(rows)
        result["sets"] = model.predict_set(rows, coverage=0.8)
    else:
        result["lower"], result["upper"] = model.predict_interval(rows, coverage=0.8)
    return result


def same(actual: dict[str, NDArray[Any]], expected: dict[str, NDArray[Any]]) -> None:
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        assert actual[name].dtype == values.dtype
        np.testing.assert_array_equal(actual[name], values, err_msg=name)


# What grown grids have a part in; the others are run on these estimators with random ones.
FORMS: dict[str, Callable[[Array], Any]] = {
    "float32": lambda rows: rows.astype(np.float32),
    "column-major": np.asfortranarray,
    "float32, column-major": lambda rows: np.asfortranarray(rows, np.float32),
    "strided": lambda rows: np.repeat(np.repeat(rows, 2, axis=0), 2, axis=1)[::2, ::2],
    "list": lambda rows: rows.tolist(),
}


def test_form_of_new_rows_does_not_change_predictions() -> None:
    """Ranks of float32 rows are rounded: some rows at an edge may change their bin.

    Smooth kernels beside the grids round all of them.
    """
    for form in FORMS:
        model = fitted("numbers")
        result, expected = model.predict(FORMS[form](NEW)), model.predict(NEW)
        if "float32" in form:
            assert np.isclose(result, expected, rtol=0, atol=1e-5).mean() > 0.97
        else:
            np.testing.assert_array_equal(result, expected)


def test_form_of_training_rows_does_not_change_the_fit() -> None:
    for form in ["column-major", "strided", "list"]:
        result = machine("numbers").fit(FORMS[form](X), NUMBERS)
        np.testing.assert_array_equal(result.predict(NEW), fitted("numbers").predict(NEW))


@pytest.mark.parametrize("kind", TARGETS)
def test_number_of_threads_does_not_change_the_fit(kind: str) -> None:
    n_jobs = 4 if kind == "two classes" else 1
    result = machine(kind, n_jobs=n_jobs).fit(X, TARGETS[kind])
    same(answers(result, NEW), answers(fitted(kind), NEW))


def test_one_heavy_row_does_not_stop_growth() -> None:
    """Weights are relative: what one row weighs is no measure of the others."""
    for heaviest in [1.0, 1e4]:
        weight = np.ones(1200)
        weight[0] = heaviest
        model = machine("numbers").fit(X, NUMBERS, sample_weight=weight)
        assert set(np.argsort(-model.relevance_)[:2]) == {0, 1}


@pytest.mark.parametrize(("kind", "n_rows"), zip(TARGETS, (5, 20, 5, 20), strict=True))
def test_few_rows_are_fitted(kind: str, n_rows: int) -> None:
    targets = TARGETS[kind][:n_rows]
    if "classes" in kind:
        targets = np.array(["a", "b", "c"])[np.arange(n_rows) % (2 + ("three" in kind))]
    model = machine(kind, n_grids=8).fit(X[:n_rows], targets)
    assert len(model.predict(NEW)) == len(NEW)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_calibration_on_few_rows_is_finite_or_rejected(n_rows: int) -> None:
    """There is nothing to hold back from one row: it is said, not stumbled over."""
    model = KernelRegressor(bandwidth=1.0, alpha=0.1, scaling="standard", calibrate=True)
    try:
        model.fit(X[:n_rows], NUMBERS[:n_rows])
    except InputError as error:
        assert "calibrate" in str(error) or "rows" in str(error)  # noqa: PT017
        return
    lower, upper = model.predict_interval(NEW)
    assert not np.isnan(lower).any()
    assert not np.isnan(upper).any()


# Coverage.


def binomial_error(n: int, coverage: float) -> float:
    """Return four standard deviations: of the rows tested, and of those held back."""
    return 4 * float(np.sqrt(coverage * (1 - coverage) * (1 / n + 1 / 240)))


def fresh(n_rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(n_rows, 6))
    return rows, 3.0 * np.sign(rows[:, 0] * rows[:, 1]) + rows[:, 2] + rng.normal(size=n_rows)


def test_intervals_cover_the_target() -> None:
    for coverage in [0.5, 0.8, 0.95]:
        rows, truth = fresh(4000)
        lower, upper = fitted("numbers").predict_interval(rows, coverage)
        share = ((lower <= truth) & (truth <= upper)).mean()
        assert share == pytest.approx(coverage, abs=binomial_error(4000, coverage))


@pytest.mark.parametrize(
    ("kind", "coverage"), [("two classes", 0.8), ("three classes", 0.8), ("three classes", 0.95)]
)
def test_sets_cover_the_class(kind: str, coverage: float) -> None:
    rows, truth = fresh(4000)
    number = (truth > 0).astype(int) if kind == "two classes" else np.digitize(truth, [-2.0, 2.0])
    sets = fitted(kind).predict_set(rows, coverage)
    share = sets[np.arange(4000), number].mean()
    assert share == pytest.approx(coverage, abs=binomial_error(4000, coverage))
    assert sets.mean() < 1.0


# The transformer.


def binning(**options: Any) -> GrownBinning:
    return GrownBinning(**{"n_grids": 24, "random_state": 0, **options})


def test_transform_gives_one_bin_per_grid_and_row() -> None:
    for kind in TARGETS:
        result = binning()
        Z = result.fit_transform(X, TARGETS[kind])
        assert (result.transform(X) != Z).nnz == 0
        assert (binning().fit(X, TARGETS[kind]).transform(X) != Z).nnz == 0
        assert Z.shape == (1200, len(result.get_feature_names_out()))
        assert (np.diff(Z.indptr) == 24).all()
        assert set(np.argsort(-result.relevance_)[:3]) >= {0, 1}
        assert result.growth_[-1]["n_grids"] == 24
        assert result.feature_matrix(NEW).tocsr().nnz < 24 * len(NEW)


def test_grown_features_improve_ridge_regression() -> None:
    rows, truth = fresh(2000)
    model = make_pipeline(binning(n_grids=64), Ridge(alpha=0.1)).fit(X, NUMBERS)
    assert model.score(rows, truth) > 0.6 > 0.3 > Ridge().fit(X, NUMBERS).score(rows, truth)


def test_target_parameter_decides_between_numbers_and_classes() -> None:
    counts = np.digitize(NUMBERS, [-3.0, -1.0, 1.0, 3.0])
    guessed, classes, numbers = (
        binning(target=target).fit(X, counts).features_.widths_
        for target in ("auto", "class", "number")
    )
    np.testing.assert_array_equal(guessed, classes)
    assert not np.array_equal(guessed, numbers)


def test_invalid_parameters_are_rejected() -> None:
    for options, message in [
        ({"target": "numbers"}, "target must be one of 'auto', 'number', 'class'"),
        ({"n_grids": 0}, "n_grids"),
        ({"n_grids": 2.5}, "n_grids"),
        ({"random_state": -1}, "(?i)seed"),
    ]:
        with pytest.raises(ValueError, match=message):
            binning(**options).fit(X, NUMBERS)


def test_invalid_rows_are_rejected() -> None:
    with pytest.raises((TypeError, ValueError), match="(?i)sparse"):
        binning().fit(sp.csr_array(X), NUMBERS)
    with pytest.raises(ValueError, match="(?i)nan"):
        binning().fit(np.where(X > 2, np.nan, X), NUMBERS)
    with pytest.raises(ValueError, match="requires y|missing|y=None"):
        clone(binning()).fit(X, None)


def test_fit_rejects_one_row() -> None:
    with pytest.raises(ValueError, match="(?i)row|sample"):
        binning().fit(X[:1], NUMBERS[:1])


@pytest.mark.slow
def test_single_precision_products_keep_multiclass_responses():
    """Below a tolerance of 1e-5 the last fit has products in double precision."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], [-0.7, 0.7])
    single, double = (
        KernelClassifier(effort=1, tol=tol, random_state=0).fit(X, y) for tol in (1e-5, 9e-6)
    )
    assert single.status_ == double.status_ == "converged"
    differences = single.decision_function(X) - double.decision_function(X)
    assert np.abs(differences).max() < 1e-3


def test_docstrings_state_the_limits_of_growth():
    for kind, least in [(KernelRegressor, MIN_ROWS), (KernelClassifier, MIN_ROWS_OF_CLASSES)]:
        text = " ".join(kind.__doc__.split())
        assert f"with at least {least} rows, {_ROWS_PER_OUTPUT} rows per" in text
        assert f"at most {MAX_COLUMNS:,} inputs" in text
