"""Choices by a measure of the user's, on rows that the user holds back."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    TimeSeriesSplit,
    cross_validate,
)

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.estimators.given_rows import GivenRows
from gramless.estimators.scoring import ClassAnswers, NamedScorer, NumberAnswers
from gramless.estimators.targets import ClassEncoder, NumberEncoder
from gramless.losses import Logistic, Poisson, Squared
from gramless.selection.growth import CrossFittedModels
from gramless.selection.task import HeldBackRows

Array = NDArray[np.float64]
FAST: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "effort": 1}
N_ROWS = 2400


def table() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=N_ROWS)


X, Y = table()
LABELS = np.where(Y > 1.5, "yes", "no")
GROUPS = np.random.default_rng(1).integers(0, 40, N_ROWS)


def small(**options: Any) -> KernelRegressor:
    return KernelRegressor(
        RandomBinning(n_grids=8), bandwidth=2.0, scaling="standard", **{**FAST, **options}
    )


def given(y: NDArray[Any], weight: Array | None = None, groups: Any = None) -> GivenRows:
    return GivenRows.of(KernelRegressor(), X[: len(y)], y, weight, groups)


# Scores of raw predictions.


def test_answers_for_scorers_equal_those_of_the_model() -> None:
    encoder = ClassEncoder.fit(LABELS, "test")
    model = KernelClassifier(calibrate=False, loss="logistic", **FAST).fit(X[:600], LABELS[:600])
    raw = model.decision_function(X)
    codes = encoder.encode(LABELS)
    answers = ClassAnswers(encoder, raw, codes, None, True)
    np.testing.assert_array_equal(answers.predict(X), model.predict(X))
    np.testing.assert_array_equal(answers.decision_function(X), raw)
    np.testing.assert_allclose(answers.predict_proba(X), model.predict_proba(X))
    for name in ("roc_auc", "neg_log_loss", "average_precision", "accuracy"):
        scorer = get_scorer(name)
        if name == "average_precision":
            scorer = make_scorer(
                scorer._score_func, response_method="predict_proba", pos_label="yes"
            )
        assert scorer(answers, X, LABELS) == pytest.approx(scorer(model, X, LABELS))
    with pytest.raises(InputError, match="predictions of 7 rows"):
        answers.predict(X[:7])
    with pytest.raises(InputError, match="predictions of 7 rows"):
        NumberAnswers(Y).predict(X[:7])


def test_scores_become_losses() -> None:
    encoder = NumberEncoder.fit(Y)
    codes, rows = encoder.encode(Y), np.arange(100, 200)
    weight = np.linspace(0.5, 1.0, N_ROWS)

    def scored(scoring: Any, with_weight: bool = False) -> float:
        named = NamedScorer.of(KernelRegressor(scoring=scoring))
        assert named is not None
        whole = given(Y, weight if with_weight else None)
        return named.of_rows(whole, encoder, codes, Squared())(codes[rows] + 1.0, rows, 0.5)

    spread = float(encoder.spread)
    assert scored("neg_mean_absolute_error") == pytest.approx(spread)
    assert scored(make_scorer(mean_absolute_error, greater_is_better=False), True) == (
        pytest.approx(spread)
    )
    assert scored("r2") == pytest.approx(spread**2 / Y[rows].var(), rel=1e-5)

    def mean_error(estimator: Any, X: Array, y: Array) -> float:
        np.testing.assert_array_equal(X, table()[0][rows])
        return float(np.mean(y - estimator.predict(X)))

    assert scored(mean_error) == pytest.approx(spread)


def test_scorers_receive_sample_weights() -> None:
    encoder, rows = NumberEncoder.fit(Y), np.arange(50)
    weight = np.where(np.arange(N_ROWS) < 25, 1.0, 0.25)
    whole = given(Y, weight)
    raw = encoder.encode(Y)[rows] + np.where(rows < 25, 1.0, 0.0)
    named = NamedScorer.of(KernelRegressor(scoring="neg_mean_absolute_error"))
    assert named is not None
    result = named.of_rows(whole, encoder, encoder.encode(Y), Squared())(raw, rows, 0.0)
    assert result == pytest.approx(0.8 * float(encoder.spread))


def test_scorers_receive_means_of_counts() -> None:
    counts = np.exp(Y)
    encoder = NumberEncoder.fit(counts, None, Poisson())
    named = NamedScorer.of(KernelRegressor(scoring="neg_mean_poisson_deviance"))
    assert named is not None
    rows, codes = np.arange(N_ROWS), encoder.encode(counts)
    right = named.of_rows(given(counts), encoder, codes, Poisson())(np.log(codes), rows, 0.0)
    assert right == pytest.approx(0.0, abs=1e-9)
    squares = named.of_rows(given(counts), encoder, codes, Squared())
    assert squares(codes - 1.0, rows, 0.0) > squares(codes, rows, 0.0)


def test_log_loss_is_defined_without_rows_of_a_class() -> None:
    encoder = ClassEncoder.fit(["a", "b", "c"], "test")
    y = np.array(["a", "b"] * 20)
    codes = encoder.encode(y)
    named = NamedScorer.of(KernelClassifier(scoring="neg_log_loss"))
    assert named is not None
    scorer = named.of_rows(given(y), encoder, codes, Logistic())
    assert scorer(codes, np.arange(40), 0.0) > 0.0


# Choices.


@pytest.mark.slow
def test_scoring_by_log_loss_equals_the_default() -> None:
    plain, named = (
        KernelClassifier(scoring=scoring, **FAST).fit(X, LABELS)
        for scoring in (None, "neg_log_loss")
    )
    np.testing.assert_array_equal(plain.weights_, named.weights_)
    assert (plain.scorer_, named.scorer_) == ("loss", "'neg_log_loss'")


def test_search_and_growth_use_the_scorer() -> None:
    model = KernelRegressor(scoring="r2", **FAST).fit(X, Y)
    assert model.settings_.grids == "grown"
    scores = [trial["score"] for trial in model.search_]
    held_back = [trial["score"] for trial in model.growth_]
    assert 0.0 < min(scores) < max(scores) < 1.0
    assert 0.0 < min(held_back) < 1.0
    squares = KernelRegressor(**FAST).fit(X, Y)
    assert squares.search_[0]["score"] != scores[0]
    assert {trial["measure"] for trial in model.search_} == {"'r2'"}
    assert {trial["measure"] for trial in squares.search_} == {"squared error"}
    small = (
        KernelClassifier(scoring="roc_auc", **FAST).set_params(effort=3).fit(X[:400], LABELS[:400])
    )
    trials = {(trial["n_rows"] <= 400, trial["stage"], trial["measure"]) for trial in small.search_}
    assert (True, "search", "squared error") in trials
    assert any(measure == "'roc_auc'" for *_, measure in trials)


def test_growth_uses_the_loss_if_scores_depend_on_classes_only() -> None:
    plain = KernelClassifier(**FAST).fit(X, LABELS)
    jumpy = KernelClassifier(scoring="accuracy", **FAST).fit(X, LABELS)
    gradual = KernelClassifier(scoring="roc_auc", **FAST).fit(X, LABELS)
    scores = [[stage["score"] for stage in model.growth_] for model in (plain, jumpy, gradual)]
    assert scores[0] == scores[1] != scores[2]


@pytest.mark.slow
def test_scoring_function_may_return_negative_scores() -> None:
    def profit(estimator: Any, X: Array, y: Array) -> float:
        return 100.0 - float(np.mean((y - estimator.predict(X)) ** 2))

    model = KernelRegressor(scoring=profit, **FAST).fit(X, Y)
    drawn = KernelRegressor(scoring=profit, grids="random", **FAST).fit(X, Y)
    assert model.score(X, Y) > 0.8
    assert max(trial["score"] for trial in drawn.search_) < 0.0
    assert drawn.scorer_.endswith("profit")


def test_invalid_scorers_are_rejected() -> None:
    for scoring, words in [
        ("auc", "roc_auc"),
        (["r2"], "the name of one scorer"),
        (mean_absolute_error, "make_scorer"),
        (lambda estimator, X, y: np.nan, "returns nan"),
        ("roc_auc", "scoring='roc_auc' fails"),
    ]:
        with pytest.raises(InputError, match=words):
            small(scoring=scoring).fit(X[:100], Y[:100])


# Folds and groups.


def test_folds_come_from_the_splitter(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_folds: list[Any] = []
    splits = HeldBackRows.splits.function

    def recorded(self: HeldBackRows) -> Any:
        result = splits(self)
        recorded_folds.append(result)
        return result

    monkeypatch.setattr(HeldBackRows, "splits", property(recorded))
    test_fold = np.where(np.arange(N_ROWS) < 2000, -1, 0)
    model = KernelRegressor(cv=PredefinedSplit(test_fold), **FAST).fit(X, Y)
    ((training, held_back),) = recorded_folds[0]
    np.testing.assert_array_equal(training, np.arange(2000))
    np.testing.assert_array_equal(held_back, np.arange(2000, N_ROWS))
    assert len(model.errors_.scores) == 400
    assert model.cv_.startswith("PredefinedSplit")


def test_last_fold_of_a_time_series_is_used_first() -> None:
    whole = given(Y)
    folds = whole.folds(KernelRegressor(cv=TimeSeriesSplit(4, gap=7)), None, 0)
    assert folds is not None
    training, held_back = folds.used(N_ROWS)[0]
    assert training[-1] + 8 == held_back[0]
    assert held_back[-1] == N_ROWS - 1
    # Rows in the gap are of the final fit.
    model = KernelRegressor(cv=TimeSeriesSplit(4, gap=7), **FAST).fit(X, Y)
    reference = KernelRegressor(cv=[(training, held_back)], **FAST).fit(X, Y)
    assert model.score(X, Y) == pytest.approx(reference.score(X, Y), abs=0.02)


def test_rows_without_weight_are_in_no_fold() -> None:
    weight = np.ones(100)
    weight[::2] = 0.0
    folds = given(Y[:100], weight).folds(KernelRegressor(cv=KFold(2)), None, 0)
    assert folds is not None
    np.testing.assert_array_equal(folds.splits[0][0], np.arange(25, 50))
    np.testing.assert_array_equal(folds.splits[0][1], np.arange(25))


MISSING_GROUPS = [
    [1, None], [1.0, np.nan], ["a", None], ["a", np.nan], np.array(["2024", "NaT"], "M8[Y]"),
    pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype="int64[pyarrow]"),
    pl.Series([1, None]), pa.array([1, None]),
]  # fmt: skip


def test_missing_groups_are_rejected() -> None:
    for groups in MISSING_GROUPS:
        with pytest.raises(InputError, match="the group of row 1 is missing"):
            given(Y[:2], groups=groups)


def test_large_integer_groups_stay_distinct() -> None:
    for kind in ("Int64", "int64[pyarrow]", object):
        rows = given(Y[:3], groups=pd.Series([2**53, 2**53 + 1, 2**53], dtype=kind))
        assert np.asarray(rows.groups).tolist() == [0, 1, 0]


def test_groups_are_not_divided_by_splits_and_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    halves: list[Any] = []
    begin = CrossFittedModels.__init__

    def recorded(self: Any, data: Any, n_training: int, *args: Any) -> None:
        begin(self, data, n_training, *args)
        halves.append((data.rows[: self.half, 0], data.rows[self.half : n_training, 0]))
        halves.append((data.rows[:n_training, 0], data.rows[n_training:, 0]))

    monkeypatch.setattr(CrossFittedModels, "__init__", recorded)
    group_of = dict(zip(X[:, 0].tolist(), GROUPS.tolist(), strict=True))
    names = np.array([f"patient {g}" for g in GROUPS])
    KernelRegressor(**FAST).fit(X, Y, groups=names)
    for first, second in halves:
        groups, others = ({group_of[value] for value in part.tolist()} for part in (first, second))
        assert groups
        assert others
        assert not groups & others


def test_grown_grids_need_more_than_two_groups() -> None:
    few = GROUPS < 20
    assert KernelRegressor(**FAST, n_grids=8).fit(X, Y, groups=few).settings_.grids == "random"
    with pytest.raises(InputError, match="two groups"):
        KernelRegressor(grids="grown", **FAST).fit(X, Y, groups=few)


def test_invalid_folds_and_groups_are_rejected() -> None:
    for options, groups, words in [
        ({}, GROUPS[:7], "one per row"),
        ({}, np.zeros(100), "all rows are in the group 0.0"),
        ({}, np.array([1, "a"] * 50, dtype=object), "all numbers or all text"),
        ({"cv": KFold(3)}, GROUPS[:100], "on both sides"),
        ({"cv": GroupKFold(3)}, None, "groups"),
        ({"cv": 50}, GROUPS[:100], "as many groups"),
        ({"cv": 101}, None, "as many rows"),
        ({"cv": 1}, None, "at least 2"),
        ({"cv": "time"}, None, "cross-validation object"),
        ({"cv": []}, None, "no folds"),
        ({"cv": [(np.arange(50), np.arange(40, 100))]}, None, "row 40 more than once"),
        ({"cv": [(np.arange(50), np.arange(0))]}, None, "no validation rows"),
        ({"cv": [(np.arange(50), np.array([100]))]}, None, "from 0 to 99"),
        ({"cv": [3]}, None, r"pairs \(training rows"),
    ]:
        with pytest.raises(InputError, match=words):
            small(**options).fit(X[:100], Y[:100], groups=groups)


# Beside scikit-learn.


def test_groups_are_routed_through_metadata() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = small().set_fit_request(groups=True)
        result = GridSearchCV(model, {"alpha": [1e-2, 1.0]}, cv=GroupKFold(3))
        result.fit(X[:300], Y[:300], groups=GROUPS[:300])
        assert "groups kept together" in result.best_estimator_.cv_
    scores = cross_validate(
        small(), X[:300], Y[:300], params={"groups": GROUPS[:300]}, return_estimator=True
    )
    assert "groups kept together" in scores["estimator"][0].cv_


def test_saved_models_keep_the_names_of_scorer_and_splitter(tmp_path: Path) -> None:
    scorer, cv = get_scorer("r2"), KFold(3)
    model = clone(small(scoring=scorer, cv=cv))
    assert repr(model.get_params()["cv"]) == repr(cv)
    model.fit(X[:200], Y[:200])
    save(model, tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load(tmp_path / "model")
    assert (loaded.scoring, loaded.cv) == (None, None)
    assert (loaded.scorer_, loaded.cv_) == (repr(scorer), repr(cv))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    plain = small(scoring="r2", cv=3).fit(X[:200], Y[:200])
    save(plain, tmp_path / "plain")
    loaded = load(tmp_path / "plain")
    assert (loaded.scoring, loaded.cv) == ("r2", 3)
