"""The pipeline of candidates: which are tried, which wins, and what the winner is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.memory import VARIABLE
from gramless.features.binning import GivenBinning
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import JoinedMaps
from gramless.losses import Logistic, Multinomial, Squared
from gramless.matrices.base import Vector
from gramless.matrices.codes import bytes_of_grid
from gramless.matrices.weighted import remove_factors, unscale_weights
from gramless.selection.budget import Cost
from gramless.selection.candidate import REQUIRED_GAIN, Candidate, Fitted, FittedFeatures
from gramless.selection.candidates.random_features import RandomFeatures
from gramless.selection.config import SearchConfig
from gramless.selection.goal import Goal, mean_loss
from gramless.selection.pipeline import CANDIDATES, select, select_on_split
from gramless.selection.selected import SelectedModel
from gramless.selection.splits import validation_splits
from gramless.selection.task import EarlierFit, SelectionTask

from .tasks import make_task

Array = NDArray[np.float64]

GROWN = SearchConfig(
    most_grids=24,
    proposals=64,
    stages=(16,),
    n_landmarks=0,
    tries_trend=False,
    dropped_share=0.0,
    quick_rows=0,
)
SMOOTH = replace(GROWN, n_landmarks=120, most_grids=64, stages=(32,))
GIVEN: dict[str, Any] = {"bandwidth": np.asarray(2.0), "alpha": 1e-2, "n_grids": 24}
SQUARES = Goal(Squared(), 0.0, mean_loss(Squared()))


def draw(n_rows: int = 1200, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, 4))


def smooth_targets(X: Array) -> Array:
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2]
    return (y - y.mean()) / y.std()


def stepped_targets(X: Array) -> Array:
    return (
        np.sign(X[:, 0])
        + 0.5 * (X[:, 1] > 0.5)
        + 0.1 * np.random.default_rng(5).normal(size=len(X))
    )


def grown(X: Array, y: Vector, config: SearchConfig = GROWN, **options: Any) -> SelectedModel:
    return select(make_task(X, y, config=config, grows_grids=True, n_jobs=2, **options))


def drawn(X: Array, y: Vector, **options: Any) -> SelectedModel:
    return select(make_task(X, y, **{**GIVEN, **options}))


def expected_matrix(selected: SelectedModel, X: Array) -> Array:
    rows = selected.scaler.rows(X[selected.order])
    return selected.feature_map.rows_matrix(rows).tocsr().toarray()


# Candidates.


@dataclass
class Toy(Candidate):
    """Random features, scored as it likes."""

    name = "the toy"
    time_share = 0.5

    own_score: float
    may_apply: bool = True
    own_cost: Cost = field(default_factory=Cost)
    best_so_far: list[Fitted | None] = field(default_factory=list)
    finished: list[Fitted] = field(default_factory=list)

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        return self.may_apply

    def cost(self, task: SelectionTask, best: Fitted | None) -> Cost:
        return self.own_cost

    def fit(self, task: SelectionTask, best: Fitted | None) -> Fitted:
        self.best_so_far.append(best)
        result = RandomFeatures().fit(task, None)
        validation = replace(result.validation, score=self.own_score)
        return FittedToy(**{**vars(result), "validation": validation, "toy": self})


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedToy(FittedFeatures):
    """What a toy has fitted."""

    toy: Toy

    def finish(self, task: SelectionTask) -> SelectedModel:
        self.toy.finished.append(self)
        return super().finish(task)


def toy_task(n_rows: int = 600, **options: Any) -> SelectionTask:
    X = draw(n_rows)
    return make_task(X, smooth_targets(X), **{**GIVEN, **options})


def test_best_candidate_is_selected_and_finished() -> None:
    worse, best, later = Toy(0.5), Toy(-1.0), Toy(0.3)
    result = select(toy_task(), [RandomFeatures(), worse, best, later])
    assert result.validation.score == -1.0
    assert [len(toy.finished) for toy in (worse, best, later)] == [0, 1, 0]
    assert all(len(toy.best_so_far) == 1 for toy in (worse, best, later))


def test_inapplicable_candidate_is_not_fitted() -> None:
    toy = Toy(-1.0, may_apply=False)
    task = toy_task()
    result = select(task, [RandomFeatures(), toy])
    assert toy.best_so_far == toy.finished == task.budget.limits == []
    assert result.validation.score > 0.0


@pytest.mark.parametrize(
    ("cost", "limit"),
    [
        (Cost(seconds=1e6), "time: the toy was cut short"),
        (Cost(n_bytes=1e18), "memory: the toy was left out"),
    ],
)
def test_candidate_beyond_the_budget_is_noted_and_not_fitted(cost: Cost, limit: str) -> None:
    toy = Toy(-1.0, own_cost=cost)
    result = select(toy_task(seconds=1e5), [RandomFeatures(), toy])
    assert toy.best_so_far == []
    assert result.limits == [limit]


def test_later_candidates_must_improve_by_the_required_gain() -> None:
    first, tied, better = Toy(1.0), Toy(REQUIRED_GAIN), Toy(0.999 * REQUIRED_GAIN)
    task = toy_task()
    result = select_on_split(task, [first, tied, better])
    assert result.toy is better
    assert first.best_so_far == [None]
    assert [toy.best_so_far[0].toy for toy in (tied, better)] == [first, first]
    assert select_on_split(task, []) is None


def test_first_of_nearly_equal_candidates_is_selected() -> None:
    one, other = Toy(1.0), Toy(REQUIRED_GAIN)
    assert select_on_split(toy_task(), [one, other]).toy is one
    assert select_on_split(toy_task(), [other, one]).toy is other


def test_exactly_one_starting_candidate_applies() -> None:
    X = draw(300)
    task = make_task(X, smooth_targets(X), **GIVEN)
    result = select(task)
    earlier = EarlierFit(
        scaler=result.scaler,
        feature_map=result.feature_map,
        settings=result.settings,
        alpha=result.alpha,
        bandwidth=result.bandwidth,
        relevance=result.relevance,
        growth=[],
        weights=np.zeros(result.matrix.shape[1] + 1),
    )
    starts = {}
    for name, options in {
        "random": {},
        "grown": {"grows_grids": True},
        "earlier": {"earlier": earlier},
        "earlier grown": {"earlier": earlier, "grows_grids": True},
    }.items():
        changed_task = replace(task, **options)
        starts[name] = [type(c).__name__ for c in CANDIDATES if c.applies(changed_task, None)]
    assert starts == {
        "random": ["RandomFeatures"],
        "grown": ["GrownGridsCandidate"],
        "earlier": ["EarlierModel"],
        "earlier grown": ["EarlierModel"],
    }
    again = select(replace(task, earlier=earlier))
    np.testing.assert_array_equal(expected_matrix(again, X), expected_matrix(result, X))
    assert again.start is not None


# Cross-validation.


def test_fewer_than_300_rows_are_cross_validated() -> None:
    X = draw(280)
    config = replace(GROWN, ridge_rows=0)
    task = make_task(X, stepped_targets(X), config=config, grows_grids=True)
    result = select(task)
    assert sorted(result.validation.rows) == list(range(280))
    assert result.validation.raw.shape == (280,)
    # Trials of other splits are not recorded.
    n_training = len(validation_splits(280, 0)[0][0])
    assert {trial.n_rows for trial in task.trials} == {n_training}


def test_300_rows_are_validated_on_one_split() -> None:
    X = draw(300)
    result = grown(X, stepped_targets(X), replace(GROWN, ridge_rows=0))
    np.testing.assert_array_equal(result.validation.rows, validation_splits(300, 0)[0][1])


def test_each_fold_ignores_targets_it_holds_back() -> None:
    X = draw(280)
    y = stepped_targets(X)
    held_back = validation_splits(280, 0)[3][1]
    other = y.copy()
    other[held_back] = 9.0
    config = replace(GROWN, ridge_rows=0, stages=())
    raw = []
    for targets in (y, other):
        result = select(
            make_task(X, targets, config=config, grows_grids=True, alpha=1e-2)
        ).validation
        raw.append(result.raw[np.isin(result.rows, held_back)])
    np.testing.assert_array_equal(raw[0], raw[1])


def test_given_folds_are_not_cross_validated() -> None:
    X = draw(280)
    split = np.arange(200), np.arange(200, 280)
    options = {"config": replace(GROWN, ridge_rows=0), "grows_grids": True}
    result = select(make_task(X, stepped_targets(X), split=split, **options))
    np.testing.assert_array_equal(result.validation.rows, split[1])


def test_cross_validation_replaces_grids_by_kernel_ridge() -> None:
    X = draw(150)
    result = grown(X, smooth_targets(X), replace(GROWN, ridge_rows=2000), least_squares=SQUARES)
    assert isinstance(result.feature_map, KernelExpansion)
    assert sorted(result.validation.rows) == list(range(150))


def test_fewer_than_60_rows_select_kernel_ridge_regression() -> None:
    X = draw(50)
    result = grown(X, stepped_targets(X), least_squares=SQUARES)
    assert isinstance(result.feature_map, KernelExpansion)
    assert result.growth == []
    assert isinstance(grown(X, stepped_targets(X)).feature_map, GivenBinning)


# Grown grids.


@pytest.fixture(scope="module")
def stepped() -> SelectedModel:
    X = draw()
    return grown(X, stepped_targets(X))


def test_grown_model_has_the_features_of_all_rows(stepped: SelectedModel) -> None:
    X = draw()
    assert isinstance(stepped.feature_map, GivenBinning)
    assert sorted(np.asarray(stepped.order)) == list(range(len(X)))
    plain = remove_factors(stepped.matrix)
    np.testing.assert_array_equal(plain.tocsr().toarray(), expected_matrix(stepped, X))
    assert (stepped.settings.grids, stepped.settings.alpha) == ("grown", stepped.alpha)
    assert stepped.bandwidth is None
    assert set(np.argsort(-stepped.relevance)[:2]) == {0, 1}
    assert stepped.growth[-1]["n_grids"] == 24
    assert stepped.limits == []


def test_grids_do_not_depend_on_targets_held_back(stepped: SelectedModel) -> None:
    result, (training, held_back) = stepped.validation, validation_splits(1200, 0)[0]
    np.testing.assert_array_equal(result.rows, held_back)
    np.testing.assert_array_equal(stepped.order, np.concatenate([training, held_back]))
    # The penalty beside the summed losses is kept for all rows.
    assert stepped.alpha * 1200 == pytest.approx(result.alpha)
    X = draw()
    y = stepped_targets(X)
    other = y.copy()
    other[held_back] = other[held_back][::-1]
    # With one stage and a given penalty there is nothing that they decide.
    config = replace(GROWN, stages=())
    plain, changed = (grown(X, targets, config, alpha=1e-3) for targets in (y, other))
    assert plain.growth[0]["alpha"] == pytest.approx(changed.growth[0]["alpha"], rel=4)
    np.testing.assert_array_equal(plain.matrix.tocsr().indices, changed.matrix.tocsr().indices)
    np.testing.assert_array_equal(plain.validation.raw, changed.validation.raw)
    assert changed.validation.score > plain.validation.score


def test_trials_are_recorded_as_json(stepped: SelectedModel) -> None:
    result = stepped.validation
    assert json.loads(json.dumps(stepped.trials)) == stepped.trials
    assert {trial["stage"] for trial in stepped.trials} == {"validation"}
    assert {trial["grids"] for trial in stepped.trials} == {"grown"}
    # The first fit, then a path from it.
    near = [
        trial for trial in stepped.trials if trial["alpha"] * 960 == pytest.approx(result.alpha)
    ]
    assert result.score in [trial["score"] for trial in near]
    assert len(stepped.trials) >= 3


def test_given_alpha_and_number_of_grids_are_used() -> None:
    X = draw()
    result = grown(X, stepped_targets(X), alpha=0.02)
    assert result.alpha == result.settings.alpha == 0.02
    assert [trial["alpha"] for trial in result.trials] == pytest.approx([0.02] * len(result.trials))
    assert grown(X, stepped_targets(X), n_grids=5).growth[-1]["n_grids"] == 5


def test_grids_of_several_seeds_are_joined(stepped: SelectedModel) -> None:
    X = draw()
    both = grown(X, stepped_targets(X), replace(GROWN, n_seeds=2))
    one = expected_matrix(stepped, X)
    joined = expected_matrix(both, X)
    assert (joined > 0).sum(axis=1).tolist() == [48] * 1200
    # The first 24 grids are those of one seed.
    np.testing.assert_array_equal(joined[:, : one.shape[1]] > 0, one > 0)
    assert both.growth[0]["score"] == stepped.growth[0]["score"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_grown_grids_classify(n_classes: int) -> None:
    X = draw()
    classes = np.digitize(stepped_targets(X), [-0.4, 0.9][: n_classes - 1])
    columns = np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0)
    if n_classes == 2:
        result, shape = grown(X, columns[:, 1], loss=Logistic()), (240,)
    else:
        result, shape = grown(X, columns, loss=Multinomial()), (240, 3)
    assert result.validation.raw.shape == shape
    assert result.validation.score < 0.5 * np.log(n_classes)


# Smooth kernels beside them.


def test_smooth_targets_select_a_smooth_kernel() -> None:
    X = draw()
    y = smooth_targets(X)
    plain, result = grown(X, y, replace(SMOOTH, n_landmarks=0)), grown(X, y, SMOOTH)
    assert isinstance(result.feature_map, JoinedMaps)
    assert len(result.feature_map.maps_) == 1 + len(SMOOTH.smooth_inverse_bandwidths)
    assert result.validation.score < 0.8 * plain.validation.score
    # New rows are predicted by the features that the fit knew, which rounded the smooth ones.
    rows, weights = result.scaler.rows(X[result.order]), result.validation.weights[:-1]
    natural = unscale_weights(result.matrix, weights)
    fitted, dense = result.matrix.matvec(weights), np.asarray(rows)
    bins, *smooth = result.feature_map.maps_
    parts = [bins.transform(dense).toarray(), *(each.transform(dense) for each in smooth)]
    rounded = [parts[0], *(part.astype(np.float32) for part in parts[1:])]
    np.testing.assert_allclose(np.hstack(rounded) @ natural, fitted, atol=1e-9)
    np.testing.assert_allclose(np.hstack(parts) @ natural, fitted, atol=2e-7)
    assert len(result.validation.weights) == result.matrix.shape[1] + 1
    # A tolerance that is good for noise would end the path where next to no error is left.
    Z, y = np.column_stack([result.matrix.tocsr().toarray(), np.ones(1200)]), y[result.order]
    ridge = np.diag(np.append(np.full(Z.shape[1] - 1, result.validation.alpha), 0.0))
    exact = np.linalg.solve(Z[:960].T @ Z[:960] + ridge, Z[:960].T @ y[:960])
    least = 0.5 * np.mean((Z[960:] @ exact - y[960:]) ** 2)
    assert result.validation.score == pytest.approx(least, rel=0.2)
    assert result.validation.alpha < 0.02


def test_smooth_kernels_do_not_worsen_stepped_targets() -> None:
    X = draw()
    y = stepped_targets(X)
    plain, result = grown(X, y, replace(SMOOTH, n_landmarks=0)), grown(X, y, SMOOTH)
    assert result.validation.score <= plain.validation.score


def test_noise_and_constant_targets_select_no_smooth_kernel() -> None:
    for targets in (np.random.default_rng(0).normal(size=1200), np.zeros(1200)):
        result = grown(draw(), targets, SMOOTH)
        assert isinstance(result.feature_map, GivenBinning)
    assert result.validation.score == 0.0
    np.testing.assert_array_equal(result.relevance, np.ones(4))


def test_few_landmarks_are_not_tried() -> None:
    X = draw()
    result = grown(X, smooth_targets(X), replace(SMOOTH, n_landmarks=99))
    assert isinstance(result.feature_map, GivenBinning)


# Groups, budgets.


def matched(n_sets: int) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return cases, each with two controls that share all inputs but the first."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n_sets), 3)
    y = np.where(np.arange(len(groups)) % 3 == 0, 1.0, -1.0)
    X = np.column_stack([0.8 * y + rng.normal(size=len(y)), rng.normal(size=(n_sets, 4))[groups]])
    order = rng.permutation(len(y))
    return X[order], y[order], groups[order]


@pytest.mark.parametrize("select_model", [grown, drawn])
def test_groups_are_not_divided_by_the_split(select_model: Any) -> None:
    X, y, groups = matched(500)
    result = select_model(X, y).validation
    fitted = np.setdiff1d(np.arange(len(y)), result.rows)
    assert 250 < len(result.rows) < 350
    assert len(np.intersect1d(groups[fitted], groups[result.rows])) == 0


def test_exhausted_time_budget_returns_a_model_and_notes() -> None:
    X = draw()
    result = grown(X, smooth_targets(X), SMOOTH, seconds=1e-9)
    assert result.limits == [
        "time: at most 16 grids",
        "time: growth was cut short",
        "time: the trial of smooth kernels was cut short",
    ]
    assert result.growth[-1]["n_grids"] == GROWN.kept_a_round
    assert isinstance(result.feature_map, GivenBinning)
    assert len(result.trials) <= 3


def test_long_time_budget_changes_nothing(stepped: SelectedModel) -> None:
    X = draw()
    result = grown(X, stepped_targets(X), seconds=1e9)
    assert (result.alpha, result.limits) == (stepped.alpha, [])
    np.testing.assert_array_equal(result.matrix.tocsr().indices, stepped.matrix.tocsr().indices)


@pytest.mark.parametrize("select_model", [grown, drawn])
def test_memory_limits_the_grids_and_is_noted(
    select_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = draw()
    monkeypatch.setenv(VARIABLE, str(12 * (2400 + bytes_of_grid(1200, 4))))
    result = select_model(X, stepped_targets(X))
    assert result.limits == ["memory: 12 grids instead of 24"]
    assert ((result.matrix.tocsr().toarray() != 0).sum(axis=1) == 12).all()
