"""Bins merged from partitions of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.distributed.bins import BinKeys, SomeColumns
from gramless.distributed.partitions import Sizes
from gramless.distributed.workspace import Workspace
from gramless.features.grids import Grids
from gramless.kernels import Laplacian
from gramless.matrices.binned import BinnedMatrix


@pytest.fixture(scope="module")
def grids() -> Grids:
    return Grids.draw(Laplacian(), np.full(3, 2.0), 11, seed=0)


def test_merged_bins_are_numbered_as_in_one_pass(grids):
    for cuts in [(), (1,), (300,), (10, 10, 50, 399)]:
        X = np.random.default_rng(0).normal(size=(400, 3))
        codes, known = grids.learn(X)
        blocks = [grids.learn(part) for part in np.split(X, cuts)]
        tables = [
            BinKeys.of_counts(known_bins.keys(), known_bins.n_bins) for _, known_bins in blocks
        ]
        merged = BinKeys.merge(tables)
        np.testing.assert_array_equal(merged.keys, known.keys())
        np.testing.assert_array_equal(merged.n_bins, known.n_bins)
        results = [
            merged.columns_of(table).renumber(block_codes)
            for (block_codes, _), table in zip(blocks, tables, strict=True)
        ]
        np.testing.assert_array_equal(np.concatenate(results, axis=1), codes)


def test_bins_of_a_block_map_to_global_columns(grids):
    for n_outputs in [(), (3,)]:
        generator = np.random.default_rng(2)
        X = generator.normal(size=(300, 3))
        _, known = grids.learn(X)
        codes, some = grids.learn(X[200:])
        merged = BinKeys.of_counts(known.keys(), known.n_bins)
        columns = merged.columns_of(BinKeys.of_counts(some.keys(), some.n_bins))
        binned = BinnedMatrix(codes, columns.offsets, scale=1.0)
        part = SomeColumns(binned, columns, 0.3, Workspace(1))
        whole = BinnedMatrix(known.find(X[200:]), merged.offsets, scale=0.3)
        w, v = (generator.normal(size=(n, *n_outputs)) for n in reversed(whole.shape))
        np.testing.assert_array_equal(part.matvec(w), whole.matvec(w))
        np.testing.assert_array_equal(part.rmatvec(v), whole.rmatvec(v))
        np.testing.assert_allclose(part.gram_diagonal(), whole.gram_diagonal(), rtol=1e-12)
        np.testing.assert_array_equal(
            part.take_rows(np.array([7, 3])).matvec(w), whole.matvec(w)[[7, 3]]
        )


def test_merging_tables_is_associative(grids):
    X = np.random.default_rng(1).normal(size=(90, 3))
    parts = [grids.learn(part)[1] for part in np.split(X, 5)]
    tables = [BinKeys.of_counts(part.keys(), part.n_bins) for part in parts]
    left = BinKeys.merge([BinKeys.merge(tables[:3]), BinKeys.merge(tables[3:])])
    right = BinKeys.merge([tables[0], BinKeys.merge(tables[1:])])
    np.testing.assert_array_equal(left.keys, right.keys)


def test_small_partitions_share_a_block():
    sizes = Sizes()
    assert sizes.blocks([0, 0, 7]) == [[0, 1, 2]]
    assert sizes.blocks([70_000] * 3) == [[0], [1], [2]]
    lengths = [100] + [1] * 99
    assert [i for block in sizes.blocks(lengths) for i in block] == list(range(100))
