"""Leading singular vectors: the same as NumPy's, with the residuals that they claim."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.transformed import CentredMatrix, RowScaledMatrix
from gramless.unsupervised.lanczos import SingularTriplets


def bins(n_rows=300, n_jobs=None):
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    binning = RandomBinning(n_grids=16, bandwidth=2.0, random_state=0, n_jobs=n_jobs)
    return binning.fit_matrix(X)


def with_values(values, n_rows=120, n_columns=80):
    rng = np.random.default_rng(1)
    left, _ = np.linalg.qr(rng.normal(size=(n_rows, len(values))))
    right, _ = np.linalg.qr(rng.normal(size=(n_columns, len(values))))
    return DenseMatrix((left * values) @ right.T)


MATRICES = {
    "bins": bins,
    "centred": lambda: CentredMatrix(bins(), bins().rmatvec(np.full(300, 1 / 300))),
    "scaled": lambda: RowScaledMatrix(bins(), np.linspace(0.5, 2.0, 300)),
    "dense": lambda: DenseMatrix(np.random.default_rng(2).normal(size=(60, 400))),
    "slow": lambda: with_values(np.linspace(1.0, 0.7, 80)),
    "repeated": lambda: with_values(np.array([3.0, 2.0, 2.0, 2.0, 1.0, 0.5])),
    "tiny": lambda: DenseMatrix(np.random.default_rng(3).normal(size=(7, 5))),
}


def test_singular_vectors_match_numpy():
    for make in MATRICES.values():
        matrix, k = make(), 4
        dense = matrix.toarray()
        result = SingularTriplets.of(matrix, k, tol=1e-7, max_iter=500)
        u, values, vt = np.linalg.svd(dense, full_matrices=False)
        assert result.converged
        np.testing.assert_allclose(result.singular_values, values[:k], rtol=1e-10)
        best = (u[:, :k] * values[:k]) @ vt[:k]
        mine = (result.left * result.singular_values) @ result.right.T
        np.testing.assert_allclose(mine, best, atol=1e-5 * values[0])
        for vectors in (result.left, result.right):
            np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)


def test_residuals_meet_the_tolerance():
    for make in MATRICES.values():
        matrix, tol = make(), 1e-3
        dense = matrix.toarray()
        result = SingularTriplets.of(matrix, 3, tol=tol, max_iter=500)
        largest = result.singular_values[0]
        back = dense.T @ result.left - result.right * result.singular_values
        forth = dense @ result.right - result.left * result.singular_values
        inexact, exact = (back, forth) if dense.shape[0] >= dense.shape[1] else (forth, back)
        lengths = np.linalg.norm(inexact, axis=0) / largest
        assert (lengths <= tol + 1e-13).all()
        np.testing.assert_allclose(result.residuals, lengths, rtol=1e-4, atol=1e-13)
        np.testing.assert_allclose(exact, 0.0, atol=1e-13 * largest)


def test_looser_tolerance_takes_fewer_products():
    matrix = MATRICES["slow"]()
    loose, tight = (SingularTriplets.of(matrix, 3, tol=tol).n_iter for tol in (1e-1, 1e-6))
    assert 1 <= loose < tight


def test_exhausted_iterations_are_not_converged():
    result = SingularTriplets.of(MATRICES["slow"](), 3, tol=1e-8, max_iter=2)
    assert not result.converged
    assert result.n_iter == 2
    assert result.residuals.max() > 1e-8


class RoughInSingle(DenseMatrix):
    """A matrix that is another one in single precision."""

    def to_single(self):
        noise = np.random.default_rng(4).normal(size=self.shape)
        return DenseMatrix(self.toarray() + 1e-3 * noise)


def test_rough_single_precision_is_followed_by_exact_products():
    for shape in [(150, 80), (80, 150)]:
        rows = with_values(np.linspace(1.0, 0.5, 80), *shape).toarray()
        rough, exact = (
            SingularTriplets.of(kind(rows), 3, tol=1e-4) for kind in (RoughInSingle, DenseMatrix)
        )
        assert rough.converged
        assert rough.residuals.max() <= 1e-4
        assert rough.n_iter > exact.n_iter
        np.testing.assert_allclose(rough.singular_values, exact.singular_values, rtol=1e-6)


def test_few_distinct_rows_have_a_low_rank():
    rows = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], [500, 300, 3], axis=0)
    matrix = RandomBinning(n_grids=64, bandwidth=1.0, random_state=0).fit_matrix(rows)
    result = SingularTriplets.of(matrix, 5)
    exact = np.linalg.svd(matrix.toarray(), compute_uv=False)
    assert result.converged
    np.testing.assert_allclose(result.singular_values, exact[:3], rtol=1e-7)


def test_few_rows_of_many_columns_match_numpy():
    for seed in [0, 20, 26, 36, 45, 62]:
        # Rounding errors in single precision are no further directions of a small space.
        rng = np.random.default_rng(seed)
        rows = np.round(rng.normal(size=(rng.integers(2, 12), 3)) * 10.0 ** rng.integers(0, 3))
        widths = float(rng.choice([0.3, 3.0]))
        binning = RandomBinning(n_grids=1024, bandwidth=widths, random_state=0)
        matrix = binning.fit_matrix(rows)
        exact = np.linalg.svd(matrix.toarray(), compute_uv=False)
        for k in range(1, len(rows) + 1):
            result = SingularTriplets.of(matrix, k, seed=seed).singular_values
            np.testing.assert_allclose(result, exact[: len(result)], atol=1e-5 * exact[0])
            assert (exact[len(result) : k] < 1e-6 * exact[0]).all()


def test_low_rank_gives_fewer_components():
    for rank in [0, 1, 3]:
        result = SingularTriplets.of(with_values(np.arange(rank, 0, -1.0)), 5)
        np.testing.assert_allclose(result.singular_values, np.arange(rank, 0, -1.0))
        assert result.converged
        assert result.left.shape == (120, rank)
        assert result.right.shape == (80, rank)


def test_number_of_threads_does_not_change_vectors():
    one, two = (SingularTriplets.of(bins(9000, n_jobs), 3) for n_jobs in (1, 2))
    assert one.left.tobytes() == two.left.tobytes()
    assert one.right.tobytes() == two.right.tobytes()


def test_invalid_numbers_of_components_are_rejected():
    for n_components in [0, 6]:
        with pytest.raises(InputError, match="from 1 to 5"):
            SingularTriplets.of(MATRICES["tiny"](), n_components)
