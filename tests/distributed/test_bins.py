from __future__ import annotations

import numpy as np
import pytest

from gramless.distributed.bins import BinKeys
from gramless.distributed.partitions import Sizes
from gramless.features.grids import Grids
from gramless.kernels import Laplacian


@pytest.fixture(scope="module")
def grids() -> Grids:
    return Grids.draw(Laplacian(), np.full(3, 2.0), 11, seed=0)


@pytest.mark.parametrize("cuts", [(), (1,), (300,), (10, 10, 50, 399)])
def test_merged_bins_are_numbered_as_in_one_pass(grids, cuts):
    X = np.random.default_rng(0).normal(size=(400, 3))
    codes, known = grids.learn(X)
    blocks = [grids.learn(part) for part in np.split(X, cuts)]
    tables = [BinKeys.of_counts(own.keys(), own.n_bins) for _, own in blocks]
    merged = BinKeys.merged(tables)
    np.testing.assert_array_equal(merged.keys, known.keys())
    np.testing.assert_array_equal(merged.n_bins, known.n_bins)
    found = [
        merged.sorted().renumbered(own, table)
        for (own, _), table in zip(blocks, tables, strict=True)
    ]
    np.testing.assert_array_equal(np.concatenate(found, axis=1), codes)


def test_tables_merge_alike_however_they_are_grouped(grids):
    X = np.random.default_rng(1).normal(size=(90, 3))
    parts = [grids.learn(part)[1] for part in np.split(X, 5)]
    tables = [BinKeys.of_counts(own.keys(), own.n_bins) for own in parts]
    left = BinKeys.merged([BinKeys.merged(tables[:3]), BinKeys.merged(tables[3:])])
    right = BinKeys.merged([tables[0], BinKeys.merged(tables[1:])])
    np.testing.assert_array_equal(left.keys, right.keys)


def test_small_partitions_share_a_block():
    sizes = Sizes()
    assert sizes.blocks([0, 0, 7]) == [[0, 1, 2]]
    assert sizes.blocks([70_000] * 3) == [[0], [1], [2]]
    lengths = [100] + [1] * 99
    assert [i for block in sizes.blocks(lengths) for i in block] == list(range(100))
