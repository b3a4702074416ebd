"""Solvers of ``mean(loss) + alpha |w|_1``, set up to minimise the same objective.

Each returns one row of weights for each alpha of a path, without an intercept. Work that a solver
does once for a matrix, such as a conversion to its format, is not timed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from celer import celer_path
from liblinear import liblinearutil
from skglm.datafits import Logistic as SkglmLogistic
from skglm.datafits import Quadratic as SkglmQuadratic
from skglm.penalties import L1 as SkglmL1
from skglm.solvers import AndersonCD, ProxNewton
from sklearn.linear_model import lasso_path
from sklearn.svm import LinearSVC

from benchmarks.l1_paths import AlphaPath, formats, largest_alpha, ours
from benchmarks.walks import MAX_ITERATIONS, Contender, Fit
from gramless.losses import Loss
from gramless.matrices.base import Vector

# Limit of the iterations of solvers that grow a working set.
SUBPROBLEM_ITERATIONS = 1000


def celer(path: AlphaPath) -> Fit:
    """Return celer's path; its logistic loss is a sum.

    It uses pruned working sets and coordinate descent, which is faster here than its proximal
    Newton steps.
    """
    squared = path.loss.name == "squared"
    csc, y = path.data.csc, path.data.targets

    def fit(tolerance: float) -> Vector:
        return celer_path(
            csc,
            y,
            "lasso" if squared else "logreg",
            alphas=path.alphas if squared else path.alphas * len(y),
            tol=tolerance,
            prune=1,
            max_iter=SUBPROBLEM_ITERATIONS,
        )[1].T

    return fit


def skglm(path: AlphaPath) -> Fit:
    """Return a path by skglm's solvers; its own path function has a part that is not compiled.

    Its tolerance is in units of the gradient; ours is relative to the gradient at zero.
    """
    csc, y = path.data.csc, path.data.targets
    datafit: SkglmQuadratic | SkglmLogistic
    make: type[AndersonCD] | type[ProxNewton]
    if path.loss.name == "squared":
        datafit, make = SkglmQuadratic(), AndersonCD
    else:
        datafit, make = SkglmLogistic(), ProxNewton
    unit = largest_alpha(path.data.matrix, y, path.loss)

    def fit(tolerance: float) -> Vector:
        solver = make(tol=tolerance * unit, max_iter=SUBPROBLEM_ITERATIONS, fit_intercept=False)
        # Both are changed in place, and so carried from one alpha to the next.
        weights, responses = np.zeros(csc.shape[1]), np.zeros(csc.shape[0])
        path_weights = []
        for alpha in path.alphas:
            solver.solve(csc, y, datafit, SkglmL1(alpha), weights, responses, run_checks=False)
            path_weights.append(weights.copy())
        return np.array(path_weights)

    return fit


def coordinate_descent(path: AlphaPath) -> Fit:
    csc, y = path.data.csc, path.data.targets

    def fit(tolerance: float) -> Vector:
        return lasso_path(
            csc,
            y,
            alphas=path.alphas,
            tol=tolerance,
            max_iter=MAX_ITERATIONS,
            precompute=False,
            copy_X=False,
            # A third of the time of the cyclic order, on this kind of matrix.
            selection="random",
            random_state=0,
        )[1].T

    return fit


def costs(path: AlphaPath) -> list[float]:
    """Return C of each alpha in ``|w|_1 + C sum(loss)``; the squared hinge has no 1/2 there."""
    factor = 1.0 if path.loss.name == "logistic" else 0.5
    return [factor / (float(alpha) * len(path.data.targets)) for alpha in path.alphas]


def liblinear(path: AlphaPath) -> Fit:
    """Return liblinear's fits, each from zero."""
    prepared = liblinearutil.problem(path.data.targets, path.data.csr)
    kind = 6 if path.loss.name == "logistic" else 5

    def fit(tolerance: float) -> Vector:
        path_weights = []
        for cost in costs(path):
            model = liblinearutil.train(prepared, f"-s {kind} -c {cost!r} -e {tolerance!r} -q")
            # The model owns this memory, so copy it. Weights refer to the first label.
            weights = np.ctypeslib.as_array(model.w, (model.nr_feature,))
            path_weights.append(weights * model.label[0])
        return np.array(path_weights)

    return fit


def linear_svc(path: AlphaPath) -> Fit:
    """Return fits of scikit-learn's copy of liblinear, which is as fast.

    In the newer liblinear the limit of 1,000 iterations cannot be changed; it sometimes ends with a
    worse objective than with a higher tolerance.
    """
    csr, y = path.data.csr, path.data.targets

    def fit(tolerance: float) -> Vector:
        path_weights = []
        for cost in costs(path):
            model = LinearSVC(
                penalty="l1",
                dual=False,
                C=cost,
                fit_intercept=False,
                tol=tolerance,
                max_iter=MAX_ITERATIONS,
                random_state=0,
            )
            path_weights.append(model.fit(csr, y).coef_.ravel())
        return np.array(path_weights)

    return fit


# Solvers of each loss, with a first tolerance that is too loose to reach the gap.
# skglm's ``QuadraticSVC`` is no peer: it is the dual of the plain hinge loss with L2.
_PEERS: dict[str, dict[str, tuple[Callable[[AlphaPath], Fit], float]]] = {
    "squared": {
        "celer": (celer, 1e-5),
        "skglm": (skglm, 1e-3),
        "scikit-learn": (coordinate_descent, 1e-5),
    },
    "logistic": {"liblinear": (liblinear, 1.0), "celer": (celer, 1.0), "skglm": (skglm, 1.0)},
    "squared_hinge": {"liblinear": (liblinear, 1.0), "LinearSVC": (linear_svc, 1.0)},
}


def contenders(path: AlphaPath, n_jobs: int | None) -> dict[str, Contender]:
    """Return the solvers of this loss, ours first."""
    peers = {
        label: Contender(make(path), first)
        for label, (make, first) in _PEERS[path.loss.name].items()
    }
    first = 1e-3 if path.loss.name == "squared" else 1.0
    return {"ours": Contender(ours(path, n_jobs), first, guarded=False), **peers}


def compile_all(loss: Loss, n_jobs: int | None) -> None:
    """Call every solver of a loss once on a tiny matrix, so that compiled ones are compiled."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 2))
    tiny = formats(X, np.sign(X[:, 0]), 8, n_jobs)
    alpha = 0.1 * largest_alpha(tiny.matrix, tiny.targets, loss)
    for contender in contenders(AlphaPath(tiny, loss, np.array([alpha])), n_jobs).values():
        contender.fit(1e-2)
