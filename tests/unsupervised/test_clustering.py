"""SpectralClustering: shapes that k-means cannot tell apart, and clusters of new rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from gramless import ExactKernel, RandomFourier, SpectralClustering, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import pack, write
from gramless.matrices.dense import DenseMatrix
from gramless.unsupervised.clustering import normalised_cut


def moons(n=600, seed=0):
    return make_moons(n, noise=0.06, random_state=seed)


@pytest.mark.parametrize("features", ["neighbors", "binning"])
def test_moons_are_separated(features):
    X, y = moons()
    new, y_new = moons(300, seed=1)
    clusters = SpectralClustering(2, features=features, random_state=0).fit(X)
    assert adjusted_rand_score(y, clusters.labels_) > 0.95
    assert adjusted_rand_score(y_new, clusters.predict(new)) > 0.95
    assert adjusted_rand_score(y, KMeans(2, n_init=3, random_state=0).fit(X).labels_) < 0.6


def test_start_from_a_sample_gives_the_same_clusters(monkeypatch):
    X, y = moons()
    whole = SpectralClustering(2, random_state=0).fit(X)
    monkeypatch.setattr("gramless.unsupervised.clustering._START_ROWS", 100)
    some = SpectralClustering(2, random_state=0).fit(X)
    assert adjusted_rand_score(whole.labels_, some.labels_) > 0.99
    assert adjusted_rand_score(y, some.labels_) > 0.9


def test_outliers_are_not_clusters():
    X, y = make_blobs(600, 6, centers=4, cluster_std=2.0, random_state=2)
    X[:30] = np.random.default_rng(0).uniform(-40, 40, (30, 6))
    result, plain = (
        adjusted_rand_score(
            y[30:],
            SpectralClustering(4, features="binning", regularization=added, random_state=0)
            .fit(X)
            .labels_[30:],
        )
        for added in ("auto", 0.0)
    )
    assert result > 0.9 > 0.5 > plain
    by_neighbours = SpectralClustering(4, random_state=0).fit(X)
    assert adjusted_rand_score(y[30:], by_neighbours.labels_[30:]) > 0.9


def assert_clusters_are(groups, clusters, X):
    """Assert that clusters are the given groups of rows, also when the rows are predicted."""
    pairs = set(zip(groups.tolist(), clusters.labels_.tolist(), strict=True))
    assert len(pairs) == len(set(groups.tolist())) == len(set(clusters.labels_.tolist()))
    np.testing.assert_array_equal(clusters.predict(X), clusters.labels_)


def profiles_of(kind, n_profiles, rng):
    """Return a table of rows that differ."""
    numbers = 3.0 * rng.normal(size=(n_profiles, 4))
    names = pd.DataFrame({"a": np.arange(n_profiles) % 3, "b": np.arange(n_profiles) // 3})
    names = "v" + names.astype(str)
    if kind == "categories":
        return names
    if kind == "mixed":
        return names.assign(x=numbers[:, 0], y=numbers[:, 1])
    if kind == "sparse":
        return sp.csr_array(np.where(numbers > 1.0, numbers, np.eye(n_profiles, 4) * 2.0))
    if kind == "gaps":
        numbers[0, 0] = np.nan
    return numbers[:, :1] if kind == "one number" else numbers


def take(table, rows):
    return table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]


@pytest.mark.parametrize(
    ("kind", "n_profiles"),
    [
        ("numbers", 2),
        ("one number", 3),
        ("categories", 5),
        ("mixed", 2),
        ("sparse", 3),
        ("gaps", 5),
    ],
)
def test_repeated_rows_are_clusters(kind, n_profiles):
    rng = np.random.default_rng(n_profiles)
    groups = rng.permutation(np.repeat(np.arange(n_profiles), rng.integers(1, 80, n_profiles)))
    X = take(profiles_of(kind, n_profiles, rng), groups)
    clusters = SpectralClustering(n_profiles, random_state=0).fit(X)
    assert_clusters_are(groups, clusters, X)
    weighted = clusters.fit(X, sample_weight=rng.uniform(0.1, 5.0, len(groups)))
    assert_clusters_are(groups, weighted, X)


@pytest.mark.parametrize("n_profiles", [30])
def test_many_and_rare_repeated_rows_are_clusters(n_profiles, monkeypatch):
    monkeypatch.setattr("gramless.unsupervised.clustering._START_ROWS", 100)
    groups = np.concatenate([np.zeros(3000, int), np.arange(n_profiles)])
    X = profiles_of("numbers", n_profiles, np.random.default_rng(0))[groups]
    clusters = SpectralClustering(n_profiles, n_landmarks=200, random_state=0).fit(X)
    assert_clusters_are(groups, clusters, X)


def test_distant_repeated_rows_are_different_clusters():
    # Two deviations from the mean, where values are cut off otherwise, lie before them.
    profiles = np.column_stack([np.append(np.zeros(40), [1e3, 2e3, 3e3]), np.arange(43) / 43])
    groups = np.repeat(np.arange(43), 3)
    X = profiles[groups] + 1e9
    assert_clusters_are(groups, SpectralClustering(43, random_state=0).fit(X), X)


def test_repeated_rows_are_clusters_by_any_features():
    for features in ["neighbors", "binning", "nystrom"]:
        groups = np.repeat(np.arange(4), [1, 5, 20, 90])
        X = profiles_of("numbers", 4, np.random.default_rng(0))[groups]
        clusters = SpectralClustering(4, features=features, random_state=0).fit(X)
        assert_clusters_are(groups, clusters, X)


def test_fewer_distinct_rows_than_clusters_warn():
    for n_profiles in [1, 3]:
        groups = np.repeat(np.arange(n_profiles), 50)
        X = profiles_of("numbers", n_profiles, np.random.default_rng(0))[groups]
        with pytest.warns(UserWarning, match=f"X has {n_profiles} distinct rows, fewer than the 8"):
            clusters = SpectralClustering(8, random_state=0).fit(X)
        assert clusters.n_clusters_ == n_profiles
        assert_clusters_are(groups, clusters, X)


def test_equal_rows_share_a_cluster():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(300, 4)).astype(float)
    clusters = SpectralClustering(3, random_state=0).fit(X)
    labels = {row: set() for row in map(tuple, X)}
    for row, label in zip(map(tuple, X), clusters.labels_, strict=True):
        labels[row].add(label)
    assert all(len(each) == 1 for each in labels.values())
    assert len(set(clusters.labels_)) == 3


def test_zero_weight_rows_are_labelled_and_ignored():
    X, _ = moons(200)
    strange = 50.0 + np.random.default_rng(0).normal(size=(20, 2))
    weights = np.append(np.ones(200), np.zeros(20))
    both = SpectralClustering(2, scaling="none", random_state=0)
    both.fit(np.concatenate([X, strange]), sample_weight=weights)
    assert both.labels_.shape == (220,)
    assert set(both.labels_[:200]) == {0, 1}
    assert adjusted_rand_score(moons(200)[1], both.labels_[:200]) > 0.9


def test_singular_values_match_the_normalised_graph():
    X, _ = moons(200)
    clusters = SpectralClustering(
        4, n_neighbors=12, n_base_clusterings=0, tol=1e-7, random_state=0
    ).fit(X)
    gram = clusters.features_.feature_matrix(X).row_gram()
    root = np.sqrt(gram.sum(axis=1))
    values, vectors = np.linalg.eigh(gram / np.outer(root, root))
    np.testing.assert_allclose(clusters.singular_values_**2, values[::-1][:4], rtol=1e-9)
    # Nothing but the coordinates: the same k-means on the dense reference's.
    reference = vectors[:, ::-1][:, :4]
    reference /= np.linalg.norm(reference, axis=1, keepdims=True)
    labels = KMeans(4, n_init=10, random_state=0).fit(reference).labels_
    assert adjusted_rand_score(labels, clusters.labels_) > 0.98


def test_consensus_matches_the_graph_of_base_clusterings():
    X, _ = moons()
    clusters = SpectralClustering(3, n_base_clusterings=8, tol=1e-7, random_state=0).fit(X)
    base = clusters.base_clusterings_
    assert len(base.n_clusters) == 8
    assert 6 <= base.n_clusters.min() < base.n_clusters.max() <= 18
    weights = clusters.components_.T / clusters.singular_values_
    coordinates = clusters.features_.feature_matrix(X).matvec(weights)
    shared, ends = np.zeros((600, 600)), np.cumsum(base.n_clusters)
    for size, end in zip(base.n_clusters, ends, strict=True):
        unit_rows = coordinates[:, :size] / np.linalg.norm(
            coordinates[:, :size], axis=1, keepdims=True
        )
        gaps = ((unit_rows[:, None] - base.centers[end - size : end, :size]) ** 2).sum(axis=2)
        label = gaps.argmin(axis=1)
        shared += label[:, None] == label
    root = np.sqrt(shared.sum(axis=1))
    reference = np.linalg.eigh(shared / np.outer(root, root))[1][:, ::-1][:, :3]
    reference /= np.linalg.norm(reference, axis=1, keepdims=True)
    labels = KMeans(3, n_init=10, random_state=0).fit(reference).labels_
    assert adjusted_rand_score(labels, clusters.labels_) > 0.98


@pytest.mark.slow
def test_consensus_improves_noisy_moons():
    # Of few rows the second eigenvector is noise along the moons as often as the cut.
    results = []
    for seed in range(4):
        X, y = make_moons(1500, noise=0.11, random_state=seed)
        several, one = (
            SpectralClustering(2, n_base_clusterings=n, random_state=0).fit(X) for n in (20, 0)
        )
        results.append([adjusted_rand_score(y, each.labels_) for each in (several, one)])
    consensus, plain = np.mean(results, axis=0)
    assert consensus > plain + 0.05


def test_consensus_with_a_larger_cut_is_dropped():
    rng = np.random.default_rng(3)
    centres, y = 1.6 * rng.normal(size=(10, 8)), rng.integers(0, 10, 1500)
    X = centres[y] + rng.normal(size=(1500, 8))
    clusters, plain = (
        SpectralClustering(10, n_base_clusterings=n, random_state=0).fit(X) for n in (20, 0)
    )
    assert clusters.base_clusterings_ is None
    np.testing.assert_array_equal(clusters.labels_, plain.labels_)
    assert clusters.components_.shape == plain.components_.shape
    np.testing.assert_array_equal(clusters.predict(X), plain.labels_)


def test_normalised_cut_matches_the_dense_graph():
    rng = np.random.default_rng(0)
    Z, labels, weights = rng.random((30, 5)), rng.integers(0, 3, 30), rng.random(30)
    edges = (Z @ Z.T) * np.outer(weights, weights)
    expected = sum(
        edges[np.ix_(labels == k, labels != k)].sum() / edges[labels == k].sum() for k in range(3)
    )
    result = normalised_cut(DenseMatrix(Z), labels, weights, 4)
    np.testing.assert_allclose(result, expected + 1, rtol=1e-12)


@pytest.mark.parametrize("n_blobs", [3, 6])
def test_eigengap_counts_clusters(n_blobs):
    places = np.random.default_rng(n_blobs).permutation(16)[:n_blobs]
    centres = 5.0 * np.column_stack([places // 4, places % 4])
    X, y = make_blobs(400, centers=centres, cluster_std=0.5, random_state=0)
    clusters = SpectralClustering("eigengap", random_state=0).fit(X)
    assert clusters.n_clusters_ == n_blobs
    assert adjusted_rand_score(y, clusters.labels_) > 0.99
    assert clusters.cluster_centers_.shape[0] == n_blobs < len(clusters.eigenvalues_)


def test_saved_model_predicts_the_same(tmp_path):
    for n_base_clusterings in [0, 5]:
        X, _ = moons(200)
        machine = SpectralClustering(
            "eigengap", n_base_clusterings=n_base_clusterings, random_state=0
        )
        clusters = machine.fit(X)
        save(clusters, tmp_path / "clusters")
        loaded = load(tmp_path / "clusters")
        np.testing.assert_array_equal(loaded.predict(X), clusters.predict(X))
        np.testing.assert_array_equal(loaded.labels_, clusters.labels_)


def test_integer_weights_equal_repeated_rows():
    X, _ = moons(200)
    counts = np.random.default_rng(0).integers(0, 4, 200)
    exact = ExactKernel("gaussian", bandwidth=0.3)
    options = {"features": exact, "scaling": "none", "tol": 1e-8, "random_state": 0}
    weighted = SpectralClustering(2, **options).fit(X, sample_weight=counts)
    repeated = SpectralClustering(2, **options).fit(np.repeat(X, counts, axis=0))
    # The largest value is 1 whatever the weights, the next one is not.
    values = weighted.singular_values_
    np.testing.assert_allclose(values, repeated.singular_values_, rtol=1e-6)
    assert adjusted_rand_score(weighted.predict(X), repeated.predict(X)) == 1.0


def test_inconsistent_files_are_rejected(tmp_path):
    X, _ = moons(200)
    content, tensors = pack(SpectralClustering(2, random_state=0).fit(X))
    for name in ("base_clusterings_.n_clusters", "consensus_weights_"):
        foreign = tensors | {name: np.ascontiguousarray(tensors[name][1:])}
        write(tmp_path / "foreign", content, foreign)
        with pytest.raises(ModelFileError):
            load(tmp_path / "foreign")


def test_number_of_threads_does_not_change_clusters():
    X, _ = moons(300)
    one, two = (SpectralClustering(3, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert one.cluster_centers_.tobytes() == two.cluster_centers_.tobytes()
    assert one.base_clusterings_.centers.tobytes() == two.base_clusterings_.centers.tobytes()


def test_rows_without_a_positive_degree_are_rejected():
    X = 100.0 * np.random.default_rng(0).normal(size=(300, 3))
    waves = RandomFourier(bandwidth=0.01, n_components=32)
    machine = SpectralClustering(2, features=waves, scaling="none", random_state=0)
    with pytest.raises(InputError, match="positive degree"):
        machine.fit(X)


def test_fewer_rows_than_clusters_are_rejected():
    with pytest.raises(InputError, match="n_samples=3"):
        SpectralClustering(4).fit(np.ones((3, 1)))


def test_neighbours_reject_parameters_of_kernel_features():
    for given in [{"bandwidth": 0.2}, {"n_grids": 64}]:
        with pytest.raises(InputError, match=f"{next(iter(given))} is for kernel features"):
            SpectralClustering(2, features="neighbors", **given).fit(np.eye(4))
        assert SpectralClustering(2, **given).fit(np.eye(4)).features_.n_grids > 0


@pytest.mark.slow
def test_groups_on_a_line_are_separated():
    X, y = make_blobs(1000, centers=[[0.0], [8.0], [16.0]], random_state=0)
    clusters = SpectralClustering(3, random_state=0).fit(X)
    assert adjusted_rand_score(y, clusters.labels_) > 0.8


def test_invalid_numbers_are_rejected():
    for wrong in [
        {"n_base_clusterings": -1},
        {"n_clusters": "many"},
        {"n_clusters": 0},
        {"max_clusters": 1},
        {"n_landmarks": 0},
    ]:
        with pytest.raises(InputError, match=next(iter(wrong))):
            SpectralClustering(**wrong).fit(np.zeros((10, 1)))
