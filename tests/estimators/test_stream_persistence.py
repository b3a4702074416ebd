"""Model files of the doubly stochastic estimators: exact round trips, and refusals of all else."""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import describe, pack, write
from gramless.kernels import Gaussian, Matern, Sum
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Checking, Grow, Uniform

Array = NDArray[Any]
Content = dict[str, Any]

RNG = np.random.default_rng(0)
N = 240
X: Array = RNG.normal(size=(N, 4))
y: Array = np.sin(2.0 * X[:, 0]) + X[:, 1]
THREE = X[:, :3].argmax(axis=1)
NEW: Array = RNG.normal(size=(60, 4))
FAST: dict[str, Any] = {
    "random_state": 0,
    "max_steps": 12,
    "block_size": 8,
    "batch_size": 64,
    "bandwidth": 2.0,
    "alpha": 1e-3,
}


def regressor(**options: Any) -> DoublyStochasticRegressor:
    return DoublyStochasticRegressor(**{**FAST, **options})


def classifier(**options: Any) -> DoublyStochasticClassifier:
    return DoublyStochasticClassifier(**{**FAST, **options})


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "model.gramless"


@pytest.fixture(scope="module")
def plain() -> DoublyStochasticRegressor:
    return regressor().fit(X, y)


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> DoublyStochasticClassifier:
    """Return a classifier from a checkpoint, with components and the state of its run."""
    path = tmp_path_factory.mktemp("runs") / "run"
    classifier(n_components=3, bandwidth=[2.0, 1.0, 3.0], checkpoint=str(path)).fit(X, THREE)
    model = load(path)
    assert set(model.run_) == {"rows", "iteration", "expansion", "best", "seconds"}
    assert model.run_["best"] is not None
    return model


# Round trips.


def test_loaded_regressors_keep_options_and_predictions(there: Path) -> None:
    for options in [
        {},
        {"patience": None, "average": False},
        {"kernel": Matern(1.5), "strategy": Uniform(2, 1), "loss": "huber"},
        {"kernel": Sum((Gaussian(), Matern(0.5)), (0.3, 0.7)), "strategy": Grow()},
        {"bandwidth": np.array([1.0, np.inf, 2.0, 0.5]), "strategy": Checking(1, np.inf)},
        {"schedule": InverseTime(3.0, 2.0), "alpha": np.float32(0.25), "fit_intercept": False},
        {"bandwidth": "auto", "n_components": 2, "random_state": np.random.RandomState(1)},
        {"time_budget": 9.0, "n_jobs": 1, "cache_bytes": 0, "scaling": "none"},
    ]:
        model = regressor(**options).fit(X, np.column_stack([y, -y]))
        save(model, there)
        loaded = load(there)
        np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
        for name in ("schedule", "strategy", "kernel", "max_steps", "time_budget"):
            assert getattr(loaded, name) == getattr(model, name)
        for name in ("history_", "evaluations_"):
            np.testing.assert_equal(getattr(loaded, name), getattr(model, name))
        assert (loaded.reason_, loaded.status_, loaded.seed_) == (
            model.reason_,
            model.status_,
            model.seed_,
        )
        np.testing.assert_array_equal(loaded.fit(X, y).predict(NEW).shape, (60,))


@pytest.mark.parametrize(
    ("targets", "loss"),
    [
        (y > 0, "logistic"),
        (THREE, "hinge"),
        (np.array(["a", "b", "c"])[THREE], "logistic"),
        (np.array(["x", "ü"], dtype=object)[THREE % 2], "hinge"),
    ],
)
def test_loaded_classifiers_predict_the_same(targets: Array, loss: str, there: Path) -> None:
    model = classifier(loss=loss).fit(X, targets)
    save(model, there)
    loaded = load(there)
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(loaded.decision_function(NEW), model.decision_function(NEW))
    if loss == "logistic":
        np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))


def test_file_size_is_that_of_the_weights(there: Path) -> None:
    model = regressor(
        block_size=512, max_steps=60, strategy="grow", patience=None, update="gradient"
    ).fit(X, y)
    save(model, there)
    assert model.weights_.nbytes == 60 * 1024 * 4
    assert there.stat().st_size < model.weights_.nbytes + 8000


def test_number_of_threads_does_not_change_saved_content(tmp_path: Path) -> None:
    contents = []
    for n_jobs in (1, 2):
        content, tensors = pack(regressor(n_jobs=n_jobs).fit(X, y))
        del content["params"]["n_jobs"], tensors["history_.seconds"]
        contents.append((json.dumps(content), {k: v.tobytes() for k, v in tensors.items()}))
    assert contents[0] == contents[1]


def test_loaded_model_cannot_continue_partial_fit_without_checkpoint(there: Path) -> None:
    model = regressor().partial_fit(X, y)
    save(model, there)
    loaded = load(there)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    with pytest.raises(InputError, match=r"without the state of its run.*checkpoint="):
        loaded.partial_fit(X, y)
    assert loaded.fit(X, y).n_iter_ == 12


