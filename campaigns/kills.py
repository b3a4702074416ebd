"""Killed processes: training runs, checkpoints, saves and shuffled rows; and changed sources."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramless import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    KernelRegressor,
    RandomBinning,
    load,
    open_stream,
    save,
)
from gramless.base.errors import InputError
from gramless.streaming.sources import ArraySource, IteratorSource
from gramless.streaming.temporary import temporary_folder

PROMISE = (
    "The files of a killed process stay intact: a run resumes to the same bits, but only over the "
    "same rows; a model file is the old or the new one; shuffled rows are reused or removed."
)
FULL, SHORT = 120, 12
SECONDS, MEMORY = 120.0, 1 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

STEPS, BATCH_ROWS = 40, 200
N, N_HELD_OUT = 2000, 100
KINDS = ("csv", "npz", "npy", "libsvm", "table", "sparse", "batches", "endless")
CHANGES = ("training target", "training input", "row held out", "row appended", "order of rows")
REFUSALS = ("is of a run over other rows", "holds the rows of another file")
STRATEGIES = ("checking", "uniform", "grow")


def prepare(seed: int) -> None:
    """Compile the loops before any process is killed."""
    with tempfile.TemporaryDirectory() as folder:
        uninterrupted_run("csv", "checking", Path(folder))
    models()


def check(number: int, seed: int) -> str:
    rng = np.random.default_rng([seed, number])
    # In each round of 12 cases, 8 kill runs, 2 kill a save and a shuffle, and 2 change sources.
    round_number, position = divmod(number, 12)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "temporary").mkdir()
        previous_folder, tempfile.tempdir = tempfile.tempdir, str(folder / "temporary")
        try:
            if position < 8:
                return kill_run(KINDS[position], STRATEGIES[round_number % 3], folder, rng)
            if position == 8:
                return kill_save(folder, rng)
            if position == 9:
                return kill_shuffle(folder, rng, kept=round_number % 2 == 0)
            combination = 2 * round_number + position - 10
            return change_source(KINDS[combination % 8], CHANGES[combination % 5], folder, rng)
        finally:
            tempfile.tempdir = previous_folder


class Child:
    """A forked process that writes one byte to a pipe for each of its steps."""

    def __init__(self, work: Callable[[Callable[..., None]], Any]) -> None:
        self._steps, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                work(lambda *_: os.write(writing, b".") and None)
                code = 0
            except BaseException:
                os.write(writing, traceback.format_exc().encode())
            finally:
                os._exit(code)
        os.close(writing)

    def reach(self, n_steps: int) -> None:
        for _ in range(n_steps):
            byte = os.read(self._steps, 1)
            assert byte == b".", f"ended early: {byte!r}{self._rest()}"

    def kill(self) -> bool:
        """Kill the process and return whether it was still running."""
        os.kill(self._pid, signal.SIGKILL)
        return os.WIFSIGNALED(self._end())

    def finish(self) -> None:
        output = self._rest()
        code = self._end()
        assert code == 0, output

    def _rest(self) -> str:
        output = b""
        while more := os.read(self._steps, 1 << 16):
            output += more
        return output.decode()

    def _end(self) -> int:
        os.close(self._steps)
        return os.waitpid(self._pid, 0)[1]


def in_child(folder: Path, work: Callable[[], Any]) -> Any:
    """Return the result of a function that runs in a forked process.

    This process must not read text files itself: polars reads them in threads, and processes forked
    afterwards hang when they read one.
    """
    result_file = folder / "result"
    Child(lambda _: result_file.write_bytes(pickle.dumps(work()))).finish()
    return pickle.loads(result_file.read_bytes())


# Runs.


def resume(
    kind: str, strategy: str, folder: Path, seconds: float, n_jobs: int, callback: Any = None
) -> Any:
    """Fit the rows in a folder, resuming from its checkpoint if there is one."""
    estimator_class = DoublyStochasticClassifier if kind == "csv" else DoublyStochasticRegressor
    model = estimator_class(
        strategy=strategy,
        bandwidth=2.0,
        alpha=1e-3,
        block_size=32,
        batch_size=BATCH_ROWS,
        max_steps=STEPS,
        patience=None,
        random_state=1,
        checkpoint=str(folder / "run"),
        checkpoint_seconds=seconds,
        n_jobs=n_jobs,
    )
    return model.fit_stream(source(kind, folder), callback=callback)


_uninterrupted: dict[tuple[str, str], Any] = {}


def uninterrupted_run(kind: str, strategy: str, folder: Path) -> Any:
    """Return the model of an uninterrupted run."""
    if (kind, strategy) not in _uninterrupted:
        whole_folder = folder / "whole"
        whole_folder.mkdir()
        write(kind, whole_folder, *original(kind))
        _uninterrupted[kind, strategy] = in_child(
            whole_folder, lambda: resume(kind, strategy, whole_folder, 1e9, 1)
        )
    return _uninterrupted[kind, strategy]


def kill_run(kind: str, strategy: str, folder: Path, rng: np.random.Generator) -> str:
    expected = uninterrupted_run(kind, strategy, folder)
    write(kind, folder, *original(kind))
    begin_and_kill(kind, strategy, folder, rng)
    n_kills = 1
    for _ in range(rng.integers(0, 3)):
        # At any time, also while rows are shuffled or read again.
        child = start(kind, strategy, folder, rng)
        time.sleep(rng.uniform(0.0, 0.4))
        n_kills += child.kill()
    start(kind, strategy, folder, rng).finish()
    compare(load(folder / "run"), expected)
    check_temporary_folders(folder)
    return f"run identical after {n_kills} kills with a checkpoint on the disk"


def start(kind: str, strategy: str, folder: Path, rng: np.random.Generator) -> Child:
    seconds, n_jobs = rng.choice([0.0, 0.02]), int(rng.integers(1, 3))
    return Child(lambda after: resume(kind, strategy, folder, seconds, n_jobs, after))


def begin_and_kill(kind: str, strategy: str, folder: Path, rng: np.random.Generator) -> None:
    """Start a run and kill it at a random moment after its first checkpoint."""
    child = start(kind, strategy, folder, rng)
    child.reach(1)
    while not (folder / "run").exists():
        child.reach(1)
    child.reach(int(rng.integers(0, STEPS // 2)))
    time.sleep(rng.uniform(0.0, 0.02))
    assert child.kill(), "the run had ended before it was killed"


def compare(model: Any, expected: Any) -> None:
    assert model.n_iter_ == expected.n_iter_ == STEPS
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    np.testing.assert_array_equal(model.constant_, expected.constant_)
    for name in expected.history_.keys() - {"seconds"}:
        np.testing.assert_array_equal(model.history_[name], expected.history_[name])


def check_temporary_folders(folder: Path) -> None:
    """Check that the next start removes the temporary folders of killed processes."""
    gc.collect()
    new_folder, remove = temporary_folder()
    assert list((folder / "temporary").iterdir()) == [new_folder], "shuffled rows were left"
    remove()


def change_source(kind: str, change: str, folder: Path, rng: np.random.Generator) -> str:
    expected = uninterrupted_run(kind, "checking", folder)
    write(kind, folder, *original(kind))
    begin_and_kill(kind, "checking", folder, rng)
    held_out = in_child(folder, lambda: source(kind, folder).held_out()[0])
    held_out = held_out.toarray() if sp.issparse(held_out) else held_out
    write(kind, folder, *changed_rows(change, kind, held_out, rng))
    # The folder of shuffled rows also detects another file; without it the run must detect it.
    places = [folder / "kept"] if rng.integers(2) else []
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
    content = (folder / "run").read_bytes()
    refused = in_child(folder, lambda: refusal(kind, folder))
    assert refused, f"{kind} went on with another {change}"
    assert (folder / "run").read_bytes() == content
    # The original rows in newly written files are accepted.
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
    write(kind, folder, *original(kind))
    compare(in_child(folder, lambda: resume(kind, "checking", folder, 0.0, 1)), expected)
    return "changed rows refused, the same rows accepted"


def refusal(kind: str, folder: Path) -> str | None:
    """Return the error message if resuming is refused, else None."""
    try:
        resume(kind, "checking", folder, 0.0, 1)
    except InputError as error:
        assert any(message in str(error) for message in REFUSALS), error  # noqa: PT017
        return str(error)
    return None


# Rows.


@cache
def original(kind: str) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
    if kind in ("sparse", "libsvm"):
        X[np.random.default_rng(1).random(X.shape) < 0.3] = 0.0
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    return X, np.array(["red", "green", "blue"])[X[:, :3].argmax(axis=1)] if kind == "csv" else y


def write(kind: str, folder: Path, X: Any, y: Any) -> None:
    """Write rows to a folder, in the format of a kind of source."""
    if kind == "csv":
        lines = [",".join([*map(repr, x), t]) for x, t in zip(X.tolist(), y, strict=True)]
        (folder / "rows.csv").write_text("\n".join(["a,b,c,d,e,label", *lines]) + "\n")
    elif kind == "libsvm":
        with open(folder / "rows.libsvm", "w") as file:
            for x, t in zip(X.tolist(), y.tolist(), strict=True):
                cells = (f"{j + 1}:{v!r}" for j, v in enumerate(x) if v)
                file.write(" ".join([repr(t), *cells]) + "\n")
    else:
        np.savez(folder / "rows.npz", X=X, y=y)
        np.save(folder / "rows.npy", X)


class Counted(list[Any]):
    """Batches with a known number of rows."""

    n_rows: int


def source(kind: str, folder: Path) -> Any:
    """Open the rows in a folder; sources of CSV and LIBSVM files keep their shuffled rows in it."""
    if kind in ("csv", "npz", "libsvm"):
        return open_stream(
            folder / f"rows.{kind}", folder=None if kind == "npz" else folder / "kept"
        )
    with np.load(folder / "rows.npz") as file:
        X, y = file["X"], file["y"]
    if kind == "npy":
        return ArraySource(
            np.load(folder / "rows.npy", mmap_mode="r"), y, seed=3, n_held_out=N_HELD_OUT
        )
    if kind in ("table", "sparse"):
        rows = X if kind == "table" else sp.csr_array(X)
        return ArraySource(rows, y, seed=3, n_held_out=N_HELD_OUT)
    batches = Counted((X[a : a + 37], y[a : a + 37]) for a in range(0, len(y), 37))
    batches.n_rows = len(y)
    source_batches = batches if kind == "batches" else lambda: iter(batches)
    return IteratorSource(source_batches, n_held_out=N_HELD_OUT)


def changed_rows(
    change: str, kind: str, held_out: Any, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Return the rows with one change, in a random row."""
    X, y = (array.copy() for array in original(kind))
    is_held_out = (X[:, None] == held_out).all(axis=2).any(axis=1)
    training_rows = np.flatnonzero(~is_held_out)
    if kind == "endless":
        # Only the rows that steps have read are known.
        training_rows = training_rows[:BATCH_ROWS]
        change = "training target" if change == "row appended" else change
    if change == "row appended":
        return np.concatenate([X, X[:1]]), np.append(y, y[:1])
    if change == "order of rows":
        return X[::-1], y[::-1]
    row = rng.choice(np.flatnonzero(is_held_out) if change == "row held out" else training_rows)
    if change == "training target":
        y[row] = next(label for label in set(y) if label != y[row]) if kind == "csv" else 12345.0
    else:
        X[row, 2] = np.nextafter(X[row, 2], np.float32(9.0))
    return X, y


