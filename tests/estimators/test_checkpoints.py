"""Runs that are interrupted, killed and gone on with end with the bits of uninterrupted ones."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    KernelRegressor,
    RandomBinning,
    load,
    open_stream,
    save,
)
from gramless.base.errors import InputError, ModelFileError
from gramless.kernels import Matern
from gramless.streaming.sources import ArraySource, IteratorSource
from gramless.streaming.strategies import Uniform

from .streamed_models import N, X, same_run, y

Array = NDArray[Any]

NEW: Array = np.random.default_rng(1).normal(size=(50, 3))
OPTIONS: dict[str, Any] = {
    "random_state": 3,
    "max_steps": 26,
    "block_size": 16,
    "batch_size": 64,
    "bandwidth": 2.0,
    "alpha": 1e-3,
    "n_jobs": 1,
}


def regressor(**options: Any) -> DoublyStochasticRegressor:
    return DoublyStochasticRegressor(**{**OPTIONS, **options})


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "run.gramless"


def stop_at(step: int) -> Any:
    return lambda now, evaluation: now.iteration == step


# Interrupted and gone on with.


@pytest.mark.parametrize(
    ("strategy", "average", "patience", "update"),
    [
        ("checking", True, 10, "newton"),
        ("checking", False, 10, "gradient"),
        ("uniform", True, None, "gradient"),
        ("grow", True, 10, "newton"),
        ("grow", False, 10, "gradient"),
        pytest.param("checking", True, None, "gradient", marks=pytest.mark.slow),
        pytest.param("uniform", True, 10, "newton", marks=pytest.mark.slow),
        pytest.param("uniform", False, 10, "gradient", marks=pytest.mark.slow),
        pytest.param("grow", True, None, "gradient", marks=pytest.mark.slow),
    ],
)
def test_resumed_run_equals_an_uninterrupted_one(
    strategy: Any, average: bool, patience: int | None, update: str, there: Path
) -> None:
    options = {"strategy": strategy, "average": average, "patience": patience, "update": update}
    expected = regressor(**options).fit(X, y)
    for stops in ([1], [10, 11, 20, 25]):
        there.unlink(missing_ok=True)
        for step in stops:
            part = regressor(**options, checkpoint=str(there)).fit(X, y, callback=stop_at(step))
            assert (part.status_, part.n_iter_) == ("stopped", step)
        model = regressor(**options, checkpoint=str(there)).fit(X, y)
        same_run(model, expected)
        assert model.status_ == expected.status_
        np.testing.assert_array_equal(model.predict(NEW), expected.predict(NEW))


def test_checkpoint_interval_does_not_change_the_fit(there: Path) -> None:
    expected = regressor().fit(X, y)
    for seconds in (0.0, 0.01, 1e9):
        there.unlink(missing_ok=True)
        options = {"checkpoint": str(there), "checkpoint_seconds": seconds}
        same_run(regressor(**options).fit(X, y), expected)
        loaded = load(there)
        assert loaded.status_ == "max_steps"
        np.testing.assert_array_equal(loaded.predict(NEW), expected.predict(NEW))


@pytest.mark.parametrize(
    ("kind", "options", "form", "targets"),
    [
        (DoublyStochasticClassifier, {"loss": "hinge"}, np.float32, X.argmax(axis=1)),
        (DoublyStochasticClassifier, {"kernel": Matern()}, sp.csr_array, np.where(y > 0, "a", "b")),
        (DoublyStochasticRegressor, {"n_components": 2, "bandwidth": "auto"}, None, np.c_[y, -y]),
        (DoublyStochasticRegressor, {"fit_intercept": False, "loss": "huber"}, np.float64, y),
        (DoublyStochasticRegressor, {"random_state": None, "patience": 1}, np.asfortranarray, y),
    ],
)
def test_resumed_runs_of_other_losses_and_forms_equal_uninterrupted_ones(
    kind: Any, options: dict[str, Any], form: Any, targets: Array, there: Path
) -> None:
    rows = X if form is None else form(X)
    options = {**OPTIONS, "checkpoint": str(there), **options}
    part = kind(**options).fit(rows, targets, callback=stop_at(12))
    model = kind(**options).fit(rows, targets)
    expected = kind(**{**options, "checkpoint": None, "random_state": part.seed_})
    same_run(model, expected.fit(rows, targets))
    assert model.seed_ == part.seed_
    assert (model.predict(rows) == expected.predict(rows)).all()


def test_resumed_run_may_change_settings_that_do_not_affect_steps(there: Path) -> None:
    expected = regressor(max_steps=40).fit(X, y)
    regressor(checkpoint=str(there)).fit(X, y, callback=stop_at(5))
    regressor(checkpoint=str(there), max_steps=20, n_jobs=2, checkpoint_seconds=0.0).fit(X, y)
    part = regressor(checkpoint=str(there), max_steps=40, time_budget=0.0, verbose=0).fit(X, y)
    assert (part.status_, part.n_iter_) == ("time", 21)
    same_run(regressor(checkpoint=str(there), max_steps=40, n_jobs=3).fit(X, y), expected)


def test_resuming_a_finished_run_takes_no_step(there: Path) -> None:
    calls: list[int] = []
    for options in ({}, {"patience": 1, "tol": 0.5, "max_steps": 200}):
        there.unlink(missing_ok=True)
        model = regressor(checkpoint=str(there), **options).fit(X, y)
        again = regressor(checkpoint=str(there), **options)
        again.fit(X, y, callback=lambda *now: calls.append(1))
        same_run(again, model)
        assert again.status_ == model.status_
    assert model.status_ == "patience"
    assert not calls


def test_resumed_run_over_a_stream_equals_an_uninterrupted_one(there: Path) -> None:
    def batches() -> Any:
        for first in range(0, N, 37):
            yield X[first : first + 37], y[first : first + 37]

    def sources() -> list[Any]:
        return [
            ArraySource(X, y, seed=5, n_held_out=30),
            IteratorSource(batches, n_held_out=30),
            IteratorSource(list(batches()), n_held_out=30),
        ]

    for k in range(3):
        there.unlink(missing_ok=True)
        expected = regressor().fit_stream(sources()[k])
        part = regressor(checkpoint=str(there))
        part.fit_stream(sources()[k], callback=stop_at(9))
        model = regressor(checkpoint=str(there)).fit_stream(sources()[k])
        same_run(model, expected)


def test_run_over_an_exhausted_iterator_resumes_with_a_new_one(there: Path) -> None:
    def source(n: int) -> IteratorSource:
        return IteratorSource(((X, y) for _ in range(n)), n_held_out=100)

    expected = regressor().fit_stream(source(50))
    part = regressor(checkpoint=str(there)).fit_stream(source(3))
    assert part.status_ == "ended"
    assert 5 < part.n_iter_ < 12
    # The last batch of the short one was not whole: what follows it is not the same.
    assert regressor(checkpoint=str(there)).fit_stream(source(50)).n_iter_ == expected.n_iter_


def test_partial_fit_continues_from_a_checkpoint(there: Path) -> None:
    model = regressor(checkpoint=str(there)).fit(X, y)
    loaded = load(there)
    for one in (model, loaded):
        one.partial_fit(X, y)
    same_run(loaded, model)
    assert not hasattr(loaded, "run_")


def test_saved_model_holds_no_state_of_its_run(there: Path, tmp_path: Path) -> None:
    regressor(checkpoint=str(there)).fit(X, y, callback=stop_at(8))
    model = regressor(checkpoint=str(there)).fit(X, y)
    save(model, tmp_path / "model")
    plain = regressor().fit(X, y)
    save(plain, tmp_path / "plain")
    sizes = [(tmp_path / name).stat().st_size for name in ("model", "plain")]
    assert abs(sizes[0] - sizes[1]) < 500
    assert there.stat().st_size > sizes[0] + 2 * model.weights_.nbytes
    assert sizes[0] < model.weights_.nbytes + 8000


# Files that are no checkpoint of this run.


def refused(model: Any, there: Path, message: str, *rows: Any) -> None:
    content = there.read_bytes()
    with pytest.raises(InputError, match=message) as caught:
        model.set_params(checkpoint=str(there)).fit(*(rows or (X, y)))
    assert str(there) in str(caught.value)
    assert "name another file, or remove it to start anew" in str(caught.value)
    assert there.read_bytes() == content


OTHERS: dict[str, list[Any]] = {
    "kernel": ["laplacian", Matern()],
    "loss": ["huber"],
    "strategy": ["grow", Uniform()],
    "bandwidth": [3.0, "auto", [2.0, 2.0, 2.5]],
    "alpha": [1e-2, "auto"],
    "block_size": [17],
    "batch_size": [63],
    "fit_intercept": [False],
    "average": [False],
    "scaling": ["none"],
    "n_components": [2],
    "update": ["gradient"],
    "patience": [None, 9],
    "tol": [0.5],
    "random_state": [4, None],
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run.gramless"
    regressor(checkpoint=str(path)).fit(X, y, callback=stop_at(3))
    return path


def test_resuming_with_another_parameter_is_rejected(started: Path) -> None:
    for name in OTHERS:
        for value in OTHERS[name]:
            refused(regressor(**{name: value}), started, f"is of a run with another {name};")


def test_every_parameter_is_covered() -> None:
    free = {"n_jobs", "verbose", "max_steps", "time_budget", "checkpoint", "checkpoint_seconds"}
    # Those that change no bit on one machine, or need another machine.
    assert regressor().get_params().keys() == OTHERS.keys() | free | {
        "schedule",
        "cache_bytes",
        "device",
    }


def test_resuming_compares_arrays_of_bandwidths(there: Path) -> None:
    bandwidth = np.array([1.0, 2.0, 3.0])
    options = {"bandwidth": bandwidth, "checkpoint": str(there)}
    regressor(**options).fit(X, y, callback=stop_at(3))
    other = regressor(bandwidth=bandwidth + np.array([0.0, 0.0, 0.5]))
    refused(other, there, "is of a run with another bandwidth")
    regressor(**{**options, "bandwidth": bandwidth.copy()}).fit(X, y)


def test_resuming_over_other_rows_is_rejected(started: Path) -> None:
    message = "is of a run over other rows"
    for rows in ((X[:-1], y[:-1]), (X + 1e-9, y), (X, y + 1e-9), (X[:, :2], y), (X[::-1], y)):
        refused(regressor(), started, message, *rows)


def test_checkpoint_of_another_class_is_rejected(started: Path, there: Path) -> None:
    model = DoublyStochasticClassifier(**OPTIONS)
    refused(model, started, "is not a checkpoint of this class", X, y > 0)
    save(KernelRegressor(RandomBinning(n_grids=4), bandwidth=1.0).fit(X, y), there)
    refused(regressor(), there, "is not a checkpoint of this class")
    save(regressor().fit(X, y), there)
    refused(regressor(), there, "is not a checkpoint of this class")


def test_damaged_checkpoints_are_rejected_and_kept(started: Path, there: Path) -> None:
    whole = started.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) * 2 // 3] ^= 4
    for content in (whole[:-1], whole[: len(whole) // 2], b"", b"no model", bytes(flipped)):
        there.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"cannot be loaded.*(again|newer)") as caught:
            regressor(checkpoint=str(there)).fit(X, y)
        assert str(there) in str(caught.value)
        assert there.read_bytes() == content


def test_unwritable_checkpoint_path_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        regressor(checkpoint=str(tmp_path)).fit(X, y)
    with pytest.raises(InputError, match=r"checkpoint .*folder that does not exist"):
        regressor(checkpoint=str(tmp_path / "absent" / "run")).fit(X, y)


def test_checkpoint_path_may_lack_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    regressor(checkpoint="run").fit(X, y)
    assert os.listdir(tmp_path) == ["run"]


# Killed.


CHILD = """
import sys
import numpy as np
from gramless import DoublyStochasticClassifier, open_stream
from gramless.streaming.sources import ArraySource

