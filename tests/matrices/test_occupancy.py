"""The rows that bins hold, against their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.occupancy import fullest_shares


@pytest.fixture
def binned(matrix):
    if not isinstance(matrix, BinnedMatrix):
        pytest.skip("only grids have bins")
    return matrix


def shares_by_hand(dense, n_bins):
    """Definition 1 written out on the dense matrix, grid by grid."""
    edges = np.concatenate([[0], np.cumsum(n_bins)])
    return np.array(
        [
            max(((dense[:, b] != 0).sum() / len(dense) for b in range(*edge)), default=0.0)
            for edge in pairwise(edges)
        ]
    )


def test_shares_are_those_of_the_dense_matrix(binned, dense):
    if len(dense) == 0:
        with pytest.raises(InputError, match="at least one row"):
            fullest_shares(binned)
        return
    expected = shares_by_hand(dense, np.diff(binned.offsets))
    np.testing.assert_array_equal(fullest_shares(binned), expected)


def test_one_pass_serves_any_scale():
    codes = np.array([[1, 2, 1, 1]], np.uint8)
    small = BinnedMatrix(codes, np.array([0, 2]), scale=1e-200)
    assert fullest_shares(small) == [0.75]