# Saves.


@cache
def models() -> tuple[KernelRegressor, KernelRegressor]:
    X, y = original("table")
    return tuple(
        KernelRegressor(
            RandomBinning(n_grids=64), bandwidth=2.0, alpha=1e-2, random_state=k, n_jobs=1
        ).fit(X, y)
        for k in range(2)
    )


def kill_save(folder: Path, rng: np.random.Generator) -> str:
    path, saved_files = folder / "model", []
    for model in models():
        save(model, path)
        saved_files.append(path.read_bytes())

    def save_by_turns(after: Callable[..., None]) -> None:
        for k in range(2000):
            save(models()[k % 2], path)
            after()

    n_kills = 5
    for _ in range(n_kills):
        child = Child(save_by_turns)
        child.reach(int(rng.integers(1, 4)))
        time.sleep(rng.uniform(0.0, 0.03))
        assert child.kill()
        assert path.read_bytes() in saved_files, "a part of a model is in its place"
        load(path)
    return f"model file whole after {n_kills} kills"


# Shuffled rows.


def kill_shuffle(folder: Path, rng: np.random.Generator, kept: bool) -> str:
    X = np.arange(300_000.0, dtype=np.float32).reshape(-1, 6)
    np.savez(folder / "rows.npz", X=X, y=X[:, 0])
    options = {"chunk_rows": 500, "folder": folder / "kept" if kept else None}

    def shuffle(after: Callable[..., None]) -> None:
        shuffled = open_stream(folder / "rows.npz", report=after, **options)
        shuffled.read(0, 10)

    start = time.monotonic()
    Child(shuffle).finish()
    seconds = time.monotonic() - start
    expected = open_stream(folder / "rows.npz").read(0, 60_000)
    n_kills = 0
    while n_kills < 5:
        for path in (folder / "kept").glob("*.json"):
            path.unlink()
        child = Child(shuffle)
        time.sleep(rng.uniform(0.0, seconds))
        n_kills += child.kill()
    stream = open_stream(folder / "rows.npz", **options)
    for actual, wanted in zip(stream.read(0, 60_000), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)
    del stream
    check_temporary_folders(folder)
    return f"shuffled rows {'found again' if kept else 'removed'} after {n_kills} kills"
