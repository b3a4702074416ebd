"""Random binning that forgets bins: what is kept stays, what is not was never seen."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gramless import RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.features.grids import Grids
from gramless.kernels import Laplacian

Mask = NDArray[np.bool_]
N_GRIDS = 21
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
NEW = np.concatenate([X[:50], RNG.normal(scale=2.0, size=(200, 3)), [[1e6] * 3, [-1e300] * 3]])


def binning(**options: Any) -> RandomBinning:
    return RandomBinning(**{"n_grids": N_GRIDS, "bandwidth": 1.0, "random_state": 0, **options})


def same_csr(a: sp.csr_array, b: sp.csr_array) -> bool:
    parts = ("data", "indices", "indptr")
    return a.shape == b.shape and all(np.array_equal(getattr(a, p), getattr(b, p)) for p in parts)


def masks(offsets: NDArray[np.int64]) -> dict[str, Mask]:
    """Return which bins to keep, among them choices that leave grids and whole groups empty."""
    n_bins = int(offsets[-1])
    number = np.arange(n_bins)
    grid = np.searchsorted(offsets, number, side="right") - 1
    few = np.random.default_rng(1).random(n_bins) < 0.02
    return {
        "all": np.ones(n_bins, bool),
        "half": number % 2 == 0,
        "few": few,
        "the first of each grid": np.isin(number, offsets[:-1]),
        "the last of each grid": np.isin(number, offsets[1:] - 1),
        "one grid of each group": grid % 8 == 3,
        "the last grid": grid == N_GRIDS - 1,
        "without the first group": grid >= 8,
        "the first bin": number == 0,
        "the last bin": number == n_bins - 1,
    }


KINDS = list(masks(binning().fit(X).offsets_))


def pruned(kind: str, fitted: RandomBinning) -> tuple[RandomBinning, Mask]:
    kept = masks(fitted.offsets_)[kind]
    less = copy.deepcopy(fitted)
    less.keep_bins(kept)
    return less, kept


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_kept_bins_are_unchanged(kind: str) -> None:
    fitted = binning().fit(X)
    less, kept = pruned(kind, fitted)
    for rows in (X, NEW):
        expected = fitted.transform(rows)[:, np.flatnonzero(kept)]
        found = less.transform(rows)
        assert found.has_canonical_format
        np.testing.assert_array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_are_those_of_what_is_left(kind: str) -> None:
    fitted = binning().fit(X)
    less, kept = pruned(kind, fitted)
    counts = np.array([part.sum() for part in np.split(kept, fitted.offsets_[1:-1])])
    left = counts > 0
    np.testing.assert_array_equal(less.n_bins_, counts[left])
    np.testing.assert_array_equal(less.offsets_, np.append(0, np.cumsum(counts[left])))
    for name in ("widths_", "shifts_", "nu_"):
        np.testing.assert_array_equal(getattr(less, name), getattr(fitted, name)[left])
    for name in ("scale_", "kappa_", "kappa_bar_", "seed_", "n_features_in_"):
        assert getattr(less, name) == getattr(fitted, name)
    assert less.get_params() == fitted.get_params()
    assert len(less.get_feature_names_out()) == kept.sum()


def test_values_stay_those_of_the_fit() -> None:
    less, _ = pruned("few", binning().fit(X))
    assert less.scale_ == 1 / np.sqrt(N_GRIDS)
    assert less.feature_matrix(NEW).scale == less.scale_
    assert set(less.transform(X).data) == {less.scale_}
    assert 1 < len(less.n_bins_) < N_GRIDS


def test_all_in_two_turns_is_once() -> None:
    fitted = binning().fit(X)
    twice, first = pruned("half", fitted)
    second = np.arange(first.sum()) % 5 == 0
    twice.keep_bins(second)
    both = first.copy()
    both[first] = second
    once = copy.deepcopy(fitted)
    once.keep_bins(both)
    assert same_csr(twice.transform(NEW), once.transform(NEW))
    np.testing.assert_array_equal(twice.widths_, once.widths_)


@pytest.mark.parametrize("kind", ["few", "without the first group", "the first bin"])
@pytest.mark.parametrize("form", [np.float32, np.asarray, np.asfortranarray, sp.csr_array])
def test_every_form_of_rows(kind: str, form: Any) -> None:
    thin = np.where(np.abs(X) > 0.7, X, 0.0).astype(np.float32).astype(np.float64)
    asked = np.where(np.abs(NEW) > 0.7, NEW, 0.0)[:-1].astype(np.float32).astype(np.float64)
    fitted = binning().fit(form(thin))
    less, kept = pruned(kind, fitted)
    expected = fitted.transform(asked).toarray()[:, kept]
    for rows in (form(asked), asked):
        np.testing.assert_array_equal(less.transform(rows).toarray(), expected)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_change_nothing(n_jobs: int) -> None:
    rows = np.random.default_rng(3).normal(size=(3000, 3))
    less, _ = pruned("half", binning(n_jobs=n_jobs).fit(X))
    expected, _ = pruned("half", binning(n_jobs=1).fit(X))
    assert same_csr(less.transform(rows), expected.transform(rows))


def test_codes_become_as_small_as_what_is_left() -> None:
    fitted, many = binning(bandwidth=0.02).fit(X), np.tile(X, (167, 1))
    assert fitted.feature_matrix(many).codes.dtype == np.uint16
    less, kept = pruned("few", fitted)
    matrix = less.feature_matrix(many)
    assert matrix.codes.dtype == np.uint8
    assert less.feature_matrix(X).codes.dtype == np.uint16
    for part in (matrix.take_rows(slice(0, 300)), less.feature_matrix(X)):
        np.testing.assert_array_equal(part.toarray(), fitted.transform(X).toarray()[:, kept])


def test_bins_by_the_thousand() -> None:
    rows = np.random.default_rng(4).uniform(size=(9000, 2))
    fitted = binning(bandwidth=1e-3, n_grids=10).fit(rows)
    assert fitted.n_bins_.min() > 5000
    kept = np.random.default_rng(5).random(fitted.offsets_[-1]) < 0.5
    less = copy.deepcopy(fitted)
    less.keep_bins(kept)
    expected = fitted.transform(rows)[:, np.flatnonzero(kept)]
    assert same_csr(less.transform(rows), expected)


def test_another_fit_has_all_bins_again() -> None:
    fitted = binning().fit(X)
    expected = fitted.transform(NEW)
    less, _ = pruned("few", fitted)
    assert not hasattr(clone(less), "widths_")
    assert same_csr(clone(less).fit(X).transform(NEW), expected)
    assert same_csr(less.fit(X).transform(NEW), expected)
    assert len(less.n_bins_) == len(less.nu_) == N_GRIDS


def test_copies_and_files(tmp_path: Path) -> None:
    less, _ = pruned("few", binning().fit(X))
    save(less, tmp_path / "less")
    for again in (pickle.loads(pickle.dumps(less)), load(tmp_path / "less")):
        assert same_csr(again.transform(NEW), less.transform(NEW))
        assert again.scale_ == less.scale_
    save(binning().fit(X), tmp_path / "all")
    assert (tmp_path / "less").stat().st_size < 0.5 * (tmp_path / "all").stat().st_size


# What cannot be done.


def test_it_must_be_fitted() -> None:
    with pytest.raises(NotFittedError):
        binning().keep_bins(np.ones(5, bool))


@pytest.mark.parametrize("more", [-1, 1])
def test_the_mask_must_speak_of_every_bin(more: int) -> None:
    fitted = binning().fit(X)
    n_bins = int(fitted.offsets_[-1])
    with pytest.raises(InputError, match=rf"of {n_bins} bins.*\({n_bins + more},\)"):
        fitted.keep_bins(np.ones(n_bins + more, bool))
    with pytest.raises(InputError, match=f"of {n_bins} bins"):
        fitted.keep_bins(np.ones((n_bins, 1), bool))


def test_something_must_be_kept() -> None:
    fitted = binning().fit(X)
    with pytest.raises(InputError, match="at least one.* with 0 of them"):
        fitted.keep_bins(np.zeros(fitted.offsets_[-1], bool))


def test_a_refusal_changes_nothing() -> None:
    fitted = binning().fit(X)
    expected = fitted.transform(NEW)
    for kept in (np.zeros(fitted.offsets_[-1], bool), np.ones(3, bool)):
        with pytest.raises(InputError):
            fitted.keep_bins(kept)
    assert same_csr(fitted.transform(NEW), expected)


@pytest.mark.parametrize("form", [np.ndarray.tolist, np.int64, np.float64, np.uint8])
def test_a_mask_of_another_type_is_refused_or_means_the_same(form: Any) -> None:
    fitted = binning().fit(X)
    expected, kept = pruned("half", fitted)
    try:
        fitted.keep_bins(form(kept))
    except InputError:
        return
    assert same_csr(fitted.transform(NEW), expected.transform(NEW))


def test_grids_taken_are_the_grids() -> None:
    grids = Grids.draw(Laplacian(), np.ones(3), 11, 0)
    kept = np.arange(11) % 3 == 1
    taken = grids.take(kept)
    assert (len(taken), taken.n_features) == (4, 3)
    for name in ("widths", "shifts", "multipliers", "offsets"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(grids, name)[kept])
    codes, _ = grids.learn(X)
    np.testing.assert_array_equal(taken.learn(X)[0], codes[kept])
