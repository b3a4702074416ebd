"""Independent blocks: the partition, the kernel within it, and prediction by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from gramless.base.errors import InputError, KernelError
from gramless.kernels import Gaussian, Laplacian, Matern
from studies.baselines.block_diagonal import BlockDiagonalMatrix
from studies.baselines.blocks import PARTITIONS, IndependentBlocks, Metric, Tree

any_partition = pytest.mark.parametrize("partition", PARTITIONS)


def some_rows(n_rows: int = 300, n_inputs: int = 3, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(n_rows, n_inputs))


def block_of(matrix: BlockDiagonalMatrix) -> NDArray[np.intp]:
    block = np.full(matrix.shape[0], -1)
    for k, (rows, _, _) in enumerate(matrix.diagonal_blocks()):
        block[rows] = k
    return block


# The kernel


@any_partition
def test_the_kernel_within_blocks_and_nothing_between(partition: Any) -> None:
    kernel = Matern(2.5)
    X, new = some_rows(), some_rows(80, seed=1)
    features = IndependentBlocks(kernel, bandwidth=2.0, block_rows=40, partition=partition)
    trained = features.set_params(random_state=0).fit_matrix(X)
    other = features.feature_matrix(new)
    own, of_new = block_of(trained), block_of(other)
    within = own[:, None] == own
    exact = np.where(within, kernel.gram(X, bandwidth=2.0), 0.0)
    np.testing.assert_allclose(trained.row_gram(), exact, atol=5e-7)
    cross = np.where(of_new[:, None] == own, kernel.gram(new, X, bandwidth=2.0), 0.0)
    dense = trained.tocsr().toarray()
    np.testing.assert_allclose(other.tocsr().toarray() @ dense.T, cross, atol=5e-7)
    assert len(set(own.tolist())) == 8


@any_partition
def test_ridge_is_kernel_ridge_in_each_block(partition: Any) -> None:
    X, new = some_rows(), some_rows(50, seed=1)
    y, alpha = np.sin(2.0 * X).sum(axis=1), 1e-2
    features = IndependentBlocks(bandwidth=1.5, block_rows=60, partition=partition, random_state=0)
    trained = features.fit_matrix(X)
    weights = np.empty(trained.shape[1])
    for rows, columns, block in trained.diagonal_blocks():
        Z = block.astype(np.float64)
        ridge = alpha * np.eye(Z.shape[1])
        weights[columns] = np.linalg.solve(Z.T @ Z + ridge, Z.T @ y[rows])
    matrix, expected, own = features.feature_matrix(new), np.zeros(50), block_of(trained)
    for k, (rows, _, _) in enumerate(matrix.diagonal_blocks()):
        among = Gaussian().gram(X[own == k], bandwidth=1.5)
        dual = np.linalg.solve(among + alpha * np.eye(len(among)), y[own == k])
        expected[rows] = Gaussian().gram(new[rows], X[own == k], bandwidth=1.5) @ dual
    np.testing.assert_allclose(matrix.matvec(weights), expected, atol=1e-4)


@any_partition
def test_all_ways_to_the_features_agree(partition: Any) -> None:
    X = some_rows()
    features = IndependentBlocks("laplacian", block_rows=50, partition=partition, random_state=0)
    trained = features.fit_matrix(X)
    again = features.feature_matrix(X)
    assert isinstance(again, BlockDiagonalMatrix)
    np.testing.assert_array_equal(block_of(trained), block_of(again))
    np.testing.assert_array_equal(trained.tocsr().toarray(), again.tocsr().toarray())
    np.testing.assert_allclose(features.transform(X), again.tocsr().toarray(), atol=1e-7)
    assert features.transform(X.astype(np.float32)).dtype == np.float32


# The partition


@any_partition
def test_blocks_are_even(partition: Any) -> None:
    for n_rows, block_rows in ((1, 1), (7, 1), (100, 100), (101, 100), (333, 40)):
        features = IndependentBlocks(block_rows=block_rows, partition=partition, random_state=0)
        matrix = features.fit_matrix(some_rows(n_rows))
        sizes = [len(rows) for rows, _, _ in matrix.diagonal_blocks()]
        assert sum(sizes) == n_rows
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= block_rows
        assert len(sizes) == 1 or max(sizes) > block_rows / 2 - 1


@any_partition
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_row_arrives_at_one_block_whatever_is_beside_it(
    kind: Callable[..., Any], partition: Any
) -> None:
    X = np.repeat(np.round(4.0 * some_rows(200)), 2, axis=0)
    metric = Metric(np.array([1.0, 0.5, np.inf]), np.zeros(3, bool))
    tree, leaves = Tree.grow(kind(X), 3, metric, partition, seed=0)
    arrived = np.empty(400, int)
    for k, rows in enumerate(leaves):
        arrived[rows] = k
    np.testing.assert_array_equal(arrived[::2], arrived[1::2])
    for some in (slice(0, 1), slice(17, 20), slice(None, None, 7)):
        for k, rows in enumerate(tree.leaves(kind(X[some]))):
            assert (arrived[some][rows] == k).all()


def test_clusters_stay_together() -> None:
    places = 100.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]])
    X = np.repeat(places, 50, axis=0) + some_rows(200, 2)
    for partition in PARTITIONS:
        features = IndependentBlocks(block_rows=50, partition=partition)
        blocks = [
            block_of(features.set_params(random_state=seed).fit_matrix(X)).reshape(4, 50)
            for seed in range(10)
        ]
        assert np.mean([len(set(own.tolist())) for block in blocks for own in block]) < 1.5


def kept(partition: Any, X: NDArray[Any]) -> float:
    """Return the share of the kernel that is within blocks, on average."""
    features, shares = IndependentBlocks(bandwidth=1.0, block_rows=50, partition=partition), []
    for seed in range(5):
        block = block_of(features.set_params(random_state=seed).fit_matrix(X))
        gram = Gaussian().gram(X)
        shares.append(gram[block[:, None] == block].sum() / gram.sum())
    return float(np.mean(shares))


def test_blocks_keep_near_rows_together_and_means_do_it_better() -> None:
    X = some_rows(400)
    by_chance = 1.0 / 8.0
    assert 2.0 * by_chance < kept("random", X) < kept("kmeans", X)


def test_ties_do_not_leave_a_half_empty() -> None:
    X = np.repeat([[0.0], [1.0], [2.0], [3.0]], [70, 10, 10, 10], axis=0)
    matrix = IndependentBlocks(block_rows=50, bandwidth=1.0, random_state=0).fit_matrix(X)
    sizes = [len(rows) for rows, _, _ in matrix.diagonal_blocks()]
    assert sorted(sizes) == [30, 70]
    assert sorted(b.shape[1] for _, _, b in matrix.diagonal_blocks()) == [1, 3]


def test_sparse_rows_without_inputs_in_common_are_parted_evenly() -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(400, 1000, density=0.01, random_state=rng))
    matrix = IndependentBlocks(block_rows=100, random_state=0).fit_matrix(X)
    sizes = [len(rows) for rows, _, _ in matrix.diagonal_blocks()]
    assert min(sizes) == max(sizes) == 100


def test_sparse_rows_that_do_not_fit_into_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAMLESS_MEMORY_LIMIT", "8e6")
    X = sp.csr_array(sp.random(100, 20_000, density=0.01, random_state=0))
    with pytest.raises(InputError, match="all their zeros"):
        IndependentBlocks().fit(X)
    IndependentBlocks().fit(X[:, :1000])


def test_equal_rows_are_one_block_of_one_column() -> None:
    matrix = IndependentBlocks(block_rows=10, random_state=0).fit_matrix(np.ones((100, 2)))
    assert matrix.shape == (100, 1)
    np.testing.assert_allclose(matrix.row_gram(), 1.0)


class SmallBlocks(IndependentBlocks):
    most_landmarks = 50


def test_rows_that_cannot_be_parted_are_refused() -> None:
    X = np.arange(500.0)[:, None]
    with pytest.raises(InputError, match="equally near"):
        SmallBlocks(block_rows=10, categorical=[0], random_state=0).fit(X)


@any_partition
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_categories(kind: Callable[..., Any], partition: Any) -> None:
    X = 0.01 * some_rows(200, 2)
    X[:, 1] = np.random.default_rng(0).integers(0, 2, 200)
    features = IndependentBlocks(
        "laplacian", bandwidth=0.1, categorical=[1], block_rows=100, partition=partition
    )
    matrix = features.set_params(random_state=0).fit_matrix(kind(X))
    block, mask = block_of(matrix), np.array([False, True])
    exact = Laplacian().gram(X, bandwidth=0.1, categorical=mask)
    exact[block[:, None] != block] = 0.0
    np.testing.assert_allclose(matrix.row_gram(), exact, atol=5e-7)
    assert set(features.centres_[..., 1].ravel().tolist()) <= {0.0, 1.0}
    if partition == "kmeans":
        purer = np.mean(block == X[:, 1])
        assert max(purer, 1.0 - purer) > 0.85


def test_distances_are_those_of_the_categories_and_the_bandwidth() -> None:
    metric = Metric(np.array([2.0, 4.0, np.inf]), np.array([False, True, False]))
    X = np.array([[1.0, 3.0, 9.0], [4.0, 5.0, -9.0], [0.0, 3.0, 0.0]])
    first, second = np.array([0.0, 3.0, 1.0]), np.array([2.0, 5.0, 7.0])
    squares = [metric.squares(X, point) for point in (first, second)]
    np.testing.assert_allclose(squares[0], [1.0, 16.25, 0.0])
    leaning = metric.leaning(X, first, second)
    gaps = squares[0] - squares[1]
    np.testing.assert_allclose(np.diff(leaning), np.diff(gaps))
    np.testing.assert_allclose(
        metric.leaning(sp.csr_array(X), first, second) - leaning,
        [metric.leaning(sp.csr_array(X), first, second)[0] - leaning[0]] * 3,
    )


def test_enormous_rows_do_no_harm() -> None:
    X = some_rows(60)
    X[7], X[8] = 1e200, -1e200
    matrix = IndependentBlocks(bandwidth=1.0, block_rows=10, random_state=0).fit_matrix(X)
    np.testing.assert_allclose(np.diag(matrix.row_gram()), 1.0, atol=1e-6)


# What it accepts


@any_partition
def test_threads_change_no_bit(partition: Any) -> None:
    X, seen = some_rows(900), set()
    for n_jobs in (1, 2, 3):
        features = IndependentBlocks(
            block_rows=100, partition=partition, random_state=0, n_jobs=n_jobs
        )
        w = np.linspace(-1.0, 1.0, features.fit_matrix(X).shape[1])
        arrays = (
            features.factors_,
            features.landmarks_,
            features.transform(X),
            features.feature_matrix(X).matvec(w),
        )
        seen.add(tuple(array.tobytes() for array in arrays))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"block_rows": 2.5}, "block_rows"),
        ({"partition": "rows"}, "partition"),
        ({"kernel": "precomputed"}, "kernel"),
    ],
)
def test_parameters_that_cannot_be_used(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises((InputError, KernelError), match=named):
        IndependentBlocks(**wrong).fit(some_rows())


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        IndependentBlocks().feature_matrix(some_rows())
