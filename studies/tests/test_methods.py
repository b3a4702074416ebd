"""Trainers of this package's own machines: the equations that they solve, and what they tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.kernels import Laplacian
from harness.timing import StopWatch
from studies.descent import Descent
from studies.methods import TRAINERS
from studies.settings import Setting, unit_of
from studies.study import Snapshot, Training
from studies.targets import TargetEncoding

N = 150


@pytest.fixture
def numbers() -> Training:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return Training(X, 5.0 + X[:, 0] + 0.1 * rng.normal(size=N), "regression", 1)


@pytest.fixture
def classes() -> Training:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return Training(X, np.array([2, 4, 7])[np.argmax(X, axis=1)], "multiclass", 1)


def snapshots(method: str, training: Training, **options: Any) -> list[Snapshot]:
    given = {"size": 20, "bandwidth": 2.0, **options}
    return list(TRAINERS[method](training, given, StopWatch()))


def test_binning_solves_equation_8(numbers: Training) -> None:
    (snapshot,) = snapshots("binning", numbers, penalty=0.3, tol=1e-12, max_iter=500)
    feature_map = RandomBinning(bandwidth=2.0, n_grids=20, random_state=1)
    Z = feature_map.fit_transform(numbers.X).toarray()
    weights = np.linalg.solve(Z.T @ Z + 0.3 * np.eye(Z.shape[1]), Z.T @ numbers.y)
    np.testing.assert_allclose(snapshot.predict(numbers.X), Z @ weights, atol=1e-6)
    assert snapshot.penalty == pytest.approx(0.5 * 0.3 / N * weights @ weights)
    assert snapshot.facts["columns"] == Z.shape[1]
    assert snapshot.facts["seconds"] >= snapshot.facts["feature_seconds"] > 0.0


def test_exact_solves_the_kernel_system(numbers: Training) -> None:
    (snapshot,) = snapshots("exact", numbers, size=N, penalty=0.3)
    K = Laplacian().gram(numbers.X, bandwidth=2.0)
    weights = np.linalg.solve(K + 0.3 * np.eye(N), numbers.y)
    np.testing.assert_allclose(snapshot.predict(numbers.X), K @ weights, atol=1e-8)
    assert snapshot.penalty == pytest.approx(0.5 * 0.3 / N * weights @ K @ weights)


def test_exact_refuses_more_rows_than_allowed(numbers: Training) -> None:
    with pytest.raises(InputError, match="150 rows, and 20 are allowed"):
        snapshots("exact", numbers)


def test_every_method_learns_classes(classes: Training) -> None:
    for method in ["binning", "fourier", "nystrom", "blocks", "exact"]:
        size = {"exact": N, "blocks": 60}.get(method, 128)
        (snapshot,) = snapshots(method, classes, size=size, solver="auto")
        predicted = snapshot.predict(classes.X)
        assert set(predicted) <= {2, 4, 7}
        assert np.mean(predicted == classes.y) > 0.9
        assert snapshot.responses is not None
        assert snapshot.responses(classes.X).shape == (N, 3)


def test_sizes_and_bandwidths_are_a_snapshot_each(numbers: Training) -> None:
    fits = snapshots("binning", numbers, size="4 8", bandwidth="0.5 2")
    assert [(one.facts["size"], one.facts["bandwidth"]) for one in fits] == [
        (4, 0.5),
        (4, 2.0),
        (8, 0.5),
        (8, 2.0),
    ]


def test_over_rows_is_the_same_machine(classes: Training) -> None:
    exactly = {"tol": 1e-11, "max_iter": 1000}
    (over_columns,) = snapshots("binning", classes, solver="cg", **exactly)
    (over_rows,) = snapshots("binning", classes, solver="rows", **exactly)
    assert over_columns.responses is not None
    assert over_rows.responses is not None
    np.testing.assert_allclose(
        over_rows.responses(classes.X), over_columns.responses(classes.X), atol=1e-6
    )


def test_copies_change_the_work_alone(numbers: Training) -> None:
    exactly = {"tol": 1e-11, "max_iter": 500}
    (once,) = snapshots("binning", numbers, **exactly)
    (often,) = snapshots("binning", numbers, copies=3, **exactly)
    np.testing.assert_allclose(often.predict(numbers.X), once.predict(numbers.X), atol=1e-6)


def test_a_centred_machine_knows_the_mean(numbers: Training) -> None:
    far = numbers.X + 1e6
    (plain,) = snapshots("binning", numbers)
    (centred,) = snapshots("binning", numbers, centred=True)
    assert np.all(plain.predict(far) == 0.0)
    np.testing.assert_allclose(centred.predict(far), numbers.y.mean())


def test_units_are_as_scaled_inputs(numbers: Training) -> None:
    X = numbers.X * [1.0, 100.0, 0.01]
    wild = Training(X, numbers.y, "regression", 1)
    (by_units,) = snapshots("binning", wild, units="range")
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = Training((X - low) / (high - low), numbers.y, "regression", 1)
    (by_rows,) = snapshots("binning", scaled)
    assert by_units.facts["columns"] == pytest.approx(by_rows.facts["columns"], rel=0.2)


def test_inputs_not_named_are_not_looked_at(numbers: Training) -> None:
    (snapshot,) = snapshots("binning", numbers, inputs="0 2")
    other = numbers.X.copy()
    other[:, 1] = 99.0
    np.testing.assert_array_equal(snapshot.predict(other), snapshot.predict(numbers.X))


def test_the_isotropic_kernel_is_that_of_the_euclidean_distance(numbers: Training) -> None:
    options = {"kernel": "isotropic laplacian", "size": 300, "bandwidth": 2.0, "penalty": 0.5}
    (snapshot,) = TRAINERS["exact"](numbers, options, StopWatch())
    distances = np.linalg.norm(numbers.X[:, None] - numbers.X, axis=2)
    gram = np.exp(-distances / 2.0)
    weights = np.linalg.solve(gram + 0.5 * np.eye(len(gram)), numbers.y)
    np.testing.assert_allclose(snapshot.predict(numbers.X), gram @ weights, rtol=1e-8)


def test_a_bandwidth_is_chosen_for_each_size(numbers: Training) -> None:
    for method in ["binning", "fourier", "nystrom", "blocks"]:
        options = {
            "size": "32 64",
            "bandwidth": "0.001 3 1000000",
            "solver": "auto",
            "centred": True,
        }
        fits = list(TRAINERS[f"chosen {method}"](numbers, options, StopWatch()))
        assert [one.facts["size"] for one in fits] == [32, 64]
        assert [one.facts["bandwidth"] for one in fits] == [3.0, 3.0]
        (same,) = TRAINERS[method](numbers, {**options, "size": 64, "bandwidth": 3.0}, StopWatch())
        np.testing.assert_array_equal(fits[1].predict(numbers.X), same.predict(numbers.X))


def test_pattern_is_that_of_the_matrix(numbers: Training) -> None:
    (snapshot,) = snapshots("pattern", numbers, size=4)
    Z = RandomBinning(bandwidth=2.0, n_grids=4, random_state=1).fit_transform(numbers.X)
    assert snapshot.facts["pattern"] == Z.tocoo().col.tolist()


def test_options_that_are_wrong_are_named() -> None:
    for options in [{"grids": 8}, {"size": 8}, {"units": "inches"}]:
        whole = {"size": 8, "bandwidth": 1.0} if "size" not in options else {}
        with pytest.raises(InputError, match=r"grids|bandwidth|inches"):
            Setting.read({**whole, **options})


def test_constant_inputs_have_no_unit() -> None:
    X = np.column_stack([np.ones(4), np.arange(4.0)])
    for units in ("range", "half range", "standard"):
        assert unit_of(units, X)[0] == np.inf  # type: ignore[arg-type]


def test_two_classes_are_one_column() -> None:
    encoding = TargetEncoding.of("binary", np.array(["no", "yes"]))
    np.testing.assert_array_equal(encoding.encode(np.array(["yes", "no"])), [1.0, -1.0])
    assert encoding.decode(np.array([0.2, -0.3])).tolist() == ["yes", "no"]


@pytest.mark.parametrize("method", ["binning", "exact"])
def test_a_last_class_that_is_never_predicted(classes: Training, method: str) -> None:
    (whole,), (without,) = (
        snapshots(method, classes, size=N, without_last=lost) for lost in (False, True)
    )
    all_three, first_two = whole.predict(classes.X), without.predict(classes.X)
    assert set(first_two) == {2, 4}
    known = all_three != 7
    np.testing.assert_array_equal(first_two[known], all_three[known])
    assert whole.responses is not None
    assert without.responses is not None
    np.testing.assert_array_equal(without.responses(classes.X), whole.responses(classes.X))


def test_steps_at_once_follow_the_law(classes: Training) -> None:
    two = Training(classes.X, (classes.y == 7).astype(int), "binary", 1)
    options = {"features": "binning", "size": 8, "bandwidth": 1.0, "at_once": "1 8"}
    alone, eight = (
        one.facts for one in TRAINERS["simultaneous descent"](two, options, StopWatch())
    )
    assert (alone["law"], alone["speed_up"]) == (1.0, 1.0)
    assert eight["law"] == pytest.approx(8.0 / (1.0 + 7.0 * 7.0 / (eight["columns"] - 1)))
    # The law is of guarantees: runs are seldom below it, and may be well above.
    assert 0.7 * eight["law"] < eight["speed_up"] < 2.0 * eight["law"]
    assert eight["speed_up"] == pytest.approx(8.0 * alone["epochs"] / eight["epochs"])


def test_dense_columns_gain_nothing(classes: Training) -> None:
    two = Training(classes.X, (classes.y == 7).astype(int), "binary", 1)
    options = {"features": "fourier", "size": 8, "bandwidth": 2.0, "at_once": "1 4"}
    fits = list(TRAINERS["simultaneous descent"](two, options, StopWatch()))
    assert fits[1].facts["law"] == pytest.approx(1.0)
    assert fits[1].facts["speed_up"] == pytest.approx(1.0, abs=0.3)


def test_threads_arrive_at_the_same_objective(classes: Training) -> None:
    two = Training(classes.X, (classes.y == 7).astype(int), "binary", 1)
    options = {"features": "binning", "size": 8, "bandwidth": 1.0, "at_once": "1 2"}
    fits = list(TRAINERS["shared descent"](two, options, StopWatch()))
    assert [one.facts["at_once"] for one in fits] == [1, 2]
    assert all(one.facts["speed_up"] for one in fits)
    assert np.mean(fits[1].predict(two.X) == two.y) > 0.9


def test_descent_needs_one_step_at_a_time_first(classes: Training) -> None:
    options = {"features": "binning", "size": 8, "bandwidth": 1.0, "at_once": "2 4"}
    with pytest.raises(InputError, match="at_once must begin with 1"):
        next(TRAINERS["shared descent"](classes, options, StopWatch()))


def test_descent_names_options_that_are_wrong() -> None:
    for options, named in [({"at_once": "1"}, "bandwidth"), ({"tau": 2}, "tau")]:
        with pytest.raises(InputError, match=f"descent's options: missing or not known: .*{named}"):
            Descent.read({"features": "binning", "size": 8, **options})
