"""SmoothBinning: its distribution, its values, its layouts, scikit-learn's contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.errors import InputError, KernelError
from gramless.features.smooth import SmoothBinning
from gramless.kernels import Gaussian
from gramless.kernels.windowed import GammaHats, Windowed
from tests.features.csr import same_csr

DEEP = Windowed("cosine", depth=2 / 3, shape=8.0)


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(150, 3))


def smooth(**options: Any) -> SmoothBinning:
    return SmoothBinning(**{"n_grids": 16, "bandwidth": 1.5, "random_state": 0, **options})


def places(fitted: SmoothBinning, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cells and places inside them by definition, (n_grids, n_rows, n_features)."""
    return (rows - fitted.shifts_[:, None]) / fitted.widths_[:, None]


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


@pytest.mark.parametrize(("n_inputs", "kernel"), [(1, DEEP), (2, Windowed()), (5, DEEP)])
def test_inner_products_estimate_the_kernel_without_bias(n_inputs: int, kernel: Windowed) -> None:
    assert gap_in_standard_errors(kernel, n_inputs, 1.0, 1.0) < 4.0


@pytest.mark.parametrize(("n_inputs", "claimed"), [(1, 0.95), (2, 1.05), (5, 0.95)])
def test_five_percent_error_of_bandwidth_would_be_detected(n_inputs: int, claimed: float) -> None:
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


def test_flat_windows_of_shape_two_equal_laplacian_bins(X: NDArray) -> None:
    """Every value is 1, and the bins are those of plain grids of these widths."""
    flat = smooth(kernel=Windowed(depth=0.0, shape=2.0)).fit(X)
    plain = RandomBinning(GammaHats(2.0), n_grids=16, bandwidth=1.5, random_state=0).fit(X)
    assert same_csr(flat.transform(X + 0.1), plain.transform(X + 0.1))
    laplacian = RandomBinning(n_grids=16, bandwidth=1.5, random_state=0).fit(X)
    np.testing.assert_allclose(flat.widths_, laplacian.widths_, rtol=1e-14)


def test_variance_of_inner_products_matches_the_fourth_moment() -> None:
    """Rows far apart have places of their own in every grid, so that few grids are enough."""
    rows = 1000.0 * np.arange(100)[:, None] + np.zeros(3)
    squares = smooth(kernel=DEEP, n_grids=500).fit_matrix(rows).values.astype(float) ** 2
    assert squares.mean() == pytest.approx(1.0, abs=0.03)
    assert (squares**2).mean() == pytest.approx(DEEP.fourth_moment**3, rel=0.1)


# Values and attributes against their definitions.


@pytest.mark.parametrize("kernel", [Windowed(), DEEP])
def test_values_match_windows_over_cells(X: NDArray, kernel: Windowed) -> None:
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


def test_unseen_bins_leave_no_entry(X: NDArray) -> None:
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


def test_more_grids_keep_the_first_ones(X: NDArray) -> None:
    few, many = smooth(n_grids=13).fit(X), smooth(n_grids=30).fit(X)
    np.testing.assert_array_equal(few.offsets_, many.offsets_[:14])
    for rows in (X, X + 0.5):
        small, large = few.feature_matrix(rows), many.feature_matrix(rows)
        np.testing.assert_array_equal(small.codes, large.codes[:13])
        np.testing.assert_array_equal(small.values, large.values[:13])


def test_categories_are_separated_with_unit_windows(X: NDArray) -> None:
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


def test_half_precision_rounds_only_values(X: NDArray) -> None:
    single, half = smooth(), smooth(precision="float16")
    whole, rounded = single.fit_matrix(X), half.fit_matrix(X)
    assert rounded.values.dtype == np.float16
    np.testing.assert_array_equal(rounded.codes, whole.codes)
    np.testing.assert_array_equal(rounded.values, whole.values.astype(np.float16))
    assert half.transform(X).data.dtype == single.transform(X).data.dtype == np.float64


# Wrong parameters.


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"precision": "float64"}, InputError, "must be one of 'float32', 'float16'"),
    ({"kernel": "laplacian"}, KernelError, "Windowed.*RandomBinning"),
    ({"kernel": Gaussian()}, KernelError, "Windowed.*RandomFourier"),
    ({"kernel": None}, KernelError, "Windowed"),
    ({"categorical": [7]}, InputError, "no input 7"),
]


def test_invalid_parameters_are_rejected(X: NDArray) -> None:
    for options, error, message in REFUSED:
        with pytest.raises(error, match=message):
            smooth(**options).fit(X)


def test_windows_too_deep_for_the_inputs_are_rejected() -> None:
    rows = np.random.default_rng(6).normal(size=(5, 3000))
    with pytest.raises(InputError, match=r"3000 inputs.*for_inputs\(3000\)"):
        smooth(kernel=Windowed(depth=1.0), bandwidth=100.0, n_grids=4).fit(rows)
    kernel = Windowed.for_inputs(3000)
    assert smooth(kernel=kernel, bandwidth=1e4, n_grids=64).fit(rows).n_effective_grids_ > 8
