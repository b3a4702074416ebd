"""The shuffle of chunks on disk: epochs, order and samples of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse, stats

from gramless.base.errors import DataFileError, InputError
from gramless.streaming.chunk_checks import BlockSizes
from gramless.streaming.external_shuffle import ShardSource, ShuffleSizes, external_shuffle

Rows = tuple[np.ndarray, np.ndarray]


def numbered(n: int) -> Rows:
    """Return rows and targets whose values show the index of the row."""
    return np.column_stack([np.arange(n), -np.arange(n)]).astype(np.float64), np.arange(n)


def cut(rows: Rows, sizes: list[int]) -> Iterator[Rows]:
    start = 0
    for size in [*sizes, len(rows[1])]:
        yield rows[0][start : start + size], rows[1][start : start + size]
        start += size


def check_rows(X: Any, y: Any) -> None:
    assert X.dtype == np.float32
    assert y.dtype == np.float64
    assert_array_equal(X[:, 0], y)
    assert_array_equal(X[:, 1], -y)


@pytest.mark.parametrize(
    ("n", "n_held_out", "options"),
    [
        (1, 0, {}),
        (100, 0, {}),
        (100, 9, {"sizes": ShuffleSizes(30)}),
        (100, 9, {"sizes": ShuffleSizes(30), "n_rows": 100}),
        (1000, 50, {"sizes": ShuffleSizes(100), "n_rows": 900}),
        (10, 9, {"sizes": ShuffleSizes(1)}),
    ],
)
def test_every_epoch_has_each_row_once(
    tmp_path: Path, n: int, n_held_out: int, options: dict[str, Any]
) -> None:
    rows = [numbered(n)]
    source = external_shuffle(rows, tmp_path / "new", seed=1, n_held_out=n_held_out, **options)
    assert (source.n_features, source.n_rows) == (2, n - n_held_out)
    kept_X, kept = source.held_out()
    check_rows(kept_X, kept)
    assert_array_equal(kept, np.unique(kept))
    assert len(kept) == n_held_out
    left = np.setdiff1d(np.arange(n), kept)
    orders = []
    for epoch in range(3):
        rows, labels = source.read(epoch * len(left), (epoch + 1) * len(left))
        check_rows(rows, labels)
        assert_array_equal(np.sort(labels), left)
        orders.append(tuple(labels))
    assert len(set(orders)) == (3 if n > 10 else 1)
    X, y = (np.concatenate(part) for part in zip(*source.chunks(), strict=True))
    check_rows(X, y)
    assert_array_equal(np.sort(y), left)


folders = count()


@given(
    st.lists(st.integers(0, 60), max_size=6),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_chunks_and_reads_do_not_change_the_order(
    tmp_path: Path, sizes: list[int], cuts: list[int]
) -> None:
    rows = numbered(90)
    small = ShuffleSizes(20, blocks=BlockSizes(dense_rows=16))
    options: dict[str, Any] = {"seed": 4, "n_held_out": 7, "n_rows": 90, "sizes": small}
    first, second = (
        external_shuffle(chunks, tmp_path / str(next(folders)), **options)
        for chunks in ([rows], cut(rows, sizes))
    )
    assert_array_equal(second.held_out()[1], first.held_out()[1])
    whole = first.read(50, 50 + sum(cuts))
    position, pieces = 50, []
    reopened = ShardSource.open(second.folder)
    for size in cuts:
        pieces.append(reopened.read(position, position + size))
        position += size
    for k in range(2):
        assert_array_equal(np.concatenate([piece[k] for piece in pieces]), whole[k])


def test_seeds_give_different_orders(tmp_path: Path) -> None:
    orders = [
        tuple(external_shuffle([numbered(50)], tmp_path / str(seed), seed=seed).read(0, 50)[1])
        for seed in range(3)
    ]
    assert len(set(orders)) == 3


def test_shards_are_random_samples(tmp_path: Path) -> None:
    # Sorted rows: each shard must hold the same share of every tenth of the stream.
    n = 20_000
    sizes = ShuffleSizes(2000, blocks=BlockSizes(dense_rows=1024))
    source = external_shuffle([numbered(n)], tmp_path, seed=0, n_rows=n, sizes=sizes)
    table = np.zeros((10, 10))
    for k, (_, y) in enumerate(source.chunks()):
        np.add.at(table[k], (y * 10 // n).astype(int), 1)
    assert table.sum() == n
    assert stats.chi2_contingency(table).pvalue > 1e-3
    assert stats.chisquare(table.sum(axis=1)).pvalue > 1e-3


def test_rows_are_uniform_over_positions(tmp_path: Path) -> None:
    # With a new shuffle for every order: rows of one shard stay together as long as the shard.
    counts = np.zeros((40, 10))
    for seed in range(150):
        folder, sizes = tmp_path / str(seed), ShuffleSizes(10)
        source = external_shuffle([numbered(40)], folder, seed=seed, n_rows=40, sizes=sizes)
        labels = source.read(40, 80)[1].astype(int)
        counts[labels, np.arange(40) // 4] += 1
    assert stats.chi2.sf(((counts - 15) ** 2 / 15).sum(), 39 * 9) > 1e-3


def test_held_out_rows_are_drawn_uniformly(tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_held_out": 5, "n_rows": 20}
    options["sizes"] = ShuffleSizes(blocks=BlockSizes(dense_rows=6))
    counts = np.zeros(20)
    for seed in range(120):
        source = external_shuffle([numbered(20)], tmp_path / str(seed), seed=seed, **options)
        counts[source.held_out()[1].astype(int)] += 1
    assert stats.chisquare(counts).pvalue > 1e-3


def test_small_shards_are_read_together(tmp_path: Path) -> None:
    source = external_shuffle([numbered(1000)], tmp_path, seed=0, sizes=ShuffleSizes(300))
    assert len(list(tmp_path.glob("pile-*.rows"))) > 200
    sizes = source._sizes
    assert sizes.sum() == 1000
    assert np.all(sizes <= 300)
    assert len(sizes) == 4


def test_sparse_rows_are_shuffled_like_dense_ones(tmp_path: Path) -> None:
    X, y = numbered(30)
    targets = np.column_stack([y, y + 0.5, -y])
    dense = external_shuffle([(X, targets)], tmp_path / "dense", seed=0, n_held_out=3)
    thin = external_shuffle(
        [(sparse.csr_matrix(X), targets)], tmp_path / "sparse", seed=0, n_held_out=3
    )
    for got, expected in (
        (thin.read(5, 60), dense.read(5, 60)),
        (thin.held_out(), dense.held_out()),
    ):
        assert got[1].shape[1:] == (3,)
        assert_array_equal(got[0], expected[0])
        assert_array_equal(got[1], expected[1])
        assert_array_equal(got[1][:, 0], got[0][:, 0])
    assert dense.read(4, 4)[1].shape == (0, 3)
    wide = sparse.csr_matrix((3, 20_001))
    with pytest.raises(InputError, match="20,001 columns are too wide.*reduce"):
        external_shuffle([(wide, np.zeros(3))], tmp_path / "wide", seed=0)


def test_error_names_the_row_of_an_invalid_number(tmp_path: Path) -> None:
    for X, y, message in [
        (
            np.array([[1.0], [np.nan]]),
            [1, 2],
            r"Row 8 of the stream \(from 0\) has nan in column 0",
        ),
        (np.array([[1.0], [1e39]]), [1, 2], "Row 8 .*too large for float32"),
        (np.array([[1.0], [2.0]]), [1, np.inf], "target of row 8"),
    ]:
        with pytest.raises(InputError, match=message):
            external_shuffle(
                [(np.ones((7, 1)), np.ones(7)), (X, np.array(y, float))], tmp_path, seed=0
            )


def test_invalid_streams_are_rejected(tmp_path: Path) -> None:
    rows = numbered(5)
    with pytest.raises(InputError, match="encode labels"):
        external_shuffle([(rows[0], list("abcde"))], tmp_path, seed=0)
    with pytest.raises(InputError, match="no rows"):
        external_shuffle([], tmp_path, seed=0)
    with pytest.raises(InputError, match="All 5 rows of the stream are held out"):
        external_shuffle([rows], tmp_path, seed=0, n_held_out=5)
    with pytest.raises(InputError, match="n_held_out"):
        external_shuffle([rows], tmp_path, seed=0, n_held_out=-1)
    with pytest.raises(InputError, match="shard_rows"):
        ShuffleSizes(0)
    assert len(external_shuffle([rows], tmp_path, seed=0, n_rows=0).read(0, 5)[1]) == 5


def test_origin_of_rows_is_stored(tmp_path: Path) -> None:
    origin = {"rows": 5, "checksum": 2**32 - 1}
    for name, given_ in (("known", origin), ("unknown", None)):
        source = external_shuffle([numbered(5)], tmp_path / name, seed=0, origin=given_)
        assert source.origin == ShardSource.open(tmp_path / name).origin == given_


def test_interrupted_shuffle_is_repeated(tmp_path: Path) -> None:
    def broken() -> Iterator[Rows]:
        yield numbered(3000)
        raise RuntimeError("no more")

    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    sizes = ShuffleSizes(blocks=BlockSizes(dense_rows=1000))
    with pytest.raises(RuntimeError):
        external_shuffle(broken(), tmp_path, seed=0, sizes=sizes)
    assert list(tmp_path.glob("pile-*"))
    with pytest.raises(DataFileError, match="does not exist"):
        ShardSource.open(tmp_path)
    again = external_shuffle([numbered(40)], tmp_path, seed=0)
    assert_array_equal(np.sort(again.read(0, 40)[1]), np.arange(40))
    assert kept.read_text() == "mine"
    with pytest.raises(InputError, match="finished shuffle"):
        external_shuffle([numbered(40)], tmp_path, seed=0)


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataFileError, match="cannot be written"):
        external_shuffle([numbered(4)], tmp_path / "file", seed=0)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    sizes = ShuffleSizes(16)
    external_shuffle([numbered(64)], tmp_path, seed=0, n_held_out=4, n_rows=64, sizes=sizes)
    return tmp_path


@pytest.mark.parametrize("name", ["pile-00001.rows", "pile-00001.targets", "held-out.rows"])
def test_damaged_shards_are_detected(finished: Path, name: str) -> None:
    path = finished / name
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[9] ^= 4
    path.write_bytes(flipped)
    source = ShardSource.open(finished)
    with pytest.raises(DataFileError, match=f"{name} is damaged.*checksum"):
        source.held_out() if "held" in name else source.read(0, 60)
    path.write_bytes(whole[:-5])
    with pytest.raises(DataFileError, match=f"{name} is damaged.*bytes, not {len(whole)}"):
        ShardSource.open(finished)
    with pytest.raises(DataFileError, match=f"{name} is damaged.*numbers, not"):
        source.held_out() if "held" in name else source.read(0, 60)
    path.unlink()
    with pytest.raises(DataFileError, match=f"{name} does not exist"):
        ShardSource.open(finished)


def test_damaged_manifests_are_detected(finished: Path) -> None:
    path = finished / "spool.json"
    manifest = json.loads(path.read_text())
    wrong: list[Any] = [
        [],
        {**manifest, "version": 2},
        {**manifest, "piles": []},
        {**manifest, "piles": [{"name": "a"}]},
        {**manifest, "piles": [{"title": "a"}]},
        {**manifest, "n_features": "x"},
        {key: value for key, value in manifest.items() if key != "seed"},
    ]
    for content in ["", "{", *map(json.dumps, wrong)]:
        path.write_text(content)
        with pytest.raises(DataFileError, match=r"spool\.json is damaged"):
            ShardSource.open(finished)


PEAK = """
import sys, tracemalloc
from pathlib import Path
import numpy as np
from gramless.streaming.external_shuffle import ShuffleSizes, external_shuffle
from gramless.streaming.chunk_checks import BlockSizes

sizes = ShuffleSizes(2000, blocks=BlockSizes(dense_bytes=1 << 18))
rng = np.random.default_rng(0)
chunks = ((rng.normal(size=(500, 50)).astype(np.float32), np.zeros(500)) for _ in range(100))
tracemalloc.start()
source = external_shuffle(chunks, Path(sys.argv[1]), seed=0, n_rows=50_000, sizes=sizes)
for start in range(0, 50_000, 5000):
    source.read(start, start + 5000)
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.slow
def test_memory_of_a_shuffle_is_bounded(tmp_path: Path) -> None:
    # In a process of its own: threads that other tests leave would be traced too.
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    # All rows take 10 MB; a shard 0.4 MB, a batch 1 MB.
    assert int(done.stdout) < 4_000_000
