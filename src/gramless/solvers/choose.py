"""From a name to a solver, with the reason."""

from __future__ import annotations

from dataclasses import replace

from gramless.base.errors import InputError
from gramless.losses import Loss, Squared
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.gmres import Gmres
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Solver
from gramless.solvers.preconditioners import Identity, Jacobi, RootJacobi, SampledRows
from gramless.solvers.random_descent import RandomDescent

SOLVERS: dict[str, ConjugateGradient | Gmres | NewtonCG | GridDescent | RandomDescent] = {
    "pcg": ConjugateGradient(SampledRows()),
    "root": ConjugateGradient(RootJacobi()),
    "jacobi": ConjugateGradient(Jacobi()),
    "cg": ConjugateGradient(Identity()),
    "gmres": Gmres(),
    "newton": NewtonCG(),
    "grid": GridDescent(),
    "random": RandomDescent(),
}
_ANY_LOSS = ("newton", "grid", "random")
_COUPLED = ("newton", "grid")
_SPARSE = ("grid", "random")


def choose_solver(
    solver: str | Solver,
    *,
    tol: float,
    max_iter: int,
    loss: Loss | None = None,
    l1_ratio: float = 0.0,
    n_jobs: int | None = None,
) -> tuple[Solver, str]:
    """Turn a name into a solver.

    Parameters
    ----------
    solver : str or Solver
        ``"auto"``, a name in ``SOLVERS``, or an object with a ``solve`` method,
        which is returned as it is.
    tol, max_iter : float, int
        Options of a solver given by name.
    loss : Loss, default=Squared()
        What is to be minimised.
    l1_ratio : float, default=0.0
        Share of the penalty that is on absolute values.
    n_jobs : int or None

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
    name, reason = (solver, "as asked") if solver != "auto" else _best(loss, l1_ratio)
    if name not in SOLVERS:
        raise InputError(
            f"unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or an object "
            f"with a solve method."
        )
    able = [other for other in SOLVERS if _hindrance(other, loss, l1_ratio) is None]
    if name not in able:
        raise InputError(
            f"solver {name!r} {_hindrance(name, loss, l1_ratio)} use 'auto' or "
            f"{', '.join(map(repr, able))}."
        )
    chosen = replace(SOLVERS[name], tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return chosen, f"{name}, {reason}" if solver != "auto" else f"{name}: {reason}"


def _hindrance(name: str, loss: Loss, l1_ratio: float) -> str | None:
    """Return why a solver cannot be used, if so."""
    if loss.name != "squared" and name not in _ANY_LOSS:
        return f"minimises the squared loss; for the loss {loss.name!r}"
    if loss.coupled and name not in _COUPLED:
        return f"takes one output at a time; for the loss {loss.name!r}"
    if l1_ratio > 0 and name not in _SPARSE:
        return "needs a smooth penalty; with l1_ratio above 0"
    return None


def _best(loss: Loss, l1_ratio: float) -> tuple[str, str]:
    if l1_ratio > 0:
        return "grid", f"{loss.name} loss with absolute values, descent over grids"
    if loss.name == "squared":
        return "pcg", "squared loss, preconditioned with a sample of the rows"
    return "newton", f"{loss.name} loss, preconditioned with a sample of the rows"
