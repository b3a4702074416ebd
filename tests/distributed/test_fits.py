"""Fits on a cluster compared with fits on one machine."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.distributed import DaskKernelClassifier, DaskKernelRegressor
from gramless.distributed.partitions import Sizes
from gramless.distributed.samples import sample_of_partition
from tests.distributed.conftest import cluster_of

GIVEN = {"bandwidth": 3.0, "alpha": 1e-2, "n_grids": 16, "scaling": "none", "random_state": 0}
GENERATOR = np.random.default_rng(0)
N_ROWS = 4000
X = GENERATOR.normal(size=(N_ROWS, 4))
Z = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * GENERATOR.normal(size=N_ROWS)
WEIGHT = GENERATOR.integers(0, 3, N_ROWS).astype(float)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Z, [-1.0, 1.0])]


def cut(array, rows=1300):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


class Regressor(DaskKernelRegressor):
    """With blocks of a few rows, so that small tables have many."""

    sizes = Sizes(min_block_rows=500)


class Classifier(DaskKernelClassifier):
    sizes = Sizes(min_block_rows=500)


class SampledRegressor(DaskKernelRegressor):
    """One that a few rows choose for."""

    sizes = Sizes(sample_rows=600, min_block_rows=500)


class SampledClassifier(DaskKernelClassifier):
    sizes = Sizes(sample_rows=600, min_block_rows=500)


@pytest.mark.parametrize(
    ("kind", "y", "weight", "options"),
    [
        (KernelRegressor, Z, None, GIVEN),
        (KernelRegressor, Z + 5.0, WEIGHT, GIVEN | {"fit_intercept": False}),
        (KernelRegressor, np.column_stack([Z, -2 * Z + X[:, 3]]), WEIGHT, GIVEN),
        pytest.param(
            KernelRegressor,
            np.round(np.exp(Z / 2)),
            None,
            GIVEN | {"loss": "poisson"},
            marks=pytest.mark.slow,
        ),
        (KernelRegressor, Z, None, {"effort": 2, "n_grids": 24, "random_state": 0}),
        pytest.param(
            KernelRegressor,
            Z,
            None,
            {"effort": 4, "n_grids": 12, "random_state": 0},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            KernelRegressor,
            Z,
            None,
            {"features": "nystrom", "solver": "pcg", **GIVEN, "n_grids": "auto"},
            marks=pytest.mark.slow,
        ),
        (KernelRegressor, Z, np.where(np.arange(len(Z)) < len(Z) // 2, 0.0, 1.0), GIVEN),
        (KernelClassifier, LABELS, WEIGHT, {"effort": 1, "n_grids": 24, "random_state": 0}),
        pytest.param(
            KernelClassifier,
            Z > 0,
            None,
            GIVEN | {"loss": "squared_hinge", "class_weight": "balanced"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "squares",
        "no constant",
        "outputs",
        "poisson",
        "grown",
        "combined",
        "nystrom",
        "no weight",
        "multinomial",
        "hinge",
    ],
)
def test_predictions_match_one_machine(client, kind, y, weight, options):
    local = kind(**options).fit(X, y, weight)
    dask_class = {KernelRegressor: Regressor, KernelClassifier: Classifier}[kind]
    there = None if weight is None else cut(weight)
    model = dask_class(**options, client=client).fit(cut(X), cut(y), there)
    assert (model.n_iter_, model.status_) == (local.n_iter_, local.status_)
    raw = local._responses(X)
    difference, size = model._responses(X) - raw, np.abs(raw).max()
    assert np.ptp(difference, axis=0).max() <= 1e-8 * size
    # Rounding hides what sums in another order change in weights, but not in the intercept.
    assert np.abs(difference).max() <= 5e-8 * size


@pytest.mark.parametrize("n_workers", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_number_of_workers_does_not_change_weights(client, n_workers):
    with cluster_of(n_workers, processes=False) as other:
        assert bits_of(other) == bits_of(client)


def bits_of(client):
    options = {**GIVEN, "max_iter": 3, "client": client}
    squares = Regressor(**options).fit(cut(X), cut(Z))
    losses = Classifier(**options, loss="logistic").fit(cut(X), cut(LABELS))
    return squares.weights_.tobytes(), squares.intercept_, losses.weights_.tobytes()


@pytest.fixture(scope="module")
def classifier(client):
    options = {"effort": 1, "n_grids": 16, "random_state": 0}
    return Classifier(**options, client=client).fit(cut(X), cut(LABELS))


def test_predictions_of_collections_are_lazy_and_equal(client, classifier):
    local = classifier.to_local()
    # The last partition is empty.
    rows = da.concatenate([cut(X[:700], 300), da.empty((0, 4), chunks=(0, 4))])
    for method in ("predict", "predict_proba", "decision_function", "predict_set"):
        lazy = getattr(classifier, method)(rows)
        expected = getattr(local, method)(X[:700])
        assert isinstance(lazy, da.Array)
        assert lazy.dtype == expected.dtype
        np.testing.assert_array_equal(lazy.compute(), expected)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)


def test_intervals_of_collections_are_lazy(client):
    model = Regressor(**GIVEN | {"alpha": "auto"}, client=client).fit(cut(X), cut(Z))
    lower, upper = model.predict_interval(cut(X[:500], 200), coverage=0.8)
    expected = model.to_local().predict_interval(X[:500], coverage=0.8)
    np.testing.assert_array_equal(np.stack(dask.compute(lower, upper)), np.stack(expected))


def test_to_local_returns_an_ordinary_estimator(classifier, tmp_path):
    local = classifier.to_local()
    assert type(local) is KernelClassifier
    save(local, tmp_path / "model.gramless")
    np.testing.assert_array_equal(
        load(tmp_path / "model.gramless").predict(X[:9]), classifier.predict(X[:9])
    )
    with pytest.raises(ValueError, match="to_local"):
        save(classifier, tmp_path / "other.gramless")
    copied = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copied.predict(X[:9]), classifier.predict(X[:9]))
    assert copied.client is None
    assert clone(classifier).client is classifier.client


def table(n_rows=3000):
    kinds = GENERATOR.choice(["red", "green", "blue"], n_rows)
    size = np.where(GENERATOR.random(n_rows) < 0.05, np.nan, GENERATOR.normal(size=n_rows))
    # One category is in the last rows alone.
    kinds[-5:] = "rare"
    y = (kinds == "red") + np.nan_to_num(size) + 5.0 * (kinds == "rare")
    return pd.DataFrame({"kind": kinds, "size": size, "y": y})


def test_frames_with_categories_and_gaps_match_one_machine(client):
    frame = table()
    rows = frame[["kind", "size"]]
    local = KernelRegressor(**GIVEN).fit(rows, frame["y"])
    there = dd.from_pandas(frame, npartitions=5).clear_divisions()
    model = Regressor(**GIVEN, client=client)
    model.fit(there[["kind", "size"]], there["y"])
    np.testing.assert_allclose(model.predict(rows), local.predict(rows), rtol=0, atol=1e-7)
    # Columns are found by their names.
    lazy = model.predict(there[["size", "kind"]]).compute()
    np.testing.assert_array_equal(lazy, model.predict(rows))


def test_sample_includes_rare_classes_and_categories(client):
    frame = table()
    there = dd.from_pandas(frame, npartitions=5)
    labels = frame["kind"].where(frame["kind"] == "rare", "common")
    model = SampledClassifier(**GIVEN | {"alpha": "auto"}, loss="logistic", client=client)
    model.fit(there[["kind", "size"]], dd.from_pandas(labels, npartitions=5))
    assert model.classes_.tolist() == ["common", "rare"]
    assert (model.predict(frame[["kind", "size"]]) == labels).all()
    assert any(limit.startswith("sample:") for limit in model.limits_)
    assert "rare" in model.encoder_.columns[0].categories


def test_sample_includes_every_category_of_arrays(client):
    codes = GENERATOR.integers(0, 3, 3000) * 2.0**40
    codes[-5:], codes[-9:-5] = 7.0, 9.0
    y = codes / 2.0**40 + 5.0 * (codes == 7.0) - 5.0 * (codes == 9.0)
    rows = np.column_stack([GENERATOR.normal(size=3000), codes])
    chunks = da.from_array(rows, chunks=(600, 2)), da.from_array(y, chunks=600)
    model = SampledRegressor(**GIVEN, categorical_features=[1], client=client).fit(*chunks)
    assert sorted(model.inputs_.categories.values) == [0, 7, 9, 2.0**40, 2.0**41]


@pytest.mark.slow
def test_sampled_fits_with_given_settings_match_one_machine(client):
    for kind, dask_class, y, options in (
        (KernelRegressor, SampledRegressor, Z, {}),
        (KernelRegressor, SampledRegressor, Z + 5.0, {"fit_intercept": False}),
        (KernelClassifier, SampledClassifier, Z > 0, {"loss": "logistic"}),
    ):
        local = kind(**GIVEN, **options).fit(X, y)
        model = dask_class(**GIVEN, **options, client=client).fit(cut(X), cut(y))
        raw = local._responses(X)
        np.testing.assert_allclose(model._responses(X), raw, rtol=0, atol=1e-8 * np.abs(raw).max())


def test_partitions_may_be_empty_tiny_or_unbalanced(client):
    expected = KernelRegressor(**GIVEN).fit(X, Z).predict(X)
    for chunks in ((0, 1, 3999, 0), (1,) * 20 + (3980,), (60, 3940)):
        rows, y = da.from_array(X, chunks=(chunks, (4,))), da.from_array(Z, chunks=(chunks,))
        model = Regressor(**GIVEN, client=client).fit(rows, y)
        np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_targets_are_rechunked_like_the_rows(client):
    first = Regressor(**GIVEN, client=client).fit(cut(X), cut(Z))
    second = Regressor(**GIVEN, client=client).fit(cut(X), cut(Z, 700), np.ones(N_ROWS))
    np.testing.assert_array_equal(first.weights_, second.weights_)


def test_invalid_input_is_rejected(client):
    model = Regressor(**GIVEN, client=client)
    with pytest.raises(ValueError, match="rechunk"):
        model.fit(da.from_array(X, chunks=(900, 2)), cut(Z))
    with pytest.raises(ValueError, match="4,000 rows and y 3,000"):
        model.fit(cut(X), cut(Z[:3000]))
    with pytest.raises(ValueError, match="Dask array or data frame"):
        model.fit(X, Z)
    frame = dd.from_pandas(table(), npartitions=3)
    with pytest.raises(ValueError, match="3 partitions and y 2"):
        model.fit(frame[["size"]], frame["y"].repartition(npartitions=2))
    with pytest.raises(ValueError, match=r"partition \d: X has"):
        model.fit(frame[["size"]], frame["y"].map_partitions(lambda part: part[1:]))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(cut(np.where(X > 3, np.inf, X)), cut(Z))
    with pytest.raises(ValueError, match="conjugate gradients"):
        clone(model).set_params(l1_ratio=0.5).fit(cut(X), cut(Z))
    with pytest.raises(ValueError, match="plain bins"):
        clone(model).set_params(features="smooth").fit(cut(X), cut(Z))
    with pytest.raises(ValueError, match="splitter"):
        SampledRegressor(**GIVEN, cv=[([0, 1], [2])], client=client).fit(cut(X), cut(Z))
    with pytest.raises(ValueError, match="n_posterior"):
        clone(model).set_params(n_posterior=9).fit(cut(X), cut(Z))


def test_zero_weight_rows_add_no_categories():
    X = pd.DataFrame({"a": [1.0, np.nan, 3.0], "kind": ["x", "rare", "x"]})
    part = X, np.array([0, 1, 0]), np.array([1.0, 0.0, 1.0]), None
    sample = sample_of_partition(0, np.array([0]), 3, True, True, None, *part)
    assert sample.examples == {("kind", "x"): 0, ("y", "0"): 0}
