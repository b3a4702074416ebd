"""Plain and smooth bins: the same numbers have the same features, however rows are laid out."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from gramless import RandomBinning, SmoothBinning
from gramless.base.errors import InputError
from tests.features.csr import same_csr

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", ">f8", "O"]
X = np.random.default_rng(0).normal(size=(150, 3))

both_kinds = pytest.mark.parametrize("kind", [RandomBinning, SmoothBinning])


def binning(kind: Any, **options: Any) -> Any:
    return kind(**{"n_grids": 16, "bandwidth": 2.0, "random_state": 0, **options})


def wide_table(n_rows: int) -> NDArray[np.float64]:
    """Draw columns of few values, zero-heavy and continuous ones, which are packed differently."""
    rng = np.random.default_rng(4)
    few = rng.integers(0, 3, size=(n_rows, 7))
    zeros = rng.normal(size=(n_rows, 18)) * (rng.random((n_rows, 18)) < 0.05)
    return np.concatenate([few, zeros, rng.normal(size=(n_rows, 2))], axis=1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RandomBinning, {}),
        (SmoothBinning, {}),
        (SmoothBinning, {"precision": "float16"}),
    ],
)
def test_parts_and_threads_do_not_change_features(kind: Any, options: dict[str, Any]) -> None:
    table = wide_table(5000)
    fitted = binning(kind, n_grids=20, bandwidth=8.0, n_jobs=1, **options).fit(table[::2])
    whole = fitted.transform(table)
    parts = [fitted.transform(table[a:b]) for a, b in pairwise([0, 1, 7, 900, 4999, 5000])]
    assert same_csr(whole, sp.vstack(parts, format="csr"))
    for n_jobs in (2, 3):
        again = clone(fitted).set_params(n_jobs=n_jobs).fit(table[::2])
        assert same_csr(again.transform(table), whole)


@both_kinds
def test_sparse_rows_have_the_features_of_dense_rows(kind: Any) -> None:
    table = wide_table(1200)
    dense = binning(kind, bandwidth=8.0).fit(table)
    large = sp.csr_array(table)
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    for rows in (sp.csr_array(table), sp.csc_matrix(table), large):
        fitted = binning(kind, bandwidth=8.0).fit(rows)
        assert same_csr(fitted.transform(rows), dense.transform(table))
    parts = [fitted.transform(large[a:b]) for a, b in pairwise([0, 1, 900, 1200])]
    assert same_csr(sp.vstack(parts, format="csr"), dense.transform(table))


def test_sparse_storage_does_not_change_features() -> None:
    data, row, column = [1.0, 2.0, 0.0, 3.0, -3.0], [0, 0, 1, 2, 2], [1, 1, 0, 2, 2]
    parts = np.array([1.5, 4.0, 2.5, -1.0, 7.0]), np.array([2, 0, 2, 1, 0]), np.array([0, 3, 3, 5])
    for rows in (
        sp.coo_array((data, (row, column)), shape=(4, 3)),
        sp.csr_array(parts, shape=(3, 3)),
    ):
        before = rows.data.copy()
        expected = binning(RandomBinning, n_grids=64).fit_transform(rows.toarray())
        assert same_csr(binning(RandomBinning, n_grids=64).fit_transform(rows), expected)
        np.testing.assert_array_equal(rows.data, before)


@both_kinds
def test_type_of_values_does_not_change_features(kind: Any) -> None:
    for dtype in DTYPES:
        values = np.random.default_rng(5).integers(0, 2 if dtype == "?" else 100, size=(200, 3))
        expected = binning(kind, bandwidth=20.0).fit_transform(values.astype(np.float64))
        result = binning(kind, bandwidth=20.0).fit_transform(values.astype(dtype))
        assert same_csr(result, expected), dtype
    single = X.astype(np.float32)
    expected = binning(kind).fit_transform(single.astype(np.float64))
    assert same_csr(binning(kind).fit_transform(single), expected)


@both_kinds
def test_layout_of_values_does_not_change_features(kind: Any) -> None:
    expected = binning(kind).fit_transform(X)
    fixed, padded = X.copy(), np.zeros((2 * len(X), 2 * X.shape[1]))
    fixed.flags.writeable = False
    padded[::2, 1::2] = X
    backwards = X[::-1, ::-1].copy()[::-1, ::-1]
    for rows in (fixed, np.asfortranarray(X), padded[::2, 1::2], backwards):
        assert same_csr(binning(kind).fit_transform(rows), expected)
        assert same_csr(binning(kind).fit(rows).transform(rows), expected)


@both_kinds
def test_bandwidth_stretches_the_same_grids(kind: Any) -> None:
    fine, coarse = binning(kind, bandwidth=1.0).fit(X), binning(kind, bandwidth=4.0).fit(4 * X)
    np.testing.assert_array_equal(4 * fine.widths_, coarse.widths_)
    assert same_csr(fine.transform(X), coarse.transform(4 * X))


@both_kinds
def test_infinite_bandwidth_ignores_an_input(kind: Any) -> None:
    fitted = binning(kind, bandwidth=[1.0, np.inf, 2.0]).fit(X)
    assert np.isinf(fitted.widths_[:, 1]).all()
    assert (fitted.shifts_[:, 1] == 0).all()
    other = X.copy()
    other[:, 1] = np.random.default_rng(3).normal(scale=1e9, size=len(X))
    assert same_csr(fitted.transform(X), fitted.transform(other))
    alone = binning(kind, bandwidth=np.inf).fit(X)
    assert alone.n_bins_.tolist() == [1] * 16
    assert (alone.transform(X).data == 0.25).all()


@both_kinds
def test_median_bandwidth_scales_with_distances(kind: Any) -> None:
    fitted = binning(kind, bandwidth="median").fit(X)
    distances = np.abs(X[:, None] - X).sum(axis=2)[np.triu_indices(len(X), 1)]
    assert np.ptp(fitted.bandwidth_) == 0
    assert fitted.bandwidth_[0] == pytest.approx(np.median(distances), rel=0.1)


@both_kinds
def test_pickles_and_clones_have_the_same_features(kind: Any) -> None:
    fitted = binning(kind).fit(X)
    copied = pickle.loads(pickle.dumps(fitted))
    assert same_csr(copied.transform(X + 0.1), fitted.transform(X + 0.1))
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "widths_")
    assert same_csr(fresh.fit_transform(X), fitted.transform(X))


@both_kinds
def test_invalid_sizes_and_bandwidths_are_rejected(kind: Any) -> None:
    for n_grids in (0, -3, 1.5, "many", None):
        with pytest.raises(InputError, match=f"{kind.__name__}: n_grids"):
            binning(kind, n_grids=n_grids).fit(X)
    wrong = [0, -1.0, np.nan, [1.0, 2.0], [1.0, 0.0, 1.0], [[1.0, 2.0, 3.0]], "mean", {}, 1j]
    for bandwidth in wrong:
        with pytest.raises(InputError, match="bandwidth"):
            binning(kind, bandwidth=bandwidth).fit(X)