def test_describe_returns_json(paused: Any, plain: Any, there: Path) -> None:
    save(plain, there)
    result = describe(there)
    json.dumps(result, allow_nan=False)
    assert result["class"] == "DoublyStochasticRegressor"
    assert result["fitted"]["weights_"]["shape"] == list(plain.weights_.shape)
    save(paused, there)
    json.dumps(describe(there), allow_nan=False)


def test_error_names_parameters_that_cannot_be_saved(plain: Any, there: Path) -> None:
    class Own:
        def choose(self, situation: Any) -> Any:
            return Grow().choose(situation)

    model = copy.copy(plain).set_params(strategy=Own())
    with pytest.raises(InputError, match="strategy is of the class Own"):
        save(model, there)


# Hostile files.


def put(*path: Any) -> Callable[[Content], None]:
    """Return a change that puts the last of ``path`` at the place named by the others."""

    def change(content: Content) -> None:
        place: Any = content["state"]
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]

    return change


class Forger:
    """Writes files that hold what nothing has checked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, content: Content, tensors: dict[str, Array]) -> Path:
        write(self.path, content, tensors)
        return self.path

    def changed(self, model: Any, change: Callable[[Content], None]) -> Path:
        content, tensors = pack(model)
        content = json.loads(json.dumps(content))
        change(content)
        return self.write(content, tensors)

    def retensored(self, model: Any, name: str, change: Callable[[Array], Array]) -> Path:
        content, tensors = pack(model)
        return self.write(content, {**tensors, name: change(tensors[name].copy())})


@pytest.fixture
def forger(there: Path) -> Forger:
    return Forger(there)


def refused(path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        load(path)
    assert "has no place" not in str(caught.value)


def test_rewritten_file_without_a_change_loads(plain: Any, paused: Any, forger: Forger) -> None:
    for model in (plain, paused):
        loaded = load(forger.changed(model, lambda content: None))
        np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))


PREPARATION, EXPANSION = ("preparation_", "fields"), ("run_", "dict", "expansion", "dict")
SQUARED = {"record": "Squared", "fields": {}}
HOSTILE = {
    "no weights": put("weights_", None),
    "weights of another": put("weights_", {"tensor": "constant_"}),
    "no constant": put("constant_", 0.0),
    "preparation": put("preparation_", None),
    "another record": put("preparation_", SQUARED),
    "projection": put(*PREPARATION, "projection", [1.0]),
    "center": put(*PREPARATION, "center", 0.0),
    "units of another": put(*PREPARATION, "units", {"tensor": "preparation_.center"}),
    "number of inputs": put("n_features_in_", 5),
    "no inputs": put("n_features_in_", 0),
    "inputs no number": put("n_features_in_", "4"),
    "names": put("feature_names_in_", {"text": ["a"], "object": True}),
    "kernel": put("kernel_", "no kernel"),
    "kernel without frequencies": put("kernel_", {"kernel": {"dict": {"name": "hat"}}}),
    "no kernel": put("kernel_", 3),
    "block size 0": put("block_size_", 0),
    "block size negative": put("block_size_", -8),
    "block size that does not fit": put("block_size_", 5),
    "block size huge": put("block_size_", 2**40),
    "block size larger than a number": put("block_size_", 2**70),
    "block size true": put("block_size_", True),
    "block size no integer": put("block_size_", 8.0),
    "seed negative": put("seed_", -1),
    "seed huge": put("seed_", 2**64),
    "seed no integer": put("seed_", 0.5),
    "alpha": put("alpha_", "x"),
    "alpha nan": put("alpha_", {"float": "nan"}),
    "variance": put("variance_", -1.0),
    "batch": put("batch_rows_", 0),
    "steps": put("n_iter_", 11),
    "loss": put("loss_", "squared"),
    "loss of others": put("loss_", {"record": "SmoothPinball", "fields": {}}),
    "schedule": put("schedule_", None),
    "schedule negative": put("schedule_", "fields", "theta", -1.0),
    "status": put("status_", 3),
    "reason": put("reason_", None),
    "history": put("history_", None),
    "history empty": put("history_", {"dict": {}}),
    "history a list": put("history_", "dict", "loss", [1.0] * 12),
    "evaluations short": put("evaluations_", "dict", "loss", {"tensor": "history_.loss"}),
    "evaluations lacking": put("evaluations_", {"dict": {"loss": {"tensor": "history_.loss"}}}),
    "run": put("run_", 1),
    "run empty": put("run_", {"dict": {}}),
    "method": put("predict", 1),
}
OF_REGRESSORS = {
    "no mean": put("target_mean_", None),
    "scale of another": put("target_scale_", {"tensor": "preparation_.units"}),
    "one output": put("one_output_", 1),
}
OF_RUNS = {
    "classes": put("classes_", None),
    "classes too few": put("classes_", {"text": ["a", "b"], "object": True}),
    "classes mixed": put("classes_", {"text": ["a", "b", 3], "object": True}),
    "another step": put("run_", "dict", "iteration", 3),
    "seconds": put("run_", "dict", "seconds", {"float": "inf"}),
    "best": put("run_", "dict", "best", 3),
    "best without weights": put("run_", "dict", "best", {"dict": {}}),
    "best of another": put(
        *("run_", "dict", "best", "dict", "weights"), {"tensor": "run_.expansion.sums"}
    ),
    "expansion": put("run_", "dict", "expansion", None),
    "scale 0": put(*EXPANSION, "scale", 0.0),
    "scale infinite": put(*EXPANSION, "scale", {"float": "inf"}),
    "squares": put(*EXPANSION, "squared_norm", {"float": "nan"}),
    "left 0": put(*EXPANSION, "left", 0.0),
    "mean": put(*EXPANSION, "mean", "x"),
    "averaged": put(*EXPANSION, "n_averaged", 7),
    "sums of another": put(*EXPANSION, "sums", {"tensor": "run_.expansion.seen"}),
    "weights gone": put(*EXPANSION, "weights", None),
    "offset": put(*EXPANSION, "offset", [0.0, 0.0, 0.0]),
}


def test_forged_content_is_rejected(plain: Any, paused: Any, forger: Forger) -> None:
    for kind in HOSTILE:
        refused(forger.changed(plain, HOSTILE[kind]))
        refused(forger.changed(paused, HOSTILE[kind]))


def test_forged_regressors_are_rejected(plain: Any, forger: Forger) -> None:
    for kind in OF_REGRESSORS:
        refused(forger.changed(plain, OF_REGRESSORS[kind]))


def test_forged_runs_are_rejected(paused: Any, forger: Forger) -> None:
    for kind in OF_RUNS:
        refused(forger.changed(paused, OF_RUNS[kind]))


TENSORS: dict[str, Callable[[Array], Array]] = {
    "short": lambda a: a[:-1].copy(),
    "none": lambda a: a[:0].copy(),
    "long": lambda a: np.concatenate([a, a]),
    "flat": lambda a: a.reshape(-1, 1, 1),
    "nan": lambda a: np.where(np.arange(a.size).reshape(a.shape) == a.size - 1, np.nan, a).astype(
        a.dtype
    ),
    "infinite": lambda a: (a * 0 + 1) * a.dtype.type(np.inf),
    "other type": lambda a: a.astype(np.float64 if a.dtype == np.float32 else np.float32),
    "integers": lambda a: a.astype(np.int32),
}


def test_inconsistent_arrays_are_rejected(plain: Any, paused: Any, forger: Forger) -> None:
    for kind in TENSORS:
        for model in (plain, paused):
            for name, array in pack(model)[1].items():
                if model is plain and not name.startswith("target_"):
                    continue
                if name.startswith(("bandwidth", "classes_")) or array.dtype.kind != "f":
                    continue
                record = name.startswith(("history_", "evaluations_"))
                if record and kind in ("nan", "infinite", "other type", "integers"):
                    continue
                # Infinite units leave inputs out; twice the weights are more blocks.
                if (kind, name.split(".")[-1]) == ("infinite", "units"):
                    continue
                if kind == "long" and name in ("weights_", "run_.best.weights"):
                    continue
                refused(forger.retensored(model, name, TENSORS[kind]))


def test_units_must_be_positive(plain: Any, forger: Forger) -> None:
    for value in (0.0, -1.0, np.nan):
        refused(forger.retensored(plain, "preparation_.units", lambda a, v=value: a * 0.0 + v))
    path = forger.retensored(plain, "preparation_.units", lambda a: a * np.inf)
    assert np.ptp(load(path).predict(NEW)) < 1e-6


def test_models_that_exceed_memory_are_not_loaded(
    plain: Any, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(plain, there)
    monkeypatch.setenv("GRAMLESS_MEMORY_LIMIT", "100")
    with pytest.raises(ModelFileError, match="more memory than there is"):
        load(there)


def containers(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list and mapping with each of its keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from containers(value[key])


ODD: list[Any] = [
    *(None, 0, -1, 2**63, 1.5, "x", [], [1], {}, True, 1e300),
    *({"float": "nan"}, {"tensor": "weights_"}, {"tensor": "constant_"}),
]


@pytest.mark.parametrize("n", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_replaced_values_are_rejected_or_predict(
    n: int, plain: Any, paused: Any, forger: Forger
) -> None:
    rng = np.random.default_rng(5)

    def change(content: Content) -> None:
        places = list(containers(content["state"]))
        container, key = places[rng.integers(len(places))]
        container[key] = ODD[rng.integers(len(ODD))]

    outcomes = {"refused": 0, "works": 0}
    for k in range(n):
        model = (plain, paused)[k % 2]
        try:
            loaded = load(forger.changed(model, change))
        except ModelFileError:
            outcomes["refused"] += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert loaded.predict(NEW).shape == (60,)
            if hasattr(loaded, "run_"):
                # A run may go on from numbers too large for it, and say so.
                with contextlib.suppress(InputError):
                    loaded.partial_fit(X, THREE)
        outcomes["works"] += 1
    assert outcomes["refused"] > 2 * outcomes["works"] > 0
