"""SmoothBinning: its distribution, its values, its layouts, scikit-learn's contract."""

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
from gramless.features.smooth import SmoothBinning
from gramless.kernels import Gaussian
from gramless.kernels.windowed import GammaHats, Windowed
from gramless.losses import Logistic
from gramless.penalties import L2
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem

DTYPES = ["?", "i1", "i2", "i8", "u1", "u8", "f2", "f4", "g", ">f8", "O"]
DEEP = Windowed("cosine", depth=2 / 3, shape=8.0)


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(150, 3))


def smooth(**options: Any) -> SmoothBinning:
    return SmoothBinning(**{"n_grids": 16, "bandwidth": 1.5, "random_state": 0, **options})


def same_csr(a: sp.csr_array, b: sp.csr_array) -> bool:
    parts = ("data", "indices", "indptr")
    return a.shape == b.shape and all(np.array_equal(getattr(a, p), getattr(b, p)) for p in parts)


def places(fitted: SmoothBinning, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cells and places inside them by definition, (n_grids, n_rows, n_features)."""
    return (rows - fitted.shifts_[:, None]) / fitted.widths_[:, None]


@parametrize_with_checks([SmoothBinning(n_grids=4)])
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# The distribution of the features.


def gap_in_standard_errors(
    kernel: Windowed, n_inputs: int, drawn: float, claimed: float, mask: Any = None
) -> float:
    """Compare the features at bandwidth ``drawn`` with the exact kernel at ``claimed``.

    Many pairs lie too far apart to share a bin: in each grid their places differ, and the mean
    of their products varies little.
    """
    rng, n_pairs, n_grids, worst = np.random.default_rng(1), 40, 1500, 0.0
    first = 1000.0 * np.arange(n_pairs)[:, None] + rng.normal(size=(n_pairs, n_inputs))
    for size in (0.3, 0.9):
        step = size * np.linspace(1.0, 0.5, n_inputs) / np.sqrt(n_inputs)
        matrix = smooth(kernel=kernel, n_grids=n_grids, bandwidth=drawn).fit_matrix(
            np.concatenate([first, first + step])
        )
        codes, values = (p.reshape(n_grids, 2, -1) for p in (matrix.codes, matrix.values))
        products = np.where(codes[:, 0] == codes[:, 1], values[:, 0] * values[:, 1], 0.0)
        means = products.mean(axis=1, dtype=float)
        exact = kernel.gram(np.zeros((1, n_inputs)), step[None], bandwidth=claimed)[0, 0]
        error = means.std() / np.sqrt(n_grids)
        worst = max(worst, abs(means.mean() - exact) / error)
    return worst


@pytest.mark.parametrize("n_inputs", [1, 2, 5])
@pytest.mark.parametrize("kernel", [Windowed(), DEEP])
def test_inner_products_estimate_the_kernel_without_bias(kernel: Windowed, n_inputs: int) -> None:
    assert gap_in_standard_errors(kernel, n_inputs, 1.0, 1.0) < 4.0


@pytest.mark.parametrize("claimed", [0.95, 1.05])
@pytest.mark.parametrize("n_inputs", [1, 2, 5])
def test_a_bandwidth_five_percent_off_would_be_noticed(n_inputs: int, claimed: float) -> None:
    assert gap_in_standard_errors(Windowed(), n_inputs, 1.0, claimed) > 4.0


def test_kernels_multiply_over_inputs_of_different_bandwidth_and_categories() -> None:
    kernel, bandwidth = Windowed(), np.array([0.7, 1.5, np.inf, 5.0, 2.0])
    rng, n_grids = np.random.default_rng(2), 4096
    rows = np.column_stack([rng.uniform(-1, 1, (12, 4)), rng.integers(0, 3, 12)])
    rows[:, 1] = rng.integers(5, 7, 12)
    mask = np.array([False, True, False, False, True])
    Z = smooth(bandwidth=bandwidth, categorical=mask, n_grids=n_grids).fit_matrix(rows)
    exact = kernel.gram(rows, bandwidth=bandwidth, categorical=mask)
    values = Z.values.astype(float)
    products = values[:, :, None] * values[:, None] * (Z.codes[:, :, None] == Z.codes[:, None])
    error = products.std(axis=0) / np.sqrt(n_grids)
    assert (np.abs(Z.row_gram() - exact) <= 4 * error).all()
    np.testing.assert_allclose(Z.row_gram(), products.mean(axis=0), rtol=1e-12)
    categories = rows[:, mask]
    differ = (categories[:, None] != categories).any(axis=2)
    assert exact[differ].max() < 0.8
    assert (np.abs(Z.row_gram() - exact / 0.9)[differ] > 4 * error[differ]).any()


def test_flat_windows_of_shape_two_are_laplacian_bins(X: NDArray) -> None:
    """Every value is 1, and the bins are those of plain grids of these widths."""
    flat = smooth(kernel=Windowed(depth=0.0, shape=2.0)).fit(X)
    plain = RandomBinning(GammaHats(2.0), n_grids=16, bandwidth=1.5, random_state=0).fit(X)
    assert same_csr(flat.transform(X + 0.1), plain.transform(X + 0.1))
    laplacian = RandomBinning(n_grids=16, bandwidth=1.5, random_state=0).fit(X)
    np.testing.assert_allclose(flat.widths_, laplacian.widths_, rtol=1e-14)


def test_error_falls_as_the_root_of_the_number_of_grids(X: NDArray) -> None:
    exact, errors = Windowed().gram(X, bandwidth=1.5), []
    for n_grids in (16, 128, 1024):
        grams = [smooth(n_grids=n_grids, random_state=s).fit_matrix(X).row_gram() for s in range(4)]
        errors.append(np.sqrt(np.mean(np.square(np.array(grams) - exact))))
    assert np.polyfit(np.log([16, 128, 1024]), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.1)


def test_weights_of_grids_differ_as_the_fourth_moment_says() -> None:
    """Rows far apart have places of their own in every grid, so that few grids are enough."""
    rows = 1000.0 * np.arange(100)[:, None] + np.zeros(3)
    squares = smooth(kernel=DEEP, n_grids=500).fit_matrix(rows).values.astype(float) ** 2
    assert squares.mean() == pytest.approx(1.0, abs=0.03)
    assert (squares**2).mean() == pytest.approx(DEEP.fourth_moment**3, rel=0.1)


# Values and attributes against their definitions.


@pytest.mark.parametrize("kernel", [Windowed(), DEEP])
def test_values_are_windows_over_the_cells(X: NDArray, kernel: Windowed) -> None:
    fitted = smooth(kernel=kernel)
    matrix = fitted.fit_matrix(X)
    u = places(fitted, X) % 1.0 - 0.5
    if kernel == DEEP:
        window = (1 + np.cos(2 * np.pi * u) / 2) / np.sqrt(1 + 1 / 8)
    else:
        window = (1 - 2 * u**2) / np.sqrt(1 - 1 / 3 + 1 / 20)
    np.testing.assert_allclose(matrix.values, window.prod(axis=2), rtol=2e-7)
    assert matrix.values.dtype == np.float32
    cells = np.floor(places(fitted, X))
    for r, cell in enumerate(cells):
        together = (cell[:, None] == cell[None]).all(axis=2)
        np.testing.assert_array_equal(matrix.codes[r][:, None] == matrix.codes[r], together)
    assert fitted.n_bins_.tolist() == [len(np.unique(cell, axis=0)) for cell in cells]
    assert matrix.scale == fitted.scale_ == 1 / np.sqrt(16)
    means = np.mean(matrix.values.astype(float) ** 2, axis=1)
    assert fitted.n_effective_grids_ == pytest.approx(means.sum() ** 2 / (means**2).sum())
    assert 1.0 < fitted.n_effective_grids_ < 16.0


def test_bins_never_seen_leave_no_entry(X: NDArray) -> None:
    fitted = smooth().fit(X)
    rows = np.concatenate([X + 0.3, [[1e6, -1e6, 1e6], [1e300, 0.0, -1e300]]])
    known, asked = np.floor(places(fitted, X)), np.floor(places(fitted, rows))
    expected = (asked[:, :, None] == known[:, None]).all(axis=3).any(axis=2).sum(axis=0)
    Z = fitted.transform(rows)
    assert isinstance(Z, sp.csr_array)
    np.testing.assert_array_equal(np.diff(Z.indptr), expected)
    assert np.isfinite(Z.data).all()
    assert expected[-2:].tolist() == [0, 0]
    assert 0 < expected[:-2].min() < 16
    matrix = fitted.feature_matrix(rows)
    whole = np.asarray(Z.power(2).sum(axis=1)).ravel() + matrix.unseen_squares
    window = (1 - 2 * (places(fitted, rows[:-1]) % 1.0 - 0.5) ** 2) / np.sqrt(43 / 60)
    np.testing.assert_allclose(whole[:-1], (window.prod(axis=2) ** 2).mean(axis=0), rtol=1e-6)


def test_fit_transform_is_fit_then_transform(X: NDArray) -> None:
    assert same_csr(smooth().fit_transform(X), smooth().fit(X).transform(X))


def test_more_grids_keep_the_first_ones(X: NDArray) -> None:
    few, many = smooth(n_grids=13).fit(X), smooth(n_grids=30).fit(X)
    np.testing.assert_array_equal(few.offsets_, many.offsets_[:14])
    for rows in (X, X + 0.5):
        small, large = few.feature_matrix(rows), many.feature_matrix(rows)
        np.testing.assert_array_equal(small.codes, large.codes[:13])
        np.testing.assert_array_equal(small.values, large.values[:13])


def test_another_bandwidth_stretches_the_same_grids(X: NDArray) -> None:
    fine, coarse = smooth(bandwidth=1.0).fit(X), smooth(bandwidth=4.0).fit(4 * X)
    assert same_csr(fine.transform(X), coarse.transform(4 * X))


def test_infinite_bandwidth_ignores_an_input(X: NDArray) -> None:
    fitted = smooth(bandwidth=[1.0, np.inf, 2.0]).fit(X)
    other = X.copy()
    other[:, 1] = np.random.default_rng(3).normal(scale=1e9, size=len(X))
    assert same_csr(fitted.transform(X), fitted.transform(other))
    alone = smooth(bandwidth=np.inf).fit(X)
    assert alone.n_bins_.tolist() == [1] * 16
    assert (alone.transform(X).data == 0.25).all()
    assert alone.n_effective_grids_ == pytest.approx(16.0)


def test_categories_are_told_apart_and_weigh_nothing(X: NDArray) -> None:
    rows = np.column_stack([X[:, 0], np.arange(len(X)) % 4])
    fitted = smooth(categorical=[1]).fit(rows)
    matrix, plain = fitted.feature_matrix(rows), smooth().fit(rows[:, :1])
    shifts, widths = fitted.shifts_[:, :1], fitted.widths_[:, :1]
    u = (rows[None, :, 0] - shifts) / widths % 1.0 - 0.5
    np.testing.assert_allclose(matrix.values, (1 - 2 * u**2) / np.sqrt(43 / 60), rtol=2e-7)
    assert fitted.widths_.shape == (16, plain.widths_.shape[1] + 1)
    unknown = rows.copy()
    unknown[:, 1] = 77
    parted = np.isfinite(fitted.widths_[:, 1])
    assert 0 < np.count_nonzero(parted) < 16
    assert np.diff(fitted.transform(unknown).indptr).max() <= np.count_nonzero(~parted)
    with pytest.raises(InputError, match="category"):
        smooth(categorical=[0]).fit(rows)


def test_median_bandwidth_is_of_the_size_of_the_distances(X: NDArray) -> None:
    fitted = smooth(bandwidth="median").fit(X)
    distances = np.abs(X[:, None] - X).sum(axis=2)[np.triu_indices(len(X), 1)]
    assert np.ptp(fitted.bandwidth_) == 0
    assert fitted.bandwidth_[0] == pytest.approx(np.median(distances), rel=0.1)


def test_half_precision_rounds_values_alone(X: NDArray) -> None:
    single, half = smooth(), smooth(precision="float16")
    whole, rounded = single.fit_matrix(X), half.fit_matrix(X)
    assert rounded.values.dtype == np.float16
    np.testing.assert_array_equal(rounded.codes, whole.codes)
    np.testing.assert_array_equal(rounded.values, whole.values.astype(np.float16))
    assert half.transform(X).data.dtype == single.transform(X).data.dtype == np.float64


# Layouts and types: the same numbers give the same features.


def wide_table(n_rows: int = 2600) -> NDArray[np.float64]:
    """Draw columns of few values, zero-heavy and continuous ones, which are packed differently."""
    rng = np.random.default_rng(4)
    few = rng.integers(0, 3, size=(n_rows, 7))
    zeros = rng.normal(size=(n_rows, 18)) * (rng.random((n_rows, 18)) < 0.05)
    return np.concatenate([few, zeros, rng.normal(size=(n_rows, 2))], axis=1)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_transform_in_parts_is_transform_of_the_whole(precision: Any) -> None:
    table = wide_table(5000)
    fitted = smooth(bandwidth=8.0, precision=precision).fit(table[::2])
    cuts = [0, 1, 7, 900, 4999, 5000]
    parts = [fitted.transform(table[a:b]) for a, b in pairwise(cuts)]
    assert same_csr(fitted.transform(table), sp.vstack(parts, format="csr"))


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix])
def test_sparse_rows_have_the_features_of_dense_rows(make: Any) -> None:
    table = wide_table(1200)
    fitted = smooth(bandwidth=8.0).fit(make(table))
    dense = smooth(bandwidth=8.0).fit(table)
    assert same_csr(fitted.transform(make(table[::3])), dense.transform(table[::3]))
    large = sp.csr_array(table)
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    assert same_csr(fitted.transform(large), dense.transform(table))


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_of_the_same_values_have_the_same_features(dtype: str) -> None:
    values = np.random.default_rng(5).integers(0, 2 if dtype == "?" else 100, size=(200, 3))
    expected = smooth(bandwidth=20.0).fit_transform(values.astype(np.float64))
    assert same_csr(smooth(bandwidth=20.0).fit_transform(values.astype(dtype)), expected)


def test_layouts_of_the_same_values_have_the_same_features(X: NDArray) -> None:
    expected = smooth().fit_transform(X)
    fixed, padded = X.copy(), np.zeros((2 * len(X), 2 * X.shape[1]))
    fixed.flags.writeable = False
    padded[::2, 1::2] = X
    backwards = X[::-1, ::-1].copy()[::-1, ::-1]
    for rows in (fixed, np.asfortranarray(X), padded[::2, 1::2], backwards):
        assert same_csr(smooth().fit_transform(rows), expected)
    np.testing.assert_array_equal(X, fixed)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_do_not_change_the_features(n_jobs: int) -> None:
    table = wide_table(5000)
    expected = smooth(n_grids=20, n_jobs=None).fit(table[::2]).transform(table)
    assert same_csr(smooth(n_grids=20, n_jobs=n_jobs).fit(table[::2]).transform(table), expected)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_one_row_and_constant_inputs(n_rows: int) -> None:
    rows = np.tile([[1.0, 2.0]], (n_rows, 1))
    fitted = SmoothBinning(n_grids=8, random_state=0).fit(rows)
    assert fitted.n_bins_.tolist() == [1] * 8
    assert fitted.bandwidth_.tolist() == [1.0, 1.0]
    assert fitted.transform(rows).shape == (n_rows, 8)


# Wrong parameters.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_grids": 0}, InputError, "SmoothBinning: n_grids"),
        ({"n_grids": 1.5}, InputError, "SmoothBinning: n_grids"),
        ({"precision": "float64"}, InputError, "must be one of 'float32', 'float16'"),
        ({"kernel": "laplacian"}, KernelError, "Windowed.*RandomBinning"),
        ({"kernel": Gaussian()}, KernelError, "Windowed.*RandomFourier"),
        ({"kernel": None}, KernelError, "Windowed"),
        ({"bandwidth": -1.0}, InputError, "bandwidth"),
        ({"bandwidth": [1.0, 2.0]}, InputError, "bandwidth"),
        ({"bandwidth": "mean"}, InputError, "'median'"),
        ({"categorical": [7]}, InputError, "no input 7"),
    ],
)
def test_bad_parameters(X: NDArray, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        smooth(**options).fit(X)


def test_windows_too_deep_for_the_inputs_are_refused() -> None:
    rows = np.random.default_rng(6).normal(size=(5, 3000))
    with pytest.raises(InputError, match=r"3000 inputs.*for_inputs\(3000\)"):
        smooth(kernel=Windowed(depth=1.0), bandwidth=100.0, n_grids=4).fit(rows)
    kernel = Windowed.for_inputs(3000)
    assert smooth(kernel=kernel, bandwidth=1e4, n_grids=64).fit(rows).n_effective_grids_ > 8


def test_rows_that_cannot_be_used(X: NDArray) -> None:
    for bad in (np.full((3, 2), np.nan), np.zeros((0, 2)), np.ones(3), 1j * np.ones((3, 2))):
        with pytest.raises(ValueError, match=r"."):
            smooth().fit(bad)
    with pytest.raises(NotFittedError):
        smooth().transform(X)
    with pytest.raises(ValueError, match="2 features, but SmoothBinning is expecting 3"):
        smooth().fit(X).transform(X[:, :2])


# The habits of scikit-learn, and the solvers.


def test_pickle_and_clone(X: NDArray) -> None:
    fitted = smooth(kernel=DEEP).fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    assert same_csr(again.transform(X + 0.1), fitted.transform(X + 0.1))
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "widths_")
    assert same_csr(fresh.fit_transform(X), fitted.transform(X))
    assert fitted.kernel_ == DEEP
    assert smooth().fit(X).kernel_ == Windowed()


def test_names_of_the_features(X: NDArray) -> None:
    fitted = smooth(n_grids=5).fit(X)
    names = fitted.get_feature_names_out()
    assert len(names) == fitted.offsets_[-1]
    assert names[0] == "smoothbinning0"


def test_size_and_sketch(X: NDArray) -> None:
    whole = smooth(kernel=DEEP)
    assert (whole.size, whole.size_name, whole.size_unit, whole.metric) == (
        *(16, "n_grids", "grids"),
        "cityblock",
    )
    assert whole.sketch(5).get_params() == {**whole.get_params(), "n_grids": 5}


def test_in_a_pipeline_with_a_linear_model(X: NDArray) -> None:
    target = np.sin(X[:, 0]) + X[:, 1]
    model = make_pipeline(smooth(n_grids=256, bandwidth=3.0), Ridge(alpha=0.05))
    assert model.fit(X[:100], target[:100]).score(X[100:], target[100:]) > 0.9


def test_smoother_than_plain_bins(X: NDArray) -> None:
    rng = np.random.default_rng(7)
    rows, new = rng.uniform(-1, 1, (1500, 3)), rng.uniform(-1, 1, (500, 3))
    truth = lambda X: np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + X[:, 2] ** 2  # noqa: E731

    def error(feature_map: Any) -> float:
        Z, Z_new = feature_map.fit_transform(rows), feature_map.transform(new)
        model = Ridge(alpha=1e-3, solver="lsqr").fit(Z, truth(rows))
        return float(np.sqrt(np.mean((model.predict(Z_new) - truth(new)) ** 2)))

    plain = RandomBinning(bandwidth=2.0, n_grids=128, random_state=0)
    assert error(smooth(bandwidth=1.0, n_grids=128)) < 0.6 * error(plain)


def test_newton_on_smooth_bins(X: NDArray) -> None:
    Z = smooth(n_grids=64).fit_matrix(X)
    targets = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    found = NewtonCG(tol=1e-6).solve(Problem(Z, targets, L2(1e-3), Logistic()))
    assert found.status == "converged"
    assert np.mean(np.sign(Z.matvec(found.weights)) == targets) > 0.9
