"""Products of whitened kernel values, without whitening them, against the whitened ones."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones
from gramless.matrices.transformed import WhitenedMatrix

N_ROWS, N = 300, 40
TAILS = [(), (1,), (3,)]


def parts() -> tuple[WhitenedMatrix, np.ndarray]:
    """Return a matrix and its numbers."""
    random = np.random.default_rng(0)
    values, factor = random.normal(size=(N_ROWS, N)), 0.1 * np.tril(random.normal(size=(N, N)))
    factor[np.diag_indices(N)] = 1.0 + random.random(N)
    reference = np.linalg.solve(factor, values.T).T
    return WhitenedMatrix(DenseMatrix(values), factor), reference


@pytest.mark.parametrize("tail", TAILS)
def test_products_match_the_dense_matrix(tail: tuple[int, ...]) -> None:
    matrix, reference = parts()
    random = np.random.default_rng(1)
    w, v = random.normal(size=(N, *tail)), random.normal(size=(N_ROWS, *tail))
    assert matrix.shape == reference.shape
    for product, expected in ((matrix.matvec, reference @ w), (matrix.rmatvec, reference.T @ v)):
        given = w if expected.shape[0] == N_ROWS else v
        out = np.empty(expected.shape)
        assert product(given, out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_array_equal(product(given), out)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("ones", [False, True])
def test_pull_back_sees_all_rows_once(tail: tuple[int, ...], ones: bool) -> None:
    inner, reference = parts()
    matrix = with_ones(inner) if ones else inner
    reference = np.column_stack([reference, np.ones(N_ROWS)]) if ones else reference
    w = np.random.default_rng(2).normal(size=(reference.shape[1], *tail))
    expected = reference.T @ np.sin(reference @ w)
    result = matrix.pull_back(w, lambda rows, responses: np.sin(responses))
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_invalid_operands_are_rejected() -> None:
    matrix, _ = parts()
    with pytest.raises(InputError, match="w must have 40 rows"):
        matrix.matvec(np.ones(41))
    with pytest.raises(InputError, match="v must have 300 rows"):
        matrix.rmatvec(np.ones(41))
