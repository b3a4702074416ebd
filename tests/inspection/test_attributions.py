"""Shapley values of predictions: they sum up, and equal brute force over all subsets."""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from gramless import (
    Hybrid,
    KernelClassifier,
    KernelRegressor,
    KernelSurvival,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
)
from gramless.base.errors import InputError
from gramless.features import shapley
from gramless.features.shapley import Subsets
from gramless.inspection import shapley_values
from gramless.kernels import Laplacian, Matern, Sum

pd = pytest.importorskip("pandas")
rng = np.random.default_rng(0)
D = 4
X, BACKGROUND = rng.normal(size=(400, D)), rng.normal(size=(12, D))
NEW = np.vstack([rng.normal(size=(5, D)), [[50.0, -50.0, 0.0, 1e30]]])
Y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2]
GIVEN = {"bandwidth": 2.0, "alpha": 1e-3, "random_state": 0}


def brute_force(predict: Any, row: NDArray, background: NDArray) -> NDArray:
    """Return the Shapley values of a row by their definition, (d, K)."""
    d = len(row)
    members = (np.arange(1 << d)[:, None] >> np.arange(d)) & 1 == 1
    mixed = np.where(members[:, None], row, background)
    payoffs = predict(mixed.reshape(-1, d)).reshape(1 << d, len(background), -1).mean(axis=1)
    result = np.zeros((d, payoffs.shape[1]))
    for subset, member in enumerate(members):
        for p in np.flatnonzero(~member):
            t = int(member.sum())
            share = factorial(t) * factorial(d - t - 1) / factorial(d)
            result[p] += share * (payoffs[subset | 1 << p] - payoffs[subset])
    return result


def check(model: Any, predict: Any, new: NDArray, background: NDArray, tol: float = 1e-9) -> Any:
    """Check values against brute force and their sums; return what was found."""
    result = shapley_values(model, new, background)
    np.testing.assert_allclose(
        result.base_values + result.values.sum(axis=1), predict(new), atol=1e-10
    )
    for row, values in zip(new, result.values, strict=True):
        expected = brute_force(predict, row, background)
        np.testing.assert_allclose(values.reshape(expected.shape), expected, atol=tol)
    return result


MAPS: dict[str, Any] = {
    "bins": RandomBinning(n_grids=32),
    "smooth bins": SmoothBinning(n_grids=32),
    "nystrom": Nystrom(n_components=40),
    "not separable": Nystrom(Matern(), n_components=40),
    "a sum of kernels": Nystrom(Sum([Laplacian(), Laplacian()], [1, 2]), n_components=20),
    "side by side": Hybrid([RandomBinning(n_grids=8), Nystrom(n_components=10)], weights=[2, 1]),
}


def test_shapley_values_match_brute_force_for_every_feature_map() -> None:
    for name in MAPS:
        model = KernelRegressor(MAPS[name], **GIVEN).fit(X, Y)
        check(model, model.predict, NEW, BACKGROUND)


def test_shapley_values_of_fourier_features_match_in_single_precision() -> None:
    for map_, n in [("paired", 32), ("paired", 33), ("shifted", 32)]:
        model = KernelRegressor(RandomFourier(n_components=n, map=map_), **GIVEN).fit(X, Y)
        check(model, model.predict, NEW[:-1], BACKGROUND, tol=1e-5)


@cache
def grown(n_inputs: int) -> tuple[KernelRegressor, NDArray]:
    rows = np.random.default_rng(1).normal(size=(2500, n_inputs))
    targets = np.sin(2 * rows[:, 0]) * rows[:, 1] + np.abs(rows[:, 2]) + rows[:, 3] * rows[:, -1]
    return KernelRegressor(effort=2, random_state=0).fit(rows, targets), rows


