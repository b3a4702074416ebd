"""Sources of shuffled rows: arrays and mapped files, epochs and held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse, stats

from gramless.base.errors import InputError
from gramless.streaming.sources import (
    ArraySource,
    GroupReader,
    MappedSource,
    ReadingSizes,
    RowSource,
    default_held_out,
    split_by_epoch,
)

# Every table is read in runs: of 4 rows, shuffled 5 at a time.
IN_RUNS = ReadingSizes(permuted_rows=0, run_rows=4, group_runs=5)


def numbered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets whose values show the index of the row."""
    return np.column_stack([np.arange(n), -np.arange(n)]).astype(np.float64), np.arange(n)


@pytest.fixture(params=[None, IN_RUNS], ids=["permuted", "in runs"])
def sizes(request: pytest.FixtureRequest) -> ReadingSizes | None:
    result: ReadingSizes | None = request.param
    return result


def check_rows(X: Any, y: Any) -> None:
    X = X.toarray() if sparse.issparse(X) else X
    assert_array_equal(X[:, 0], y)
    assert_array_equal(X[:, 1], -y)


def test_every_epoch_has_each_row_once(sizes: ReadingSizes | None) -> None:
    for n in [1, 2, 19, 20, 21, 103]:
        for n_held_out in [0, 1, 7]:
            X, y = numbered(n + n_held_out)
            source = ArraySource(X, y, seed=3, n_held_out=n_held_out, sizes=sizes)
            assert (source.n_features, source.n_rows) == (2, n)
            kept_X, kept = source.held_out()
            check_rows(kept_X, kept)
            assert_array_equal(kept, np.unique(kept))
            assert len(kept) == n_held_out
            for epoch in range(3):
                rows, labels = source.read(epoch * n, (epoch + 1) * n)
                check_rows(rows, labels)
                assert_array_equal(np.sort(labels), np.setdiff1d(y, kept))
            given_X, given = (np.concatenate(part) for part in zip(*source.chunks(), strict=True))
            check_rows(given_X, given)
            assert_array_equal(given, np.setdiff1d(y, kept))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 60), st.booleans())
def test_reads_do_not_depend_on_their_lengths(cuts: list[int], start: int, runs: bool) -> None:
    X, y = numbered(31)
    sizes = ReadingSizes(permuted_rows=0, run_rows=4, group_runs=3) if runs else None
    source = ArraySource(X, y, seed=1, n_held_out=2, sizes=sizes)
    whole = source.read(start, start + sum(cuts))[1]
    source = ArraySource(X, y, seed=1, n_held_out=2, sizes=sizes)
    pieces, position = [], start
    for cut in cuts:
        rows, labels = source.read(position, position + cut)
        check_rows(rows, labels)
        pieces.append(labels)
        position += cut
    assert_array_equal(np.concatenate(pieces), whole)
    # Any position again, as after a resumed run.
    assert_array_equal(source.read(start, start + sum(cuts))[1], whole)


def test_epochs_and_seeds_differ(sizes: ReadingSizes | None) -> None:
    X, y = numbered(200)
    orders = [ArraySource(X, y, seed=seed, sizes=sizes).read(0, 400)[1] for seed in (0, 1)]
    parts = [order[a : a + 200].tolist() for order in orders for a in (0, 200)]
    assert len({tuple(part) for part in parts}) == 4


