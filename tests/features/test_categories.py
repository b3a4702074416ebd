"""Inputs of categories: the kernel that tells equal from not, its grids, its units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.features.grids import Grids
from gramless.kernels import BinningKernel, InversePower, Laplacian
from gramless.preprocessing.categories import category_mask, check_categories
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import SCALINGS, Scaler
from tests.solvers.pairwise import each_value

MASK = np.array([False, True, True, False])
BANDWIDTH = np.array([1.5, 2.5, 0.8, 3.0])


@pytest.fixture
def X() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(40, 2))
    return np.column_stack(
        [numbers[:, 0], rng.integers(0, 4, 40), rng.integers(-2, 3, 40) * 1000, numbers[:, 1]]
    )


def reference(kernel: BinningKernel, X: NDArray, bandwidth: NDArray) -> NDArray[np.float64]:
    """Return the kernel of numbers and categories by its definition, pair by pair."""
    gram = np.ones((len(X), len(X)))
    for j, width in enumerate(bandwidth):
        distance = np.abs(X[:, None, j] - X[:, j])
        if MASK[j]:
            distance = (distance > 0) * 1.0
        gram *= kernel.profile(distance / width)
    return gram


def binning(**options: Any) -> RandomBinning:
    chosen = {"n_grids": 64, "bandwidth": BANDWIDTH, "categorical": MASK, "random_state": 0}
    return RandomBinning(**{**chosen, **options})


# Which inputs.


def test_categorical_accepts_masks_positions_and_names() -> None:
    for chosen in ([1, 2], MASK, MASK.tolist(), ["b", 2], np.array([2, 1, 1])):
        assert category_mask(chosen, 4, "abcd").tolist() == MASK.tolist()
    for nothing in (None, [], (), np.array([])):
        assert not category_mask(nothing, 4).any()


NO_INPUTS: list[tuple[Any, str]] = [
    ([4], "there is no input 4; positions are 0 to 3"),
    ([-1], "there is no input -1"),
    (["x"], "no input is called 'x'; known are 'a', 'b', 'c', 'd'"),
    ([True, False], "2 truth values for 4 inputs"),
    ([True, 2], "got True"),
    ([1.0], r"got 1\.0"),
    ([None], "got None"),
    (MASK[None], "got array"),
    ("a", "got 'a'"),
    (3, "got 3"),
]


def test_missing_inputs_are_rejected() -> None:
    for chosen, message in NO_INPUTS:
        with pytest.raises(InputError, match=f"categorical.*{message}"):
            category_mask(chosen, 4, "abcd")
        with pytest.raises(InputError, match="categorical"):
            binning(categorical=chosen).fit(np.ones((3, 4)))


@pytest.mark.parametrize(
    ("value", "form"), each_value([0.5, -1.25, 2.0**52, np.inf], [np.asarray, sp.csr_array])
)
def test_categories_must_be_integers(value: float, form: Any) -> None:
    rows = np.array([[0.5, 1.0], [0.5, value]])
    with pytest.raises(InputError, match="input 1 is a category and holds"):
        check_categories(form(rows), np.array([False, True]))
    if np.isfinite(value):
        with pytest.raises(InputError, match="whole numbers"):
            RandomBinning(categorical=[1], n_grids=2).fit(form(rows))


# The kernel.


@pytest.mark.parametrize("kernel", [Laplacian(), InversePower(2.0)], ids=str)
def test_inner_products_estimate_the_kernel_without_bias(kernel: BinningKernel, X: NDArray) -> None:
    n_grids = 4096
    Z = binning(kernel=kernel, n_grids=n_grids).fit_transform(X)
    exact = reference(kernel, X, BANDWIDTH)
    error = np.sqrt(exact * (1 - exact) / n_grids)
    assert (np.abs((Z @ Z.T).toarray() - exact) <= 4.5 * error + 1e-9).all()
    wrong = reference(kernel, X, BANDWIDTH * np.where(MASK, 1.5, 1.0))
    assert (np.abs((Z @ Z.T).toarray() - wrong) > 4.5 * error + 1e-9).any()


# Grids.


def drawn(categorical: NDArray | None, factor: float = 1.0, n_grids: int = 200) -> Grids:
    return Grids.draw(Laplacian(), factor * BANDWIDTH, n_grids, 3, categorical)


def test_other_inputs_keep_their_cells() -> None:
    plain, grids = drawn(None), drawn(MASK)
    np.testing.assert_array_equal(grids.widths[:, ~MASK], plain.widths[:, ~MASK])
    np.testing.assert_array_equal(grids.shifts[:, ~MASK], plain.shifts[:, ~MASK])
    np.testing.assert_array_equal(grids.multipliers, plain.multipliers)
    assert set(np.unique(grids.widths[:, MASK])) == {1.0, np.inf}
    assert set(np.unique(grids.shifts[:, MASK])) == {0.0, 0.5}


def test_larger_bandwidth_separates_categories_in_fewer_grids() -> None:
    parted = [np.isfinite(drawn(MASK, factor).widths[:, MASK]) for factor in (0.3, 1.0, 3.0)]
    assert (parted[0] >= parted[1]).all()
    assert (parted[1] >= parted[2]).all()
    assert parted[0].sum() > parted[1].sum() > parted[2].sum() > 0


# The feature map.


def test_unseen_category_has_no_bin_if_separated(X: NDArray) -> None:
    fitted = binning().fit(X)
    new = X.copy()
    new[:, 1] = 99
    result = fitted.feature_matrix(new).codes > 0
    parted = fitted.widths_[:, 1] == 1
    assert 0 < parted.sum() < 64
    assert not result[parted].any()
    assert result[~parted].all()


def test_layout_type_and_threads_do_not_change_bins(X: NDArray) -> None:
    for dtype in ("i4", "i8", "f4"):
        rows = np.round(X).astype(dtype)
        expected = binning().fit_transform(rows.astype(float)).toarray()
        for form in (rows, np.asfortranarray(rows), sp.csr_array(rows)):
            np.testing.assert_array_equal(binning().fit_transform(form).toarray(), expected)
        np.testing.assert_array_equal(binning(n_jobs=2).fit_transform(rows).toarray(), expected)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_median_distance_counts_categories_as_equal_or_not(X: NDArray, form: Any) -> None:
    rows = X * [1.0, 3.0, 1.0, 0.0]
    gaps = np.abs(rows[:, None] - rows)
    gaps[..., MASK] = gaps[..., MASK] > 0
    exact = np.median(gaps.sum(axis=2)[np.triu_indices(40, 1)])
    result = median_distance(form(rows), 0, MASK)
    assert result == pytest.approx(exact, rel=0.05)
    assert (binning(bandwidth="median").fit(form(rows)).bandwidth_ == result).all()


# Units.


# Whitening refuses categories.
OF_EACH_INPUT = [kind for kind in SCALINGS if kind != "whiten"]


def differing(column: NDArray, weight: NDArray) -> float:
    share = weight / weight.sum()
    return float(share @ (column[:, None] != column) @ share)


@pytest.mark.parametrize(("kind", "weighted"), each_value(OF_EACH_INPUT, [True, False]))
def test_scaler_gives_units_and_distances_of_categories(
    X: NDArray, kind: Any, weighted: bool
) -> None:
    weight = np.random.default_rng(1).uniform(1, 3, 40) if weighted else np.ones(40)
    scaler = Scaler.fit(kind, X, weight, MASK)
    plain = Scaler.fit(kind, X[:, ~MASK], weight)
    parts = 2 if kind == "both" else 1
    np.testing.assert_array_equal(scaler.unit[np.tile(~MASK, parts)], plain.unit)
    assert (scaler.unit[:4][MASK] == 1).all()
    assert np.isinf(scaler.unit[4:][MASK[: len(scaler.unit) - 4]]).all()
    apart = sum(differing(X[:, j], weight) for j in np.flatnonzero(MASK))
    assert scaler.spread == pytest.approx(plain.spread + apart, rel=1e-12)
    assert scaler.categorical is not None
    np.testing.assert_array_equal(np.flatnonzero(scaler.categorical), [1, 2])


def test_categories_are_never_ranked(X: NDArray) -> None:
    rows = Scaler.fit("both", X, categorical=MASK).rows(X)
    np.testing.assert_array_equal(rows[:, :4][:, MASK], X[:, MASK])
    assert (rows[:, 4:][:, MASK] == 0).all()


def test_constant_category_is_ignored() -> None:
    for kind in OF_EACH_INPUT:
        scaler = Scaler.fit(kind, np.full((5, 1), 3.0), categorical=np.array([True]))  # type: ignore[arg-type]
        assert np.isinf(scaler.unit).all()
        assert scaler.spread == 1.0


def test_category_is_constant_only_if_all_rows_are_equal() -> None:
    rows = np.zeros((60_001, 1))
    rows[1] = 1.0
    assert Scaler.fit("standard", rows, categorical=np.array([True])).unit[0] == 1.0


def test_relevance_separates_categories_in_more_grids(X: NDArray) -> None:
    scaler = Scaler.fit("standard", X, categorical=MASK)
    weighted = scaler.weighted(np.array([1.0, 4.0, 1.0, 1.0]))
    grids, strong = (
        Grids.draw(Laplacian(), 2.0 * each.unit, 2000, 0, MASK) for each in (scaler, weighted)
    )
    assert np.isfinite(grids.widths[:, 1]).mean() == pytest.approx(1 - np.exp(-0.5), abs=0.04)
    assert np.isfinite(strong.widths[:, 1]).mean() == pytest.approx(1 - np.exp(-2.0), abs=0.04)
