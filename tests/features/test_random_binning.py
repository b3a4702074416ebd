"""RandomBinning: its distribution, its attributes, its layouts, scikit-learn's contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.errors import KernelError
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
from tests.features.csr import same_csr

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


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(150, 3))


def binning(**options: Any) -> RandomBinning:
    return RandomBinning(**{"n_grids": 16, "bandwidth": 2.0, "random_state": 0, **options})


def cells(binning: RandomBinning, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cell of each grid and row by definition, (n_grids, n_rows, n_features)."""
    widths, shifts = binning.widths_[:, None], binning.shifts_[:, None]
    return np.floor((rows - shifts) / widths)


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
    for result, others in zip(collisions.mean(axis=1), moved, strict=True):
        exact = kernel.gram(base, others[:1], bandwidth=claimed)[0, 0]
        error = np.sqrt(exact * (1 - exact) / (n_grids * n_inputs))
        worst = max(worst, abs(result - exact) / max(error, 1e-12))
    return worst


def test_every_binning_kernel_has_a_sample() -> None:
    registered = {name for name, kind in KERNELS.items() if issubclass(kind, BinningKernel)}
    assert registered == set(KERNEL_SAMPLES)


@pytest.mark.parametrize("name", KERNEL_SAMPLES)
def test_inner_products_estimate_the_kernel_without_bias(name: str) -> None:
    assert gap_in_standard_errors(KERNEL_SAMPLES[name], 1.0, 1.0) < 4.0


@pytest.mark.parametrize("claimed", [0.95, 1.05])
def test_five_percent_error_of_bandwidth_would_be_detected(claimed: float) -> None:
    assert gap_in_standard_errors(Laplacian(), 1.0, claimed) > 4.0


@pytest.mark.parametrize("name", ["laplacian", "mixture", "profile", "sum"])
def test_kernels_multiply_over_inputs_of_different_bandwidth(name: str) -> None:
    kernel, bandwidth = KERNEL_SAMPLES[name], np.array([0.7, 2.0, 5.0])
    rows = np.random.default_rng(2).uniform(-1, 1, size=(6, 3))
    Z = binning(kernel=kernel, n_grids=2048, bandwidth=bandwidth).fit_transform(rows)
    exact = kernel.gram(rows, bandwidth=bandwidth)
    error = np.sqrt(exact * (1 - exact) / 2048)
    assert (np.abs((Z @ Z.T).toarray() - exact) <= 4 * error + 1e-9).all()


# Attributes against their definitions.


def test_collision_probability_matches_brute_force(X: NDArray) -> None:
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


def test_unseen_bins_leave_no_entry(X: NDArray) -> None:
    fitted = binning(n_grids=12).fit(X)
    rows = np.concatenate([X + 0.3, [[1e6, -1e6, 1e6]]])
    known, asked = cells(fitted, X), cells(fitted, rows)
    expected = (asked[:, :, None] == known[:, None]).all(axis=3).any(axis=2).sum(axis=0)
    Z = fitted.transform(rows)
    np.testing.assert_array_equal(np.diff(Z.indptr), expected)
    assert (Z.data == 1 / np.sqrt(12)).all()
    assert expected[-1] == 0
    assert 0 < expected.min(initial=12, where=expected > 0) < 12


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


def test_seed_decides_the_grids(X: NDArray) -> None:
    expected = binning(random_state=5).fit_transform(X)
    assert same_csr(binning(random_state=5).fit_transform(X), expected)
    assert not same_csr(binning(random_state=6).fit_transform(X), expected)
    states = [binning(random_state=np.random.RandomState(7)).fit(X) for _ in range(2)]
    np.testing.assert_array_equal(states[0].widths_, states[1].widths_)
    assert states[0].seed_ == states[1].seed_
    free = [binning(random_state=None).fit(X).seed_ for _ in range(2)]
    assert free[0] != free[1]


# Wrong parameters.


def test_gaussian_kernel_is_rejected_with_alternatives(X: NDArray) -> None:
    with pytest.raises(KernelError, match=r"Gaussian.*convex.*laplacian.*Fourier"):
        binning(kernel="gaussian").fit(X)


def test_unknown_kernel_is_rejected_with_names(X: NDArray) -> None:
    with pytest.raises(KernelError, match="unknown kernel 'rbf'.*laplacian"):
        binning(kernel="rbf").fit(X)


# The habits of scikit-learn.


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_transformed_to_sparse_rows(X: NDArray, library: str) -> None:
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