kind, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
model = DoublyStochasticClassifier(
    random_state=1, max_steps=150, block_size=64, batch_size=300, bandwidth=1.0, alpha=1e-3,
    patience=None, strategy="checking", n_jobs=int(sys.argv[4]), checkpoint=folder + "/run",
    checkpoint_seconds=seconds,
)
if kind == "stream":
    source = open_stream(folder + "/rows.csv", folder=folder + "/piles")
else:
    X = np.load(folder + "/rows.npy", mmap_mode="r")
    source = ArraySource(X[:, :-1], X[:, -1].astype(int), seed=0, n_held_out=100)

def tell(step, evaluation):
    print("step", flush=True)

model.fit_stream(source, callback=tell)
"""


def write_rows(folder: Path) -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(3000, 6)).astype(np.float32)
    table = np.column_stack([rows, rows[:, :3].argmax(axis=1)])
    np.save(folder / "rows.npy", table)
    lines = [",".join([*map(repr, row[:-1].tolist()), f"c{row[-1]:.0f}"]) for row in table]
    names = "a,b,c,d,e,f,label\n"
    (folder / "rows.csv").write_text(names + "\n".join(lines) + "\n")


def start(kind: str, folder: Path, seconds: float, n_jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, kind, str(folder), str(seconds), str(n_jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def until_step(child: subprocess.Popen[bytes], n_steps: int) -> None:
    """Wait until a process has taken so many steps."""
    assert child.stdout is not None
    for _ in range(n_steps):
        assert child.stdout.readline() == b"step\n"


def kill(child: subprocess.Popen[bytes], delay: float) -> bool:
    """Kill a process after some time, or its next step; tell whether it still was at work."""
    select.select([child.stdout], [], [], delay)
    child.send_signal(signal.SIGKILL)
    return child.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("kind", ["mapped", "stream"])
def test_run_killed_at_any_moment_resumes_to_the_same_bits(kind: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
        write_rows(folder)
    began = time.perf_counter()
    child = start(kind, whole, 1e9, 1)
    until_step(child, 1)
    first_step = time.perf_counter() - began
    assert child.wait() == 0
    rng, n_killed = np.random.default_rng(), 0
    for k in range(14):
        # Written after every step, or after some.
        child = start(kind, killed, (0.0, 0.03)[k % 2], 1 + k % 2)
        if k < 4:
            n_killed += kill(child, rng.uniform(0.3, 1.1) * first_step)
        else:
            until_step(child, int(rng.integers(1, 10)))
            n_killed += kill(child, rng.uniform(0.0, 0.02))
    assert n_killed == 14
    child = start(kind, killed, 0.0, 2)
    assert child.wait() == 0
    expected, loaded = load(whole / "run"), load(killed / "run")
    assert loaded.n_iter_ == expected.n_iter_ == 150
    same_run(loaded, expected)
    left = {path.name for path in killed.iterdir() if path.suffix != ".part"}
    assert left <= {"run", "rows.npy", "rows.csv", "piles"}


def test_csv_rows_of_killed_runs_hold_six_features_and_three_labels(tmp_path: Path) -> None:
    write_rows(tmp_path)
    source = open_stream(tmp_path / "rows.csv", folder=tmp_path / "piles")
    assert source.n_features == 6
    assert set(source.read(0, 100)[1].tolist()) == {"c0", "c1", "c2"}
