"""Newton-CG against dense references: every loss, optimality, counts of the work, hard cases."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from gramless.losses import (
    Huber,
    Loss,
    Poisson,
    SmoothPinball,
    Squared,
    SquaredHinge,
)
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, columns
from gramless.solvers.preconditioners import (
    Identity,
    Inverse,
    Preconditioner,
    SampledRows,
    energy,
)

from .diagonal import Diagonal
from .pairwise import each_value, pairs
from .references import (
    LOSSES,
    Array,
    Case,
    case_over,
    random_codes,
    targets_of,
)

pytestmark = pytest.mark.usefixtures("no_warning_goes_unseen")

VARIANTS: dict[str, dict[str, Any]] = {
    "one output": {},
    "three outputs": {"n_outputs": 3},
    "weights": {"weighted": True},
    "intercept": {"intercept": True},
    "all": {"n_outputs": 3, "weighted": True, "intercept": True},
    "more columns than rows": {"wide": True, "weighted": True, "intercept": True},
}
PRECONDITIONERS: dict[str, Preconditioner] = {
    "sampled rows": SampledRows(),
    "seven rows": SampledRows(n_rows=7),
    "diagonal": Diagonal(),
    "plain": Identity(),
}

SEPARABLE = [name for name in LOSSES if name != "multinomial"]


def dense_reference(case: Case) -> Array:
    """Minimise over dense arrays with SciPy."""
    problem, dense = case.problem, case.dense
    shape, weights = shape_of(case), problem.row_weights
    ridge = np.full((shape[0], 1), problem.penalty.l2)
    ridge[shape[0] - problem.penalty.n_free :] = 0.0
    targets = columns(problem.targets)

    def objective(flat: Array) -> tuple[float, Array]:
        w = flat.reshape(shape[0], -1)
        z = dense @ w
        losses = problem.loss.value(z, targets).reshape(len(dense), -1).sum(axis=1)
        slopes = weights[:, None] * problem.loss.gradient(z, targets)
        value = weights @ losses + 0.5 * (ridge * w**2).sum()
        return value, (dense.T @ slopes + ridge * w).ravel()

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-11, "maxcor": 50}
    start = np.zeros(int(np.prod(shape)))
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return result.x.reshape(shape)


def shape_of(case: Case) -> tuple[int, ...]:
    return case.dense.shape[1], *case.problem.targets.shape[1:]


def relative_gradient(case: Case, w: Array) -> float:
    """Return the largest entry of the gradient, relative to that at zero."""
    at_zero = np.abs(case.problem.gradient(np.zeros(shape_of(case)))).max()
    return float(np.abs(case.problem.gradient(w)).max() / at_zero)


def make_case(loss: Loss, *, wide: bool = False, alpha: float = 1e-2, **options: Any) -> Case:
    matrix = random_codes(12, 9, 20) if wide else random_codes(5, 8, 120)
    return case_over(matrix, loss, L2(alpha), noise=1.0, **options)


@cache
def case_of(loss: str, variant: str = "all", alpha: float = 1e-2) -> Case:
    return make_case(LOSSES[loss], alpha=alpha, **VARIANTS[variant])


def precise(preconditioner: str = "sampled rows", **options: Any) -> NewtonCG:
    return NewtonCG(PRECONDITIONERS[preconditioner], **{"tol": 1e-8, **options})


# The solution.


@pytest.mark.parametrize(
    ("loss", "variant", "preconditioner"), each_value(LOSSES, reversed(VARIANTS), PRECONDITIONERS)
)
def test_gradient_vanishes_at_the_solution(loss: str, variant: str, preconditioner: str) -> None:
    case = case_of(loss, variant)
    solution = precise(preconditioner).solve(case.problem)
    assert solution.status == "converged"
    assert solution.weights.shape == shape_of(case)
    assert relative_gradient(case, solution.weights) < 1e-6


@pytest.mark.parametrize(("loss", "variant"), each_value(LOSSES, VARIANTS))
def test_solution_matches_a_dense_implementation(loss: str, variant: str) -> None:
    case = case_of(loss, variant)
    solution, reference = precise().solve(case.problem), dense_reference(case)
    assert case.problem.value(solution.weights) <= case.problem.value(reference) * (1 + 1e-12)
    np.testing.assert_allclose(solution.weights, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("variant", "preconditioner"), each_value(VARIANTS, PRECONDITIONERS))
def test_squared_loss_matches_conjugate_gradients(variant: str, preconditioner: str) -> None:
    problem, chosen = case_of("squared", variant).problem, PRECONDITIONERS[preconditioner]
    exact = ConjugateGradient(chosen, tol=1e-11, max_iter=3000).solve(problem).weights
    result = precise(preconditioner).solve(problem).weights
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("loss", "preconditioner", "tol"), each_value(LOSSES, PRECONDITIONERS, [1e-1, 1e-3, 1e-6])
)
def test_tolerance_bounds_the_gradient(loss: str, tol: float, preconditioner: str) -> None:
    case, chosen = case_of(loss, "intercept"), PRECONDITIONERS[preconditioner]
    problem = case.problem
    solution = precise(preconditioner, tol=tol).solve(problem)
    assert solution.status == "converged"
    assert solution.history[-1]["residual"] <= tol
    inverse = preconditioner_at(problem, solution.weights, chosen)
    norms = [
        np.sqrt(energy(inverse, columns(problem.gradient(w))).sum())
        for w in (solution.weights, np.zeros(shape_of(case)))
    ]
    assert norms[0] <= tol * norms[1] * (1 + 1e-6)


def preconditioner_at(problem: Problem, w: Array, chosen: Preconditioner) -> Inverse:
    """Return the preconditioner of the ridge problem with the curvatures at ``w``."""
    curvatures = columns(problem.loss.curvature(problem.matrix.matvec(w), problem.targets))
    weights = problem.row_weights * curvatures.mean(axis=1)
    penalty = replace(problem.penalty, alpha=problem.penalty.alpha / weights.sum())
    return chosen.inverse(replace(problem, loss=Squared(), penalty=penalty, sample_weight=weights))


# The account of the work.


@pytest.mark.parametrize(
    ("loss", "variant", "warm"),
    each_value(LOSSES, [*VARIANTS][2:] + [*VARIANTS][:2], [False, True]),
)
def test_history_is_the_objective_and_never_increases(loss: str, variant: str, warm: bool) -> None:
    case = case_of(loss, variant)
    start = (
        np.random.default_rng(5).normal(size=shape_of(case)) if warm else np.zeros(shape_of(case))
    )
    values = [case.problem.value(start)]
    solution = precise().solve(
        case.problem,
        start if warm else None,
        lambda step, w: values.append(case.problem.value(w)),
    )
    objectives = [entry["objective"] for entry in solution.history]
    assert len(objectives) == solution.n_iter + 1 == len(values)
    np.testing.assert_allclose(objectives, values, rtol=1e-11)
    assert (np.diff(objectives) <= 1e-14 * abs(objectives[-1])).all()
    products = [entry["products"] for entry in solution.history]
    assert products[0] == 0
    assert (np.diff(products) > 0).all()


def test_conjugate_gradient_iterations_are_limited() -> None:
    problem = case_of("logistic").problem
    solution = precise("plain", max_inner=2, max_iter=1000).solve(problem)
    products = [entry["products"] for entry in solution.history]
    assert (np.diff(products) <= 2).all()
    assert solution.status == "converged"


# Starting points.


@pytest.mark.parametrize(("loss", "size"), each_value(LOSSES, [1e2, 1e5]))
def test_bad_start_is_replaced(loss: str, size: float) -> None:
    case = case_of(loss)
    start = size * np.random.default_rng(6).normal(size=shape_of(case))
    # Classes keep a common constant as large as the start, and responses are rounded with it. So is
    # the objective, by which steps are judged: its root is what they reach of the gradient.
    reached = np.sqrt(size * np.finfo(float).eps) if case.problem.loss.coupled else 1e-8
    warm = precise(max_iter=500, tol=reached).solve(case.problem, start)
    cold = precise().solve(case.problem)
    assert warm.status == "converged"
    # A constant added to the free weights of all classes changes nothing.
    z, least = (case.dense @ solution.weights for solution in (warm, cold))
    if case.problem.loss.coupled:
        z, least = softmax(z, axis=1), softmax(least, axis=1)
    np.testing.assert_allclose(z, least, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", SEPARABLE)
def test_start_returns_to_zero_if_zero_is_optimal(loss: str) -> None:
    """The gradient at zero weights is zero: nothing to compare with."""
    codes = np.array([[1, 1, 2, 2]], np.uint8)
    targets = np.array([1.0, -1.0, 1.0, -1.0])
    chosen = SmoothPinball(0.5, 0.2) if loss == "quantile" else LOSSES[loss]
    problem = Problem(BinnedMatrix(codes, np.array([0, 2])), targets, L2(0.1), chosen)
    cold = precise().solve(problem)
    assert (cold.status, cold.n_iter) == ("converged", 0)
    assert not cold.weights.any()
    warm = precise().solve(problem, np.array([1.0, -3.0]))
    np.testing.assert_allclose(warm.weights, 0.0, atol=1e-7)


# Hard cases.


@pytest.mark.parametrize(
    ("loss", "intercept", "preconditioner", "alpha"),
    [
        pytest.param(*case, marks=pytest.mark.slow if case[-1] == 1e-14 else ())
        for case in pairs(
            ["squared hinge", "logistic", "multinomial"],
            [False, True],
            ["sampled rows", "plain"],
            [0.0, 1e-14, 1e-8],
        )
    ],
)
def test_separable_classes_are_separated_with_finite_weights(
    loss: str, alpha: float, intercept: bool, preconditioner: str
) -> None:
    """Without a penalty the logistic losses have no minimum: they fall for ever."""
    case = make_case(LOSSES[loss], n_outputs=2, intercept=intercept, alpha=alpha)
    rng = np.random.default_rng(7)
    scores = case.dense @ rng.normal(size=(case.dense.shape[1], 2))
    scores -= np.median(scores, axis=0)
    problem = replace(case.problem, targets=targets_of(LOSSES[loss], scores))
    solution = precise(preconditioner).solve(problem)
    assert np.isfinite(solution.weights).all()
    objectives = np.array([entry["objective"] for entry in solution.history])
    assert (np.diff(objectives) <= 1e-14 * objectives[0]).all()
    assert problem.value(solution.weights) < 1e-2 * objectives[0]
    z = problem.matrix.matvec(solution.weights)
    assert (np.argmax(z, axis=1) == np.argmax(scores, axis=1)).all() or loss != "multinomial"
    assert (np.sign(z) == np.sign(scores)).mean() > 0.99 or loss == "multinomial"


@pytest.mark.parametrize("intercept", [False, True])
def test_margins_over_one_converge(intercept: bool) -> None:
    """No row curves the squared hinge loss at the start, only the penalty does."""
    case = make_case(SquaredHinge(), intercept=intercept, alpha=1e-3)
    cold = precise().solve(case.problem)
    separating = np.linalg.lstsq(case.dense, 1e3 * case.problem.targets, rcond=None)[0]
    labels = np.sign(case.dense @ separating)
    problem = replace(case.problem, targets=labels)
    start = separating / np.abs(case.dense @ separating).min() * 2
    assert (labels * (case.dense @ start) > 1).all()
    warm = precise(max_iter=300).solve(problem, start)
    assert warm.status == "converged"
    expected = precise().solve(problem)
    np.testing.assert_allclose(warm.weights, expected.weights, rtol=1e-5, atol=1e-6)
    assert cold.status == "converged"


@pytest.mark.parametrize(
    ("loss", "n_outputs", "intercept", "alpha", "preconditioner"),
    each_value(
        [Huber(0.7), SmoothPinball(0.3, 0.05)],
        [None, 2],
        [False, True],
        [1e-5, 1e-2],
        PRECONDITIONERS,
    ),
)
def test_zero_curvature_at_the_start_converges(
    loss: Loss, n_outputs: int | None, intercept: bool, alpha: float, preconditioner: str
) -> None:
    """No row curves these losses at the start, and perhaps none at the end."""
    case = make_case(loss, n_outputs=n_outputs, intercept=intercept, alpha=alpha)
    problem = replace(case.problem, targets=case.problem.targets + 100.0)
    assert not loss.curvature(np.zeros_like(problem.targets), problem.targets).any()
    solution = precise(preconditioner, max_iter=300).solve(problem)
    assert solution.status == "converged"
    assert relative_gradient(replace(case, problem=problem), solution.weights) < 1e-6


class Lying(Squared):
    """The second output's value rises along its gradient's descent."""

    def value(self, z: Array, y: Array) -> Array:
        return super().value(z, y) * [1.0, -1.0]


def test_stalled_output_does_not_stop_the_others() -> None:
    case = make_case(Squared(), n_outputs=2)
    exact = precise().solve(case.problem).weights
    solution = precise().solve(replace(case.problem, loss=Lying()))
    assert solution.status == "stalled"
    np.testing.assert_allclose(solution.weights[:, 0], exact[:, 0], rtol=1e-5, atol=1e-6)
    assert not solution.weights[:, 1].any()


def test_quantiles_match_separate_fits() -> None:
    case, levels = make_case(Squared(), n_outputs=3), (0.1, 0.5, 0.8)
    together = replace(case.problem, loss=SmoothPinball(levels, 0.2))
    result = NewtonCG(tol=1e-3).solve(together)
    assert result.weights.shape == shape_of(case)
    for k, level in enumerate(levels):
        targets = np.ascontiguousarray(case.problem.targets[:, k])
        alone = replace(together, targets=targets, loss=SmoothPinball(level, 0.2))
        expected = NewtonCG(tol=1e-3).solve(alone).weights
        np.testing.assert_array_equal(result.weights[:, k], expected)


@pytest.mark.parametrize(
    ("loss", "tol", "status"),
    [
        (Squared(), 0.0, "stalled"),
        (Squared(), 1e-10, "converged"),
        (Huber(), 0.0, "stalled"),
        (Poisson(), 1e-10, "converged"),
    ],
)
def test_no_steps_are_taken_within_rounding(loss: Loss, tol: float, status: str) -> None:
    """Terms of 3e4 and more make up objectives of about 1, whose last digits are noise."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 20))
    targets = 3e4 + inputs[:, 0] + 0.3 * rng.standard_t(3, size=300)
    if loss.name == "poisson":
        targets = rng.poisson(3e4 * np.exp(0.5 * inputs[:, 0])).astype(float)
    matrix = with_ones(DenseMatrix(inputs))
    problem = Problem(matrix, targets, L2(1e-3, n_free=1), loss)
    solution = NewtonCG(tol=tol, max_iter=1000).solve(problem)
    assert solution.status == status
    assert solution.n_iter < 40


