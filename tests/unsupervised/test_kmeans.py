"""KernelKMeans: Lloyd's steps among features, starts, weights and new rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramless import ExactKernel, KernelKMeans, RandomBinning, load, save
from gramless.base.errors import InputError

UNITS_IGNORE_WEIGHTS = "units and bandwidths ignore weights"


@parametrize_with_checks(
    [KernelKMeans(3, n_grids=32, n_init=1)],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": UNITS_IGNORE_WEIGHTS
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def blobs(n=300, seed=0):
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [6.0, 6.0]])
    return make_blobs(n, centers=centres, cluster_std=0.6, random_state=seed)


def test_blobs_old_and_new():
    (X, y), (new, y_new) = blobs(), blobs(seed=1)
    clusters = KernelKMeans(4, random_state=0).fit(X)
    assert adjusted_rand_score(y, clusters.labels_) > 0.95
    assert adjusted_rand_score(y_new, clusters.predict(new)) > 0.95
    np.testing.assert_array_equal(clusters.predict(X), clusters.labels_)


@pytest.mark.parametrize("features", [RandomBinning(n_grids=64), "fourier", "nystrom"])
def test_it_is_k_means_among_the_features(features):
    X, _ = blobs()
    clusters = KernelKMeans(4, features=features, tol=0.0, random_state=0).fit(X)
    Z = clusters.features_.feature_matrix(X).toarray()
    centres = np.array([Z[clusters.labels_ == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(clusters.cluster_centers_, centres, atol=1e-12)
    distances = ((Z[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), clusters.labels_)
    np.testing.assert_allclose(clusters.inertia_, distances.min(axis=1).sum(), rtol=1e-9)
    twin = KMeans(4, n_init=10, random_state=0).fit(Z)
    assert clusters.inertia_ < 1.02 * twin.inertia_


def test_weights_are_repeated_rows():
    X, _ = blobs(80)
    counts = np.random.default_rng(0).integers(0, 4, 80)
    exact = ExactKernel("gaussian", bandwidth=1.0)
    options = {"features": exact, "scaling": "none", "n_init": 10, "random_state": 0}
    weighted = KernelKMeans(4, **options).fit(X, sample_weight=counts)
    repeated = KernelKMeans(4, **options).fit(np.repeat(X, counts, axis=0))
    assert adjusted_rand_score(weighted.predict(X), repeated.predict(X)) == 1.0
    # Weights are 1 on average.
    mean = counts.sum() / 80
    np.testing.assert_allclose(weighted.inertia_ * mean, repeated.inertia_, rtol=1e-6)


def test_frames_and_sparse_rows():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.choice(["a", "b"], 100), "x": rng.normal(size=100)})
    table.loc[3, "x"] = np.nan
    assert set(KernelKMeans(2, random_state=0).fit(table).predict(table)) == {0, 1}
    X = sp.csr_array(sp.block_diag([sp.csr_array(np.ones((30, 4)))] * 2))
    labels = KernelKMeans(2, random_state=0).fit(X).labels_
    assert adjusted_rand_score(np.repeat([0, 1], 30), labels) == 1.0


def test_equal_rows_are_no_trouble():
    clusters = KernelKMeans(3, n_grids=16, random_state=0).fit(np.ones((10, 2)))
    assert len(set(clusters.labels_)) == 1
    assert clusters.inertia_ == 0.0


def test_a_saved_model_predicts_the_same(tmp_path):
    X, _ = blobs()
    clusters = KernelKMeans(4, n_grids=32, random_state=0).fit(X)
    save(clusters, tmp_path / "clusters")
    again = load(tmp_path / "clusters")
    np.testing.assert_array_equal(again.predict(X), clusters.predict(X))
    assert again.inertia_ == clusters.inertia_


def test_threads_change_no_bit():
    X, _ = blobs()
    one, two = (KernelKMeans(4, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert one.cluster_centers_.tobytes() == two.cluster_centers_.tobytes()


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="n_samples=3"):
        KernelKMeans(4).fit(np.ones((3, 1)))
    with pytest.raises(InputError, match="2 with a weight"):
        KernelKMeans(3).fit(np.eye(4), sample_weight=[1, 1, 0, 0])
    with pytest.raises(ValueError, match="zero"):
        KernelKMeans(2).fit(np.eye(4), sample_weight=np.zeros(4))
