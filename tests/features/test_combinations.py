"""Grids that divide linear combinations of the inputs."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import RandomBinning, load, save
from gramless.base.errors import ModelFileError
from gramless.base.lazy_rows import OrderedRows
from gramless.estimators.persistence import pack, write
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids, with_combinations
from gramless.features.shapley import shapley_values
from gramless.features.shapley_grids import Players

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(400, 4)), RNG.normal(size=(90, 4))
PROJECTION = np.vstack([RNG.normal(size=(3, 2)), np.zeros((1, 2))])


def grids() -> Grids:
    """Return grids of which one half divides inputs alone, and no grid the last input."""
    drawn = RandomBinning(n_grids=12, bandwidth=4.0, random_state=0)
    found = drawn.fit(with_combinations(X, PROJECTION)).grids
    widths = found.widths.copy()
    widths[::2, 4:] = widths[:, 3] = np.inf
    return replace(found, widths=widths, projection=PROJECTION)


def fitted(n_jobs: int | None = 2) -> GivenBinning:
    binning = GivenBinning(n_jobs=n_jobs)
    binning.fit_grids(X, grids())
    return binning


def over_columns() -> GivenBinning:
    """Return the same grids over rows whose combinations are given."""
    binning = GivenBinning()
    binning.fit_grids(with_combinations(X, PROJECTION), replace(grids(), projection=None))
    return binning


def test_combinations_are_products_with_the_projection() -> None:
    found = with_combinations(X, PROJECTION)
    np.testing.assert_array_equal(found[:, :4], X)
    np.testing.assert_allclose(found[:, 4:], X @ PROJECTION, rtol=1e-12)


def test_a_row_has_the_same_bits_in_any_block() -> None:
    alone = [with_combinations(row[None], PROJECTION) for row in X]
    np.testing.assert_array_equal(np.concatenate(alone), with_combinations(X, PROJECTION))


def test_bins_are_those_of_the_columns() -> None:
    expected = over_columns().transform(with_combinations(NEW, PROJECTION)).toarray()
    np.testing.assert_array_equal(fitted().transform(NEW).toarray(), expected)
    assert fitted().n_inputs == 4
    assert expected.any()


def test_rows_may_be_laid_out_in_any_way() -> None:
    single = NEW.astype(np.float32)
    rows = single.astype(np.float64)
    expected = fitted().rows_matrix(rows).toarray()
    for other in (sp.csr_array(rows), np.asfortranarray(rows), OrderedRows(rows), single):
        np.testing.assert_array_equal(fitted().rows_matrix(other).toarray(), expected)


def test_inputs_of_any_size_are_combined() -> None:
    """Terms are as large as usual; rows far beyond them stay finite."""
    sizes = np.array([1e300, 1e-300, 1.0, 1.0])
    found = with_combinations(X * sizes, PROJECTION / sizes[:, None])
    np.testing.assert_allclose(found[:, 4:], X @ PROJECTION, rtol=1e-12)
    far = with_combinations(X, PROJECTION / sizes[:, None])
    assert np.isfinite(far).all()


def test_no_grid_need_divide_a_combination() -> None:
    inputs = grids().take(~grids().divides_combinations).over_inputs()
    wide = inputs.projected(PROJECTION)
    for own in (inputs, wide):
        binning = GivenBinning()
        binning.fit_grids(X, own)
        assert binning.n_inputs == 4
    np.testing.assert_array_equal(wide.divides_combinations, False)
    assert len(Grids.joined([wide, grids()])) == len(wide) + 12


def test_bins_in_the_order_of_cells_are_the_same() -> None:
    grown = replace(grids(), multipliers=grids().multipliers << 24, offsets=grids().offsets << 24)
    whole = GivenBinning()
    matrix = whole.fit_grids(X, grown)
    before = whole.transform(NEW).toarray()
    order = whole.keep_ranked(np.ones(matrix.shape[1], bool), matrix, X)
    np.testing.assert_array_equal(whole.transform(NEW).toarray(), before[:, order])


def test_files_pickles_and_copies_hold_the_same_map(tmp_path: Path) -> None:
    expected = fitted().transform(NEW).toarray()
    save(fitted(), tmp_path / "map")
    for again in (load(tmp_path / "map"), pickle.loads(pickle.dumps(fitted()))):
        np.testing.assert_array_equal(again.transform(NEW).toarray(), expected)
    np.testing.assert_array_equal(copy.deepcopy(fitted()).transform(NEW).toarray(), expected)


def test_unsound_files_are_refused(tmp_path: Path) -> None:
    nan, single = np.full((4, 2), np.nan), np.zeros((4, 2), np.float32)
    for projection in (np.zeros((4, 3)), nan, np.zeros((6, 0)), single):
        broken = fitted()
        broken._known = replace(broken._known, grids=replace(grids(), projection=projection))
        write(tmp_path / "map", *pack(broken))
        with pytest.raises(ModelFileError):
            load(tmp_path / "map")


def test_shapley_values_are_those_of_the_inputs() -> None:
    """Against all subsets of the inputs, whose combinations follow."""
    features, weights = fitted(), RNG.normal(size=(fitted().offsets_[-1], 1))
    rows, background = NEW[:5], X[:30]
    found, mean = shapley_values(features, weights, rows, background, Players(np.arange(4), 4))

    def payoff(subset: int, row: NDArray) -> float:
        mixed = np.where([subset >> j & 1 for j in range(4)], row, background)
        return float((features.transform(mixed) @ weights).mean())

    sizes = [1 / 4, 1 / 12, 1 / 12, 1 / 4]
    for row, own in zip(rows, found[:, :, 0], strict=True):
        values = [payoff(subset, row) for subset in range(16)]
        expected = [
            sum(
                sizes[bin(s).count("1")] * (values[s | 1 << j] - values[s])
                for s in range(16)
                if not s >> j & 1
            )
            for j in range(4)
        ]
        np.testing.assert_allclose(own, expected, atol=1e-12)
        assert mean[0] == pytest.approx(values[0])
