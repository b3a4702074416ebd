"""Rows from iterators of batches: regrouped, gone through again, ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from gramless.base.errors import InputError
from gramless.datasets import open_chunks
from gramless.streaming.sources import IteratorSource, StreamEnded


def numbered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets whose values show the index of the row."""
    return np.column_stack([np.arange(n), -np.arange(n)]).astype(np.float64), np.arange(n)


def check_rows(X: Any, y: Any) -> None:
    X = X.toarray() if sparse.issparse(X) else X
    assert_array_equal(X[:, 0], y)
    assert_array_equal(X[:, 1], -y)


SIZES = [3, 0, 1, 7, 2]


def batches(sizes: list[int] = SIZES) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    X, y = numbered(sum(sizes))
    stops = np.cumsum(sizes)
    for stop, size in zip(stops.tolist(), sizes, strict=True):
        yield X[stop - size : stop], y[stop - size : stop]


@pytest.mark.parametrize(
    ("size", "n_held_out", "again"),
    [
        (1, 4, batches),
        (2, 0, list(batches())),
        (5, 4, list(batches())),
        (13, 0, batches),
        (30, 4, batches),
    ],
)
def test_batches_are_regrouped(size: int, n_held_out: int, again: Any) -> None:
    source = IteratorSource(again, n_held_out=n_held_out)
    assert source.n_features == 2
    assert_array_equal(source.held_out()[1], np.arange(n_held_out))
    left = np.arange(n_held_out, 13)
    endless = np.tile(left, 12)
    for start in range(0, 90, size):
        rows, labels = source.read(start, start + size)
        check_rows(rows, labels)
        assert_array_equal(labels, endless[start : start + size])
    assert source.n_rows == len(left)
    assert_array_equal(np.concatenate([y for _, y in source.chunks()]), left)


def test_read_skips_rows_forwards_only() -> None:
    source = IteratorSource(batches, n_held_out=2)
    assert_array_equal(source.read(25, 27)[1], [5, 6])
    assert_array_equal(source.read(30, 31)[1], [10])
    with pytest.raises(InputError, match="forwards only"):
        source.read(30, 32)


def test_exhausted_iterator_raises_stream_ended() -> None:
    source = IteratorSource(batches())
    assert source.n_rows is None
    assert len(source.read(0, 10)[1]) == 10
    assert_array_equal(source.read(10, 20)[1], [10, 11, 12])
    assert source.n_rows == 13
    for _ in range(2):
        with pytest.raises(StreamEnded, match="after 13 rows"):
            source.read(13, 14)
    with pytest.raises(InputError, match="read only once"):
        next(source.chunks())
    with pytest.raises(StreamEnded):
        IteratorSource(batches()).read(13, 14)
    with pytest.raises(StreamEnded):
        IteratorSource(batches(), n_held_out=3).read(20, 24)
    assert IteratorSource(batches()).read(0, 0)[0].shape == (0, 2)


def test_endless_batches_have_no_row_count() -> None:
    def endless() -> Iterator[Any]:
        while True:
            yield numbered(5)

    source = IteratorSource(endless, n_held_out=7)
    assert_array_equal(source.read(0, 6)[1], [2, 3, 4, 0, 1, 2])
    assert source.n_rows is None


def test_chunked_files_are_batches(tmp_path: Path) -> None:
    X, y = numbered(20)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    source = IteratorSource(open_chunks(tmp_path / "a.npz", chunk_rows=3), n_held_out=2)
    assert source.n_rows == 18
    check_rows(*source.read(0, 55))
    assert source.n_rows == 18


def test_sparse_batches_keep_text_labels() -> None:
    X, y = numbered(13)
    rows = sparse.csr_matrix(X)
    words = np.array(["a", "bb", "ccc"])[y % 3]
    cuts = [(rows[:5], words[:5]), (rows[5:].tocsc(), words[5:].tolist())]
    got, labels = IteratorSource(cuts).read(2, 30)
    assert got.format == "csr"
    assert_array_equal(got.toarray(), np.tile(X, (3, 1))[2:30])
    assert_array_equal(labels, np.tile(words, 3)[2:30])


def test_inconsistent_batches_are_rejected() -> None:
    for given, message in [
        (5, "iterable"),
        ([], "0 rows and 0 are held out"),
        ([(np.ones((2, 2)), np.ones(3))], "Chunk 0 of the stream: y must hold one target per row"),
        ([(np.ones(2), np.ones(2))], "table of numbers"),
        ([(np.array([["a"]]), [1])], "table of numbers"),
        ([(np.eye(2), [1, 2]), (np.eye(3), [1, 2, 3])], "Chunk 1 .* has 3 columns, not the 2"),
        ([(np.eye(2), [1, 2]), (sparse.csr_array(np.eye(2)), [1, 2])], "some chunks are sparse"),
        ([(np.eye(2), [1, 2]), (np.eye(2), ["a", "b"])], "Chunk 1.*targets of type"),
        ([(np.eye(2), [1, 2]), (np.eye(2), np.eye(2))], "Chunk 1.*outputs"),
        ([np.ones((2, 2))], r"pair \(X, y\)"),
    ]:
        with pytest.raises(InputError, match=message):
            IteratorSource(given).read(0, 9)


def test_failed_source_repeats_its_error() -> None:
    source = IteratorSource(batches, n_held_out=20)
    for _ in range(3):
        with pytest.raises(InputError, match="has 13 rows and 20 are held out"):
            source.held_out()
    broken = [(np.eye(2), [1, 2]), (np.eye(3), [1, 2, 3])]
    source = IteratorSource(broken, n_held_out=3)
    for act in (source.held_out, lambda: source.read(0, 2), source.held_out):
        with pytest.raises(InputError, match="Chunk 1 .* has 3 columns, not the 2"):
            act()
    once = IteratorSource(batches(), n_held_out=20)
    for _ in range(2):
        with pytest.raises(InputError, match="20 are held out: none is left"):
            once.read(0, 1)


def test_invalid_counts_are_rejected() -> None:
    with pytest.raises(InputError, match="13 rows and 13 are held out"):
        IteratorSource(batches, n_held_out=13).held_out()
    with pytest.raises(InputError, match="n_held_out"):
        IteratorSource(batches, n_held_out=-1)
    with pytest.raises(InputError, match="has 2 columns, not the 3"):
        IteratorSource(batches, n_features=3).read(0, 1)
    once = batches()
    with pytest.raises(InputError, match="a new iterator"):
        IteratorSource(lambda: once).read(0, 14)
