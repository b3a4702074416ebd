"""Nyström features: their kernel, their landmarks, and what they accept."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from sklearn.base import clone

from gramless.base.errors import InputError, KernelError
from gramless.base.random import stream
from gramless.features.landmarks import (
    GivenKernel,
    InputKernel,
    MixedWhitening,
    Precomputed,
    RadialValues,
    Whitening,
    pivoted_cholesky,
)
from gramless.features.nystrom import (
    LANDMARKS,
    LandmarkMatrix,
    Nystrom,
    _ridge,
    cluster_means,
    draw_spread_rows,
    ridge_leverage_scores,
)
from gramless.kernels import (
    Gaussian,
    InversePower,
    Kernel,
    Laplacian,
    Matern,
    RationalQuadratic,
    Scaled,
    Sum,
)
from tests.solvers.pairwise import each_value

KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian(),
    "laplacian": Laplacian(),
    "matern_0.5": Matern(0.5),
    "matern_2.5": Matern(2.5),
    "rational_quadratic": RationalQuadratic(2.0),
    "inverse_power": InversePower(2.0),
    "sum": Sum([Gaussian(), Scaled(Laplacian(), 2.0)], [1.0, 2.0]),
}
BANDWIDTH = np.array([1.0, 2.0, np.inf, 1.5])
CUT = 5e-7

any_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
any_landmarks = pytest.mark.parametrize("landmarks", LANDMARKS)


def some_rows(n_rows: int = 150, n_inputs: int = 4, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(n_rows, n_inputs))


def clustered() -> NDArray[np.float64]:
    """Return one crowd, and some rows in far places that a few uniform landmarks miss."""
    rng = np.random.default_rng(0)
    crowd = 0.1 * rng.normal(size=(1900, 3))
    places = 10.0 * rng.normal(size=(20, 3))
    few = np.repeat(places, 5, axis=0) + 0.1 * rng.normal(size=(100, 3))
    return rng.permutation(np.concatenate([crowd, few]))


def lost(features: Nystrom, X: NDArray[Any]) -> float:
    """Return the share of the kernel of rows with themselves that is missing."""
    Z = features.transform(X)
    return float(1.0 - np.mean(np.sum(Z * Z, axis=1)))


def source_of(kernel: Kernel, n_inputs: int) -> InputKernel:
    return InputKernel(kernel, np.ones(n_inputs), np.zeros(n_inputs, bool))


# The kernel


@pytest.mark.parametrize(("kernel", "landmarks"), each_value(KERNELS.values(), LANDMARKS))
def test_all_rows_as_landmarks_give_the_exact_kernel(kernel: Kernel, landmarks: Any) -> None:
    X = some_rows()
    X[100:] = X[:50]
    features = Nystrom(kernel, bandwidth=BANDWIDTH, n_components=150, landmarks=landmarks)
    Z = features.fit(X).transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel.gram(X, bandwidth=BANDWIDTH), atol=1e-6)
    assert Z.shape[1] == features.n_features_out <= 100


@any_kernel
def test_features_are_whitened_kernel_values(kernel: Kernel) -> None:
    X, new = some_rows(), some_rows(20, seed=1)
    features = Nystrom(kernel, bandwidth=BANDWIDTH, n_components=30, random_state=0).fit(X)
    values = kernel.gram(new, features.landmarks_, bandwidth=BANDWIDTH)
    np.testing.assert_array_equal(features.landmarks_, X[features.indices_])
    np.testing.assert_allclose(features.transform(new), values @ features.whitening_, atol=1e-7)
    among = kernel.gram(features.landmarks_, bandwidth=BANDWIDTH)
    np.testing.assert_allclose(
        values @ np.linalg.solve(among, values.T),
        features.transform(new) @ features.transform(new).T,
        atol=1e-7,
    )


@any_landmarks
def test_approximation_is_below_the_kernel_and_exact_at_landmarks(landmarks: Any) -> None:
    X = some_rows()
    features = Nystrom(bandwidth=2.0, n_components=40, landmarks=landmarks, random_state=0).fit(X)
    both = np.concatenate([features.landmarks_, X])
    Z = features.transform(both)
    short = Gaussian().gram(both, bandwidth=2.0) - Z @ Z.T
    assert np.linalg.eigvalsh(short)[0] > -1e-9
    np.testing.assert_allclose(short[: len(features.landmarks_)], 0.0, atol=CUT)
    assert short.diagonal().max() > 1e-3


def test_more_landmarks_reduce_the_error() -> None:
    X = some_rows(600)
    losses = [lost(Nystrom(n_components=n, random_state=0).fit(X), X) for n in (10, 40, 160, 600)]
    assert losses[0] > 2 * losses[1] > 4 * losses[2]
    assert losses[3] < CUT


def test_chosen_landmarks_include_small_clusters() -> None:
    X = clustered()
    templates = [Nystrom(bandwidth=1.0, n_components=40, landmarks=how) for how in LANDMARKS]
    losses = {
        template.landmarks: np.mean(
            [lost(clone(template).set_params(random_state=k).fit(X), X) for k in range(5)]
        )
        for template in templates
    }
    for chosen in ("kmeans", "leverage"):
        assert losses[chosen] < 0.5 * losses["uniform"]


# Values, factors and features


@pytest.mark.parametrize(
    ("offset", "n_inputs", "kernel"),
    each_value([0.0, 1e3, 1e7], [3, 1, 50], [Gaussian(), Matern(0.5)]),
)
def test_values_by_products_match_differences(offset: float, n_inputs: int, kernel: Any) -> None:
    rng = np.random.default_rng(0)
    landmarks = rng.normal(size=(60, n_inputs)) + offset
    landmarks[::3] -= 2 * offset
    rows = np.concatenate(
        [landmarks[:20], landmarks[20:40] + 1e-9, rng.normal(size=(60, n_inputs))]
    )
    bandwidth = np.full(n_inputs, np.sqrt(n_inputs))
    expected = kernel.profile(cdist(rows, landmarks) / np.sqrt(n_inputs))
    values = RadialValues(kernel, landmarks, bandwidth)
    # Numbers this far from the mean have no more digits.
    np.testing.assert_allclose(values(rows), expected, rtol=0.0, atol=1e-9 + 1e-15 * offset)
    np.testing.assert_array_less(
        np.abs(values(sp.csr_array(rows)) - expected), 1e-9 + 1e-15 * offset
    )


def test_values_do_not_depend_on_scale() -> None:
    landmarks, rows, bandwidth = some_rows(40), some_rows(60, seed=1), np.full(4, 0.7)
    reference = RadialValues(Gaussian(), landmarks, bandwidth)(rows)
    size = 0.99 * np.finfo(np.float64).max / max(np.abs(landmarks).max(), np.abs(rows).max())
    largest = RadialValues(Gaussian(), landmarks * size, bandwidth * size)(rows * size)
    np.testing.assert_allclose(largest, reference, atol=1e-9)
    least = RadialValues(Gaussian(), landmarks * 1e-300, bandwidth * 1e-300)(rows * 1e-300)
    np.testing.assert_allclose(least, reference, atol=1e-9)
    denormal = RadialValues(Gaussian(), landmarks * 1e-310, bandwidth * 1e-310)(rows * 1e-310)
    assert np.isfinite(denormal).all()


@pytest.mark.parametrize(
    ("n", "dtype"), each_value([1, 127, 128, 129, 400], [np.float32, np.float64])
)
def test_whitening_solves_the_triangular_system(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    factor = np.tril(rng.normal(size=(n, n))) / np.sqrt(n) + 2.0 * np.eye(n)
    block = rng.normal(size=(30, n))
    solved = block.astype(dtype)
    Whitening(factor, dtype)(solved)
    expected = solve_triangular(factor, block.T, lower=True).T
    np.testing.assert_allclose(solved, expected, atol=2e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("rank", [1, 5, 30])
def test_pivoted_cholesky_keeps_representative_landmarks(rank: int) -> None:
    root = np.random.default_rng(rank).normal(size=(30, rank))
    gram = root @ root.T
    factor, kept = pivoted_cholesky(gram.copy(), 1e-10)
    assert factor.shape == (rank, rank) == (len(set(kept.tolist())),) * 2
    np.testing.assert_array_equal(factor, np.tril(factor))
    np.testing.assert_allclose(factor @ factor.T, gram[np.ix_(kept, kept)], atol=1e-9)
    cross = gram[:, kept]
    np.testing.assert_allclose(cross @ np.linalg.solve(factor @ factor.T, cross.T), gram, atol=1e-6)


@pytest.mark.parametrize(("n", "n_double"), [(1, 0), (1, 1), (200, 0), (200, 70), (400, 128)])
def test_mixed_whitening_solves_the_triangular_system(n: int, n_double: int) -> None:
    rng = np.random.default_rng(n)
    factor = np.tril(rng.normal(size=(n, n))) / np.sqrt(n) + 2.0 * np.eye(n)
    values, features = rng.normal(size=(30, n)), np.empty((30, n), np.float32)
    expected = solve_triangular(factor, values.T, lower=True).T
    whitening = MixedWhitening(factor, n_double)
    for a, b in ((0, 10), (10, 30)):
        whitening.begin(features[a:b], values[a:b])
    whitening.finish(features)
    np.testing.assert_allclose(features, expected, atol=2e3 * np.finfo(np.float32).eps)
    double = expected[:, :n_double].astype(np.float32)
    np.testing.assert_allclose(features[:, :n_double], double, rtol=1e-6)


def noise_in(features: Nystrom, X: NDArray[Any]) -> float:
    """Return the mean share of rounding in the squares of features of float32."""
    Z, wide = features.transform(X), features.transform(X.astype(np.float64))
    assert (Z.dtype, wide.dtype) == (np.float32, np.float64)
    noise = np.square(Z - wide).sum(axis=0)
    return float(np.mean(noise / (noise + np.square(wide).sum(axis=0))))


class Strict(Nystrom):
    max_noise = 0.0


@pytest.mark.parametrize(
    ("kernel", "bandwidth", "n_double"), [("laplacian", 3.0, 0), ("gaussian", 8.0, 128)]
)
def test_double_precision_is_used_if_rounding_matters(
    kernel: str, bandwidth: float, n_double: int
) -> None:
    X = some_rows(500, 8).astype(np.float32)
    template = Nystrom(kernel, bandwidth=bandwidth, n_components=400, random_state=0)
    features = template.fit(X)
    assert features.n_double_ == n_double
    assert noise_in(features, X) < 1e-3
    if n_double > 0:
        vars(features).pop("_cached_steps")
        features.n_double_ = 0
        assert noise_in(features, X) > 2e-3
    strict = Strict(**template.get_params()).fit(X)
    assert strict.n_double_ == len(strict.factor_)
    rounded = strict.transform(X.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(strict.transform(X), rounded, rtol=1e-5, atol=1e-12)


# Landmarks


def obvious_means(X: NDArray[Any], centres: NDArray[Any], bandwidth: NDArray[Any]) -> NDArray[Any]:
    for _ in range(3):
        labels = np.array([np.argmin(np.sum(((x - centres) / bandwidth) ** 2, 1)) for x in X])
        centres = np.array(
            [
                X[labels == k].mean(axis=0) if (labels == k).any() else c
                for k, c in enumerate(centres)
            ]
        )
    return centres


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_cluster_means_match_the_slow_implementation(kind: Callable[..., Any]) -> None:
    X = np.round(2.0 * some_rows(200))
    centres = np.concatenate([X[:15] + 0.25, np.full((1, 4), 1e3)])
    bandwidth = np.array([1.0, 2.0, np.inf, 0.3])
    result = cluster_means(kind(X), centres, bandwidth, 2)
    np.testing.assert_allclose(result, obvious_means(X, centres, bandwidth), atol=1e-12)
    np.testing.assert_array_equal(result[-1], 1e3)


def test_seeds_are_drawn_in_proportion_to_squared_distance() -> None:
    X = np.array([[0.0], [1.0], [2.0]])
    gram, counts = Gaussian().gram(X), np.zeros((3, 3))
    for k in range(3000):
        drawn = stream(k, "test")
        first, second = draw_spread_rows(X, source_of(Gaussian(), 1), 2, drawn, 1)
        counts[first, second] += 1
    squares = 2.0 - 2.0 * gram
    expected = 1000.0 * squares / squares.sum(axis=1, keepdims=True)
    assert (counts.diagonal() == 0.0).all()
    assert np.abs(counts - expected).max() < 4.0 * np.sqrt(1000.0 * 0.25)


def exact_leverage(gram: NDArray[Any], ridge: float) -> NDArray[Any]:
    return np.diag(np.linalg.solve(gram + ridge * np.eye(len(gram)), gram))


def test_leverage_is_exact_from_all_rows_and_never_too_low_from_some() -> None:
    X = clustered()[:200]
    gram, everyone = Gaussian().gram(X), np.arange(200)
    for sample in (everyone, everyone[::3]):
        chances = np.ones(len(sample))
        result = ridge_leverage_scores(X, source_of(Gaussian(), 3), everyone, sample, chances, 2)
        exact = exact_leverage(gram, _ridge(gram[np.ix_(sample, sample)], chances))
        if len(sample) == 200:
            np.testing.assert_allclose(result, exact, atol=1e-9)
        assert (result >= exact - 1e-9).all()


# Matrices


@pytest.mark.parametrize(("landmarks", "kernel"), each_value(LANDMARKS, ["gaussian", "laplacian"]))
def test_feature_matrix_equals_transform(landmarks: Any, kernel: str) -> None:
    X, new = some_rows(700), some_rows(90, seed=1)
    features = Nystrom(kernel, bandwidth=1.0, n_components=150, landmarks=landmarks)
    features.set_params(random_state=0)
    trained = features.fit_matrix(X)
    rng = np.random.default_rng(0)
    for rows, matrix in ((X, trained), (new, features.feature_matrix(new))):
        Z = features.transform(rows)
        np.testing.assert_allclose(matrix.tocsr().toarray(), Z, atol=1e-4)
        assert matrix.shape == Z.shape
        v = rng.normal(size=(len(rows), 2))
        np.testing.assert_allclose(matrix.rmatvec(v), Z.T @ v, atol=1e-3)
    assert features.feature_matrix(new).dtype == np.float32


@pytest.mark.parametrize("tail", [(), (1,), (3,), (0,)])
def test_predictions_need_kernel_values_only(tail: tuple[int, ...]) -> None:
    X, new = some_rows(300), some_rows(700, seed=1)
    features = Nystrom(n_components=100, random_state=0).fit(X)
    matrix, Z = features.feature_matrix(new), features.transform(new)
    assert isinstance(matrix, LandmarkMatrix)
    w = np.random.default_rng(0).normal(size=(Z.shape[1], *tail))
    out = np.empty((700, *tail))
    assert matrix.matvec(w, out=out) is out
    np.testing.assert_allclose(out, Z @ w, atol=1e-9)
    forgetful = LandmarkMatrix(new, features)
    forgetful.max_cached_values = 10
    assert forgetful.matvec(w).tobytes() == matrix.matvec(w).tobytes()
    with pytest.raises(InputError, match="rows"):
        matrix.matvec(np.ones(3))


@pytest.mark.parametrize(("landmarks", "kernel"), each_value(LANDMARKS, ["gaussian", "laplacian"]))
def test_number_of_threads_does_not_change_features(landmarks: Any, kernel: str) -> None:
    X = some_rows(2500)
    w = np.random.default_rng(0).normal(size=(120, 2))
    distinct = set()
    for n_jobs in (1, 2, 3):
        features = Nystrom(kernel, n_components=120, landmarks=landmarks, random_state=0)
        matrix = features.set_params(n_jobs=n_jobs).fit_matrix(X)
        w = w[: matrix.shape[1]]
        arrays = (
            features.landmarks_,
            features.factor_,
            features.transform(X),
            matrix.matvec(w),
            features.feature_matrix(X).matvec(w),
        )
        distinct.add(tuple(array.tobytes() for array in arrays))
    assert len(distinct) == 1


# What it accepts


@pytest.mark.parametrize(("landmarks", "kind"), each_value(LANDMARKS, [np.asarray, sp.csr_array]))
def test_precomputed_gram_matrices_are_accepted(landmarks: Any, kind: Callable[..., Any]) -> None:
    X, new = some_rows(), some_rows(20, seed=1)
    gram, cross = Matern().gram(X), Matern().gram(new, X)
    given = Nystrom("precomputed", n_components=30, landmarks=landmarks, random_state=0)
    Z = given.fit(kind(gram)).transform(kind(cross))
    np.testing.assert_array_equal(given.landmarks_, given.indices_)
    among = gram[np.ix_(given.indices_, given.indices_)]
    taken = cross[:, given.indices_]
    np.testing.assert_allclose(Z @ Z.T, taken @ np.linalg.solve(among, taken.T), atol=1e-8)
    assert given.__sklearn_tags__().input_tags.pairwise
    if landmarks != "kmeans":
        known = Nystrom("matern", bandwidth=1.0, n_components=30, landmarks=landmarks)
        known.set_params(random_state=0).fit(X)
        np.testing.assert_array_equal(known.indices_, given.indices_)
        np.testing.assert_allclose(known.transform(new), Z, atol=1e-8)


def test_precomputed_rejects_unsupported_options() -> None:
    gram = np.eye(4)
    with pytest.raises(InputError, match="square"):
        Nystrom("precomputed").fit(gram[:3])
    with pytest.raises(InputError, match="diagonal"):
        Nystrom("precomputed").fit(np.zeros((4, 4)))
    for wrong in ({"bandwidth": 2.0}, {"categorical": [0]}):
        with pytest.raises(InputError, match="leave out"):
            Nystrom("precomputed", **wrong).fit(gram)
    with pytest.raises(KernelError, match="only its values"):
        Precomputed().profile(np.zeros(1))
    assert GivenKernel().diagonal(sp.csr_array(gram)).tolist() == [1.0] * 4


@pytest.mark.parametrize(("landmarks", "kernel"), each_value(LANDMARKS, ["gaussian", "laplacian"]))
def test_sparse_rows_have_the_features_of_dense_ones(landmarks: Any, kernel: str) -> None:
    X = np.maximum(some_rows(200, 6), 0.0)
    new = np.maximum(some_rows(30, 6, seed=1), 0.0)
    features = Nystrom(kernel, bandwidth=2.0, n_components=40, landmarks=landmarks, random_state=0)
    expected = features.fit(X).transform(new)
    for fitted_to in (sp.csr_array(X), sp.csr_matrix(X)):
        features.fit(fitted_to)
        np.testing.assert_allclose(features.transform(sp.csr_array(new)), expected, atol=1e-6)
        np.testing.assert_allclose(features.transform(new), expected, atol=1e-6)


@pytest.mark.parametrize(("landmarks", "kind"), each_value(LANDMARKS, [np.asarray, sp.csr_array]))
def test_categories_have_the_exact_kernel(landmarks: Any, kind: Callable[..., Any]) -> None:
    X = some_rows(120, 3)
    X[:, 1] = np.random.default_rng(0).integers(0, 4, 120)
    features = Nystrom("laplacian", bandwidth=2.0, categorical=[1], landmarks=landmarks)
    Z = features.set_params(n_components=120).fit(kind(X)).transform(kind(X))
    mask = np.array([False, True, False])
    exact = Laplacian().gram(X, bandwidth=2.0, categorical=mask)
    np.testing.assert_allclose(Z @ Z.T, exact, atol=1e-6)
    features.set_params(n_components=30).fit(kind(X))
    assert set(features.landmarks_[:, 1]) <= {0.0, 1.0, 2.0, 3.0}
    assert features.indices_ is not None


@any_landmarks
def test_few_and_equal_rows_have_the_kernel(landmarks: Any) -> None:
    features = Nystrom(n_components=30, landmarks=landmarks, random_state=0)
    for X in (np.ones((1, 2)), np.ones((30, 2)), np.repeat(some_rows(3, 2), 20, axis=0)):
        Z = features.fit(X).transform(X)
        expected = Gaussian().gram(X, bandwidth=features.bandwidth_)
        np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-6)
        assert Z.shape[1] == len(np.unique(X, axis=0))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"n_components": 0}, "n_components"),
    ({"n_components": 2.5}, "n_components"),
    ({"n_components": True}, "n_components"),
    ({"landmarks": "corners"}, "landmarks"),
    ({"bandwidth": "mean"}, "bandwidth"),
    ({"bandwidth": -1.0}, "bandwidth"),
    ({"kernel": "no such"}, "kernel"),
    ({"categorical": [9]}, "categorical"),
]


def test_invalid_parameters_are_rejected() -> None:
    for wrong, named in REFUSED:
        with pytest.raises((InputError, KernelError), match=named):
            Nystrom(**wrong).fit(some_rows())


def test_cached_predictions_are_not_reused_for_other_weights() -> None:
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(100, 3)), rng.normal(size=(1, 3))
    nystrom = Nystrom(bandwidth=2.0, n_components=30, random_state=0)
    for given in (rows, 2.0 * rows):
        nystrom.fit(given)
        n_columns = nystrom.n_features_out
        for weights in (rng.normal(size=n_columns), rng.normal(size=(n_columns, 2))):
            for factors in (weights, weights, -weights):
                result = nystrom.rows_matrix(new).matvec(factors)
                np.testing.assert_allclose(result, nystrom.transform(new) @ factors, atol=1e-9)
    assert "_cached_coefficients" not in nystrom.__getstate__()


def test_rounded_factor_gives_equally_good_features() -> None:
    rows = some_rows()
    nystrom = Nystrom(bandwidth=2.0, n_components=60, random_state=0).fit(rows)
    before, n_bytes = nystrom.transform(rows), len(pickle.dumps(nystrom))
    nystrom.round_factor()
    assert (nystrom.factor_ == nystrom.factor_.astype(np.float32)).all()
    result = nystrom.transform(rows)
    assert not np.array_equal(result, before)
    np.testing.assert_allclose(result @ result.T, before @ before.T, atol=1e-4)
    copied = pickle.loads(pickle.dumps(nystrom))
    np.testing.assert_array_equal(copied.transform(rows), result)
    assert len(pickle.dumps(nystrom)) < n_bytes
