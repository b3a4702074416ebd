"""RandomBinning: its distribution, its attributes, its layouts, scikit-learn's contract."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramless import RandomBinning
from gramless.base.errors import InputError, KernelError
from gramless.kernels import (
    KERNELS,
    BinningKernel,
    ExponentialPower,
    GammaHats,
    Hat,
    InversePower,
    Laplacian,
    Mixture,
    Profile,
    Scaled,
    Sum,
    TabulatedProfile,
)
from gramless.losses import Squared
from gramless.penalties import L2
from gramless.solvers import ConjugateGradient, Problem

KERNEL_SAMPLES: dict[str, BinningKernel] = {
    "laplacian": Laplacian(),
    "exponential_power": ExponentialPower(0.5),
    "inverse_power": InversePower(2.0),
    "hat": Hat(),
    "mixture": Mixture([Laplacian(), Hat()], [1.0, 2.0], [0.5, 2.0]),
    "profile": Profile(lambda t: 1.0 / np.sqrt(1.0 + t)),
    "tabulated_profile": TabulatedProfile([0.0, 0.5, 1.5, 4.0], [1.0, 0.6, 0.2, 0.0]),
    "gamma_hats": GammaHats(shape=8.0),
    "scaled": Scaled(InversePower(2.0), 1.5),
    "sum": Sum([Laplacian(), Scaled(InversePower(2.0), 1.5)], [1.0, 2.0]),
}
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", ">f8", "O"]


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(150, 3))


def binning(**options: Any) -> RandomBinning:
    return RandomBinning(**{"n_grids": 16, "bandwidth": 2.0, "random_state": 0, **options})


def same_csr(a: sp.csr_array, b: sp.csr_array) -> bool:
    parts = ("data", "indices", "indptr")
    return a.shape == b.shape and all(np.array_equal(getattr(a, p), getattr(b, p)) for p in parts)


def cells(binning: RandomBinning, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cell of each grid and row by definition, (n_grids, n_rows, n_features)."""
    widths, shifts = binning.widths_[:, None], binning.shifts_[:, None]
    return np.floor((rows - shifts) / widths)


@parametrize_with_checks([RandomBinning(n_grids=4)])
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# The distribution of the features.


def gap_in_standard_errors(kernel: BinningKernel, drawn: float, claimed: float) -> float:
    """Compare the features at bandwidth ``drawn`` with the exact kernel at ``claimed``.

    The pairs differ in one input each, so that those of one distance are independent draws.
    """
    n_grids, n_inputs, worst = 2048, 16, 0.0
    base = np.random.default_rng(1).normal(size=(1, n_inputs))
    moved = [base + distance * np.eye(n_inputs) for distance in (0.3, 1.0, 2.0)]
    rows = np.concatenate([base, *moved])
    Z = binning(kernel=kernel, n_grids=n_grids, bandwidth=drawn).fit_transform(rows)
    collisions = (Z[1:] @ Z[[0]].T).toarray().reshape(3, n_inputs)
    for found, others in zip(collisions.mean(axis=1), moved, strict=True):
        exact = kernel.gram(base, others[:1], bandwidth=claimed)[0, 0]
        error = np.sqrt(exact * (1 - exact) / (n_grids * n_inputs))
        worst = max(worst, abs(found - exact) / max(error, 1e-12))
    return worst


def test_every_binning_kernel_has_a_sample() -> None:
    registered = {name for name, kind in KERNELS.items() if issubclass(kind, BinningKernel)}
    assert registered == set(KERNEL_SAMPLES)


@pytest.mark.parametrize("name", KERNEL_SAMPLES)
def test_inner_products_estimate_the_kernel_without_bias(name: str) -> None:
    assert gap_in_standard_errors(KERNEL_SAMPLES[name], 1.0, 1.0) < 4.0


@pytest.mark.parametrize("claimed", [0.95, 1.05])
def test_a_bandwidth_five_percent_off_would_be_noticed(claimed: float) -> None:
    assert gap_in_standard_errors(Laplacian(), 1.0, claimed) > 4.0


