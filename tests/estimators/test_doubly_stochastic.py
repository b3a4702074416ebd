"""The doubly stochastic estimators: right answers on any rows, clear errors on wrong ones."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor
from gramless.base.errors import InputError, KernelError
from gramless.estimators import stream_parameters
from gramless.kernels import Gaussian, Laplacian, Matern
from gramless.streaming.schedules import InverseTime
from gramless.streaming.sources import ArraySource
from gramless.streaming.strategies import Checking, Uniform

Array = NDArray[Any]

FAST: dict[str, Any] = {"random_state": 0, "max_steps": 25, "block_size": 32, "batch_size": 128}
GIVEN: dict[str, Any] = {**FAST, "bandwidth": 2.0, "alpha": 1e-3}
RNG = np.random.default_rng(0)
N = 240
X: Array = RNG.normal(size=(N, 3))
y: Array = np.sin(2.0 * X[:, 0]) + X[:, 1]
TWO, THREE = (y > 0).astype(int), X.argmax(axis=1)
NEW: Array = RNG.normal(size=(150, 3))


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def regressor(**options: Any) -> DoublyStochasticRegressor:
    return DoublyStochasticRegressor(**{**GIVEN, **options})


def classifier(**options: Any) -> DoublyStochasticClassifier:
    return DoublyStochasticClassifier(**{**GIVEN, **options})


def same_run(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found.weights_, expected.weights_)
    np.testing.assert_array_equal(found.constant_, expected.constant_)
    for mine, other in (
        (found.history_, expected.history_),
        (found.evaluations_, expected.evaluations_),
    ):
        assert mine.keys() == other.keys()
        for name in mine.keys() - {"seconds"}:
            np.testing.assert_array_equal(mine[name], other[name], err_msg=name)


FEW = {"max_steps": 10, "block_size": 16, "bandwidth": 4.0}


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([DoublyStochasticRegressor(**FEW), DoublyStochasticClassifier(**FEW)])
def test_all_that_scikit_learn_asks(estimator: Any, check: Any) -> None:
    if check.func.__name__ == "check_methods_subset_invariance":
        # It wants 1e-7: features are float32, and BLAS adds them in an order that depends on the
        # number of rows. What can be had is in test_rows_in_pieces.
        pytest.skip("sums in float32 depend on the number of rows")
    warnings.simplefilter("default")
    check(estimator)


# Losses, strategies, options.


STRATEGIES = ["checking", "uniform", "grow", Checking(1, np.inf), Uniform(2, 1)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize(("loss", "update"), [("squared", "gradient"), ("huber", "newton")])
def test_any_regression(strategy: Any, loss: str, update: str) -> None:
    model = regressor(strategy=strategy, loss=loss, update=update, max_steps=40).fit(X, y)
    assert model.score(X, y) > 0.75
    assert model.n_iter_ == len(model.history_["loss"]) <= 40
    n_blocks = model.history_["n_blocks"]
    assert n_blocks[-1] == n_blocks.max()
    if strategy == "grow":
        assert (n_blocks == np.arange(1, 41)).all()
    if strategy == "uniform":
        assert n_blocks[-1] == 20


@pytest.mark.parametrize("strategy", STRATEGIES[:3])
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "hinge"])
@pytest.mark.parametrize("targets", [TWO, THREE], ids=["two", "three"])
def test_any_classification(strategy: Any, loss: str, targets: Array) -> None:
    update = "gradient" if targets is TWO else "newton"
    model = classifier(strategy=strategy, loss=loss, update=update).fit(X, targets)
    assert model.score(X, targets) > 0.8
    shape = (N,) if targets is TWO else (N, 3)
    responses = model.decision_function(X)
    assert responses.shape == shape
    chosen = (responses > 0).astype(int) if targets is TWO else responses.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), chosen)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_with_and_without_a_constant_and_averages(fit_intercept: bool, average: bool) -> None:
    options = {"fit_intercept": fit_intercept, "average": average, "max_steps": 60}
    model = regressor(**options).fit(X, y + 7.0)
    assert model.score(X, y + 7.0) > 0.8
    assert bool(model.constant_.any()) == fit_intercept
    assert classifier(**options).fit(X, THREE).score(X, THREE) > 0.85


def test_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_parameters, "_MOST_NEWTON_COLUMNS", 64)
    few, many = regressor(block_size=32, max_steps=5), regressor(block_size=33, max_steps=5)
    for model, name in ((few, "newton"), (many, "gradient")):
        same_run(model.fit(X, y), clone(model).set_params(update=name).fit(X, y))
    one, other = (regressor(update=name, max_steps=8) for name in ("newton", "gradient"))
    assert one.fit(X, y).score(X, y) > other.fit(X, y).score(X, y) + 0.03


def test_a_constant_takes_up_unequal_classes() -> None:
    rare = np.where(y > 1.8, "rare", "common")
    model = classifier(loss="logistic", max_steps=100).fit(X, rare)
    np.testing.assert_allclose(
        model.predict_proba(X).mean(axis=0)[1], (rare == "rare").mean(), rtol=0.3
    )


def test_several_outputs() -> None:
    Y = np.column_stack([y, -3.0 * y, X[:, 1] + 1e6])
    model = regressor(max_steps=40).fit(X, Y)
    found = model.predict(NEW)
    assert found.shape == (150, 3)
    assert model.score(X, Y) > 0.75
    np.testing.assert_allclose(found[:, 1], -3.0 * found[:, 0], atol=1e-4)
    assert regressor().fit(X, y[:, None]).predict(NEW).shape == (150, 1)


def test_as_many_classes_as_there_are() -> None:
    grid = np.digitize(X[:, 0], np.linspace(-2, 2, 29))
    model = classifier(bandwidth=0.5, max_steps=50).fit(X, grid)
    assert model.decision_function(NEW).shape == (150, len(np.unique(grid)))
    assert model.score(X, grid) > 5 * np.bincount(grid).max() / N


LABELS = {
    "text": np.array(["no", "perhaps", "yes"])[THREE],
    "object text": np.array(["no", "perhaps", "yes"], dtype=object)[THREE],
    "int8": THREE.astype(np.int8) - 1,
    "floats": THREE * 2.0,
    "bool": y > 0,
    "list": TWO.tolist(),
}


@pytest.mark.parametrize("kind", LABELS)
def test_any_labels(kind: str) -> None:
    targets = LABELS[kind]
    model = classifier().fit(X, targets)
    np.testing.assert_array_equal(model.classes_, np.unique(targets))
    assert model.predict(X).dtype == model.classes_.dtype
    assert model.score(X, targets) > 0.85
    if kind in ("object text", "list"):
        plain = classifier().fit(X, np.unique(targets, return_inverse=True)[1])
        np.testing.assert_array_equal(model.weights_, plain.weights_)


def test_probabilities() -> None:
    for targets in (TWO, THREE):
        model = classifier(max_steps=60).fit(X, targets)
        found = model.predict_proba(NEW)
        assert found.shape == (150, len(model.classes_))
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
        assert (found >= 0).all()
        np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(NEW))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), found)
        chances = model.predict_proba(X)[np.arange(N), targets]
        assert -np.log(chances).mean() < 0.5
    far = model.predict_log_proba(np.full((1, 3), 1e30))
    assert np.isfinite(far).all()


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "hinge"])
def test_no_probabilities_of_other_losses(loss: str) -> None:
    model = classifier(loss=loss).fit(X, TWO)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=rf"{name}|logistic"):
            getattr(model, name)


# Rows.


FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "column by column": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "big endian": lambda X: X.astype(">f8"),
    "list": lambda X: X.tolist(),
    "CSR": sp.csr_array,
    "CSC matrix": sp.csc_matrix,
    "CSR of int64": lambda X: sp.csr_array(
        (lambda m: (m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)))(
            sp.csr_array(X)
        ),
        shape=X.shape,
    ),
}


def test_rows_in_any_form() -> None:
    rows = np.rint(X * 8.0) / 8.0
    expected = regressor(scaling="none").fit(rows, y).predict(rows)
    for form, change in FORMS.items():
        given = change(rows)
        model = regressor(scaling="none").fit(given, y)
        for own in (given, rows):
            np.testing.assert_allclose(model.predict(own), expected, atol=2e-4, err_msg=form)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, bool])
def test_whole_numbers(dtype: Any) -> None:
    rows = (X > 0) if dtype is bool else np.clip(np.rint(20.0 * X + 64.0), 0, 127)
    plain = rows.astype(np.float64)
    model = DoublyStochasticRegressor(**FAST).fit(rows.astype(dtype), y)
    expected = DoublyStochasticRegressor(**FAST).fit(plain, y)
    np.testing.assert_array_equal(model.preparation_.units, expected.preparation_.units)
    np.testing.assert_allclose(
        model.predict(rows.astype(dtype)), expected.predict(plain), atol=1e-5
    )


def test_rows_that_must_not_be_written(tmp_path: Path) -> None:
    rows, targets = X.copy(), y.copy()
    rows.flags.writeable = targets.flags.writeable = False
    expected = regressor().fit(X, y)
    same_run(regressor().fit(rows, targets), expected)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = regressor().fit(mapped, targets)
    same_run(model, expected)
    np.testing.assert_array_equal(model.predict(mapped), expected.predict(X))
    np.testing.assert_array_equal(rows, X)


def test_a_data_frame() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = regressor().fit(frame, y)
    same_run(model, regressor().fit(X, y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize("scaling", ["standard", "none"])
def test_offsets_and_units_of_any_size(scaling: str) -> None:
    options = {**FAST, "scaling": scaling, "bandwidth": "median"}
    score = DoublyStochasticRegressor(**options).fit(X, y).score(X, y)
    assert score > 0.6
    for rows in (X + 1e9, X - 1e9, X * 1e140, X * 1e-140):
        model = DoublyStochasticRegressor(**options).fit(rows, y)
        assert abs(model.score(rows, y) - score) < 1e-4
    for targets in (y * 1e140, y * 1e-140, y + 1e9):
        model = DoublyStochasticRegressor(**options).fit(X, targets)
        assert abs(model.score(X, targets) - score) < 1e-4


def test_constant_columns_are_left_out() -> None:
    constants = [np.full(N, value) for value in (0.0, 0.1, 1e9 / 3.0, -1e-300)]
    model = DoublyStochasticRegressor(**FAST).fit(np.column_stack([X, *constants]), y)
    assert np.isinf(model.preparation_.units).tolist() == [False] * 3 + [True] * 4
    other = np.column_stack([X, *(value + 5.0 for value in constants)])
    np.testing.assert_array_equal(
        model.predict(other), model.predict(np.column_stack([X, *constants]))
    )
    same = np.full((200, 2), 0.7)
    for rows in (same, sp.csr_array(same)):
        found = DoublyStochasticRegressor(**FAST).fit(rows, y[:200]).predict(rows)
        np.testing.assert_allclose(found, y[:200].mean(), atol=0.05)


def test_constant_targets() -> None:
    for value in (0.0, 0.1, 1e9):
        found = regressor().fit(X, np.full(N, value)).predict(NEW)
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-12)


def test_values_far_outside_in_predict() -> None:
    model = regressor().fit(X, y)
    for value in (1e30, 1e300, -1.7e308, 1e-320):
        rows = np.full((2, 3), value)
        for form in (rows, sp.csr_array(rows)):
            assert np.isfinite(model.predict(form)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_few_rows(n: int) -> None:
    for options in (GIVEN, FAST, {**FAST, "fit_intercept": False}):
        model = DoublyStochasticRegressor(**options).fit(X[:n], y[:n])
        assert np.isfinite(model.predict(NEW)).all()
    if n > 1:
        labels = np.arange(n) % 2
        assert DoublyStochasticClassifier(**FAST).fit(X[:n], labels).score(X[:n], labels) > 0.5
    np.testing.assert_allclose(regressor().fit(X[:1], y[:1]).predict(NEW), y[0])


def test_one_input() -> None:
    column = X[:, :1]
    model = regressor(bandwidth=1.0, max_steps=60).fit(column, np.sin(2.0 * X[:, 0]))
    assert model.score(column, np.sin(2.0 * X[:, 0])) > 0.95


def test_duplicates() -> None:
    rows, targets = np.repeat(X[:20], 12, axis=0), np.repeat(y[:20], 12)
    model = DoublyStochasticRegressor(**FAST).fit(rows, targets)
    assert model.score(rows, targets) > 0.8
    found = model.predict(rows).reshape(20, 12)
    np.testing.assert_allclose(found, found[:, :1] + np.zeros((20, 12)), atol=1e-5)


def test_a_batch_larger_than_the_table() -> None:
    model = regressor(batch_size=4096, patience=None).fit(X, y)
    assert model.batch_rows_ == N
    assert model.score(X, y) > 0.75


def test_sorted_rows_take_no_steps_that_are_too_long() -> None:
    # The first half of the rows shows one narrow cluster, and little curvature.
    rows = np.concatenate([0.3 * X[: N // 2], 0.3 * X[N // 2 :] + 6.0])
    targets = (np.arange(N) >= N // 2) + 0.1 * y
    order = RNG.permutation(N)
    options = {**FAST, "bandwidth": 3.0, "scaling": "none", "patience": None}
    found = DoublyStochasticRegressor(**options).fit(rows, targets)
    shuffled = DoublyStochasticRegressor(**options).fit(rows[order], targets[order])
    np.testing.assert_allclose(found.schedule_.step(1), shuffled.schedule_.step(1), rtol=1e-6)
    np.testing.assert_allclose(found.variance_, shuffled.variance_, rtol=0.1)


# Kernel, bandwidth, components, penalty, schedule.


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", Matern(2.5), Laplacian()], ids=str)
def test_any_kernel(kernel: Any) -> None:
    assert regressor(kernel=kernel, max_steps=40).fit(X, y).score(X, y) > 0.7


def test_bandwidth_in_all_forms() -> None:
    deviations = X.std(axis=0)
    model = regressor(bandwidth=1.5, patience=None).fit(X, y)
    np.testing.assert_allclose(model.preparation_.units, 1.5 * deviations)
    vector = [1.0, 2.0, np.inf]
    model = regressor(bandwidth=vector, patience=None).fit(X, y)
    np.testing.assert_allclose(model.preparation_.units, vector * deviations)
    other = NEW.copy()
    other[:, 2] += 100.0
    np.testing.assert_array_equal(model.predict(other), model.predict(NEW))
    for options in ({"bandwidth": "median"}, {"bandwidth": "auto"}):
        model = regressor(**options).fit(X, y)
        assert model.score(X, y) > 0.75
    assert "median" in model.reason_
    model = regressor(bandwidth=1.5, scaling="none").fit(X, y)
    np.testing.assert_array_equal(model.preparation_.units, np.full(3, 1.5))


def test_auto_chooses_the_scaling() -> None:
    stretched = X * [1.0, 1.0, 1e4]
    chosen = DoublyStochasticRegressor(**FAST).fit(stretched, y)
    assert "standard" in chosen.reason_
    noisy = np.column_stack([X, 0.01 * RNG.normal(size=(N, 40))])
    chosen = DoublyStochasticRegressor(**FAST).fit(noisy, y)
    assert "none" in chosen.reason_


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_principal_components(form: Any) -> None:
    wide = np.column_stack([X, X @ RNG.normal(size=(3, 5)), np.ones(N)]) + 3.0
    model = DoublyStochasticRegressor(**{**FAST, "n_components": 3}).fit(form(wide), y)
    assert model.preparation_.projection.components.shape == (9, 3)
    assert model.score(form(wide), y) > 0.7
    turned = regressor(n_components=3, max_steps=60).fit(X, y)
    plain = regressor(scaling="none", max_steps=60).fit(X, y)
    assert abs(turned.score(X, y) - plain.score(X, y)) < 0.1
    fewer = DoublyStochasticRegressor(**{**FAST, "n_components": 9}).fit(wide, y)
    assert fewer.preparation_.projection.components.shape == (9, 3)


def test_alpha_and_schedule_as_given() -> None:
    schedule = InverseTime(3.0, 2.0)
    model = regressor(alpha=0.02, schedule=schedule, strategy="grow").fit(X, y)
    assert (model.alpha_, model.schedule_) == (0.02, schedule)
    np.testing.assert_allclose(model.history_["step"], 3.0 / np.arange(3, 28))
    model = regressor(alpha="auto", patience=None).fit(X, y)
    np.testing.assert_allclose(model.alpha_, 0.1 / N)
    np.testing.assert_allclose(model.schedule_.theta * model.alpha_, 1.5)
    strong = regressor(alpha=10.0, update="gradient").fit(X, y + 3.0)
    np.testing.assert_allclose(strong.predict(NEW), y.mean() + 3.0, atol=0.2)


# How runs end.


def test_no_patience_takes_all_steps() -> None:
    model = regressor(patience=None, max_steps=37).fit(X, y)
    assert (model.n_iter_, model.status_) == (37, "max_steps")
    assert not model.evaluations_
    assert regressor(patience=None).fit(X, y).batch_rows_ == 128


def test_patience_ends_a_run_and_keeps_the_best() -> None:
    noise = RNG.normal(size=N)
    model = regressor(alpha=1e-6, patience=2, max_steps=2000).fit(X, noise)
    assert model.status_ == "patience"
    losses = model.evaluations_["loss"]
    assert 30 <= model.n_iter_ < 2000
    best = model.evaluations_["n_blocks"][losses.argmin()]
    assert len(model.weights_) == 64 * best
    assert losses.min() >= 0.99 * losses[:-2].min()
    assert model.n_iter_ == model.evaluations_["iteration"][-1]


def test_patience_where_nothing_is_left_to_win() -> None:
    # A loss of exactly 0 cannot fall.
    separated = np.where(X[:, 0] > 0, X[:, 0] + 3.0, X[:, 0] - 3.0)[:, None]
    options = {"loss": "hinge", "patience": 2, "tol": 0.0, "max_steps": 300, "batch_size": N}
    model = classifier(**options).fit(separated, X[:, 0] > 0)
    assert model.evaluations_["loss"][-1] == 0.0
    assert model.status_ == "patience"


def test_a_time_budget() -> None:
    model = regressor(time_budget=0.0).fit(X, y)
    assert (model.status_, model.n_iter_) == ("time", 1)
    assert np.isfinite(model.predict(NEW)).all()
    model = regressor(time_budget=0.3, max_steps=10**6, patience=None, strategy="uniform").fit(X, y)
    assert model.status_ == "time"
    assert 0.1 < model.history_["seconds"][-1] < 3.0
    assert (np.diff(model.history_["seconds"]) > 0).all()


def test_a_callback_sees_all_and_ends_a_run() -> None:
    seen: list[Any] = []

    def callback(step: Any, evaluation: Any) -> bool:
        seen.append((step.iteration, evaluation is None))
        return len(seen) == 12

    model = regressor().fit(X, y, callback=callback)
    assert (model.status_, model.n_iter_) == ("stopped", 12)
    assert seen == [(k, k != 10) for k in range(1, 13)]


def test_a_verbose_run_tells_each_judgement(capsys: pytest.CaptureFixture[str]) -> None:
    regressor(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0].split()[-1] for line in lines] == ["10", "20"]
    regressor().fit(X, y)
    assert not capsys.readouterr().out


LONG = {"schedule": InverseTime(1e6), "max_steps": 200, "update": "gradient"}


def constant_steps(length: float) -> InverseTime:
    return InverseTime(1e9 * length, 1e9)


UNSTABLE = r"DoublyStochasticRegressor: steps became unstable.*InverseTime\(theta, delay\)"


@pytest.mark.parametrize("length", [60.0, 1e8])
@pytest.mark.parametrize("options", [{"patience": None}, {"average": False}], ids=str)
def test_steps_that_are_far_too_long(length: float, options: dict[str, Any]) -> None:
    model = regressor(**{"patience": 100, "max_steps": 200, **options})
    model.set_params(schedule=constant_steps(length), update="gradient", strategy="uniform")
    with pytest.raises(InputError, match=UNSTABLE):
        model.fit(X, y)
    with pytest.raises(InputError, match=UNSTABLE):
        model.partial_fit(*[np.concatenate([given] * 100) for given in (X, y)])
    with pytest.raises(InputError, match=UNSTABLE):
        model.partial_fit(X, y)


def test_steps_that_are_too_long_in_the_end() -> None:
    model = regressor(schedule=constant_steps(20.0), max_steps=500, patience=100, tol=0.0)
    model.set_params(update="gradient", strategy="uniform")
    with pytest.warns(ConvergenceWarning, match=UNSTABLE) as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert model.status_ == "diverged"
    best = model.evaluations_["loss"].argmin()
    assert len(model.weights_) == 64 * model.evaluations_["n_blocks"][best]
    assert model.score(X, y) > 0.0


def test_a_run_that_fails_leaves_no_older_function() -> None:
    model = regressor().fit(X, y)
    with pytest.raises(InputError, match="unstable"):
        model.set_params(**LONG, patience=None).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


# The same bits.


@pytest.mark.parametrize("update", ["newton", "gradient"])
def test_threads_do_not_change_a_bit(update: str) -> None:
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


def test_frequencies_may_be_kept_or_not() -> None:
    one, other = (regressor(cache_bytes=size).fit(X, y) for size in (0, 1 << 20))
    same_run(one, other)
    np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))


def test_random_states() -> None:
    same_run(regressor().fit(X, y), regressor().fit(X, y))
    generators = [regressor(random_state=np.random.RandomState(5)) for _ in range(2)]
    same_run(*(model.fit(X, y) for model in generators))
    other = regressor(random_state=1).fit(X, y)
    assert not np.array_equal(other.weights_[:64], regressor().fit(X, y).weights_[:64])
    one, two = (regressor(random_state=None).fit(X, y).predict(NEW) for _ in range(2))
    assert not np.array_equal(one, two)


def test_rows_in_pieces() -> None:
    model = classifier(max_steps=50).fit(X, THREE)
    long = np.concatenate([NEW] * 60)
    whole = model.decision_function(long)
    np.testing.assert_allclose(whole[:150], whole[-150:], atol=1e-5)
    for size in (1, 7, 96, 150):
        pieces = [model.decision_function(NEW[k : k + size]) for k in range(0, 150, size)]
        np.testing.assert_allclose(np.concatenate(pieces), whole[:150], atol=1e-5)


# Copies.


def test_copies() -> None:
    model = classifier(cache_bytes=1 << 24, strategy="grow").fit(X, THREE)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "weights_")
    expected = model.decision_function(NEW)
    for found in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        same_run(found, model)
        np.testing.assert_array_equal(found.decision_function(NEW), expected)
    # Neither rows nor frequencies: weights, their average, and what is best so far.
    assert len(pickle.dumps(model)) < 4 * model.weights_.nbytes + 20_000


def test_a_fitted_model_lets_its_rows_go() -> None:
    model = regressor().fit(X, y)
    plain = pickle.dumps(model)
    more = np.concatenate([X] * 20), np.concatenate([y] * 20)
    larger = pickle.dumps(regressor(max_steps=25).fit(*more))
    assert len(larger) < len(plain) + 100_000


def test_parameters_are_kept_as_given() -> None:
    bandwidth, kernel = np.array([1.0, 2.0, 3.0]), Gaussian()
    model = regressor(bandwidth=bandwidth, kernel=kernel).fit(X, y)
    assert model.bandwidth is bandwidth
    assert model.kernel is kernel
    assert model.get_params()["block_size"] == 32


# partial_fit.


@pytest.mark.parametrize("strategy", ["checking", "uniform", "grow"])
@pytest.mark.parametrize(("average", "update"), [(True, "newton"), (False, "gradient")])
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


def test_partial_fit_goes_on_from_a_run_and_from_copies() -> None:
    model = regressor(max_steps=30).fit(X, y)
    before = model.predict(NEW)
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    model.partial_fit(X, y)
    assert model.n_iter_ == 32
    assert not np.array_equal(model.predict(NEW), before)
    assert model.score(X, y) > 0.75
    for found in copies:
        same_run(found.partial_fit(X, y), model)


def test_partial_fit_of_a_classifier() -> None:
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


def test_partial_fit_of_other_rows() -> None:
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


# What they approach.


@pytest.mark.parametrize("strategy", ["uniform", pytest.param("checking", marks=pytest.mark.slow)])
def test_approaches_exact_ridge_regression(strategy: str) -> None:
    rows, targets = X[:200], y[:200] - y[:200].mean()
    alpha, width = 0.02, 1.5
    exact = KernelRidge(alpha=200 * alpha, kernel="rbf", gamma=0.5 / width**2).fit(rows, targets)
    expected = exact.predict(NEW)
    errors = []
    for steps in (50, 400):
        model = DoublyStochasticRegressor(
            **{**FAST, "max_steps": steps, "bandwidth": width, "alpha": alpha, "block_size": 64},
            scaling="none", fit_intercept=False, patience=None, strategy=strategy,
        ).fit(rows, targets)  # fmt: skip
        errors.append(float(np.abs(model.predict(NEW) - expected).mean()))
    assert errors[1] < 0.03 * expected.std()
    assert errors[1] < 0.6 * errors[0]


def test_approaches_exact_ridge_regression_with_a_constant() -> None:
    rows, targets = X[:200], y[:200] + 5.0 * (X[:200, 0] > 0)
    alpha, width = 0.02, 1.5
    gram = Gaussian().gram(rows / width)
    inverse = np.linalg.inv(gram + 200 * alpha * np.eye(200))
    constant = inverse.sum(axis=0) @ targets / inverse.sum()
    ahead = Gaussian().gram(NEW / width, rows / width)
    expected = ahead @ inverse @ (targets - constant) + constant
    model = DoublyStochasticRegressor(
        **{**FAST, "max_steps": 500, "bandwidth": width, "alpha": alpha, "block_size": 64},
        scaling="none", patience=None, update="gradient",
    ).fit(rows, targets)  # fmt: skip
    assert np.abs(model.predict(NEW) - expected).mean() < 0.03 * expected.std()


@pytest.mark.parametrize(
    ("load", "least"),
    [
        (load_iris, 0.9),
        (load_breast_cancer, 0.93),
        pytest.param(load_digits, 0.93, marks=pytest.mark.slow),
    ],
)
def test_toy_classes(load: Any, least: float) -> None:
    rows, labels = load(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))
    train, test = order[::2], order[1::2]
    model = DoublyStochasticClassifier(random_state=0, max_steps=60, block_size=64)
    assert model.fit(rows[train], labels[train]).score(rows[test], labels[test]) > least


def test_toy_regression() -> None:
    rows, targets = load_diabetes(return_X_y=True)
    model = DoublyStochasticRegressor(random_state=0, max_steps=60, block_size=64)
    assert model.fit(rows[::2], targets[::2]).score(rows[1::2], targets[1::2]) > 0.4


# Wrong input.


def with_entry(array: Array, value: float) -> Array:
    changed = np.array(array, dtype=np.float64)
    changed.flat[5] = value
    return changed


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "NaN": (with_entry(X, np.nan), "X contains NaN"),
    "infinity": (with_entry(X, np.inf), "X contains infinity"),
    "sparse NaN": (sp.csr_array(with_entry(X, np.nan)), "X contains NaN"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "one dimension": (X[:, 0], "Expected 2D array"),
    "text": (np.full((N, 3), "a"), "strings"),
    "complex": (X + 1j, "Complex data not supported"),
    "too few": (X[1:], r"inconsistent numbers of samples: \[239, 240\]"),
    "too large to square": (X * 1e200, "rescale"),
}


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_bad_rows(rows: Any, message: str) -> None:
    for model, targets in ((regressor(), y), (classifier(), TWO)):
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(rows, targets)
    if len(message) < 20 and "samples" not in message and "rescale" not in message:
        with pytest.raises((ValueError, TypeError), match=message):
            regressor().fit(X, y).predict(rows)


BAD_TARGETS: dict[str, tuple[Any, str]] = {
    "NaN": (with_entry(y, np.nan), "y contains NaN"),
    "infinity": (with_entry(y, np.inf), "y contains infinity"),
    "none": (None, "requires y"),
    "too few": (y[1:], "inconsistent numbers of samples"),
    "three dimensions": (np.zeros((N, 2, 2)), "dim 3"),
    "text": (np.full(N, "a"), "could not convert"),
    "complex": (y + 1j, "Complex data not supported"),
}


@pytest.mark.parametrize(("targets", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS.keys())
def test_bad_targets(targets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, targets)


BAD_LABELS: dict[str, tuple[Any, str]] = {
    "measurements": (y, "Unknown label type: continuous"),
    "NaN": (np.where(np.arange(N) == 5, np.nan, 1.0), "NaN"),
    "two columns": (np.column_stack([TWO, TWO]), "multilabel|1d array|multioutput"),
    "one class": (np.zeros(N), r"DoublyStochasticClassifier.*one class.*0\.0"),
    "one class of text": (np.full(N, "a"), r"DoublyStochasticClassifier.*one class.*'a'"),
    "none": (None, "requires y"),
    "too few": (TWO[1:], "inconsistent numbers of samples"),
    "numbers among text": (np.array([1, "a"] * (N // 2), dtype=object), "type|str"),
}


@pytest.mark.parametrize(("targets", "message"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_bad_labels(targets: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        classifier().fit(X, targets)


BAD: dict[str, list[Any]] = {
    "loss": ["least squares", None, 3],
    "strategy": ["random", None, 1],
    "bandwidth": ["wide", 0.0, -1.0, np.nan, [1.0, 2.0], [1.0, 0.0, 1.0], None],
    "alpha": [0.0, 1e-300, -1.0, np.nan, np.inf, "small", None],
    "schedule": ["fast", 0.1, None, InverseTime(1e200)],
    "block_size": [0, -1, 2.0, "x", None, True],
    "batch_size": [0, 1.5, "x", None],
    "max_steps": [0, 2.5, None],
    "fit_intercept": ["yes", None, 2],
    "average": ["auto", None],
    "scaling": ["minmax", None, 1],
    "update": ["hessian", None, 1],
    "n_components": [0, 1.5, "x", 4],
    "patience": [0, -1, 1.5, "x"],
    "tol": [-0.1, 1.5, "x", None, np.nan],
    "time_budget": [-1.0, "x", np.nan],
    "cache_bytes": [-1, 0.5, None],
    "checkpoint": [3, "no such folder/file"],
    "checkpoint_seconds": [-1.0, "x", None],
    "device": [None, 3],
    "n_jobs": [0, 1.5, "x"],
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_parameters_are_named(name: str) -> None:
    for value in BAD[name]:
        for model, targets in ((regressor(), y), (classifier(), TWO)):
            model.set_params(**{name: value})
            with pytest.raises(InputError, match=name):
                model.fit(X, targets)
            with pytest.raises(InputError, match=name):
                model.partial_fit(X, targets)
            assert not hasattr(model, "weights_")


@pytest.mark.parametrize("kernel", ["no such kernel", "hat", 3, None])
def test_wrong_kernels(kernel: Any) -> None:
    with pytest.raises((KernelError, InputError)):
        regressor(kernel=kernel).fit(X, y)


def test_newton_steps_need_the_constant() -> None:
    with pytest.raises(InputError, match=r"update='newton' needs fit_intercept=True"):
        regressor(update="newton", fit_intercept=False).fit(X, y)


def test_every_parameter_was_tried() -> None:
    others = {"kernel", "random_state", "verbose"}
    assert BAD.keys() | others == regressor().get_params().keys()
    for value in ("x", -1):
        with pytest.raises(ValueError, match=r"seed|Seed"):
            regressor(random_state=value).fit(X, y)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises((InputError, ImportError), match=r"torch|device"):
        regressor(device="nonsense").fit(X, y)


def test_before_fitting() -> None:
    for name in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(classifier(), name)(X)
