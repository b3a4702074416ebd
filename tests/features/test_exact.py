"""Features whose inner products are the kernel, and fits on them that are kernel machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError, KernelError
from gramless.features.exact import ExactKernel
from gramless.features.nystrom import Nystrom
from gramless.kernels import Gaussian, InversePower, Kernel, Laplacian, Matern, Scaled, Sum

KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian(),
    "laplacian": Laplacian(),
    "matern_0.5": Matern(0.5),
    "matern_2.5": Matern(2.5),
    "inverse_power": InversePower(2.0),
    "sum": Sum([Gaussian(), Scaled(Laplacian(), 2.0)], [1.0, 2.0]),
}
BANDWIDTH = np.array([1.0, 2.0, np.inf, 1.5])

any_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def some_rows(n_rows: int = 150, n_inputs: int = 4, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(n_rows, n_inputs))


@any_kernel
def test_inner_products_are_the_kernel(kernel: Kernel) -> None:
    X, new = some_rows(), some_rows(40, seed=1)
    features = ExactKernel(kernel, bandwidth=BANDWIDTH)
    matrix = features.fit_matrix(X)
    Z, Z_new = features.transform(X), features.transform(new)
    exact = kernel.gram(X, bandwidth=BANDWIDTH)
    np.testing.assert_allclose(matrix.row_gram(), exact, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(Z @ Z.T, exact, rtol=0.0, atol=1e-10)
    cross = kernel.gram(new, X, bandwidth=BANDWIDTH)
    np.testing.assert_allclose(Z_new @ Z.T, cross, rtol=0.0, atol=1e-10)
    assert (matrix.dtype, features.feature_matrix(new).dtype) == (np.float64, np.float64)


@pytest.mark.parametrize("bandwidth", [0.1, 3.0, 30.0])
def test_smooth_kernels_need_fewer_columns(bandwidth: float) -> None:
    X = some_rows(200, 2)
    features = ExactKernel(bandwidth=bandwidth)
    matrix = features.fit_matrix(X)
    exact = Gaussian().gram(X, bandwidth=bandwidth)
    np.testing.assert_allclose(matrix.row_gram(), exact, rtol=0.0, atol=1e-10)
    assert (matrix.shape[1] == 200) == (bandwidth == 0.1)
    assert len(features.indices_) == len(features.landmarks_) == matrix.shape[1]
    np.testing.assert_array_equal(X[features.indices_], features.landmarks_)


def test_equal_rows_share_features_and_count_once() -> None:
    X = some_rows()
    X[100:], X[:, 2] = X[:50], 5.0
    features = ExactKernel("laplacian")
    Z = features.fit_matrix(X).tocsr().toarray()
    np.testing.assert_allclose(Z[100:], Z[:50], atol=1e-12)
    assert Z.shape[1] == 100


def test_ridge_on_features_is_kernel_ridge() -> None:
    kernel = Matern(2.5)
    X, new = some_rows(), some_rows(30, seed=1)
    y = np.sin(X).sum(axis=1)
    features = ExactKernel(kernel, bandwidth=3.0)
    matrix, alpha = features.fit_matrix(X), 1e-3
    Z = matrix.tocsr().toarray()
    weights = np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ y)
    dual = np.linalg.solve(kernel.gram(X, bandwidth=3.0) + alpha * np.eye(150), y)
    expected = kernel.gram(new, X, bandwidth=3.0) @ dual
    np.testing.assert_allclose(features.feature_matrix(new).matvec(weights), expected, atol=1e-6)
    np.testing.assert_allclose(features.transform(new) @ weights, expected, atol=1e-6)


def test_number_of_threads_does_not_change_features() -> None:
    X, distinct = some_rows(1100), set()
    for n_jobs in (1, 2, 3):
        features = ExactKernel("laplacian", random_state=0, n_jobs=n_jobs)
        matrix = features.fit_matrix(np.concatenate([X, X[:200]]))
        w = np.linspace(-1.0, 1.0, matrix.shape[1])
        products = matrix.matvec(w), features.feature_matrix(X).matvec(w), features.transform(X[:9])
        distinct.add(tuple(array.tobytes() for array in (features.factor_, *products)))
    assert len(distinct) == 1


def test_too_many_rows_are_rejected_with_advice() -> None:
    for rows, limit in ((some_rows(31), 30), (sp.csr_array(some_rows(31)), 30)):
        with pytest.raises(InputError, match=r"31 rows.*30.*Nystrom.*RandomFourier.*RandomBinning"):
            ExactKernel(max_rows=limit).fit(rows)
    with pytest.raises(InputError, match="20,001 rows"):
        ExactKernel(bandwidth=1.0).fit(np.zeros((20_001, 1)))
    ExactKernel(max_rows=31).fit(some_rows(31))


def test_sketch_has_the_same_kernel() -> None:
    exact = ExactKernel(
        Matern(0.5), bandwidth=[1.0, 2.0], categorical=[1], random_state=3, n_jobs=1
    )
    sketch = exact.sketch(64)
    assert isinstance(sketch, Nystrom)
    shared = {"kernel", "bandwidth", "categorical", "random_state", "n_jobs"}
    for name in shared:
        assert getattr(sketch, name) == getattr(exact, name)
    assert (sketch.n_components, exact.sketch(10**9).n_components) == (64, 20_000)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_precomputed_gram_matrices_are_accepted(kind: Callable[..., Any]) -> None:
    X, new = some_rows(), some_rows(20, seed=1)
    gram, cross = Matern().gram(X), Matern().gram(new, X)
    features = ExactKernel("precomputed")
    matrix = features.fit_matrix(kind(gram))
    np.testing.assert_allclose(matrix.row_gram(), gram, atol=1e-10)
    Z = matrix.tocsr().toarray()
    np.testing.assert_allclose(features.transform(kind(cross)) @ Z.T, cross, atol=1e-10)
    before = gram.copy()
    features.fit(gram)
    np.testing.assert_array_equal(gram, before)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_categories_and_sparse_rows_have_the_kernel(kind: Callable[..., Any]) -> None:
    X = np.maximum(some_rows(120, 3), 0.0)
    X[:, 1] = np.random.default_rng(0).integers(0, 4, 120)
    Z = ExactKernel("laplacian", bandwidth=2.0, categorical=[1]).fit_transform(kind(X))
    mask = np.array([False, True, False])
    exact = Laplacian().gram(X, bandwidth=2.0, categorical=mask)
    np.testing.assert_allclose(Z @ Z.T, exact, atol=1e-10)


def test_few_rows_and_equal_rows_have_the_kernel() -> None:
    for X in (np.ones((1, 2)), np.ones((20, 2)), np.array([[1], [2], [2]])):
        features = ExactKernel(bandwidth=1.0)
        gram = features.fit_matrix(X).row_gram()
        np.testing.assert_allclose(gram, Gaussian().gram(X), atol=1e-12)
        assert features.n_features_out == len(np.unique(X, axis=0))


def test_invalid_parameters_are_rejected() -> None:
    wrong: dict[str, Any] = {"max_rows": 1.5, "kernel": "no such"}
    for name, value in wrong.items():
        with pytest.raises((InputError, KernelError), match=name):
            ExactKernel(**{name: value}).fit(some_rows())