@pytest.mark.parametrize("name", KERNEL_SAMPLES)
def test_kernels_multiply_over_inputs_of_different_bandwidth(name: str) -> None:
    kernel, bandwidth = KERNEL_SAMPLES[name], np.array([0.7, 2.0, 5.0])
    rows = np.random.default_rng(2).uniform(-1, 1, size=(6, 3))
    Z = binning(kernel=kernel, n_grids=2048, bandwidth=bandwidth).fit_transform(rows)
    exact = kernel.gram(rows, bandwidth=bandwidth)
    error = np.sqrt(exact * (1 - exact) / 2048)
    assert (np.abs((Z @ Z.T).toarray() - exact) <= 4 * error + 1e-9).all()


def test_error_falls_as_the_root_of_the_number_of_grids(X: NDArray) -> None:
    exact = Laplacian().gram(X, bandwidth=2.0)
    for n_grids in (16, 128, 1024):
        gaps = []
        for seed in range(4):
            Z = binning(n_grids=n_grids, random_state=seed).fit_transform(X)
            gaps.append((Z @ Z.T).toarray() - exact)
        expected = np.sqrt(np.mean(exact * (1 - exact)) / n_grids)
        assert np.sqrt(np.mean(np.square(gaps))) == pytest.approx(expected, rel=0.3)


# Attributes against their definitions.


def test_collision_probability_by_brute_force(X: NDArray) -> None:
    fitted = binning(n_grids=21).fit(X)
    counts = [np.unique(c, axis=0, return_counts=True)[1] for c in cells(fitted, X)]
    shares = np.array([c.max() / len(X) for c in counts])
    np.testing.assert_array_equal(fitted.n_bins_, [len(c) for c in counts])
    np.testing.assert_allclose(fitted.nu_, shares, rtol=1e-12)
    assert fitted.kappa_ == pytest.approx(np.mean(1 / shares), rel=1e-12)
    assert fitted.kappa_bar_ == pytest.approx(fitted.transform(X).shape[1] / 21, rel=1e-12)
    assert fitted.kappa_ <= fitted.kappa_bar_


def test_rows_share_a_column_exactly_when_they_share_a_cell(X: NDArray) -> None:
    fitted = binning(n_grids=9).fit(X)
    matrix = fitted.feature_matrix(X)
    for r, cell in enumerate(cells(fitted, X)):
        together = (cell[:, None] == cell[None]).all(axis=2)
        np.testing.assert_array_equal(matrix.codes[r][:, None] == matrix.codes[r], together)


def test_transform_is_csr_of_equal_values(X: NDArray) -> None:
    fitted = binning(n_grids=12).fit(X)
    Z = fitted.transform(X)
    assert isinstance(Z, sp.csr_array)
    assert Z.shape == (len(X), fitted.offsets_[-1]) == (len(X), fitted.n_bins_.sum())
    assert np.array_equal(np.diff(Z.indptr), np.full(len(X), 12))
    assert (Z.data == 1 / np.sqrt(12)).all()
    assert Z.has_canonical_format


def test_bins_never_seen_leave_no_entry(X: NDArray) -> None:
    fitted = binning(n_grids=12).fit(X)
    rows = np.concatenate([X + 0.3, [[1e6, -1e6, 1e6]]])
    known, asked = cells(fitted, X), cells(fitted, rows)
    expected = (asked[:, :, None] == known[:, None]).all(axis=3).any(axis=2).sum(axis=0)
    Z = fitted.transform(rows)
    np.testing.assert_array_equal(np.diff(Z.indptr), expected)
    assert (Z.data == 1 / np.sqrt(12)).all()
    assert expected[-1] == 0
    assert 0 < expected.min(initial=12, where=expected > 0) < 12


def test_fit_transform_is_fit_then_transform(X: NDArray) -> None:
    assert same_csr(binning().fit_transform(X), binning().fit(X).transform(X))


