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
    result = drawn.fit(with_combinations(X, PROJECTION)).grids
    widths = result.widths.copy()
    widths[::2, 4:] = widths[:, 3] = np.inf
    return replace(result, widths=widths, projection=PROJECTION)


def fitted(n_jobs: int | None = 2) -> GivenBinning:
    binning = GivenBinning(n_jobs=n_jobs)
    binning.fit_grids(X, grids())
    return binning


def over_columns() -> GivenBinning:
    """Return the same grids over rows whose combinations are given."""
    binning = GivenBinning()
    binning.fit_grids(with_combinations(X, PROJECTION), replace(grids(), projection=None))
    return binning


def test_combinations_match_the_projection() -> None:
    result = with_combinations(X, PROJECTION)
    np.testing.assert_array_equal(result[:, :4], X)
    np.testing.assert_allclose(result[:, 4:], X @ PROJECTION, rtol=1e-12)


def test_combination_does_not_depend_on_blocks() -> None:
    alone = [with_combinations(row[None], PROJECTION) for row in X]
    np.testing.assert_array_equal(np.concatenate(alone), with_combinations(X, PROJECTION))


def test_bins_match_those_of_combined_columns() -> None:
    expected = over_columns().transform(with_combinations(NEW, PROJECTION)).toarray()
    np.testing.assert_array_equal(fitted().transform(NEW).toarray(), expected)
    assert fitted().n_inputs == 4
    assert expected.any()


def test_layout_of_rows_does_not_change_features() -> None:
    single = NEW.astype(np.float32)
    rows = single.astype(np.float64)
    expected = fitted().rows_matrix(rows).toarray()
    for other in (sp.csr_array(rows), np.asfortranarray(rows), OrderedRows(rows), single):
        np.testing.assert_array_equal(fitted().rows_matrix(other).toarray(), expected)


def test_extreme_inputs_are_combined() -> None:
    """Terms are as large as usual; rows far beyond them stay finite."""
    sizes = np.array([1e300, 1e-300, 1.0, 1.0])
    result = with_combinations(X * sizes, PROJECTION / sizes[:, None])
    np.testing.assert_allclose(result[:, 4:], X @ PROJECTION, rtol=1e-12)
    far = with_combinations(X, PROJECTION / sizes[:, None])
    assert np.isfinite(far).all()


def test_grids_without_combinations_are_allowed() -> None:
    inputs = grids().take(~grids().divides_combinations).over_inputs()
    wide = inputs.projected(PROJECTION)
    for choice in (inputs, wide):
        binning = GivenBinning()
        binning.fit_grids(X, choice)
        assert binning.n_inputs == 4
    np.testing.assert_array_equal(wide.divides_combinations, False)
    assert len(Grids.joined([wide, grids()])) == len(wide) + 12


def test_order_of_cells_does_not_change_bins() -> None:
    grown = replace(grids(), multipliers=grids().multipliers << 24, offsets=grids().offsets << 24)
    whole = GivenBinning()
    matrix = whole.fit_grids(X, grown)
    before = whole.transform(NEW).toarray()
    order = whole.keep_ranked(np.ones(matrix.shape[1], bool), matrix, X)
    np.testing.assert_array_equal(whole.transform(NEW).toarray(), before[:, order])


def test_saved_and_copied_maps_transform_the_same(tmp_path: Path) -> None:
    expected = fitted().transform(NEW).toarray()
    save(fitted(), tmp_path / "map")
    for again in (load(tmp_path / "map"), pickle.loads(pickle.dumps(fitted()))):
        np.testing.assert_array_equal(again.transform(NEW).toarray(), expected)
    np.testing.assert_array_equal(copy.deepcopy(fitted()).transform(NEW).toarray(), expected)


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    nan, single = np.full((4, 2), np.nan), np.zeros((4, 2), np.float32)
    for projection in (np.zeros((4, 3)), nan, np.zeros((6, 0)), single):
        broken = fitted()
        broken._known = replace(broken._known, grids=replace(grids(), projection=projection))
        write(tmp_path / "map", *pack(broken))
        with pytest.raises(ModelFileError):
            load(tmp_path / "map")


def test_shapley_values_belong_to_inputs() -> None:
    """Against all subsets of the inputs, whose combinations follow."""
    features, weights = fitted(), RNG.normal(size=(fitted().offsets_[-1], 1))
    rows, background = NEW[:5], X[:30]
    result, mean = shapley_values(features, weights, rows, background, Players(np.arange(4), 4))

    def payoff(subset: int, row: NDArray) -> float:
        mixed = np.where([subset >> j & 1 for j in range(4)], row, background)
        return float((features.transform(mixed) @ weights).mean())

    sizes = [1 / 4, 1 / 12, 1 / 12, 1 / 4]
    for row, sums in zip(rows, result[:, :, 0], strict=True):
        values = [payoff(subset, row) for subset in range(16)]
        expected = [
            sum(
                sizes[bin(s).count("1")] * (values[s | 1 << j] - values[s])
                for s in range(16)
                if not s >> j & 1
            )
            for j in range(4)
        ]
        np.testing.assert_allclose(sums, expected, atol=1e-12)
        assert mean[0] == pytest.approx(values[0])