def test_zero_penalty_and_curvature_give_finite_weights() -> None:
    matrix = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    problem = Problem(matrix, np.array([50.0, 52.0, -80.0]), L2(0.0), Huber(5.0))
    solution = precise().solve(problem)
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.weights, [51.0, -80.0], rtol=1e-6)


# Threads.


@pytest.mark.parametrize(
    ("loss", "n_outputs", "preconditioner"),
    each_value(LOSSES, [None, 3], ["sampled rows", "diagonal"]),
)
def test_number_of_threads_does_not_change_the_solution(
    loss: str, n_outputs: int | None, preconditioner: str
) -> None:
    rng = np.random.default_rng(6)
    codes = rng.integers(1, 601, size=(80, 2000)).astype(np.uint16)
    scores = rng.normal(size=2000 if n_outputs is None else (2000, n_outputs))
    targets = targets_of(LOSSES[loss], scores)
    results = []
    for n_jobs in (1, 2, 3):
        matrix = BinnedMatrix(codes, 600 * np.arange(81), n_jobs=n_jobs)
        problem = Problem(with_ones(matrix), targets, L2(1e-3, n_free=1), LOSSES[loss])
        solver = precise(preconditioner, tol=1e-2, n_jobs=n_jobs)
        results.append(solver.solve(problem))
    for other in results[1:]:
        assert other.history == results[0].history
        np.testing.assert_array_equal(other.weights, results[0].weights)
