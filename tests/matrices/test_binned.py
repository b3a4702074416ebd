"""What only a binned matrix has: codes, offsets, a scale and an equal SciPy matrix."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gramless.base.errors import InputError
from gramless.matrices.binned import BinnedMatrix, fullest_shares
from gramless.matrices.codes import TaskSizes

from .samples import BINS, over

CODES = np.array([[1, 2, 1, 3], [1, 1, 2, 1]], np.uint8)
OFFSETS = np.array([0, 3, 5])


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint64, np.float32, bool])
def test_codes_of_another_type_are_rejected(dtype):
    with pytest.raises(InputError, match=np.dtype(dtype).name):
        BinnedMatrix(CODES.astype(dtype), OFFSETS)


@pytest.mark.parametrize("shape", [(8,), (2, 2, 2)])
def test_codes_of_another_dimension_are_rejected(shape):
    with pytest.raises(InputError, match=f"{len(shape)}-D"):
        BinnedMatrix(CODES.reshape(shape), OFFSETS)


@pytest.mark.parametrize("offsets", [[0, 5], [0, 3, 5, 6], [[0, 3, 5]]])
def test_offsets_of_another_length_are_rejected(offsets):
    with pytest.raises(InputError, match="3 offsets"):
        BinnedMatrix(CODES, np.array(offsets))


def test_scale_makes_rows_of_unit_length_unless_given():
    assert BinnedMatrix(CODES, OFFSETS).scale == 1 / np.sqrt(2)
    np.testing.assert_allclose(np.linalg.norm(BinnedMatrix(CODES, OFFSETS).toarray(), axis=1), 1.0)
    assert BinnedMatrix(CODES, OFFSETS, scale=3).scale == 3.0
    assert not BinnedMatrix(CODES, OFFSETS, scale=0).toarray().any()


def test_unseen_bins_are_found():
    assert not BinnedMatrix(CODES, OFFSETS).has_unseen
    unseen = CODES.copy()
    unseen[1, 3] = 0
    assert BinnedMatrix(unseen, OFFSETS).has_unseen
    assert BinnedMatrix(CODES, OFFSETS, has_unseen=True).has_unseen


def test_has_unseen_does_not_change_products():
    plain = BinnedMatrix(CODES, OFFSETS)
    careful = BinnedMatrix(CODES, OFFSETS, has_unseen=True)
    for tail in [(), (3,)]:
        w = np.random.default_rng(0).normal(size=(5, *tail))
        v = np.random.default_rng(1).normal(size=(4, *tail))
        assert plain.matvec(w).tobytes() == careful.matvec(w).tobytes()
        assert plain.rmatvec(v).tobytes() == careful.rmatvec(v).tobytes()


def test_row_of_unseen_bins_gives_zero():
    codes = CODES.copy()
    codes[:, 2] = 0
    matrix = BinnedMatrix(codes, OFFSETS)
    assert matrix.matvec(np.full(5, np.inf))[2] == 0.0
    assert (matrix.matvec(np.full((5, 3), np.nan))[2] == 0.0).all()
    v = np.array([0.0, 0.0, np.inf, 0.0])
    assert not matrix.rmatvec(v).any()


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
def test_invalid_n_jobs_is_rejected(n_jobs):
    matrix = BinnedMatrix(CODES, OFFSETS, n_jobs=n_jobs)
    with pytest.raises(InputError, match="n_jobs"):
        matrix.matvec(np.ones(5))
    with pytest.raises(InputError, match="n_jobs"):
        matrix.rmatvec(np.ones(4))


def test_slice_of_rows_shares_memory():
    assert np.shares_memory(BinnedMatrix(CODES, OFFSETS).take_rows(slice(1, 3)).codes, CODES)


@pytest.mark.parametrize("rows", [np.array([3, 0, 0, 2]), np.array([True, False, True, True])])
def test_chosen_rows_stay_grid_major(rows):
    # The loops run along the rows of a grid: the other order would read a cache line a code.
    part = BinnedMatrix(CODES, OFFSETS).take_rows(rows)
    assert part.codes.strides[1] == part.codes.itemsize


@pytest.mark.parametrize("tail", [(), (3,), (8,)])
def test_taken_rows_have_the_same_products(tail):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, (13, 200)).astype(np.uint16)
    matrix = BinnedMatrix(codes, np.arange(0, 14 * 8, 8))
    w = rng.normal(size=(13 * 8, *tail))
    whole = matrix.matvec(w)
    for rows in (slice(3, 150, 2), rng.integers(0, 200, 90), rng.random(200) < 0.3):
        assert matrix.take_rows(rows).matvec(w).tobytes() == whole[rows].tobytes()


@pytest.mark.parametrize("tail", [(), (3,), (17,)])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_grids_of_several_types_have_the_same_bits(tail, scale):
    rng = np.random.default_rng(0)
    n_bins = rng.integers(1, 200, 43)
    n_bins[[9, 40]] = 300, 70_000
    codes = rng.integers(1, n_bins[:, None] + 1, (43, 5000)).astype(np.uint32)
    offsets, tasks = np.append(0, np.cumsum(n_bins)), TaskSizes(leaf_grids=16)
    ends, kinds = [8, 16, 40, 43], [np.uint8, np.uint16, np.uint8, np.uint32]
    pieces = np.split(codes, ends[:-1])
    parts = [piece.astype(kind) for piece, kind in zip(pieces, kinds, strict=True)]
    w, v = rng.normal(size=(offsets[-1], *tail)), rng.normal(size=(5000, *tail))
    chosen = rng.integers(0, 5000, 90)

    def results(parts, n_jobs):
        matrix = BinnedMatrix(parts, offsets, scale=scale, n_jobs=n_jobs, tasks=tasks)
        few = matrix.take_rows(chosen)
        return [
            *(kind.matvec(w) for kind in (matrix, matrix.to_single())),
            *(kind.rmatvec(v) for kind in (matrix, matrix.to_single())),
            few.matvec(w),
            few.row_gram(),
            few.row_products(v[:90].reshape(90, -1)),
            matrix.take_rows(slice(10, 4000)).gram_diagonal(),
            matrix.first_grids(12).rmatvec(v),
            matrix.bin_counts(),
            matrix.row_of_each_bin(),
            matrix.codes,
        ]

    expected = results(codes, 1)
    for n_jobs in (1, 3):
        for result, other in zip(results(parts, n_jobs), expected, strict=True):
            np.testing.assert_array_equal(result, other)


@given(
    hnp.arrays(
        np.uint16, st.tuples(st.integers(1, 12), st.integers(1, 20)), elements=st.integers(0, 9)
    )
)
def test_tocsr_matches_the_dense_matrix(codes):
    matrix = BinnedMatrix(codes, np.arange(0, 9 * len(codes) + 1, 9), scale=0.5)
    csr = matrix.tocsr()
    assert isinstance(csr, sp.csr_array)
    assert csr.shape == matrix.shape
    assert csr.nnz == np.count_nonzero(codes)
    assert csr.indices.dtype == csr.indptr.dtype == np.int32
    assert (csr.data == 0.5).all()
    assert csr.has_canonical_format
    expected = np.zeros(matrix.shape)
    for r, i in np.argwhere(codes):
        expected[i, 9 * r + codes[r, i] - 1] = 0.5
    np.testing.assert_array_equal(csr.toarray(), expected)
    np.testing.assert_array_equal(matrix.toarray(), expected)


@pytest.mark.parametrize(
    ("last_column", "index"), [(2**31 - 2, np.int32), (2**31 - 1, np.int64), (2**33, np.int64)]
)
def test_tocsr_uses_wide_indices_only_if_needed(last_column, index):
    codes = np.array([[1, 3], [2, 1]], np.uint32)
    matrix = BinnedMatrix(codes, np.array([0, last_column - 1, last_column + 1]))
    csr = matrix.tocsr()
    assert matrix.shape == csr.shape == (2, last_column + 1)
    assert csr.indices.dtype == index
    assert csr.indices.tolist() == [0, last_column, 2, last_column - 1]


def test_nbytes_counts_one_code_per_non_zero():
    codes = np.ones((256, 1000), np.uint16)
    matrix = BinnedMatrix(codes, np.arange(257))
    assert codes.nbytes <= matrix.nbytes < codes.nbytes + 5000


# Sums over many grids, along a tree that any number of threads may share.


def many_grids(n_grids: int, n_rows: int, unseen: bool, **sizes: int) -> BinnedMatrix:
    rng = np.random.default_rng(n_grids)
    codes = rng.integers(0 if unseen else 1, 8, (n_grids, n_rows)).astype(np.uint16)
    offsets, tasks = 7 * np.arange(n_grids + 1), TaskSizes(**sizes)
    return BinnedMatrix(codes, offsets, scale=0.3, has_unseen=unseen, tasks=tasks)


@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("tail", [(), (1,), (5,)])
def test_shared_grids_have_the_sums_of_shared_rows(unseen, tail):
    """To the last bit, for any number of threads; and those of a dense matrix."""
    for n_grids in [1, 7, 8, 9, 63, 64, 65, 100, 129, 1000]:
        Z = many_grids(n_grids, 37, unseen, leaf_grids=16, nonzeros=50)
        w = np.random.default_rng(1).normal(size=(Z.shape[1], *tail))
        Z.n_jobs = 1
        expected = Z.matvec(w)
        np.testing.assert_allclose(expected, Z.toarray() @ w, rtol=1e-11, atol=1e-12)
        Z = many_grids(n_grids, 37, unseen, leaf_grids=16, nonzeros=50, shared_bytes=0)
        for n_jobs in (2, 3, 4, 16):
            Z.n_jobs = n_jobs
            np.testing.assert_array_equal(Z.matvec(w), expected)
            for rows in (slice(0, 1), slice(5, 30)):
                np.testing.assert_array_equal(Z.take_rows(rows).matvec(w), expected[rows])


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8, 100])
def test_shares_cover_all_grids(n_jobs):
    for n_grids in [1, 16, 17, 40, 1000, 1984]:
        Z = many_grids(n_grids, 3, False, leaf_grids=16)
        Z.n_jobs = n_jobs
        shares = Z._divide_grids(1 << 30, 8)
        assert [first for first, _ in shares] == [0, *(last for _, last in shares[:-1])]
        assert shares[-1][1] == n_grids
        assert len(shares) & (len(shares) - 1) == 0
        assert len(shares) < 2 * n_jobs
        assert all(first % 8 == 0 for first, _ in shares)
        assert (len(shares) > 1) == (n_jobs > 1 and n_grids > 16)


def test_grids_are_shared_for_many_weights_and_few_results():
    Z = many_grids(1000, 3, False)
    Z.n_jobs = 4
    assert len(Z._divide_grids(1 << 20, 8)) == 1
    assert len(Z._divide_grids(1 << 23, 1 << 23)) == 1
    assert len(Z._divide_grids(1 << 23, 1 << 22)) == 2
    assert len(Z._divide_grids(1 << 23, 8)) == 4


def shares_by_hand(dense, n_bins):
    """Definition 1 written out on the dense matrix, grid by grid."""
    edges = np.concatenate([[0], np.cumsum(n_bins)])
    return np.array(
        [
            max(((dense[:, b] != 0).sum() / len(dense) for b in range(*edge)), default=0.0)
            for edge in pairwise(edges)
        ]
    )


@over({"bins": BINS})
def test_shares_match_the_dense_matrix(sample):
    binned, dense = sample.make(2), sample.dense
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