def test_more_grids_keep_the_first_ones(X: NDArray) -> None:
    few, many = binning(n_grids=13), binning(n_grids=30)
    small, large = few.fit_matrix(X), many.fit_matrix(X)
    for name in ("widths_", "shifts_", "n_bins_"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:13])
    np.testing.assert_allclose(few.nu_, many.nu_[:13], rtol=1e-12)
    np.testing.assert_array_equal(few.offsets_, many.offsets_[:14])
    np.testing.assert_array_equal(small.codes, large.codes[:13])
    rows = X + 0.5
    np.testing.assert_array_equal(
        few.feature_matrix(rows).codes, many.feature_matrix(rows).codes[:13]
    )


def test_another_bandwidth_stretches_the_same_grids(X: NDArray) -> None:
    fine, coarse = binning(bandwidth=1.0).fit(X), binning(bandwidth=4.0).fit(4 * X)
    np.testing.assert_array_equal(4 * fine.widths_, coarse.widths_)
    np.testing.assert_array_equal(fine.transform(X).indices, coarse.transform(4 * X).indices)


def test_seeds(X: NDArray) -> None:
    expected = binning(random_state=5).fit_transform(X)
    assert same_csr(binning(random_state=5).fit_transform(X), expected)
    assert not same_csr(binning(random_state=6).fit_transform(X), expected)
    states = [binning(random_state=np.random.RandomState(7)).fit(X) for _ in range(2)]
    np.testing.assert_array_equal(states[0].widths_, states[1].widths_)
    assert states[0].seed_ == states[1].seed_
    free = [binning(random_state=None).fit(X).seed_ for _ in range(2)]
    assert free[0] != free[1]


def test_infinite_bandwidth_ignores_an_input(X: NDArray) -> None:
    fitted = binning(bandwidth=[1.0, np.inf, 2.0]).fit(X)
    assert np.isinf(fitted.widths_[:, 1]).all()
    assert (fitted.shifts_[:, 1] == 0).all()
    other = X.copy()
    other[:, 1] = np.random.default_rng(3).normal(scale=1e9, size=len(X))
    assert same_csr(fitted.transform(X), fitted.transform(other))
    alone = binning(bandwidth=np.inf).fit(X)
    assert alone.n_bins_.tolist() == [1] * 16
    assert alone.kappa_ == alone.kappa_bar_ == 1.0


def test_median_bandwidth_is_of_the_size_of_the_distances(X: NDArray) -> None:
    fitted = binning(bandwidth="median").fit(X)
    distances = np.abs(X[:, None] - X).sum(axis=2)[np.triu_indices(len(X), 1)]
    assert fitted.bandwidth_.shape == (3,)
    assert np.ptp(fitted.bandwidth_) == 0
    assert fitted.bandwidth_[0] == pytest.approx(np.median(distances), rel=0.1)


# Layouts and types: the same values give the same bins.


def wide_table(n_rows: int = 2600) -> NDArray[np.float64]:
    """Draw columns of few values, zero-heavy and continuous ones, which are packed differently."""
    rng = np.random.default_rng(4)
    few = rng.integers(0, 3, size=(n_rows, 7))
    zeros = rng.normal(size=(n_rows, 18)) * (rng.random((n_rows, 18)) < 0.05)
    return np.concatenate([few, zeros, rng.normal(size=(n_rows, 2))], axis=1)


@pytest.mark.parametrize("sparse", [False, True])
def test_transform_in_parts_is_transform_of_the_whole(sparse: bool) -> None:
    table = wide_table()
    fitted = binning(bandwidth=8.0).fit(table[::2])
    rows = sp.csr_array(table) if sparse else table
    whole = fitted.transform(rows)
    cuts = [0, 1, 7, 900, 2599, 2600]
    parts = [fitted.transform(rows[a:b]) for a, b in pairwise(cuts)]
    assert same_csr(whole, sp.vstack(parts, format="csr"))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_rows_fall_into_the_bins_of_dense_rows(index: type) -> None:
    table = wide_table(1200)
    rows = sp.csr_array(table)
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
    assert rows.indices.dtype == index
    assert same_csr(binning().fit_transform(table), binning().fit_transform(rows))