def test_shapley_values_of_a_grown_model_match_brute_force() -> None:
    model, rows = grown(8)
    result = check(model, model.predict, rows[:3], rows[100:130])
    assert np.ptp(result.base_values) == 0.0
    assert result.importances()[[5, 6]].max() < 0.1 * result.importances()[0]


def test_shapley_values_do_not_depend_on_other_rows_or_threads() -> None:
    model, rows = grown(8)
    many = shapley_values(model, rows).values
    model.set_params(n_jobs=1)
    one = shapley_values(model, rows).values
    model.set_params(n_jobs=None)
    np.testing.assert_array_equal(one, many)
    np.testing.assert_allclose(shapley_values(model, rows[7:9]).values, many[7:9], atol=1e-12)


def test_shapley_values_of_classes_have_one_column_per_class() -> None:
    model = KernelClassifier(effort=1, random_state=0).fit(X, np.digitize(Y, [-1, 1]))
    result = check(model, model.decision_function, NEW, BACKGROUND)
    assert result.values.shape == (6, D, 3)
    assert result.output_names == ["0", "1", "2"]
    two = KernelClassifier(effort=1, random_state=0).fit(X, Y > 0)
    assert shapley_values(two, NEW).values.shape == (6, D)


def test_log_link_is_explained_by_logarithms() -> None:
    counts = np.random.default_rng(2).poisson(np.exp(0.5 * X[:, 0]))
    model = KernelRegressor(loss="poisson", effort=1, random_state=0).fit(X, counts)
    result = check(model, lambda rows: np.log(model.predict(rows)), NEW, BACKGROUND)
    assert result.importances().argmax() == 0


def test_survival_risks_are_explained() -> None:
    y = np.empty(400, [("event", bool), ("time", float)])
    y["event"], y["time"] = True, np.random.default_rng(3).exponential(np.exp(-2 * X[:, 3]))
    model = KernelSurvival(effort=1, random_state=0).fit(X, y)
    check(model, model.predict, NEW[:2], BACKGROUND)
    assert model.feature_importances_.argmax() == 3


def test_shapley_values_of_a_frame_belong_to_its_columns() -> None:
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))
    frame.loc[::7, "a"] = np.nan
    frame["t"] = np.where(X[:, 1] > 0, "u", "v")
    model = KernelRegressor(effort=1, random_state=0).fit(frame, Y)
    result = shapley_values(model, frame[:10], frame[10:30])
    assert result.feature_names == [*"abcd", "t"]
    assert result.data[0, 4] in ("u", "v")
    sums = result.base_values + result.values.sum(axis=1)
    np.testing.assert_allclose(sums, model.predict(frame[:10]), atol=1e-10)
    assert shapley_values(model, frame[:0]).values.shape == (0, 5)
    with pytest.raises(InputError, match="the background has no rows"):
        shapley_values(model, frame, frame[:0])
    same = frame[:1].copy()
    same["a"] = np.nan
    missing = pd.concat([same.assign(a=v) for v in (np.nan, 5.0)])
    assert np.ptp(shapley_values(model, missing, same).values[:, [1, 2, 3]]) < 1e-12


def test_sampled_shapley_values_sum_to_the_prediction() -> None:
    for features in [RandomBinning(n_grids=8), Nystrom(n_components=30)]:
        rows = np.random.default_rng(4).normal(size=(300, 14))
        model = KernelRegressor(features, bandwidth=8.0, alpha=1e-3, random_state=0)
        model.fit(rows, rows[:, 0] + rows[:, 1])
        result = shapley_values(model, rows[:4], rows[:20])
        sums = result.base_values + result.values.sum(axis=1)
        np.testing.assert_allclose(sums, model.predict(rows[:4]), atol=1e-10)
        assert set(np.argsort(result.importances())[-2:]) == {0, 1}


