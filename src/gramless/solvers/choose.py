"""From a name to a solver, with the reason."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.losses import Loss, Squared
from gramless.matrices.abilities import SupportsRowLists
from gramless.matrices.base import FeatureMatrix
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.costs import Costs, direct_is_possible
from gramless.solvers.direct import Cholesky
from gramless.solvers.falkon import Falkon
from gramless.solvers.gmres import Gmres
from gramless.solvers.gram import has_diagonal_blocks
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.nystrom_preconditioner import RandomisedNystrom
from gramless.solvers.objective import Solver
from gramless.solvers.preconditioners import Identity, Jacobi, RootJacobi, SampledRows
from gramless.solvers.random_descent import RandomDescent
from gramless.solvers.row_conjugate import RowConjugateGradient

SOLVERS: dict[
    str,
    Cholesky
    | ConjugateGradient
    | Falkon
    | Gmres
    | GridDescent
    | NewtonCG
    | RandomDescent
    | RowConjugateGradient,
] = {
    "pcg": ConjugateGradient(SampledRows()),
    "root": ConjugateGradient(RootJacobi()),
    "jacobi": ConjugateGradient(Jacobi()),
    "cg": ConjugateGradient(Identity()),
    "nystrom": ConjugateGradient(RandomisedNystrom()),
    "cholesky": Cholesky(),
    "falkon": Falkon(),
    "gmres": Gmres(),
    "rows": RowConjugateGradient(),
    "newton": NewtonCG(),
    "grid": GridDescent(),
    "random": RandomDescent(),
}


def choose_solver(
    solver: str | Solver,
    *,
    tol: float,
    max_iter: int,
    loss: Loss | None = None,
    l1_ratio: float = 0.0,
    n_jobs: int | None = None,
    matrix: FeatureMatrix | None = None,
    n_outputs: int = 1,
) -> tuple[Solver, str]:
    """Turn a name into a solver.

    ``"auto"`` minimises squared losses with a smooth penalty directly where the matrix
    has no zeros and that costs less than conjugate gradients, in time and memory.

    Parameters
    ----------
    solver : str or Solver
        ``"auto"``, a name in ``SOLVERS``, or an object with a ``solve`` method,
        which is returned as it is.
    tol, max_iter : float, int
        Options of a solver given by name, if it has them.
    loss : Loss, default=Squared()
        What is to be minimised.
    l1_ratio : float, default=0.0
        Share of the penalty that is on absolute values.
    n_jobs : int or None
    matrix : FeatureMatrix, optional
        Over which it will be; without it a direct solution is not considered.
    n_outputs : int, default=1

    Returns
    -------
    solver : Solver
    reason : str
        Why this one, for people.

    Raises
    ------
    InputError
        If the name is unknown or cannot minimise the loss or penalty, or the object
        has no ``solve``.

    Examples
    --------
    >>> choose_solver("cg", tol=1e-3, max_iter=50)[1]
    'cg, as asked'
    """
    loss = Squared() if loss is None else loss
    unusable = isinstance(solver, type) or not hasattr(solver, "solve")
    if not isinstance(solver, str) and unusable:
        raise InputError(f"solver must be a name or an object with a solve method, got {solver!r}.")
    if not isinstance(solver, str):
        return solver, f"{type(solver).__name__}, as given"
    best = _best(loss, l1_ratio, matrix, n_outputs)
    name, reason = (solver, "as asked") if solver != "auto" else best
    if name not in SOLVERS:
        raise InputError(
            f"unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or an object "
            f"with a solve method."
        )
    lacks = {k: own.capabilities.lack(loss, l1=l1_ratio > 0) for k, own in SOLVERS.items()}
    if lacks[name] is not None:
        able = ", ".join(repr(other) for other, lack in lacks.items() if lack is None)
        penalty = " with l1_ratio above 0" if l1_ratio > 0 else ""
        instead = f"for the loss {loss.name!r}{penalty} use 'auto' or {able}"
        raise InputError(
            f"solver {name!r} {lacks[name]}; {instead if able else 'use a smooth loss'}."
        )
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "n_jobs": n_jobs}
    known = {field.name for field in fields(SOLVERS[name])}
    chosen = replace(SOLVERS[name], **{k: v for k, v in options.items() if k in known})
    return chosen, f"{name}, {reason}" if solver != "auto" else f"{name}: {reason}"


def path_solver(
    matrix: FeatureMatrix,
    row_weights: NDArray[np.float64],
    *,
    tol: float,
    max_iter: int,
    n_alphas: int,
    n_outputs: int = 1,
    n_jobs: int | None = None,
) -> Solver:
    """Return a solver of ridge problems over one matrix for a path of alphas.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    row_weights : array (n_rows,)
    tol, max_iter : float, int
        Of conjugate gradients.
    n_alphas : int
        How many there will be, for the estimate.
    n_outputs : int, default=1
    n_jobs : int or None, default=None

    Returns
    -------
    Solver
        Direct, with the Gram matrix computed once, or conjugate gradients with one
        sample of the rows for all.
    """
    if direct_is_possible(matrix):
        direct, _ = Costs.of(matrix, n_outputs).compared(n_alphas, max_iter)
        if direct or has_diagonal_blocks(matrix):
            return Cholesky(n_jobs).prepared(matrix, row_weights)
    sample = SampledRows().draw(matrix, row_weights)
    return ConjugateGradient(sample, tol, max_iter, n_jobs)


def _best(
    loss: Loss, l1_ratio: float, matrix: FeatureMatrix | None, n_outputs: int
) -> tuple[str, str]:
    if l1_ratio > 0:
        parts = "grids" if matrix is None or isinstance(matrix, SupportsRowLists) else "columns"
        return "grid", f"{loss.name} loss with absolute values, descent over {parts}"
    if loss.name != "squared":
        return "newton", f"{loss.name} loss, preconditioned with a sample of the rows"
    if matrix is None or not direct_is_possible(matrix):
        return "pcg", "squared loss, preconditioned with a sample of the rows"
    if has_diagonal_blocks(matrix):
        return "cholesky", "diagonal blocks, each solved on its own"
    costs = Costs.of(matrix, n_outputs)
    direct, why = costs.compared()
    return "cholesky" if direct else "falkon" if costs.unwhitened else "pcg", why
