"""Rows of weight 0 count as absent: the model is that without them, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from gramless import (
    AnomalyDetector,
    FeatureDecomposition,
    KernelClassifier,
    KernelPCA,
    KernelRegressor,
    KernelSurvival,
    SpectralClustering,
)

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N, EXTRA = 200, 60
ORDER = RNG.permutation(N + EXTRA)
X: NDArray[np.float64] = RNG.normal(size=(N, 4))
X[:, 3] = RNG.integers(0, 4, N)
Y: NDArray[np.float64] = np.sin(2 * X[:, 0]) + X[:, 1] + (X[:, 3] == 2) + 0.1 * RNG.normal(size=N)
WEIGHT = RNG.uniform(0.5, 2.0, N)
WILD: NDArray[np.float64] = RNG.normal(size=(EXTRA, 4)) * 1e6
WILD[:, 3] = RNG.integers(10, 50, EXTRA)
WILD[::3, :2] = np.nan
MODELS: dict[str, tuple[Any, NDArray, NDArray]] = {
    "numbers": (KernelRegressor, Y, np.full(EXTRA, 1e9)),
    "classes": (KernelClassifier, np.where(Y > 0, "a", "b"), np.full(EXTRA, "c")),
    "times": (KernelSurvival, np.exp(Y), np.full(EXTRA, 1e9)),
}


def mixed(rows: Any, others: Any) -> Any:
    """Return rows followed by others, all in random order."""
    return np.concatenate([rows, others])[ORDER]


ROWS, WEIGHTS = mixed(X, WILD), mixed(WEIGHT, np.zeros(EXTRA))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("numbers", {}),
        ("classes", {}),
        ("times", {}),
        ("numbers", {"grids": "random", "n_grids": 32}),
        ("classes", {"scaling": "quantile"}),
    ],
)
def test_zero_weight_rows_do_not_change_the_model(name: str, options: dict[str, Any]) -> None:
    kind, targets, others = MODELS[name]
    used = ORDER < N
    options = {"categorical_features": [3], "effort": 1, "random_state": 0, **options}
    without = kind(**options).fit(X[ORDER[used]], targets[ORDER[used]], WEIGHT[ORDER[used]])
    result = kind(**options).fit(ROWS, mixed(targets, others), WEIGHTS)
    np.testing.assert_array_equal(result.weights_, without.weights_)
    np.testing.assert_array_equal(result.predict(X), without.predict(X))


def test_zero_weight_rows_of_frames_and_sparse_tables_are_ignored() -> None:
    used, options = ORDER < N, {"effort": 1, "random_state": 0}
    targets = mixed(Y, np.zeros(EXTRA))
    frame = pd.DataFrame(ROWS, columns=list("abcd")).assign(kind=ROWS[:, 3].astype(str))
    expected = KernelRegressor(**options).fit(frame[used], targets[used], WEIGHTS[used])
    result = KernelRegressor(**options).fit(frame, targets, WEIGHTS)
    np.testing.assert_array_equal(result.predict(frame[used]), expected.predict(frame[used]))
    sparse = sp.csr_array(np.hstack([np.nan_to_num(ROWS), np.zeros((len(ROWS), 5000))]))
    sparse[:, 4003] = np.where(used, 0.0, 1.0)
    expected = KernelRegressor(n_grids=8, **options).fit(sparse[used], targets[used], WEIGHTS[used])
    result = KernelRegressor(n_grids=8, **options).fit(sparse, targets, WEIGHTS)
    np.testing.assert_array_equal(result.inputs_.kept, expected.inputs_.kept)
    np.testing.assert_array_equal(result.predict(sparse[used]), expected.predict(sparse[used]))


def test_splitters_see_only_rows_with_weight() -> None:
    for by_pairs in [False, True]:
        used = np.flatnonzero(ORDER < N)
        splitter = KFold(3, shuffle=True, random_state=0)
        pairs = [(used[a], used[b]) for a, b in splitter.split(used)]
        options: dict[str, Any] = {"grids": "random", "n_grids": 16, "random_state": 0}
        targets = mixed(Y, np.zeros(EXTRA))
        expected = KernelRegressor(cv=splitter, **options)
        expected.fit(ROWS[used], targets[used], WEIGHTS[used])
        result = KernelRegressor(cv=pairs if by_pairs else splitter, **options)
        result.fit(ROWS, targets, WEIGHTS)
        np.testing.assert_array_equal(result.predict(X), expected.predict(X))


def test_zero_weight_rows_of_batches_are_ignored() -> None:
    options: dict[str, Any] = {"grids": "random", "n_grids": 16, "random_state": 0}
    results = []
    for rows, targets, weights in (
        (X[100:], Y[100:], WEIGHT[100:]),
        (
            np.vstack([WILD, X[100:]]),
            np.append(np.ones(EXTRA), Y[100:]),
            [0.0] * EXTRA + [*WEIGHT[100:]],
        ),
    ):
        model = KernelRegressor(categorical_features=[3], **options).fit(X[:100], Y[:100])
        results.append(model.partial_fit(rows, targets, weights).predict(X))
    np.testing.assert_array_equal(*results)


UNSUPERVISED: dict[str, Any] = {
    "anomalies": AnomalyDetector(n_grids=32, contamination=0.1),
    "components": KernelPCA(3, n_grids=16),
    "decomposition": FeatureDecomposition(3, n_grids=16, normalization="degree"),
    "neighbours": SpectralClustering(3, n_base_clusterings=0),
    "bins": SpectralClustering(3, features="binning", n_grids=32),
}


@pytest.mark.filterwarnings("ignore:.*none of the categories in fit:UserWarning")
@pytest.mark.parametrize(
    ("name", "as_frame"), zip(UNSUPERVISED, (True, False, True, False, True), strict=True)
)
def test_zero_weight_rows_do_not_change_unsupervised_models(name: str, as_frame: bool) -> None:
    used, rows = ORDER < N, ROWS
    model = clone(UNSUPERVISED[name]).set_params(random_state=0, categorical_features=[3])
    if as_frame:
        rows = pd.DataFrame(ROWS, columns=list("abcd")).assign(d=ROWS[:, 3].astype(str))
    expected = clone(model).fit(rows[used], sample_weight=WEIGHTS[used])
    result = clone(model).fit(rows, sample_weight=WEIGHTS)
    labels = vars(result).pop("labels_", None)
    if labels is not None:
        np.testing.assert_array_equal(labels[used], vars(expected).pop("labels_"))
        np.testing.assert_array_equal(labels[~used], result.predict(rows[~used]))
    for attribute, value in vars(expected).items():
        if isinstance(value, (np.ndarray, int, float)):
            np.testing.assert_array_equal(getattr(result, attribute), value, err_msg=attribute)
    method = next(m for m in ("score_samples", "transform", "predict") if hasattr(result, m))
    np.testing.assert_array_equal(getattr(result, method)(rows), getattr(expected, method)(rows))


def test_zero_weight_rows_do_not_change_partial_fit_of_anomalies() -> None:
    model = AnomalyDetector(n_grids=32, random_state=0)
    expected = clone(model).fit(X[:100]).partial_fit(X[100:], sample_weight=WEIGHT[100:])
    result = clone(model).fit(X[:100])
    weights = [0.0] * EXTRA + [*WEIGHT[100:]]
    result.partial_fit(np.vstack([WILD, X[100:]]), sample_weight=weights)
    np.testing.assert_array_equal(result.score_samples(X), expected.score_samples(X))
    assert result.offset_ == expected.offset_


def test_weighted_rows_in_every_sparse_format_give_the_same_components() -> None:
    for form in ["coo", "bsr", "csc"]:
        rows = sp.csr_array(np.nan_to_num(ROWS))
        model = KernelPCA(2, n_grids=8, random_state=0)
        expected = clone(model).fit(rows, sample_weight=WEIGHTS).transform(rows)
        result = clone(model).fit(rows.asformat(form), sample_weight=WEIGHTS).transform(rows)
        np.testing.assert_array_equal(result, expected)
