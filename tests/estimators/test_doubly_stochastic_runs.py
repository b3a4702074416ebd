"""Runs of the doubly stochastic estimators: how they end, go on and repeat themselves."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor
from gramless.base.errors import InputError
from gramless.streaming.sources import ArraySource
from gramless.streaming.step_sizes import InverseTime

from .streamed_models import (
    FAST,
    NEW,
    THREE,
    TWO,
    N,
    X,
    classifier,
    regressor,
    same_run,
    y,
)

pytestmark = pytest.mark.filterwarnings("error")


# How runs end.


def test_run_without_patience_takes_all_steps() -> None:
    model = regressor(patience=None, max_steps=37).fit(X, y)
    assert (model.n_iter_, model.status_) == (37, "max_steps")
    assert not model.evaluations_
    assert regressor(patience=None).fit(X, y).batch_rows_ == 128


def test_patience_stops_a_run_and_restores_the_best_weights() -> None:
    noise = np.random.default_rng(1).normal(size=N)
    model = regressor(alpha=1e-6, patience=2, max_steps=2000).fit(X, noise)
    assert model.status_ == "patience"
    losses = model.evaluations_["loss"]
    assert 30 <= model.n_iter_ < 2000
    best = model.evaluations_["n_blocks"][losses.argmin()]
    assert len(model.weights_) == 64 * best
    assert losses.min() >= 0.99 * losses[:-2].min()
    assert model.n_iter_ == model.evaluations_["iteration"][-1]


def test_patience_stops_at_zero_loss() -> None:
    # A loss of exactly 0 cannot fall.
    separated = np.where(X[:, 0] > 0, X[:, 0] + 3.0, X[:, 0] - 3.0)[:, None]
    options = {"loss": "hinge", "patience": 2, "tol": 0.0, "max_steps": 300, "batch_size": N}
    model = classifier(**options).fit(separated, X[:, 0] > 0)
    assert model.evaluations_["loss"][-1] == 0.0
    assert model.status_ == "patience"


def test_time_budget_stops_a_run() -> None:
    model = regressor(time_budget=0.0).fit(X, y)
    assert (model.status_, model.n_iter_) == ("time", 1)
    assert np.isfinite(model.predict(NEW)).all()
    model = regressor(time_budget=0.3, max_steps=10**6, patience=None, strategy="uniform").fit(X, y)
    assert model.status_ == "time"
    assert 0.1 < model.history_["seconds"][-1] < 3.0
    assert (np.diff(model.history_["seconds"]) > 0).all()


def test_callback_receives_every_step_and_stops_a_run() -> None:
    calls: list[Any] = []

    def callback(step: Any, evaluation: Any) -> bool:
        calls.append((step.iteration, evaluation is None))
        return len(calls) == 12

    model = regressor().fit(X, y, callback=callback)
    assert (model.status_, model.n_iter_) == ("stopped", 12)
    assert calls == [(k, k != 10) for k in range(1, 13)]


def test_verbose_run_prints_each_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    regressor(verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0].split()[-1] for line in lines] == ["10", "20"]
    regressor().fit(X, y)
    assert not capsys.readouterr().err


LONG = {"schedule": InverseTime(1e6), "max_steps": 200, "update": "gradient"}


def constant_steps(length: float) -> InverseTime:
    return InverseTime(1e9 * length, 1e9)


UNSTABLE = r"DoublyStochasticRegressor: steps became unstable.*InverseTime\(theta, delay\)"


@pytest.mark.parametrize(
    ("length", "options"), [(60.0, {"patience": None}), (1e8, {"average": False})]
)
def test_diverging_run_raises_input_error(length: float, options: dict[str, Any]) -> None:
    model = regressor(**{"patience": 100, "max_steps": 200, **options})
    model.set_params(schedule=constant_steps(length), update="gradient", strategy="uniform")
    with pytest.raises(InputError, match=UNSTABLE):
        model.fit(X, y)
    many = [np.concatenate([given] * 100) for given in (X, y)]
    with pytest.raises(InputError, match=UNSTABLE):
        model.partial_fit(*many)
    model.partial_fit(X, y)
    assert model.n_iter_ == 2
    for rows, targets in (many, (X, y)):
        with pytest.raises(InputError, match=UNSTABLE):
            model.partial_fit(rows, targets)


def test_late_divergence_warns_and_restores_the_best_weights() -> None:
    model = regressor(schedule=constant_steps(20.0), max_steps=500, patience=100, tol=0.0)
    model.set_params(update="gradient", strategy="uniform")
    with pytest.warns(ConvergenceWarning, match=UNSTABLE) as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert model.status_ == "diverged"
    best = model.evaluations_["loss"].argmin()
    assert len(model.weights_) == 64 * model.evaluations_["n_blocks"][best]
    assert model.score(X, y) > 0.0


def test_failed_run_leaves_the_model_unfitted() -> None:
    model = regressor().fit(X, y)
    with pytest.raises(InputError, match="unstable"):
        model.set_params(**LONG, patience=None).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


# The same bits.


def test_number_of_threads_does_not_change_the_fit() -> None:
    for update in ["newton", "gradient"]:
        options = {**FAST, "update": update, "block_size": 100, "max_steps": 10}
        for kind, targets in (
            (DoublyStochasticRegressor, np.column_stack([y, -y])),
            (DoublyStochasticClassifier, THREE),
        ):
            one = kind(**options, n_jobs=1).fit(X, targets)
            for n_jobs in (2, 3):
                other = kind(**options, n_jobs=n_jobs).fit(X, targets)
                same_run(other, one)
                np.testing.assert_array_equal(other._responses(NEW), one._responses(NEW))


def test_cache_size_does_not_change_the_fit() -> None:
    one, other = (regressor(cache_bytes=size).fit(X, y) for size in (0, 1 << 20))
    same_run(one, other)
    np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))


def test_random_state_decides_the_fit() -> None:
    same_run(regressor().fit(X, y), regressor().fit(X, y))
    generators = [regressor(random_state=np.random.RandomState(5)) for _ in range(2)]
    same_run(*(model.fit(X, y) for model in generators))
    other = regressor(random_state=1).fit(X, y)
    assert not np.array_equal(other.weights_[:64], regressor().fit(X, y).weights_[:64])
    one, two = (regressor(random_state=None).fit(X, y).predict(NEW) for _ in range(2))
    assert not np.array_equal(one, two)


def test_predictions_in_pieces_equal_those_of_all_rows() -> None:
    model = classifier(max_steps=50).fit(X, THREE)
    long = np.concatenate([NEW] * 60)
    whole = model.decision_function(long)
    np.testing.assert_allclose(whole[:150], whole[-150:], atol=1e-5)
    for size in (1, 7, 96, 150):
        pieces = [model.decision_function(NEW[k : k + size]) for k in range(0, 150, size)]
        np.testing.assert_allclose(np.concatenate(pieces), whole[:150], atol=1e-5)


# Copies.


def test_copies_predict_the_same_and_clones_are_unfitted() -> None:
    model = classifier(cache_bytes=1 << 24, strategy="grow").fit(X, THREE)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "weights_")
    expected = model.decision_function(NEW)
    for result in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        same_run(result, model)
        np.testing.assert_array_equal(result.decision_function(NEW), expected)
    # Neither rows nor frequencies: weights, their average, and what is best so far.
    assert len(pickle.dumps(model)) < 4 * model.weights_.nbytes + 20_000


def test_fitted_model_does_not_hold_its_rows() -> None:
    model = regressor().fit(X, y)
    plain = pickle.dumps(model)
    more = np.concatenate([X] * 20), np.concatenate([y] * 20)
    larger = pickle.dumps(regressor(max_steps=25).fit(*more))
    assert len(larger) < len(plain) + 100_000


# partial_fit.


@pytest.mark.parametrize(
    ("strategy", "average", "update"),
    [("checking", True, "newton"), ("uniform", False, "gradient"), ("grow", True, "newton")],
)
def test_partial_fit_takes_the_steps_of_a_run(strategy: str, average: bool, update: str) -> None:
    options = {"strategy": strategy, "average": average, "batch_size": 60, "patience": None}
    options["update"] = update
    source = ArraySource(X, y, seed=0, shuffle=False)
    run = regressor(**options, max_steps=12).fit_stream(source)
    model = regressor(**options).partial_fit(X, y)
    assert (model.n_iter_, model.status_) == (4, "partial")
    model.partial_fit(X, y)
    for first in range(0, N, 60):
        model.partial_fit(X[first : first + 60], y[first : first + 60])
    same_run(model, run)
    np.testing.assert_array_equal(model.predict(NEW), run.predict(NEW))


def test_partial_fit_continues_a_run_and_its_copies() -> None:
    model = regressor(max_steps=30).fit(X, y)
    before = model.predict(NEW)
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    model.partial_fit(X, y)
    assert model.n_iter_ == 32
    assert not np.array_equal(model.predict(NEW), before)
    assert model.score(X, y) > 0.75
    for result in copies:
        same_run(result.partial_fit(X, y), model)


def stopping(step: Any, evaluation: Any) -> bool:
    if step.iteration == 7:
        raise RuntimeError("enough")
    return False


def test_partial_fit_after_a_failed_fit_starts_over() -> None:
    model = regressor()
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(X, y, callback=stopping)
    far = 100.0 * X + 50.0
    same_run(model.partial_fit(far, y), regressor().partial_fit(far, y))
    np.testing.assert_array_equal(model.predict(far), copy.deepcopy(model).predict(far))
    named = classifier()
    with pytest.raises(RuntimeError, match="enough"):
        named.fit(X, TWO, callback=stopping)
    same_run(named.partial_fit(X, THREE), classifier().partial_fit(X, THREE))


def test_partial_fit_rejects_classes_missing_from_the_first_call() -> None:
    names = np.array(["a", "b", "c"])[THREE]
    first = names != "c"
    model = classifier().partial_fit(X[first], names[first], classes=["c", "a", "b"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    for _ in range(5):
        model.partial_fit(X, names)
    assert model.score(X, names) > 0.8
    model = classifier().partial_fit(X[first], names[first])
    with pytest.raises(InputError, match=r"label .*c.* not among the first.*classes="):
        model.partial_fit(X, names)
    with pytest.raises(InputError, match="not among"):
        classifier().partial_fit(X, names, classes=["a", "b"])
    with pytest.raises(InputError, match="classes are for a classifier"):
        regressor().partial_fit(X, y, classes=[0, 1])


def test_partial_fit_rejects_invalid_rows_without_a_step() -> None:
    model = regressor().partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but DoublyStochasticRegressor is exp"):
        model.partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(X > 2, np.nan, X), y)
    assert model.n_iter_ == 2


def test_partial_fit_by_few_rows_is_stable() -> None:
    model = regressor(max_steps=5)
    for first in range(0, N, 10):
        model.partial_fit(X[first : first + 10], y[first : first + 10])
    assert model.batch_rows_ == 10
    assert model.score(X, y) > 0.3
