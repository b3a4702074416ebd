"""Runs over streams: when they end, what they keep, what they hold, what they refuse."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor
from gramless.base.errors import InputError
from gramless.base.progress import Deadline
from gramless.kernels import Gaussian
from gramless.losses import Squared
from gramless.streaming.doubly_stochastic import DoublyStochastic, FreeIntercept
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.sources import ArraySource, IteratorSource
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Uniform
from gramless.streaming.training_loop import (
    EncodedSource,
    Limits,
    Training,
    columns_to_records,
    records_to_columns,
)

Array = NDArray[Any]

RNG = np.random.default_rng(0)
N = 240
X: Array = RNG.normal(size=(N, 3))
y: Array = np.sin(2.0 * X[:, 0]) + X[:, 1]
SIZE, BATCH = 16, 40


def training(averaged: bool = True, length: float = 1.0, alpha: float = 1e-3) -> Training:
    blocks = FrequencyBlocks(Gaussian(), 3, SIZE, 3)
    products = CpuProducts(blocks, np.zeros(3), np.full(3, 0.5), 1 << 20, n_jobs=1)
    expansion = FeatureExpansion(2 * SIZE, blocks.group_blocks, 1)
    machine = DoublyStochastic(
        *(products, expansion, Squared(), alpha, InverseTime(1e9 * length, 1e9)),
        *(Uniform(), FreeIntercept(1.0), 3),
    )
    return Training(machine, BATCH, averaged, lambda z, t: float(np.sqrt(np.mean((z - t) ** 2))))


def encoded(X: Any = X, y: Array = y, n_held_out: int = 40) -> EncodedSource:
    source = ArraySource(X, y, seed=1, n_held_out=n_held_out)
    return EncodedSource(
        source, lambda rows: rows, lambda targets: targets.reshape(len(targets), -1)
    )


def limits(max_steps: int = 50, patience: int | None = None, tol: float = 0.0) -> Limits:
    return Limits(max_steps, patience, tol, Deadline())


def never(step: Any, evaluation: Any) -> bool:
    return False


# Training itself.


def test_evaluations_describe_the_kept_function() -> None:
    for averaged in [True, False]:
        run, source = training(averaged), encoded()
        assert run.run(source, limits(47, patience=100), never) == "max_steps"
        assert [e["iteration"] for e in run.evaluations] == [10, 20, 30, 40]
        losses = [e["loss"] for e in run.evaluations]
        best = run.result()
        assert best.iteration == 10 * (1 + int(np.argmin(losses)))
        rows, targets = source.held_out() or (None, None)
        products = run.machine.products
        size = 2 * SIZE * products.blocks.group_blocks
        groups = [best.weights[k : k + size] for k in range(0, len(best.weights), size)]
        n_blocks = len(best.weights) // (2 * SIZE)
        responses = products.responses(products.prepare(rows), groups, n_blocks) + best.constant
        np.testing.assert_allclose(
            0.5 * np.mean((responses - targets) ** 2), min(losses), rtol=1e-6
        )
        error = run.evaluations[int(np.argmin(losses))]["error"]
        np.testing.assert_allclose(error, np.sqrt(2.0 * min(losses)), rtol=1e-6)


def test_last_function_is_kept_without_patience() -> None:
    run = training(averaged=False)
    run.run(encoded(), limits(27, patience=None), never)
    assert [e["iteration"] for e in run.evaluations] == [10, 20]
    assert run.result().iteration == 27
    np.testing.assert_array_equal(run.result().weights, run.machine.expansion.weights())


def test_evaluations_become_less_frequent() -> None:
    run = training(length=0.1)
    run.run(encoded(), limits(500), never)
    when = np.array([e["iteration"] for e in run.evaluations])
    np.testing.assert_array_equal(np.diff(when)[:19], 10)
    assert (np.diff(when)[25:] > 12).all()


def test_no_evaluations_without_held_out_rows() -> None:
    run = training(averaged=False)
    run.run(encoded(n_held_out=0), limits(30, patience=1), never)
    assert not run.evaluations
    np.testing.assert_array_equal(run.result().weights, run.machine.expansion.weights())
    assert len(run.history) == 30


def test_reading_results_does_not_change_a_run() -> None:
    looked, alone = training(), training()
    for run, after in ((looked, lambda *now: bool(looked.result() is None)), (alone, never)):
        run.run(encoded(n_held_out=0), limits(40), after)
    np.testing.assert_array_equal(looked.result().weights, alone.result().weights)
    for name, value in looked.state()["expansion"].items():
        np.testing.assert_array_equal(value, alone.state()["expansion"][name], err_msg=name)


def test_limits_are_checked_before_the_first_step() -> None:
    run = training()
    assert run.run(encoded(), limits(300, patience=2, tol=0.3), never) == "patience"
    steps = run.machine.iteration
    assert 30 <= steps < 300
    for maximum in (300, steps, 5):
        assert run.run(encoded(), limits(maximum, patience=2, tol=0.3), never) == "patience"
    assert run.run(encoded(), limits(steps), never) == "max_steps"
    assert run.machine.iteration == steps == len(run.history)
    run.run(encoded(), limits(steps + 3), never)
    assert run.machine.iteration == steps + 3


def test_runs_settle_once_patience_is_used_up() -> None:
    for losses, patience, tol, settled in [
        ([3.0, 2.0, 1.0], 1, 0.1, False),
        ([3.0, 2.0, 2.0], 1, 0.0, True),
        ([3.0, 2.0, 2.5, 1.9], 2, 0.0, False),
        ([3.0, 2.0, 2.5, 1.9], 2, 0.1, True),
        ([0.0, 0.0], 1, 0.0, True),
        ([3.0, 2.0], 2, 0.5, False),
        ([3.0], None, 0.5, False),
        ([np.inf, np.inf, 4.0], 1, 0.1, False),
    ]:
        run = training()
        run.evaluations = [{"loss": loss} for loss in losses]
        assert run._has_settled(limits(patience=patience, tol=tol)) == settled


def test_error_names_missing_values() -> None:
    for form in [np.asarray, sp.csr_array]:
        for value in [np.nan, np.inf, -np.inf]:
            rows = X.copy()
            rows[:, 2] = value
            with pytest.raises(
                InputError, match=r"^The held-out rows of the stream contain NaN or infinity"
            ):
                training().run(encoded(form(rows)), limits(), never)
            message = (
                r"^Rows 0 to 40 of the stream \(without those held out\) contain NaN or infinity; "
                r"impute or remove them first\.$"
            )
            for source in (
                encoded(form(rows), n_held_out=0),
                encoded(y=np.full(N, value), n_held_out=0),
            ):
                with pytest.raises(InputError, match=message):
                    training().run(source, limits(), never)


def test_take_stops_after_divergence() -> None:
    run = training(length=1e6)
    targets = y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            run.partial_step(X, targets)
    assert run.has_diverged
    assert len(run.history) < 60


def test_failed_step_changes_nothing() -> None:
    one, other = training().machine, training().machine
    for k in range(4):
        if k == 2:
            with pytest.raises(InputError, match="rows have 2 inputs, not 3"):
                one.step(X[:, :2], y[:, None])
        assert one.step(X, y[:, None]) == other.step(X, y[:, None])
    np.testing.assert_array_equal(one.expansion.weights(), other.expansion.weights())


def test_infinite_loss_is_never_the_best() -> None:
    run = training(length=300.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.run(encoded(), limits(400), never) == "diverged"
    assert np.isfinite(run.result().weights).all()
    assert run.history[-1]["iteration"] == len(run.history)


def test_records_survive_conversion_to_columns() -> None:
    rows = [{"a": 1, "b": 0.5}, {"a": 2, "b": np.inf}]
    assert columns_to_records(records_to_columns(rows)) == rows
    assert records_to_columns(rows)["a"].dtype.kind == "i"
    assert columns_to_records(records_to_columns([])) == []


# Estimators over streams.


FAST: dict[str, Any] = {
    "random_state": 0,
    "max_steps": 30,
    "block_size": 16,
    "batch_size": 60,
    "bandwidth": 2.0,
    "alpha": 1e-3,
}


def regressor(**options: Any) -> DoublyStochasticRegressor:
    return DoublyStochasticRegressor(**{**FAST, **options})


def endless(seed: int = 0, n: int = 100) -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.normal(size=(n, 3))
        yield rows, np.sin(2.0 * rows[:, 0]) + rows[:, 1]


KINDS: dict[str, Callable[[], Any]] = {
    "generator": lambda: endless(),
    "callable": lambda: endless,
    "list": lambda: [batch for batch, _ in zip(endless(), range(20), strict=False)],
}


def test_iterators_of_every_kind_give_the_same_run() -> None:
    for kind in KINDS:
        model = regressor().fit_stream(IteratorSource(KINDS[kind](), n_held_out=200))
        assert (model.n_iter_, model.status_) == (30, "max_steps")
        assert model.score(X, y) > 0.8
        assert len(model.evaluations_["loss"]) == 3
        # The first steps are over the same rows, whatever they come from.
        expected = regressor().fit_stream(IteratorSource(endless(), n_held_out=200))
        np.testing.assert_array_equal(model.weights_, expected.weights_)


def test_unknown_length_needs_held_out_rows() -> None:
    for kind in KINDS:
        message = r"DoublyStochasticRegressor: a stream of unknown length.*n_held_out=2000"
        with pytest.raises(InputError, match=message):
            regressor().fit_stream(IteratorSource(KINDS[kind]()))


def test_exhausted_iterator_ends_the_run() -> None:
    batches = (batch for batch, _ in zip(endless(), range(7), strict=False))
    model = regressor().fit_stream(IteratorSource(batches, n_held_out=200))
    # 500 rows are left: eight batches of 60 and one of 20.
    assert (model.n_iter_, model.status_) == (9, "ended")
    assert np.isfinite(model.predict(X)).all()


def test_fit_equals_fit_stream_of_its_source() -> None:
    table = regressor().fit(X, y)
    source = ArraySource(X, y, seed=0, n_held_out=N // 10)
    np.testing.assert_array_equal(regressor().fit_stream(source).weights_, table.weights_)


def test_late_classes_must_be_announced() -> None:
    def batches() -> Iterator[tuple[Array, Array]]:
        for rows, _ in endless():
            yield rows, np.array(["a", "b"])[(rows[:, 0] > 0).astype(int)]

    def rare() -> Iterator[tuple[Array, Array]]:
        for k, (rows, labels) in enumerate(batches()):
            yield rows, np.where(rows[:, 1] > 1.5, "c", labels) if k > 3 else labels

    model = DoublyStochasticClassifier(**FAST)
    with pytest.raises(InputError, match=r"label .*c.* was not among the first.*classes="):
        model.fit_stream(IteratorSource(rare, n_held_out=200))
    model.fit_stream(IteratorSource(rare, n_held_out=200), classes=["c", "b", "a"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    labels = np.where(X[:, 0] > 0, "b", "a")
    assert (model.predict(X) == labels).mean() > 0.75
    with pytest.raises(InputError, match="only one class"):
        model.fit_stream(IteratorSource(rare, n_held_out=200), classes=["a"])
    with pytest.raises(InputError, match="classes are for a classifier"):
        regressor().fit_stream(IteratorSource(endless(), n_held_out=200), classes=[0, 1])


def test_targets_of_the_wrong_kind_are_rejected() -> None:
    with pytest.raises(InputError, match="targets look like measurements.*Regressor"):
        DoublyStochasticClassifier(**FAST).fit_stream(IteratorSource(endless(), n_held_out=200))
    text = ArraySource(X, np.where(y > 0, "a", "b"), seed=0)
    with pytest.raises(InputError, match="targets must be numbers.*Classifier"):
        regressor().fit_stream(text)


def test_error_names_later_missing_values() -> None:
    def batches() -> Iterator[tuple[Array, Array]]:
        for k, (rows, targets) in enumerate(endless()):
            rows[7, 1] = np.nan if k == 6 else 0.0
            yield rows, targets

    message = r"Rows 360 to 420 of the stream \(without those held out\) contain NaN"
    with pytest.raises(InputError, match=message):
        regressor().fit_stream(IteratorSource(batches, n_held_out=200))


def test_fit_stream_rejects_other_objects() -> None:
    for source in [X, None, [(X, y)], "rows.csv"]:
        with pytest.raises(InputError, match=r"fit_stream needs a source of rows.*open_stream"):
            regressor().fit_stream(source)


def test_sparse_batches_are_fitted() -> None:
    def batches() -> Iterator[tuple[Any, Array]]:
        for rows, targets in endless():
            yield sp.csr_array(rows), targets

    model = regressor().fit_stream(IteratorSource(batches, n_held_out=200))
    assert model.score(X, y) > 0.8
    assert model.score(sp.csr_array(X), y) > 0.8


@pytest.mark.slow
def test_memory_does_not_depend_on_the_rows_seen() -> None:
    width, n = 200, 500

    def batches() -> Iterator[tuple[Array, Array]]:
        rng = np.random.default_rng(0)
        while True:
            rows = rng.normal(size=(n, width)).astype(np.float32)
            yield rows, rows[:, 0].astype(np.float64)

    def peak(steps: int) -> int:
        model = regressor(strategy=Uniform(1, 1000), max_steps=steps, batch_size=n, block_size=8)
        tracemalloc.start()
        model.fit_stream(IteratorSource(batches, n_held_out=n))
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert model.history_["n_blocks"][-1] == 1
        return result

    peak(5)
    few, many = peak(20), peak(100)
    # 80 batches more are 32 MB.
    assert many < few + 1_000_000
    assert many < 20_000_000