def position_counts(source: RowSource, n: int, epochs: int) -> np.ndarray:
    """Count how often each of ``n`` rows is in each tenth of an epoch."""
    counts = np.zeros((n, 10))
    for epoch in range(epochs):
        labels = source.read(epoch * n, (epoch + 1) * n)[1].astype(int)
        counts[labels, np.arange(n) * 10 // n] += 1
    return counts


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    # Each row occurs once an epoch and each tenth is full, so degrees of freedom are lost.
    return float(stats.chi2.sf(statistic, (counts.shape[0] - 1) * (counts.shape[1] - 1)))


def test_rows_are_uniform_over_positions(sizes: ReadingSizes | None) -> None:
    counts = position_counts(ArraySource(*numbered(40), seed=5, sizes=sizes), 40, 1500)
    assert chi_square(counts) > 1e-3


def test_held_out_rows_are_drawn_uniformly(sizes: ReadingSizes | None) -> None:
    counts = np.zeros(25)
    for seed in range(2000):
        counts[ArraySource(*numbered(25), seed=seed, n_held_out=5, sizes=sizes).held_out()[1]] += 1
    assert stats.chisquare(counts).pvalue > 1e-3


def test_runs_mix_neighbours() -> None:
    # Sorted rows, as in files of one class after the other: every batch must hold all of them.
    X, y = numbered(100_000)
    source = ArraySource(X, y, seed=0, sizes=ReadingSizes(permuted_rows=0))
    batches = [source.read(a, a + 1000)[1] for a in range(0, 100_000, 1000)]
    means = np.array([batch.mean() for batch in batches])
    within = 100_000 / np.sqrt(12)
    # Runs are drawn whole: of 128 in a group, their mean scatters by within / sqrt(128).
    assert means.std() < within * np.sqrt(1 / 128 + 1 / 1000)
    assert abs(np.corrcoef(y[:-1], source.read(0, 99_999)[1])[0, 1]) < 0.02


def test_types_of_rows_and_targets_are_kept(sizes: ReadingSizes | None) -> None:
    for dtype in [np.float32, np.float64, np.int64, np.uint8, bool]:
        X = (np.arange(60).reshape(30, 2) % 2).astype(dtype)
        y = np.array([f"class {k}" for k in range(30)])
        source = ArraySource(X, y, seed=0, n_held_out=3, sizes=sizes)
        for rows, labels in (source.read(5, 40), source.held_out(), *source.chunks()):
            assert rows.dtype == dtype
            assert labels.dtype == y.dtype
        by_bytes = None if sizes is None else ReadingSizes(permuted_bytes=0)
        outputs = ArraySource(X, np.ones((30, 4)), seed=0, sizes=by_bytes).read(0, 7)
        assert outputs[1].shape == (7, 4)


def test_layout_does_not_change_the_rows(sizes: ReadingSizes | None) -> None:
    X, y = numbered(50)
    expected = ArraySource(X, y, seed=2, n_held_out=4, sizes=sizes)
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    forms = [sparse.csr_matrix(X), sparse.csr_array(X), np.asfortranarray(X), frozen, wide]
    for form in [*forms, X.tolist()]:
        source = ArraySource(form, y.tolist(), seed=2, n_held_out=4, sizes=sizes)
        for got, reference in (
            (source.read(10, 70), expected.read(10, 70)),
            (source.held_out(), expected.held_out()),
            (next(source.chunks()), next(expected.chunks())),
        ):
            if sparse.issparse(form):
                assert got[0].format == "csr"
            check_rows(*got)
            assert_array_equal(got[1], reference[1])


def test_mapped_files_give_the_same_rows(tmp_path: Path, sizes: ReadingSizes | None) -> None:
    X, y = numbered(50)
    for name, array in (("X.npy", X), ("y.npy", y)):
        np.save(tmp_path / name, array)
    mapped = [np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy")]
    source, expected = (
        ArraySource(*rows, seed=0, n_held_out=5, sizes=sizes) for rows in (mapped, (X, y))
    )
    for got, reference in (
        (source.read(3, 99), expected.read(3, 99)),
        (source.held_out(), expected.held_out()),
        (next(source.chunks()), next(expected.chunks())),
    ):
        for part, same in zip(got, reference, strict=True):
            assert not isinstance(part, np.memmap)
            assert_array_equal(part, same)


def test_files_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ArraySource(*numbered(400), seed=0, n_held_out=40, sizes=IN_RUNS)
    pieces = []
    original = ArraySource._load

    def spy(self: ArraySource, rows: Any) -> Any:
        pieces.append(rows)
        return original(self, rows)

    monkeypatch.setattr(ArraySource, "_load", spy)
    for start in range(0, 360, 7):
        source.read(start, min(start + 7, 360))
    assert len(pieces) == 90
    assert all(isinstance(piece, slice) for piece in pieces)
    for start in range(0, 90, 5):
        firsts = [piece.start for piece in pieces[start : start + 5]]
        assert firsts == sorted(firsts)


def test_wide_rows_are_read_in_short_runs() -> None:
    assert ArraySource(np.zeros((2, 1000), np.float32), [0, 1], seed=0)._run_rows == 256
    assert ArraySource(np.zeros((2, 10_000), np.float32), [0, 1], seed=0)._run_rows == 26
    assert ArraySource(np.zeros((2, 1 << 20), np.float32), [0, 1], seed=0)._run_rows == 16
    assert ArraySource(sparse.csr_matrix((2, 10**6)), [0, 1], seed=0)._run_rows == 256


def test_rows_keep_their_order_without_shuffling() -> None:
    for n_held_out in [0, 3]:
        X, y = numbered(10)
        source = ArraySource(X, y, seed=0, n_held_out=n_held_out, shuffle=False)
        left = np.setdiff1d(y, source.held_out()[1])
        assert_array_equal(source.read(0, 2 * len(left))[1], np.tile(left, 2))


def test_chunks_are_bounded() -> None:
    small = ReadingSizes(chunk_bytes=160)
    source = ArraySource(*numbered(25), seed=0, n_held_out=2, sizes=small)
    sizes = [len(y) for _, y in source.chunks()]
    assert sizes == [10, 10, 3]


def test_invalid_arrays_are_rejected() -> None:
    for X, y, n_held_out, message in [
        (np.ones(3), np.ones(3), 0, "X must be a table"),
        (np.ones((3, 0)), np.ones(3), 0, "X must be a table"),
        (np.array([["a"]]), [1], 0, "X must be a table"),
        (sparse.csc_matrix(np.eye(3)), np.ones(3), 0, "tocsr"),
        (np.ones((3, 1)), np.ones(2), 0, "one target per row"),
        (np.ones((3, 1)), 1.0, 0, "one target per row"),
        (np.ones((3, 1)), np.ones(3), 3, "cannot be held out"),
        (np.ones((3, 1)), np.ones(3), -1, "cannot be held out"),
        (np.ones((0, 1)), np.ones(0), 0, "cannot be held out"),
    ]:
        with pytest.raises(InputError, match=message):
            ArraySource(X, y, seed=0, n_held_out=n_held_out)


def test_invalid_positions_are_rejected(sizes: ReadingSizes | None) -> None:
    source = ArraySource(*numbered(5), seed=0, sizes=sizes)
    for start, stop in ((-1, 2), (3, 2)):
        with pytest.raises(InputError, match="cannot be read"):
            source.read(start, stop)
    assert source.read(3, 3)[0].shape == (0, 2)
    assert source.read(3, 3)[1].shape == (0,)


def test_distant_epochs_are_located() -> None:
    assert split_by_epoch(10**18, 10**18 + 3, 2) == [
        (5 * 10**17, 0, 2),
        (5 * 10**17 + 1, 0, 1),
    ]


def test_reader_returns_copies() -> None:
    rows = np.zeros((4, 1)), np.zeros(4)
    reader = GroupReader(lambda epoch: np.array([4]), lambda epoch, k: rows)
    for part in reader.read(0, 0, 4)[0]:
        part += 1
    assert not np.any(rows[0])
    assert not np.any(rows[1])


# Other targets.


def test_mapped_source_converts_all_targets() -> None:
    plain = ArraySource(*numbered(40), seed=3, n_held_out=6)
    words = np.array([f"w{k}" for k in range(40)])
    mapped = MappedSource(plain, lambda y: words[y])
    assert (mapped.n_features, mapped.n_rows, mapped.names) == (2, 34, None)
    for name, arguments in (("read", (5, 90)), ("held_out", ())):
        X, y = getattr(plain, name)(*arguments)
        found_X, result = getattr(mapped, name)(*arguments)
        assert_array_equal(found_X, X)
        assert_array_equal(result, words[y])
    for (X, y), (found_X, result) in zip(plain.chunks(), mapped.chunks(), strict=True):
        assert_array_equal(found_X, X)
        assert_array_equal(result, words[y])


def test_default_held_out_is_a_tenth_and_at_most_4096() -> None:
    for n_rows, expected in [
        (1, 0),
        (9, 0),
        (10, 1),
        (40_959, 4095),
        (40_960, 4096),
        (10**9, 4096),
    ]:
        assert default_held_out(n_rows) == expected
