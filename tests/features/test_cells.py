"""Ranks of cells: keys are recovered, and files with inconsistent parts raise an error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.features.binning import GivenBinning
from gramless.features.cells import CellRanks
from gramless.features.grids import SHORT_HASH, Grids

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
FAR = X * [1.0, 1.0, 1e13, 1e13]


def grids_of(widths: list[list[float]]) -> Grids:
    wide = np.array(widths)
    hashes = RNG.integers(-(2**63), 2**63, (len(wide), wide.shape[1] + 1)) << SHORT_HASH
    odd = hashes[:, 1:] | 1 << SHORT_HASH
    return Grids(wide, RNG.normal(size=wide.shape), odd, hashes[:, 0].copy())


INF = np.inf
GRIDS = grids_of(
    [[0.5, INF, INF, INF], [INF] * 4, [1.0, 0.3, INF, INF], [2.0, INF, 3.0, 1.0], [1e-3] * 4]
)


def fitted(X: NDArray[np.float64], grids: Grids = GRIDS) -> tuple[GivenBinning, NDArray[np.bool_]]:
    """Return a map whose bins are ranked, and which of the bins it had before."""
    binning = GivenBinning(n_jobs=2)
    matrix = binning.fit_grids(X, grids)
    kept = RNG.random(matrix.shape[1]) < 0.7
    kept[: binning.offsets_[1]] = False
    before = binning.keys
    order = binning.keep_ranked(kept, matrix, X)
    assert (np.sort(order) == np.flatnonzero(kept)).all()
    assert (binning.keys == before[order]).all()
    return binning, kept


@pytest.mark.parametrize("rows", [X, FAR, X.astype(np.float32)], ids=["near", "far", "single"])
def test_keys_are_restored_from_ranks(rows: NDArray[np.float64]) -> None:
    plain = GivenBinning()
    plain.fit_grids(rows, GRIDS)
    ranked, kept = fitted(rows)
    assert len(ranked.grids) == len(GRIDS) - 1  # one has no bins left
    assert ranked._cells is not None
    assert (ranked._cells.keys(ranked.grids, ranked.offsets_) == ranked.keys).all()
    plain.keep_bins(kept)
    result, expected = ranked.transform(rows), plain.transform(rows)
    assert (result.sum(axis=1) == expected.sum(axis=1)).all()
    assert result.shape == expected.shape


def test_frequent_bins_come_first() -> None:
    ranked, _ = fitted(X)
    counts = (ranked.transform(X) != 0).sum(axis=0)
    assert ranked._cells is not None
    for a, runs in zip(ranked.offsets_, ranked._cells.runs, strict=False):
        first, second, last = np.split(counts[a : a + runs.sum()], np.cumsum(runs)[:-1])
        assert (first >= 32).all()
        assert ((second >= 4) & (second < 32)).all()
        assert (last < 4).all()


def test_other_rows_are_stored_as_hashes() -> None:
    binning = GivenBinning()
    matrix, keys = binning.fit_grids(X, GRIDS), binning.keys
    binning.keep_ranked(np.ones(matrix.shape[1], bool), matrix, X + 5.0)
    assert binning._cells is not None
    assert (np.sort(binning.keys) == np.sort(keys)).all()
    again = binning._cells.keys(binning.grids, binning.offsets_)
    assert (again == binning.keys).all()


def test_long_keys_stay_keys() -> None:
    binning, grids = GivenBinning(), replace(GRIDS, multipliers=GRIDS.multipliers | 1)
    matrix = binning.fit_grids(X, grids)
    kept = np.arange(matrix.shape[1]) % 2 == 0
    assert (binning.keep_ranked(kept, matrix, X) == np.flatnonzero(kept)).all()
    assert binning._cells is None


RANKS = CellRanks(np.array([-3]), np.array([9]), np.array([[1, 2]]), np.array([4, 1, 5]))


MISFITS = [
    {"lowest": np.array([-3, 1])},
    {"lengths": np.array([-9])},
    {"lengths": np.array([2**62])},
    {"lengths": np.array([9.0])},
    {"runs": np.array([[1, 3]])},
    {"runs": np.array([[4, -1]])},
    {"runs": np.array([[1, 2]] * 2)},
    {"runs": np.zeros((1, 0), int)},
    {"runs": np.array([1, 2])},
    {"gaps": np.array([4, 1])},
    {"gaps": np.array([4, 1, -5])},
    {"gaps": np.array([4, 1, 2**62])},
    {"gaps": None},
]


def test_invalid_ranks_are_rejected() -> None:
    widths, offsets = np.array([[1.0, np.inf]]), np.array([0, 3])
    RANKS.check_bins(widths, offsets)
    for change in MISFITS:
        with pytest.raises(ValueError, match=next(iter(change))):
            replace(RANKS, **change).check_bins(widths, offsets)  # type: ignore[arg-type]
