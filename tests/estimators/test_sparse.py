"""L1 and elastic net in the estimators: optimal weights, and models of the bins that have one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_classification

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.base.quantiles import robust_centre, robust_scale
from gramless.estimators.persistence import describe, pack, write
from gramless.losses import Multinomial
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.objective import Problem, Solution
from gramless.solvers.random_descent import ParallelRandomDescent, RandomDescent
from tests.solvers.pairwise import covering

Array = NDArray[np.float64]

N_GRIDS, ALPHA = 32, 2e-3
GIVEN: dict[str, Any] = {
    "bandwidth": 3.0,
    "alpha": ALPHA,
    "scaling": "standard",
    "random_state": 0,
    "n_jobs": 1,
}
CASES = [
    *(("classes", loss, k) for loss in ("squared", "logistic", "squared_hinge") for k in (2, 3)),
    *(("numbers", loss, k) for loss in ("squared", "huber") for k in (1, 2)),
]
one_case_of_each_loss = pytest.mark.parametrize(
    ("task", "loss", "k"),
    [
        ("classes", "squared", 3),
        ("classes", "logistic", 2),
        ("classes", "logistic", 3),
        ("classes", "squared_hinge", 2),
        ("numbers", "squared", 2),
        ("numbers", "huber", 1),
    ],
)
# Any two of a loss, a number of outputs and a ratio.
PAIRS = covering((*case, ratio) for case in CASES for ratio in (0.5, 1.0))
NEW: Array = np.random.default_rng(2).normal(scale=2.0, size=(150, 5))
NEW[-1] = 1e6


@cache
def table(task: str, k: int, n_rows: int = 250) -> tuple[Array, NDArray]:
    """Return rows with labels of ``k`` classes, or with ``k`` numbers each."""
    if task == "classes":
        return make_classification(
            n_rows, 5, n_informative=4, n_redundant=0, n_classes=k, random_state=1
        )
    X = np.random.default_rng(1).normal(size=(n_rows, 5))
    y = 3.0 + X[:, 0] + np.abs(X[:, 1])
    return X, y if k == 1 else np.column_stack([y, 100 * np.sin(X[:, 2])])


def machine(task: str, **options: Any) -> Any:
    kind = KernelClassifier if task == "classes" else KernelRegressor
    return kind(RandomBinning(n_grids=N_GRIDS), **{**GIVEN, **options})


@cache
def fitted(task: str, loss: str, k: int, l1_ratio: float) -> tuple[Any, Problem, Solution]:
    """Return a fitted model, with the problem that it solved and the solution."""
    solved: list[tuple[Problem, Solution]] = []
    original = GridDescent.solve

    def solve(self: GridDescent, problem: Problem, *rest: Any, **named: Any) -> Solution:
        solution = original(self, problem, *rest, **named)
        solved.append((problem, solution))
        return solution

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridDescent, "solve", solve)
        # Calibration would fit once more for each fold.
        without = {"calibrate": False} if task == "classes" else {}
        model = machine(task, loss=loss, l1_ratio=l1_ratio, **without).fit(*table(task, k))
    assert len(solved) == 1
    return (model, *solved[0])


def responses(model: Any, X: Any) -> Array:
    return getattr(model, "decision_function", model.predict)(X)


def full_map(model: Any, X: Array) -> RandomBinning:
    """Return the feature map with all the bins of the training rows."""
    return clone(model.features_).fit(model.scaler_.rows(X))


def columns(array: Array) -> Array:
    return array if array.ndim == 2 else array[:, None]


# What is minimised, and what is kept of it.


def test_weights_meet_the_optimality_conditions() -> None:
    for task, loss, k, l1_ratio in PAIRS:
        model, problem, solution = fitted(task, loss, k, l1_ratio)
        assert model.status_ == solution.status == "converged"
        assert model.loss_ == problem.loss
        assert isinstance(problem.loss, Multinomial) == (loss == "logistic" and k == 3)
        penalty = problem.penalty
        assert penalty.n_free == (task == "numbers")
        assert penalty.l1 == pytest.approx(ALPHA * l1_ratio, rel=1e-15)
        assert penalty.l2 == pytest.approx(ALPHA * (1 - l1_ratio), rel=1e-15)
        assert problem.kkt_residual(solution.weights) <= model.tol * penalty.l1 * (1 + 1e-6)
        assert model.tol == 1e-2


def test_weights_are_optimal_on_a_dense_matrix() -> None:
    for task, loss, k, l1_ratio in PAIRS:
        model, problem, solution = fitted(task, loss, k, l1_ratio)
        X, _ = table(task, k)
        dense = full_map(model, X).transform(model.scaler_.rows(X)).toarray()
        if task == "numbers":
            dense = np.column_stack([dense, np.ones(len(X))])
        weights = solution.weights
        slopes = problem.loss.gradient(dense @ weights, problem.targets)
        gradient = dense.T @ slopes / len(X) + (1 - l1_ratio) * ALPHA * weights
        l1 = np.full(len(weights), ALPHA * l1_ratio)
        if task == "numbers":
            gradient[-1] -= (1 - l1_ratio) * ALPHA * weights[-1]
            l1[-1] = 0.0
        gradient, weights = columns(gradient), columns(weights)
        slack = 1e-2 * ALPHA * l1_ratio * (1 + 1e-6)
        zero = weights == 0
        assert (np.abs(gradient) <= l1[:, None] + slack)[zero].all()
        assert (np.abs(gradient + l1[:, None] * np.sign(weights)) <= slack)[~zero].all()


def test_model_keeps_exactly_the_bins_with_weight() -> None:
    for task, loss, k, l1_ratio in PAIRS:
        model, problem, solution = fitted(task, loss, k, l1_ratio)
        full = full_map(model, table(task, k)[0])
        n_bins = int(full.offsets_[-1])
        assert n_bins == problem.matrix.shape[1] - (task == "numbers")
        used = columns(solution.weights[:n_bins]).any(axis=1)
        assert 0 < used.sum() < n_bins
        assert model.weights_.shape == (used.sum(), *solution.weights.shape[1:])
        assert columns(model.weights_).any(axis=1).all()
        np.testing.assert_array_equal(model.weights_ != 0, solution.weights[:n_bins][used] != 0)
        counts = np.array([part.sum() for part in np.split(used, full.offsets_[1:-1])])
        np.testing.assert_array_equal(model.features_.n_bins_, counts[counts > 0])
        np.testing.assert_array_equal(
            model.features_.offsets_, np.append(0, np.cumsum(counts[counts > 0]))
        )
        np.testing.assert_array_equal(model.features_.widths_, full.widths_[counts > 0])
        assert model.sparsity_ == pytest.approx(1 - used.sum() / n_bins, abs=1e-15)
        assert isinstance(model.sparsity_, float)


def test_dropped_bins_do_not_change_predictions() -> None:
    for task, loss, k, l1_ratio in PAIRS:
        model, _, solution = fitted(task, loss, k, l1_ratio)
        X, y = table(task, k)
        full = full_map(model, X)
        for rows in (X, NEW):
            features = full.transform(model.scaler_.rows(rows))
            if task == "classes":
                expected = features @ solution.weights
            else:
                spread, middle = y.std(axis=0), y.mean(axis=0)
                if loss == "huber":
                    spread, middle = robust_scale(y), robust_centre(y)
                scores = features @ solution.weights[:-1] + solution.weights[-1]
                expected = scores * spread + middle
            size = np.abs(expected).max(axis=0)
            assert (np.abs(responses(model, rows) - expected) <= 1e-12 * size).all()


def test_sparsity_grows_with_alpha_and_l1_ratio() -> None:
    X, y = table("classes", 3)
    results = [
        machine("classes", alpha=alpha, l1_ratio=l1_ratio).fit(X, y).sparsity_
        for alpha, l1_ratio in ((1e-4, 1.0), (1e-3, 1.0), (1e-2, 1.0), (1e-2, 0.1))
    ]
    assert 0 < results[0] < results[1] < results[2] < 1
    assert results[3] < results[2]


@pytest.mark.parametrize(
    ("task", "loss", "ratio"), [("classes", "squared", 0), ("numbers", "huber", np.float32(0.0))]
)
def test_l1_ratio_zero_keeps_every_bin(task: str, loss: str, ratio: float) -> None:
    X, y = table(task, 2)
    model = machine(task, loss=loss, l1_ratio=ratio).fit(X, y)
    assert model.sparsity_ == 0.0
    assert isinstance(model.sparsity_, float)
    assert len(model.features_.n_bins_) == N_GRIDS
    np.testing.assert_array_equal(model.features_.offsets_, full_map(model, X).offsets_)
    default = machine(task, loss=loss).fit(X, y)
    assert default.l1_ratio == 0.0
    assert model.weights_.tobytes() == default.weights_.tobytes()


def test_strong_l1_penalty_leaves_one_bin_and_a_constant(tmp_path: Any) -> None:
    for task, loss, k, l1_ratio in PAIRS:
        X, y = table(task, k)
        model = machine(task, loss=loss, l1_ratio=l1_ratio, alpha=100.0).fit(X, y)
        assert model.status_ == "converged"
        assert model.features_.n_bins_.tolist() == [1]
        assert model.weights_.shape[0] == 1
        assert not model.weights_.any()
        assert model.sparsity_ == pytest.approx(1 - 1 / full_map(model, X).offsets_[-1], abs=1e-15)
        result = responses(model, NEW)
        assert (result == result[0]).all()
        if task == "classes":
            assert not result.any()
            assert (model.predict(NEW) == model.classes_[0]).all()
        elif loss == "squared":
            np.testing.assert_allclose(result[0], y.mean(axis=0), rtol=1e-12)
        if loss == "logistic":
            np.testing.assert_allclose(model.predict_proba(NEW), 1 / k, rtol=1e-15)
        save(model, tmp_path / "model")
        np.testing.assert_array_equal(responses(load(tmp_path / "model"), NEW), result)


def test_intercept_is_not_penalized() -> None:
    X, y = table("numbers", 1)
    near = machine("numbers", l1_ratio=1.0).fit(X, y)
    far = machine("numbers", l1_ratio=1.0).fit(X, y + 2.0**20)
    np.testing.assert_allclose(far.predict(NEW) - 2.0**20, near.predict(NEW), atol=1e-6)


# All that a fit may be asked for.


@pytest.mark.parametrize(
    ("task", "loss", "k"),
    [("classes", "squared", 2), ("classes", "logistic", 3), ("numbers", "huber", 2)],
)
def test_number_of_threads_does_not_change_the_fit(task: str, loss: str, k: int) -> None:
    X, y = table(task, k)
    one, two = (
        machine(task, loss=loss, l1_ratio=1.0, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)
    )
    assert one.weights_.tobytes() == two.weights_.tobytes()
    assert one.history_ == two.history_
    assert responses(one, NEW).tobytes() == responses(two, NEW).tobytes()


def test_number_of_threads_does_not_change_the_chosen_alpha() -> None:
    X, y = table("classes", 2, 120)
    options = {"alpha": "auto", "l1_ratio": 0.7, "loss": "logistic"}
    one, two = (machine("classes", n_jobs=n, **options).fit(X, y) for n in (1, 2))
    assert one.alpha_ == two.alpha_
    assert one.weights_.tobytes() == two.weights_.tobytes()


@one_case_of_each_loss
def test_integer_weights_equal_repeated_rows(task: str, loss: str, k: int) -> None:
    X, y = table(task, k)
    times = np.random.default_rng(3).integers(0, 4, len(X))
    options = {"loss": loss, "l1_ratio": 0.5, "tol": 1e-5, "scaling": "none", "max_iter": 500}
    weighted = machine(task, **options).fit(X, y, sample_weight=times)
    repeated = machine(task, **options).fit(np.repeat(X, times, axis=0), np.repeat(y, times, 0))
    assert weighted.status_ == repeated.status_ == "converged"
    result, expected = responses(weighted, NEW), responses(repeated, NEW)
    np.testing.assert_allclose(result, expected, atol=1e-3 * np.abs(expected).max())
    plain = responses(machine(task, **options).fit(X, y), NEW)
    assert np.abs(plain - expected).max() > 1e-2 * np.abs(expected).max()


def test_form_of_rows_does_not_change_predictions() -> None:
    for form in [sp.csr_array, np.float32, np.asfortranarray]:
        X = np.where(np.abs(table("numbers", 1)[0]) > 0.5, table("numbers", 1)[0], 0.0)
        X, y = X.astype(np.float32).astype(float), table("numbers", 1)[1]
        options = {"l1_ratio": 1.0, "scaling": "none", "tol": 1e-6}
        model = machine("numbers", **options).fit(form(X), y)
        expected = machine("numbers", **options).fit(X, y)
        assert model.sparsity_ > 0
        for rows in (X, -X):
            np.testing.assert_allclose(model.predict(form(rows)), expected.predict(rows), atol=1e-4)


def test_refitting_gives_the_same_weights() -> None:
    X, y = table("classes", 3)
    model = machine("classes", l1_ratio=1.0).fit(X, y)
    first = model.weights_.tobytes()
    assert model.features.n_grids == N_GRIDS
    assert model.fit(X, y).weights_.tobytes() == first
    assert clone(model).fit(X, y).weights_.tobytes() == first
    squares = model.set_params(l1_ratio=0.0).fit(X, y)
    assert squares.sparsity_ == 0.0
    assert squares.weights_.tobytes() == machine("classes").fit(X, y).weights_.tobytes()


@cache
def chosen(task: str, l1_ratio: float) -> tuple[Any, float]:
    """Return a model whose settings were searched, and its score on new rows."""
    X, y = table(task, 2 if task == "classes" else 1, 1200)
    made = KernelClassifier if task == "classes" else KernelRegressor
    model = made(RandomBinning(n_grids=32), l1_ratio=l1_ratio, relevance="equal", random_state=0)
    return model.fit(X[:200], y[:200]), model.score(X[200:], y[200:])


def test_searched_l1_models_are_sparse_and_nearly_as_accurate() -> None:
    for task in ["classes", "numbers"]:
        (model, score), (_, squares) = chosen(task, 1.0), chosen(task, 0.0)
        assert model.settings_.alpha == model.alpha_
        assert score > squares - 0.08  # It is for small models, not for the best ones.
        assert model.sparsity_ > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("l1_ratio", [1e-2, 1e-4])
def test_small_l1_ratios_predict_as_well_as_l2(l1_ratio: float) -> None:
    assert chosen("numbers", l1_ratio)[1] > chosen("numbers", 0.0)[1] - 0.05


# Solvers and what they refuse.


class Untouchable(RandomBinning):
    """A feature map that lets no work begin."""

    def fit_rows(self, X: Any) -> Any:
        raise AssertionError("rows were binned before the parameters were checked")


NO_RATIOS = -0.1, 1.1, -1e-9, 1 + 1e-9, "a", "auto", np.nan, np.inf, True, False, None, [0.5], 1j


def test_invalid_l1_ratios_are_rejected() -> None:
    for made in [KernelClassifier, KernelRegressor]:
        message = rf"{made.__name__}: l1_ratio must be a finite number, at least 0, at most 1; got "
        for value in NO_RATIOS:
            with pytest.raises(InputError, match=message):
                made(Untouchable(), l1_ratio=value).fit(*table("classes", 2))


def test_l1_ratio_may_be_of_any_number_type() -> None:
    for value in [1, np.float32(1.0), np.int64(1)]:
        X, y = table("numbers", 1)
        expected = machine("numbers", l1_ratio=1.0).fit(X, y)
        assert (
            machine("numbers", l1_ratio=value).fit(X, y).weights_.tobytes()
            == expected.weights_.tobytes()
        )


def test_smooth_solvers_reject_l1_and_name_alternatives() -> None:
    for solver in ("pcg", "cg", "gmres", "newton"):
        message = f"solver '{solver}' .*l1_ratio above 0 use 'auto' or 'grid', 'random'"
        for made, l1_ratio in ((KernelClassifier, 1e-3), (KernelRegressor, 1.0)):
            with pytest.raises(InputError, match=message):
                made(Untouchable(), l1_ratio=l1_ratio, solver=solver).fit(*table("classes", 2))


def test_smooth_solver_given_as_an_object_rejects_l1() -> None:
    with pytest.raises(InputError, match="GridDescent for L1 and elastic nets"):
        machine("classes", l1_ratio=1.0, solver=ConjugateGradient()).fit(*table("classes", 2))


@one_case_of_each_loss
def test_grid_descent_without_l1_equals_the_default_solver(task: str, loss: str, k: int) -> None:
    X, y = table(task, k)
    options = {"loss": loss, "tol": 1e-8, "max_iter": 5000, "alpha": 1e-2}
    model = machine(task, solver="grid", l1_ratio=0.0, **options).fit(X, y)
    reference = machine(task, **options).fit(X, y)
    assert model.solver_reason_ == "grid, as asked"
    assert model.sparsity_ == 0.0
    expected = responses(reference, NEW)
    np.testing.assert_allclose(responses(model, NEW), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("task", "loss", "k", "l1_ratio"),
    [
        ("classes", "squared", 3, 0.5),
        ("classes", "logistic", 2, 1.0),
        ("classes", "squared_hinge", 2, 0.0),
        ("numbers", "squared", 2, 0.0),
        ("numbers", "squared", 1, 1.0),
        ("numbers", "huber", 2, 0.5),
    ],
)
def test_random_descent_finds_the_optimum(task: str, loss: str, k: int, l1_ratio: float) -> None:
    X, y = table(task, k, 60)
    options = {"loss": loss, "l1_ratio": l1_ratio, "alpha": 5e-3, "tol": 1e-5, "max_iter": 20_000}
    features = RandomBinning(n_grids=6)
    model = machine(task, solver="random", **options).set_params(features=features).fit(X, y)
    reference = machine(task, solver="grid", **options).set_params(features=features).fit(X, y)
    assert model.status_ == "converged"
    assert model.solver_reason_ == "random, as asked"
    result, expected = (m.history_[-1]["objective"] for m in (model, reference))
    assert result == pytest.approx(expected, rel=1e-7)
    if l1_ratio < 1:  # With L1 alone, several weights may be optimal.
        result, expected = (responses(m, NEW) for m in (model, reference))
        np.testing.assert_allclose(result, expected, atol=1e-3 * np.abs(expected).max())
    assert (model.sparsity_ > 0) == (l1_ratio > 0)


def test_random_descent_rejects_several_classes_before_binning() -> None:
    model = machine("classes", loss="logistic", solver="random", l1_ratio=1.0)
    with pytest.raises(InputError, match="(?i)multinomial"):
        model.set_params(features=Untouchable()).fit(*table("classes", 3))


def test_solver_reason_names_grid_descent_and_the_loss() -> None:
    for task, loss in (("classes", "squared"), ("classes", "logistic"), ("numbers", "huber")):
        model = machine(task, loss=loss, l1_ratio=0.5).fit(*table(task, 2))
        assert model.solver_reason_.startswith(f"grid: {model.loss_.name} loss")


# Files.


def test_saved_sparse_models_predict_the_same_and_are_smaller(tmp_path: Any) -> None:
    for task, loss, k, l1_ratio in PAIRS:
        X, y = table(task, k)
        model = fitted(task, loss, k, l1_ratio)[0]
        save(model, tmp_path / "small")
        save(machine(task, loss=loss).fit(X, y), tmp_path / "large")
        assert (tmp_path / "small").stat().st_size < (tmp_path / "large").stat().st_size
        loaded = load(tmp_path / "small")
        for rows in (X, NEW):
            np.testing.assert_array_equal(responses(loaded, rows), responses(model, rows))
            np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
        assert loaded.features_.scale_ == model.features_.scale_ == 1 / np.sqrt(N_GRIDS)
        assert (loaded.sparsity_, loaded.l1_ratio) == (model.sparsity_, l1_ratio)
        assert loaded.history_ == model.history_
        assert describe(tmp_path / "small")["fitted"]["sparsity_"] == model.sparsity_
        save(loaded, tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "small").read_bytes()


def test_saved_models_keep_solvers_given_as_objects(tmp_path: Any) -> None:
    for solver in [
        GridDescent(tol=1e-3, seed=4),
        RandomDescent(2, max_iter=900),
        ParallelRandomDescent(),
    ]:
        X, y = table("numbers", 1, 60)
        model = machine("numbers", solver=solver, l1_ratio=1.0, alpha=1e-2).fit(X, y)
        save(model, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.solver == solver
        np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
        assert loaded.fit(X, y).solver_reason_ == f"{type(solver).__name__}, as given"


HOSTILE_SCALES: dict[str, Any] = {
    "none": None,
    "text": "0.5",
    "truth": True,
    "list": [0.5],
    "mapping": {"dict": {}},
    "tensor": {"tensor": "weights_"},
    "complex": {"complex": "1j"},
    "nan": {"float": "nan"},
    "infinity": {"float": "inf"},
    "zero": 0.0,
    "negative": -0.5,
    "beyond floats": 10**400,
}


def test_invalid_scales_in_files_are_rejected(tmp_path: Any) -> None:
    content, tensors = pack(fitted("classes", "squared", 3, 1.0)[0])
    for kind, scale in HOSTILE_SCALES.items():
        content["state"]["features_"]["model"]["state"]["scale_"] = scale
        write(tmp_path / kind, content, tensors)
        with pytest.raises(ModelFileError, match=kind):
            load(tmp_path / kind)


# scikit-learn.

# Weighted rows and repeated ones are solved to the tolerance only, so it is small here; fits to the
# folds of a calibration have a larger one.