def test_explicit_zeros_and_duplicates_of_sparse_rows() -> None:
    data, row, column = [1.0, 2.0, 0.0, 3.0, -3.0], [0, 0, 1, 2, 2], [1, 1, 0, 2, 2]
    rows = sp.coo_array((data, (row, column)), shape=(4, 3))
    copy = rows.copy()
    assert same_csr(binning().fit_transform(rows), binning().fit_transform(rows.toarray()))
    assert rows.nnz == copy.nnz == 5


def test_duplicates_and_disorder_within_csr_rows() -> None:
    parts = np.array([1.5, 4.0, 2.5, -1.0, 7.0]), np.array([2, 0, 2, 1, 0]), np.array([0, 3, 3, 5])
    rows = sp.csr_array(parts, shape=(3, 3))
    assert rows.nnz == 5
    expected = binning(n_grids=64).fit_transform(rows.toarray())
    assert same_csr(binning(n_grids=64).fit_transform(rows), expected)
    assert rows.nnz == 5


def test_rows_are_never_changed(X: NDArray) -> None:
    messy = sp.csr_array(
        (np.array([1.0, 2.0, 5.0]), np.array([2, 2, 0]), np.array([0, 3, 3])), shape=(2, 3)
    )
    binning().fit_transform(messy)
    assert messy.data.tolist() == [1.0, 2.0, 5.0]
    before = X.copy()
    binning().fit_transform(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_of_the_same_values_fall_into_the_same_bins(dtype: str) -> None:
    values = np.random.default_rng(5).integers(0, 2 if dtype == "?" else 100, size=(200, 3))
    expected = binning(bandwidth=20.0).fit_transform(values.astype(np.float64))
    assert same_csr(binning(bandwidth=20.0).fit_transform(values.astype(dtype)), expected)


def test_single_precision_rows_fall_into_the_bins_of_their_double_values(X: NDArray) -> None:
    single = X.astype(np.float32)
    fitted = binning().fit(single)
    assert same_csr(fitted.transform(single), fitted.transform(single.astype(np.float64)))
    assert same_csr(binning().fit_transform(single), binning().fit_transform(single.astype(float)))


def layouts(X: NDArray) -> dict[str, NDArray]:
    fixed = X.copy()
    fixed.flags.writeable = False
    padded = np.zeros((2 * len(X), 2 * X.shape[1]))
    padded[::2, 1::2] = X
    return {
        "read-only": fixed,
        "column-major": np.asfortranarray(X),
        "strided": padded[::2, 1::2],
        "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
    }


@pytest.mark.parametrize("layout", ["read-only", "column-major", "strided", "backwards"])
def test_layouts_of_the_same_values_fall_into_the_same_bins(X: NDArray, layout: str) -> None:
    assert same_csr(binning().fit_transform(layouts(X)[layout]), binning().fit_transform(X))


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_do_not_change_the_features(n_jobs: int) -> None:
    table = wide_table()
    expected = binning(n_grids=20, n_jobs=None).fit(table[::2]).transform(table)
    assert same_csr(binning(n_grids=20, n_jobs=n_jobs).fit(table[::2]).transform(table), expected)


def test_a_tiny_bandwidth_never_merges_different_rows(X: NDArray) -> None:
    """Either every row has bins of its own, or the bandwidth is refused."""
    for bandwidth in (1e-30, 1e-300):
        try:
            fitted = binning(bandwidth=bandwidth).fit(X)
        except InputError:
            continue
        assert (fitted.n_bins_ == len(X)).all(), bandwidth


# Wrong parameters.


def test_the_gaussian_kernel_is_refused_with_a_way_out(X: NDArray) -> None:
    with pytest.raises(KernelError, match=r"Gaussian.*convex.*laplacian.*Fourier"):
        binning(kernel="gaussian").fit(X)


def test_an_unknown_kernel_is_refused_with_the_names(X: NDArray) -> None:
    with pytest.raises(KernelError, match="unknown kernel 'rbf'.*laplacian"):
        binning(kernel="rbf").fit(X)


@pytest.mark.parametrize("n_grids", [0, -3, 1.5, "many", None])
def test_bad_numbers_of_grids(X: NDArray, n_grids: Any) -> None:
    with pytest.raises(InputError, match="RandomBinning: n_grids"):
        binning(n_grids=n_grids).fit(X)


@pytest.mark.parametrize(
    "bandwidth", [0, -1.0, np.nan, [1.0, 2.0], [1.0, 0.0, 1.0], [[1.0, 2.0, 3.0]], "mean", {}, 1j]
)
def test_bad_bandwidths(X: NDArray, bandwidth: Any) -> None:
    with pytest.raises(InputError, match="bandwidth"):
        binning(bandwidth=bandwidth).fit(X)


def test_numbers_of_numpy_are_numbers(X: NDArray) -> None:
    options = {"n_grids": np.int64(16), "bandwidth": np.float32(2.0), "random_state": np.int32(0)}
    assert same_csr(binning(**options).fit_transform(X), binning().fit_transform(X))


def test_not_fitted_and_wrong_width(X: NDArray) -> None:
    with pytest.raises(NotFittedError):
        binning().transform(X)
    with pytest.raises(ValueError, match="2 features, but RandomBinning is expecting 3"):
        binning().fit(X).transform(X[:, :2])


# The habits of scikit-learn.


def test_pickle_and_clone(X: NDArray) -> None:
    fitted = binning(kernel=ExponentialPower(0.7)).fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    assert same_csr(again.transform(X + 0.1), fitted.transform(X + 0.1))
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "widths_")
    assert same_csr(fresh.fit_transform(X), fitted.transform(X))


