"""A run goes on over the rows that it began with, and over no others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor, open_stream
from gramless.base.errors import InputError
from gramless.streaming.fingerprints import FingerprintedSource
from gramless.streaming.sources import ArraySource, IteratorSource, MappedSource

from .streamed_models import same_run

Array = NDArray[Any]
Rows = tuple[Any, Array]

OPTIONS: dict[str, Any] = {
    "random_state": 3,
    "max_steps": 14,
    "block_size": 8,
    "batch_size": 64,
    "bandwidth": 2.0,
    "alpha": 1e-3,
    "n_jobs": 1,
}
N, LATE = 1000, 700
_RNG = np.random.default_rng(0)
X: Array = _RNG.normal(size=(N, 3)).astype(np.float32)
y: Array = np.sin(2.0 * X[:, 0]) + X[:, 1]
LABELS: Array = np.array(["red", "green", "blue"], dtype=object)[X.argmax(axis=1)]


def stop_at(step: int) -> Any:
    return lambda now, evaluation: now.iteration == step


def with_target(rows: Rows) -> Rows:
    targets = rows[1].copy()
    targets[LATE] = 12345 if targets.dtype.kind == "f" else ("red", "green")[targets[LATE] == "red"]
    return rows[0], targets


def with_input(rows: Rows) -> Rows:
    inputs = rows[0].copy()
    inputs[LATE, 1] = np.nextafter(inputs[LATE, 1], np.float32(9))
    return inputs, rows[1]


def with_appended_row(rows: Rows) -> Rows:
    join = sp.vstack if sp.issparse(rows[0]) else np.concatenate
    return join([rows[0], rows[0][:1]]), np.append(rows[1], rows[1][:1])


def with_two_rows_swapped(rows: Rows) -> Rows:
    order = np.arange(N)
    order[[LATE, LATE + 1]] = LATE + 1, LATE
    return rows[0][order], rows[1][order]


def arrays(rows: Rows, folder: Path) -> Any:
    # Nothing is held out: nothing but a look at all rows finds a change.
    return ArraySource(*rows, seed=5)


def mapped(rows: Rows, folder: Path) -> Any:
    np.save(folder / "rows.npy", rows[0])
    return ArraySource(np.load(folder / "rows.npy", mmap_mode="r"), rows[1], seed=5, n_held_out=30)


def csr(rows: Rows, folder: Path) -> Any:
    return ArraySource(sp.csr_array(rows[0]), rows[1], seed=5, n_held_out=30)


def labelled(rows: Rows, folder: Path) -> Any:
    return MappedSource(ArraySource(*rows, seed=5, n_held_out=30), lambda y: y)


def csv(rows: Rows, folder: Path) -> Any:
    table = ([*map(repr, row), str(t)] for row, t in zip(rows[0].tolist(), rows[1], strict=True))
    lines = ["a,b,c,label", *map(",".join, table)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return open_stream(folder / "rows.csv")


def npz(rows: Rows, folder: Path) -> Any:
    np.savez(folder / "rows.npz", X=rows[0], y=rows[1])
    return open_stream(folder / "rows.npz")


def npy(rows: Rows, folder: Path) -> Any:
    np.save(folder / "rows.npy", np.column_stack(rows))
    return open_stream(folder / "rows.npy")


class Counted(list[Any]):
    """Batches whose number of rows is known."""

    n_rows: int


def counted(rows: Rows, folder: Path) -> Any:
    batches = Counted([(rows[0][a : a + 37], rows[1][a : a + 37]) for a in range(0, N + 1, 37)])
    batches.n_rows = len(rows[1])
    return IteratorSource(batches, n_held_out=30)


def endless(rows: Rows, folder: Path) -> Any:
    def batches() -> Iterator[Rows]:
        while True:
            for first in range(0, N, 41):
                yield rows[0][first : first + 41], rows[1][first : first + 41]

    return IteratorSource(batches, n_held_out=30)


def started(make: Any, rows: Rows, folder: Path, steps: int = 4) -> Any:
    """Begin a run, and return a model that would go on."""
    kind = DoublyStochasticClassifier if rows[1].dtype == object else DoublyStochasticRegressor
    options = {**OPTIONS, "checkpoint": str(folder / "run.gramless")}
    kind(**options).fit_stream(make(rows, folder), callback=stop_at(steps))
    return kind(**options)


@pytest.mark.parametrize(("make", "targets"), [(arrays, y), (csv, LABELS)])
def test_changed_target_is_rejected(make: Any, targets: Array, tmp_path: Path) -> None:
    model = started(make, (X, targets), tmp_path)
    content = (tmp_path / "run.gramless").read_bytes()
    with pytest.raises(InputError, match=r"over other rows: .*remove it to start anew"):
        model.fit_stream(make(with_target((X, targets)), tmp_path))
    assert (tmp_path / "run.gramless").read_bytes() == content


@pytest.mark.parametrize("make", [arrays, mapped, csr, labelled, csv, npz, npy, counted])
def test_fingerprint_detects_every_change_of_every_source(make: Any, tmp_path: Path) -> None:
    rows = X, LABELS if make in (labelled, csv) else y
    noted = FingerprintedSource(make(rows, tmp_path))
    assert sum(len(targets) for _, targets in noted.chunks()) == noted.n_rows
    assert FingerprintedSource(make(rows, tmp_path)).describe_change(noted.fingerprint()) is None
    for change in (with_target, with_input, with_appended_row, with_two_rows_swapped):
        other = FingerprintedSource(make(change(rows), tmp_path))
        assert other.describe_change(noted.fingerprint()), change


def test_error_names_what_has_changed(tmp_path: Path) -> None:
    rows = X, y
    model = started(arrays, rows, tmp_path)
    first = int(ArraySource(X, np.arange(N), seed=5).read(0, 1)[1][0])
    for message, other in (
        ("a row or target to train on has changed", with_target(rows)),
        ("1,000 rows to train on then, 1,001 now", with_appended_row(rows)),
        ("3 columns then, 2 now", (X[:, :2], y)),
        (
            "one of the first rows to be read, has changed",
            (X, np.where(np.arange(N) == first, 9, y)),
        ),
    ):
        with pytest.raises(InputError, match=message):
            model.fit_stream(arrays(other, tmp_path))
    with pytest.raises(InputError, match="one of the first rows to be read"):
        model.fit_stream(ArraySource(X, y, seed=6))


@pytest.mark.parametrize("make", [csv, npz])
def test_run_resumes_over_a_copy_of_its_file(make: Any, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    model = started(make, (X, y), here)
    shutil.copytree(here, there)
    file = next(there.glob("rows.*"))
    os.utime(file, (0, 0))
    expected = DoublyStochasticRegressor(**OPTIONS).fit_stream(make((X, y), here))
    same_run(model.fit_stream(open_stream(file, chunk_rows=77)), expected)


# Iterators without an end, of which nobody knows more than what they have given.


@pytest.mark.parametrize("change", [with_input, with_two_rows_swapped])
def test_changes_of_rows_already_read_are_rejected(change: Any, tmp_path: Path) -> None:
    model = started(endless, (X, y), tmp_path, steps=12)
    with pytest.raises(InputError, match="over other rows: a row or target to train on"):
        model.fit_stream(endless(change((X, y)), tmp_path))


def test_rows_not_yet_read_from_an_iterator_may_change(tmp_path: Path) -> None:
    changed = with_target((X, y))
    expected = DoublyStochasticRegressor(**OPTIONS).fit_stream(endless(changed, tmp_path))
    model = started(endless, (X, y), tmp_path, steps=4)
    same_run(model.fit_stream(endless(changed, tmp_path)), expected)


def test_resuming_over_a_shorter_iterator_is_rejected(tmp_path: Path) -> None:
    def source(n: int) -> IteratorSource:
        return IteratorSource(iter([(X, y)] * n), n_held_out=30)

    model = started(lambda *_: source(3), (X, y), tmp_path, steps=12)
    with pytest.raises(InputError, match="a row or target to train on has changed"):
        model.fit_stream(IteratorSource(iter([(X[:700], y[:700])]), n_held_out=30))


def test_fingerprint_covers_all_rows_after_several_interruptions(tmp_path: Path) -> None:
    expected = DoublyStochasticRegressor(**OPTIONS).fit_stream(endless((X, y), tmp_path))
    for steps in (2, 7, 12):
        model = started(endless, (X, y), tmp_path, steps)
    with pytest.raises(InputError, match="a row or target to train on has changed"):
        model.fit_stream(endless(with_target((X, y)), tmp_path))
    same_run(model.fit_stream(endless((X, y), tmp_path)), expected)


# What is read to know rows again.


class Watched(ArraySource):
    """Rows of an array, with a count of the passes over them."""

    passes = 0

    def chunks(self) -> Iterator[Rows]:
        self.passes += 1
        return super().chunks()


def test_fingerprint_takes_one_pass_over_the_rows(tmp_path: Path) -> None:
    model = DoublyStochasticRegressor(**OPTIONS, checkpoint=str(tmp_path / "run"))
    for _ in range(2):
        source = Watched(X, y, seed=5)
        model.fit_stream(source, callback=stop_at(3))
        assert source.passes == 1


def test_fingerprint_of_rows_on_disk_needs_no_second_pass(tmp_path: Path) -> None:
    stream = npz((X, y), tmp_path)
    noted = FingerprintedSource(stream)
    again = FingerprintedSource(open_stream(tmp_path / "rows.npz"))
    stream.chunks = None
    assert noted.describe_change(again.fingerprint()) is None
    other = FingerprintedSource(open_stream(tmp_path / "rows.npz", random_state=1))
    assert other.describe_change(noted.fingerprint()) is not None


def test_checkpoints_without_a_fingerprint_are_rejected(tmp_path: Path) -> None:
    noted = FingerprintedSource(arrays((X, y), tmp_path))
    for earlier in ({}, {"checksum": 7}, {**noted.fingerprint(), "n_read": "many"}):
        assert "version that did not record their checksums" in str(noted.describe_change(earlier))
