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
from sklearn.exceptions import NotFittedError

from gramless import RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.features.grids import Grids
from gramless.kernels import Laplacian
from tests.features.csr import same_csr
from tests.solvers.pairwise import each_value

Mask = NDArray[np.bool_]
N_GRIDS = 21
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
NEW = np.concatenate([X[:50], RNG.normal(scale=2.0, size=(200, 3)), [[1e6] * 3, [-1e300] * 3]])


def binning(**options: Any) -> RandomBinning:
    return RandomBinning(**{"n_grids": N_GRIDS, "bandwidth": 1.0, "random_state": 0, **options})


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
def test_kept_bins_are_unchanged_and_empty_grids_dropped(kind: str) -> None:
    fitted = binning().fit(X)
    less, kept = pruned(kind, fitted)
    for rows in (X, NEW):
        expected = fitted.transform(rows)[:, np.flatnonzero(kept)]
        result = less.transform(rows)
        assert result.has_canonical_format
        np.testing.assert_array_equal(result.toarray(), expected.toarray())
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


@pytest.mark.parametrize(
    ("form", "kind"),
    each_value(
        [np.float32, np.asarray, np.asfortranarray, sp.csr_array],
        ["few", "without the first group", "the first bin"],
    ),
)
def test_kept_bins_transform_every_form_of_rows(form: Any, kind: str) -> None:
    thin = np.where(np.abs(X) > 0.7, X, 0.0).astype(np.float32).astype(np.float64)
    asked = np.where(np.abs(NEW) > 0.7, NEW, 0.0)[:-1].astype(np.float32).astype(np.float64)
    fitted = binning().fit(form(thin))
    less, kept = pruned(kind, fitted)
    expected = fitted.transform(asked).toarray()[:, kept]
    for rows in (form(asked), asked):
        np.testing.assert_array_equal(less.transform(rows).toarray(), expected)


def test_number_of_threads_does_not_change_kept_bins() -> None:
    rows = np.random.default_rng(3).normal(size=(3000, 3))
    expected, _ = pruned("half", binning(n_jobs=1).fit(X))
    for n_jobs in (2, 3):
        less, _ = pruned("half", binning(n_jobs=n_jobs).fit(X))
        assert same_csr(less.transform(rows), expected.transform(rows))


def test_codes_shrink_with_the_kept_bins() -> None:
    fitted, many = binning(bandwidth=0.02).fit(X), np.tile(X, (167, 1))
    assert fitted.feature_matrix(many).codes.dtype == np.uint16
    less, kept = pruned("few", fitted)
    matrix = less.feature_matrix(many)
    assert matrix.codes.dtype == np.uint8
    assert less.feature_matrix(X).codes.dtype == np.uint16
    for part in (matrix.take_rows(slice(0, 300)), less.feature_matrix(X)):
        np.testing.assert_array_equal(part.toarray(), fitted.transform(X).toarray()[:, kept])


def test_copied_and_saved_maps_transform_the_same(tmp_path: Path) -> None:
    less, _ = pruned("few", binning().fit(X))
    save(less, tmp_path / "less")
    for again in (pickle.loads(pickle.dumps(less)), load(tmp_path / "less")):
        assert same_csr(again.transform(NEW), less.transform(NEW))
        assert again.scale_ == less.scale_
    save(binning().fit(X), tmp_path / "all")
    assert (tmp_path / "less").stat().st_size < 0.5 * (tmp_path / "all").stat().st_size


# What cannot be done.


def test_invalid_masks_are_rejected_without_changes() -> None:
    with pytest.raises(NotFittedError):
        binning().keep_bins(np.ones(5, bool))
    fitted = binning().fit(X)
    expected, n_bins = fitted.transform(NEW), int(fitted.offsets_[-1])
    for more in (-1, 1):
        with pytest.raises(InputError, match=rf"of {n_bins} bins.*\({n_bins + more},\)"):
            fitted.keep_bins(np.ones(n_bins + more, bool))
    with pytest.raises(InputError, match=f"of {n_bins} bins"):
        fitted.keep_bins(np.ones((n_bins, 1), bool))
    with pytest.raises(InputError, match="at least one True.* with 0 True"):
        fitted.keep_bins(np.zeros(n_bins, bool))
    assert same_csr(fitted.transform(NEW), expected)


@pytest.mark.parametrize("form", [np.ndarray.tolist, np.int64, np.float64, np.uint8])
def test_other_mask_types_are_rejected_or_equal(form: Any) -> None:
    fitted = binning().fit(X)
    expected, kept = pruned("half", fitted)
    try:
        fitted.keep_bins(form(kept))
    except InputError:
        return
    assert same_csr(fitted.transform(NEW), expected.transform(NEW))


def test_taken_grids_equal_the_grids() -> None:
    grids = Grids.draw(Laplacian(), np.ones(3), 11, 0)
    kept = np.arange(11) % 3 == 1
    taken = grids.take(kept)
    assert (len(taken), taken.n_features) == (4, 3)
    for name in ("widths", "shifts", "multipliers", "offsets"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(grids, name)[kept])
    codes, _ = grids.learn(X)
    np.testing.assert_array_equal(taken.learn(X)[0], codes[kept])
