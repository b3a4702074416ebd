"""Categories and missing values in estimators: learned, predicted, saved, and never in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.features.hybrid import parts_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

GIVEN: dict[str, Any] = {"bandwidth": 1.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
N = 1200


def model(kind: Any = KernelRegressor, n_grids: int = 64, **options: Any) -> Any:
    return kind(RandomBinning(n_grids=n_grids), **{"random_state": 0, **options})


def shops(n_rows: int = N, seed: int = 0) -> tuple[Any, NDArray[np.float64]]:
    """Return a table whose target waves with a number, each of 30 shops in its own way."""
    rng = np.random.default_rng(seed)
    level, phase = np.random.default_rng(99).normal(size=(2, 30)) * [[1.0], [2.0]]
    shop, hour = rng.integers(0, 30, n_rows), rng.uniform(-2, 2, n_rows)
    noise = rng.integers(0, 5, n_rows)
    y = level[shop] + np.sin(2 * hour + phase[shop]) + 0.1 * rng.normal(size=n_rows)
    names = {"hour": hour, "shop": [f"s{k}" for k in shop], "noise": [f"n{k}" for k in noise]}
    return pd.DataFrame(names), y


@pytest.fixture(scope="module")
def table() -> tuple[Any, NDArray[np.float64]]:
    return shops()


@pytest.fixture(scope="module")
def coded(table: Any) -> NDArray[np.float64]:
    """The same table as an array, shops and noise in numbers."""
    frame, _ = table
    numbers = [frame[name].str[1:].astype(float) for name in ("shop", "noise")]
    return np.column_stack([frame["hour"], *numbers])


# What is learned.


@pytest.mark.slow
def test_categories_beat_columns_of_zeros_and_ones(table: Any) -> None:
    frame, y = table
    new, truth = shops(seed=1)
    one_hot = [pd.get_dummies(part, dtype=float).to_numpy() for part in (frame, new)]
    categories = model(scaling="standard").fit(frame, y).score(new, truth)
    columns = model(scaling="standard").fit(one_hot[0], y).score(one_hot[1], truth)
    assert 1 - categories < 0.5 * (1 - columns)
    assert categories > 0.8


def test_the_strength_of_a_category_is_learned(table: Any) -> None:
    frame, y = table
    hour, shop, noise = model(relevance="learned").fit(frame, y).relevance_
    assert min(hour, shop) > 3 * noise


def test_grown_grids_tell_categories_apart(table: Any) -> None:
    frame, y = table
    new, truth = shops(seed=1)
    grown = model(grids="grown").fit(frame, y)
    assert grown.score(new, truth) > 0.8
    widths = parts_of(grown.features_)[0].widths_
    assert set(np.unique(widths[:, 1:3])) <= {1.0, 2.0, 3.0, 4.0, 6.0, 9.0, np.inf}
    assert (widths[:, 1:3] == 1.0).any()
    assert np.isinf(widths[:, 4:]).all()


def test_missingness_is_used_as_an_input() -> None:
    for kind in ["array", "frame"]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(N, 2))
        y = X[:, 0] + 2.0 * (X[:, 1] > 0.8)
        X[X[:, 1] > 0.8, 1] = np.nan
        rows = pd.DataFrame(X, columns=["a", "b"]) if kind == "frame" else X
        fitted = model(scaling="standard").fit(rows[:800], y[:800])
        assert fitted.score(rows[800:], y[800:]) > 0.95
        assert fitted.n_features_in_ == 2
        assert fitted.scaler_.categorical.tolist() == [False, False, True]


# The same table in other forms.


def test_frames_and_arrays_agree_to_the_last_bit(table: Any, coded: NDArray) -> None:
    frame, y = table
    expected = model(**GIVEN).fit(frame, y).predict(frame)
    same = [
        (pl.from_pandas(frame), "auto"),
        (frame.astype({"shop": "category", "noise": "category"}), "auto"),
        (coded, [1, 2]),
        (np.asfortranarray(coded), [False, True, True]),
        (pd.DataFrame(coded, columns=list("abc")), ["b", "c"]),
    ]
    for rows, chosen in same:
        result = model(categorical_features=chosen, **GIVEN).fit(rows, y).predict(rows)
        np.testing.assert_array_equal(result, expected)


def test_type_of_codes_does_not_change_predictions(coded: NDArray, table: Any) -> None:
    for dtype in [np.int64, np.int16, np.float32, np.float64]:
        codes = coded[:, 1:].astype(dtype) - 7
        result = model(categorical_features=[0, 1], **GIVEN).fit(codes, table[1]).predict(codes)
        plain = model(categorical_features=[0, 1], **GIVEN).fit(coded[:, 1:], table[1])
        np.testing.assert_array_equal(result, plain.predict(coded[:, 1:]))


def test_sparse_rows_with_categories_match_dense_ones(coded: NDArray, table: Any) -> None:
    options = {**GIVEN, "categorical_features": [1, 2], "tol": 1e-8, "max_iter": 1000}
    dense = model(**options).fit(coded, table[1]).predict(coded)
    sparse = model(**options).fit(sp.csr_array(coded), table[1]).predict(sp.csr_array(coded))
    np.testing.assert_allclose(sparse, dense, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_number_of_threads_does_not_change_the_fit(table: Any, kind: Any) -> None:
    frame, y = table[0].copy(), table[1] if kind is KernelRegressor else table[1] > 0
    frame.loc[::7, ["hour", "shop"]] = None
    options = {"scaling": "standard", "relevance": "learned"}
    one, two = (
        model(kind, 16, n_jobs=n_jobs, **options).fit(frame[:400], y[:400]) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.relevance_, two.relevance_)


# What was never seen, or says nothing.


def test_first_missing_value_in_new_rows_is_imputed(coded: NDArray, table: Any) -> None:
    options = {**GIVEN, "categorical_features": [1, 2]}
    fitted = model(**options).fit(coded[:401], table[1][:401])
    new = coded[:1].copy()
    new[0, 0] = np.nan
    filled = np.array([[np.median(coded[:401, 0]), *coded[0, 1:]]])
    np.testing.assert_array_equal(fitted.predict(new), fitted.predict(filled))
    unseen, missing = coded[:1].copy(), coded[:1].copy()
    unseen[0, 1], missing[0, 1] = 99, np.nan
    np.testing.assert_array_equal(fitted.predict(missing), fitted.predict(unseen))


def test_unseen_categories_share_no_bin_with_known_ones(table: Any) -> None:
    frame, y = table
    fitted = model(**GIVEN).fit(frame, y)
    new = frame[:50].assign(shop="elsewhere")
    rows = fitted.inputs_.transform(fitted, new)
    result = fitted.features_.rows_matrix(rows).codes > 0
    parted = fitted.features_.widths_[:, 1] == 1
    assert parted.any()
    assert not result[parted].any()
    assert np.isfinite(fitted.predict(new)).all()


def test_empty_and_constant_columns_are_ignored() -> None:
    for kind in ["array", "frame"]:
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=200), np.full(200, np.nan), np.full(200, 7.0)])
        rows = pd.DataFrame(X, columns=list("abc")) if kind == "frame" else X
        fitted = model(categorical_features=[2], **GIVEN).fit(rows, X[:, 0])
        assert np.isinf(fitted.scaler_.unit[1:]).all()
        plain = model(**GIVEN).fit(X[:, :1], X[:, 0])
        assert fitted.score(rows, X[:, 0]) == pytest.approx(
            plain.score(X[:, :1], X[:, 0]), abs=0.01
        )


# Files, and what is refused.


@pytest.mark.parametrize(("kind", "grids"), [("array", "random"), ("frame", "grown")])
def test_saved_models_keep_categories(
    table: Any, coded: NDArray, tmp_path: Path, kind: str, grids: str
) -> None:
    rows = table[0].copy() if kind == "frame" else coded.copy()
    if kind == "frame":
        rows.loc[::5, ["hour", "shop"]] = None
    else:
        rows[::5, :2] = np.nan
    chosen = "auto" if kind == "frame" else [1, 2]
    fitted = model(n_grids=8, grids=grids, categorical_features=chosen)
    fitted.fit(rows[:300], table[1][:300])
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(rows), fitted.predict(rows))
    assert loaded.inputs_.categorical.tolist() == [False, True, True, True]
    assert loaded.inputs_.sources(3).tolist() == ([0, 0, 1, 2] if kind == "frame" else [0, 1, 2, 0])


def test_saved_feature_maps_keep_categories(coded: NDArray, tmp_path: Path) -> None:
    for chosen in ([1, 2], np.array([False, True, True])):
        binning = RandomBinning(n_grids=8, categorical=chosen, random_state=0).fit(coded)
        save(binning, tmp_path / "map")
        loaded = load(tmp_path / "map")
        assert (loaded.transform(coded) != binning.transform(coded)).nnz == 0
        assert np.array_equal(loaded.categorical, chosen)


def test_categorical_features_must_name_existing_columns(coded: NDArray, table: Any) -> None:
    for chosen in [[3], ["shop"], "all", [True], 1.5]:
        with pytest.raises(InputError, match="categorical_features"):
            model(categorical_features=chosen, **GIVEN).fit(coded, table[1])


def test_categories_in_arrays_must_be_whole_numbers(coded: NDArray, table: Any) -> None:
    with pytest.raises(InputError, match=r"input 0 is a category and holds .*whole numbers"):
        model(categorical_features=[0], **GIVEN).fit(coded, table[1])


def test_estimators_reject_feature_maps_that_name_categories(coded: NDArray, table: Any) -> None:
    with pytest.raises(InputError, match="name categories in categorical_features"):
        KernelRegressor(RandomBinning(categorical=[1])).fit(coded, table[1])


# Codes of any size.


@pytest.mark.parametrize(
    "options",
    [
        {"n_grids": 64},
        {"grids": "random", "n_grids": 64},
        {"features": "smooth"},
        {"features": "nystrom"},
    ],
    ids=["grown", "random", "smooth", "nystrom"],
)
def test_two_categories_never_share_a_bin(options: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = np.array([0.0, 2.0**40, -(2.0**51), 5.0, np.nan])
    index = rng.integers(0, 5, 400)
    X, y = np.column_stack([rng.random(400), values[index]]), np.array([0.0, 3, -2, 5, 8])[index]
    fitted = KernelRegressor(categorical_features=[1], effort=1, random_state=0, **options).fit(
        X, y
    )
    assert fitted.score(X, y) > 0.99
    save(fitted, tmp_path / "model.gramless")
    new = np.vstack([X[:20], [[0.5, 2.0**41]]])
    np.testing.assert_array_equal(
        load(tmp_path / "model.gramless").predict(new), fitted.predict(new)
    )
    assert np.ptp(np.append(fitted.predict(new)[-1], y.mean())) < 4.0


def test_score_does_not_depend_on_how_categories_are_coded(coded: NDArray, table: Any) -> None:
    for spelling in [lambda k: 7 * k, lambda k: k * 2**40, lambda k: 100 - k]:
        codes = coded[:, 1].astype(int)
        renamed = coded.copy()
        renamed[:, 1] = [spelling(k) for k in codes]
        options: dict[str, Any] = {"categorical_features": [1, 2], "effort": 1, "random_state": 0}
        expected = KernelRegressor(**options).fit(coded, table[1]).score(coded, table[1])
        result = KernelRegressor(**options).fit(renamed, table[1]).score(renamed, table[1])
        assert result == pytest.approx(expected, abs=0.02)


def test_partial_fit_learns_new_categories() -> None:
    X = np.repeat([[3.0], [2.0**40]], 50, axis=0)
    y = X[:, 0] == 3.0
    fitted = model(categorical_features=[0], **GIVEN).fit(X, y * 1.0)
    more = np.repeat([[5.0], [9.0]], 50, axis=0)
    fitted.partial_fit(more, 10.0 * (more[:, 0] == 5.0))
    result = fitted.predict([[3.0], [2.0**40], [5.0], [9.0]])
    assert result[2] - result[3] > 1.0
    assert result[0] - result[1] > 0.5
