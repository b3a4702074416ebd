"""Trainers by stochastic gradients: along a clock, with penalties, rows projected and deformed."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gramless import RandomFourier
from gramless.kernels import Gaussian
from gramless.preprocessing.median import median_distance
from studies.dsg16.one_versus_one import PairEncoder
from studies.dsg16.runs import CDSG, DSG, OURS, OURS_GRADIENT, SEPARATOR, SVRG_LABEL, UDSG
from studies.dsg16.stochastic_gradients import TRAINERS, SnapshotTimes, open_rows
from studies.scores import LOSSES, Rows, Scorer
from studies.study import Training

ALPHA = 1e-3


class Counter:
    """A clock on which every phase takes a second."""

    def __init__(self):
        self.phases = []

    @contextmanager
    def phase(self, name):
        yield
        self.phases.append(name)

    def total(self):
        return float(len(self.phases))


@pytest.fixture(scope="module")
def three_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0.4).astype(int) + (X[:, 0] + X[:, 1] > 0.8)]
    return Training(X, y, "multiclass", seed=0)


def options(runs, **more):
    return {
        "runs": runs,
        "seconds": 64.0,
        "snapshots": 4,
        "components": None,
        "loss": "multinomial",
        "alpha": ALPHA,
        "batch_size": 128,
        "block_size": 16,
        "frequencies": 20,
        **more,
    }


def scored(training, given, *names):
    """Return the scores of all training rows as each snapshot comes, and the snapshots."""
    rows = Rows(training.X, training.y)
    classes = np.array([]) if training.task == "regression" else np.unique(training.y)
    scorer = Scorer(training.task, classes, rows, rows, names, given["loss"])
    (race,) = TRAINERS.values()
    return [(scorer.scores(snapshot), snapshot) for snapshot in race(training, given, Counter())]


def test_snapshots_come_along_the_clock_and_improve(three_classes):
    for run in [DSG, UDSG, CDSG, OURS_GRADIENT]:
        course = scored(three_classes, options(run), "objective", "train_error")
        facts = [snapshot.facts for _, snapshot in course]
        # A step is a second here.
        assert [one["steps"] for one in facts] == [1, 4, 16, 64]
        assert [one["seconds"] for one in facts] == [1.0, 4.0, 16.0, 64.0]
        assert {one["run"] for one in facts} == {run}
        assert course[-1][0]["objective"] < 0.95 * course[0][0]["objective"]
        assert course[-1][0]["train_error"] < 0.2
        blocks = facts[-1]["blocks"]
        assert {DSG: blocks == 64, UDSG: blocks == 32}.get(run, blocks <= 64)


def test_features_computed_are_those_of_all_steps(three_classes):
    course = scored(three_classes, options(DSG), "train_error")
    # Step t evaluates t blocks of 16 frequencies on 128 rows.
    expected = [16 * 128 * t * (t + 1) / 2 for t in (1, 4, 16, 64)]
    assert [snapshot.facts["computed"] for _, snapshot in course] == expected


@pytest.mark.parametrize("run", [CDSG, SVRG_LABEL])
def test_runs_end_when_they_have_computed_or_read_so_many_features(three_classes, run):
    given = {**options(run), "computed": 2e6}
    del given["seconds"]
    *_, before, (_, last) = scored(three_classes, given)
    if run == CDSG:
        # One step more computes all its blocks again.
        step = 128 * 16 * last.facts["blocks"]
        assert 2e6 <= last.facts["computed"] < 2e6 + step
        assert before[1].facts["computed"] < 2e6
    else:
        # Twice in an epoch's steps, and once before them.
        an_epoch = 3.0 * 400 * 20
        assert last.facts["epochs"] == np.ceil(2e6 / an_epoch)


def test_pairs_of_classes_share_their_features(three_classes):
    given = options(SEPARATOR.join([CDSG, OURS]), loss="hinge", pairs=True)
    course = scored(three_classes, given, "train_error")
    ends = {snapshot.facts["run"]: scores["train_error"] for scores, snapshot in course}
    assert ends.keys() == {CDSG, OURS}
    assert max(ends.values()) < 0.2


def test_one_versus_one_predicts_the_class_that_wins_most_pairs():
    encoder = PairEncoder(np.array(["a", "b", "c", "d"]))
    targets = encoder.encode(["c", "a"])
    # The pairs are ab, ac, ad, bc, bd, cd.
    assert targets.tolist() == [[0, -1, 0, -1, 0, 1], [1, 1, 1, 0, 0, 0]]
    assert encoder.decode(targets).tolist() == ["c", "a"]
    # b beats a, c beats b, a beats c, and all beat d: the first of a tie.
    assert encoder.decode(np.array([[-1.0, 1.0, 1.0, -1.0, 1.0, 1.0]])) == ["a"]


@pytest.mark.slow
def test_runs_take_steps_by_turns(three_classes):
    runs = SEPARATOR.join([DSG, SVRG_LABEL, OURS])
    clock, (race,) = Counter(), TRAINERS.values()
    given = options(runs, seconds=16.0, snapshots=3)
    facts = [snapshot.facts for snapshot in race(three_classes, given, clock)]
    assert clock.phases[:7] == ["prepare", DSG, SVRG_LABEL, OURS, DSG, SVRG_LABEL, OURS]
    for run in (DSG, SVRG_LABEL, OURS):
        own = [one["seconds"] for one in facts if one["run"] == run]
        assert own == [1.0, 2.0, 16.0]
    # What each run finds does not depend on the others.
    alone = [snapshot for _, snapshot in scored(three_classes, {**given, "runs": DSG})]
    together = [one for _, one in scored(three_classes, given) if one.facts["run"] == DSG]
    assert [one.penalty for one in alone] == [one.penalty for one in together]


def test_a_run_that_has_converged_is_told_before_its_time(three_classes):
    few = options(SVRG_LABEL, frequencies=1, seconds=1e6, snapshots=2, alpha=1.0)
    *_, (_, last) = scored(three_classes, few)
    assert last.facts["epochs"] < 1000


def test_the_objective_nears_that_of_the_exact_kernel():
    # Of targets in units of 50, around 200: penalties are of weights in units of the deviation.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    y = 200.0 + 50.0 * (np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=60))
    alpha = 0.05
    given = options(DSG, loss="squared", alpha=alpha, batch_size=60, seconds=250.0, snapshots=2)
    course = scored(Training(X, y, "regression", 0), given, "objective")
    unit = median_distance(X, 0, None, "euclidean")
    gram = Gaussian().gram(X.astype(float) / unit)
    centred = y - y.mean()
    weights = np.linalg.solve(gram + 60 * alpha * np.eye(60), centred)
    least = 0.5 * np.mean((gram @ weights - centred) ** 2) + 0.5 * alpha * weights @ gram @ weights
    penalty = course[-1][1].penalty
    assert penalty > 0.2 * least
    assert course[-1][0]["objective"] == pytest.approx(least, rel=0.03)
    assert course[0][0]["objective"] > 1.1 * least


def test_svrg_ends_at_the_minimum(three_classes):
    given = options(SVRG_LABEL, seconds=400.0, snapshots=3)
    course = scored(three_classes, given, "objective", "train_error")
    X, y = three_classes.X, three_classes.y
    unit = median_distance(X, 0, None, "euclidean")
    Z = RandomFourier(bandwidth=unit, n_components=40, random_state=0).fit(X).transform(X)
    model = LogisticRegression(C=1.0 / (ALPHA * len(y)), fit_intercept=False, tol=1e-8)
    model.fit(Z.astype(float), y)
    z = Z @ model.coef_.T
    targets = np.where(y[:, None] == model.classes_, 1.0, -1.0)
    least = LOSSES["multinomial"].value(z, targets).mean()
    least += 0.5 * ALPHA * np.square(model.coef_).sum()
    assert course[-1][0]["objective"] == pytest.approx(least, rel=1e-4)
    assert course[0][0]["objective"] > 1.02 * least
    assert course[-1][1].facts["features"] == 40


def test_numbers_and_two_classes(three_classes):
    for run in [DSG, SVRG_LABEL]:
        X = three_classes.X
        numbers = Training(X, 1000.0 + 10.0 * X[:, 0], "regression", 0)
        given = options(run, loss="squared", seconds=60.0, alpha=1e-4)
        course = scored(numbers, given, "train_error", "train_mse", "train_loss")
        assert course[-1][0]["train_error"] < 0.3
        assert course[-1][0]["train_loss"] == pytest.approx(course[-1][0]["train_mse"] / 2.0)
        two = Training(X, np.where(X[:, 0] > 0, "yes", "no"), "binary", 0)
        course = scored(two, {**given, "loss": "logistic"}, "train_error", "objective")
        assert course[-1][0]["train_error"] < 0.1
        assert course[-1][0]["objective"] < np.log(2.0)


def test_rows_are_projected_alike_in_training_and_in_judging():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) * [9.0, 5.0, 0.1, 0.1, 0.1, 0.1]
    training = Training(X.astype(np.float32), np.arange(300) % 2, "binary", 3)
    course = open_rows(training, components=2, deformed=False)
    read, labels = course.read(0, 300)
    assert read.shape == (300, 2)
    whole = course.project(training.X)
    np.testing.assert_allclose(np.abs(whole[:, 0]).std(), np.abs(X[:, 0]).std(), rtol=0.05)
    # Every row once an epoch, under its label.
    order = np.lexsort(whole.T)
    np.testing.assert_array_equal(whole[order], read[np.lexsort(read.T)])
    np.testing.assert_array_equal(training.y[order], labels[np.lexsort(read.T)])


def test_deformed_rows_are_endless_and_in_the_units_of_the_scored_rows():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    images = np.zeros((200, 8, 8))
    images[y == 0, 2:6, 3:5] = 255.0
    images[y == 1, 3:5, 2:6] = 255.0
    images += rng.integers(0, 20, size=images.shape)
    X = np.minimum(images, 255.0).reshape(200, 64).astype(np.float32)
    training = Training(X, y, "binary", 0)
    both = SEPARATOR.join([UDSG, SVRG_LABEL])
    given = options(both, loss="logistic", deformed=True, components=10, seconds=20.0)
    course = scored(training, given, "train_error", "objective")
    for scores, snapshot in course:
        assert scores["train_error"] < 0.1 or snapshot.facts["seconds"] < 20.0
    pixels = open_rows(training, components=None, deformed=True)
    rows, labels = pixels.read(0, 1000)
    assert rows.shape == (1000, 64)
    assert set(labels) == {0, 1}
    assert rows.mean() == pytest.approx(pixels.project(X).mean(), rel=0.1)


def test_snapshots_end_with_the_run():
    times = SnapshotTimes(10.0, 3)
    assert not times.due(0.1)
    assert times.due(3.0)
    assert not times.ended
    assert times.due(10.0)
    assert times.ended