@pytest.mark.parametrize(
    ("name", "limit"),
    [("bins", "shapley_grids._MAX_PAYOFFS"), ("smooth bins", "shapley._MAX_NUMBERS")],
)
def test_sampled_shapley_values_are_near_exact_ones(
    name: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = KernelRegressor(MAPS[name], **GIVEN).fit(X, Y)
    exact = shapley_values(model, X[:50])
    monkeypatch.setattr(f"gramless.features.{limit}", 1)
    result = shapley_values(model, X[:50])
    sums = result.base_values + result.values.sum(axis=1)
    np.testing.assert_allclose(sums, model.predict(X[:50]), atol=1e-10)
    apart = np.abs(result.values - exact.values)
    assert 0.0 < apart.mean() < 0.1 * np.abs(exact.values).mean()


def test_sampled_orders_of_a_linear_function_are_exact_up_to_background() -> None:
    """Of a linear function: sums hold, and all rows are off by the background alone."""
    rows, weights = np.random.default_rng(4).normal(size=(3000, 8)), np.arange(8.0)[:, None]
    background = rows[:200]
    ends = rows @ weights, background @ weights
    columns = [np.array([j]) for j in range(8)]
    result = shapley._sample_orders(lambda rows: rows @ weights, columns, rows, background, ends)
    mean = background.mean(axis=0)
    np.testing.assert_allclose(result.sum(axis=1)[:, 0], ends[0][:, 0] - mean @ weights[:, 0])
    exact = (rows - mean) * weights[:, 0]
    assert np.abs(result[..., 0] - exact).max() < 0.5 * exact.std()
    assert np.ptp(result[..., 0] - exact, axis=0).max() < 1e-9


def test_subsets_along_an_order_cover_its_path() -> None:
    subsets = Subsets.along(np.array([2, 0, 1]))
    sets: list[set[int]] = [set()]
    kept: dict[int, set[int]] = {2: set()}
    for before, after, player in subsets.steps[1:].tolist():
        kept[after] = kept[before] | {player}
        sets.append(kept[after])
    assert sets == [set(), {2}, {0, 2}, {1}, {0, 1}, {0, 1, 2}]
    assert [one | other for one, other in zip(sets, sets[::-1], strict=True)] == [{0, 1, 2}] * 6
    payoffs = np.array([0.0, 1.0, 3.0, 5.0, 6.0, 10.0])
    np.testing.assert_allclose(payoffs @ subsets.factors, [1.5, 6.0, 2.5])


def test_sparse_rows_need_a_given_background() -> None:
    sparse = sp.csr_array(np.hstack([np.where(np.abs(X) > 1, X, 0.0), np.zeros((len(X), 5000))]))
    model = KernelRegressor("nystrom", **GIVEN).fit(sparse, Y)
    with pytest.raises(InputError, match="KernelSurvival, got Ridge"):
        shapley_values(Ridge(), sparse)
    with pytest.raises(InputError, match="give some as background"):
        shapley_values(model, sparse[:3])
    with pytest.raises(AttributeError, match="was fitted to sparse rows"):
        _ = model.feature_importances_
    result = shapley_values(model, sparse[:3], sparse[:20])
    sums = result.base_values + result.values.sum(axis=1)
    np.testing.assert_allclose(sums, model.predict(sparse[:3]), atol=1e-10)


def test_shap_plots_attributions() -> None:
    shap = pytest.importorskip("shap")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=["a", "b", "c"])
    model = KernelRegressor(n_grids=8, bandwidth=1.0, alpha=0.1).fit(X, X["a"])
    attributions = shapley_values(model, X[:5])
    explanation = attributions.to_shap()
    assert isinstance(explanation, shap.Explanation)
    np.testing.assert_array_equal(explanation.values, attributions.values)
    np.testing.assert_array_equal(explanation.base_values, attributions.base_values)
    np.testing.assert_array_equal(explanation.data, X[:5])
    assert list(explanation.feature_names) == ["a", "b", "c"]
    shap.plots.beeswarm(explanation, show=False)
    shap.plots.waterfall(explanation[0], show=False)