def test_names_of_the_features(X: NDArray) -> None:
    fitted = binning(n_grids=5).fit(X)
    names = fitted.get_feature_names_out()
    assert len(names) == fitted.offsets_[-1]
    assert [names[0], names[-1]] == ["randombinning0", f"randombinning{len(names) - 1}"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_in_and_sparse_out(X: NDArray, library: str) -> None:
    module = pytest.importorskip(library)
    frame = module.DataFrame(dict(zip("abc", X.T, strict=True)))
    fitted = binning().fit(frame)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert same_csr(fitted.transform(frame), binning().fit_transform(X))
    # Frames cannot hold this sparse result: scikit-learn says so, and what to do.
    fitted.set_output(transform=library)
    with pytest.raises(ValueError, match=r"sparse.*set_output\(transform='default'\)"):
        fitted.transform(frame)
    fitted.set_output(transform="default")
    assert same_csr(fitted.transform(frame), binning().fit_transform(X))


def test_in_a_pipeline_with_a_linear_model(X: NDArray) -> None:
    target = np.sin(X[:, 0]) + X[:, 1]
    model = make_pipeline(binning(n_grids=256, bandwidth=6.0), Ridge(alpha=0.05))
    assert model.fit(X[:100], target[:100]).score(X[100:], target[100:]) > 0.6


def test_one_grid_of_tiny_bins_fits_every_row(X: NDArray) -> None:
    # RB16, section 3: for sigma -> 0 the loss is 0 with R = 1 and D = N.
    target = np.sin(X[:, 0]) + X[:, 1]
    matrix = binning(n_grids=1, bandwidth=1e-9).fit_matrix(X)
    assert matrix.shape == (len(X), len(X))
    assert (matrix.bin_counts() == 1).all()
    problem = Problem(matrix, target, L2(1e-12), Squared())
    weights = ConjugateGradient(tol=1e-12).solve(problem).weights
    np.testing.assert_allclose(matrix.matvec(weights), target, rtol=1e-8)
    smooth = binning(n_grids=1, bandwidth=20.0).fit_matrix(X)
    assert smooth.shape[1] < len(X) / 2
