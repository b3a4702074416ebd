"""From a name to a solver, with the reason."""

from __future__ import annotations

from dataclasses import replace

from gramless.base.errors import InputError
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Solver
from gramless.solvers.preconditioners import Identity, Jacobi, RootJacobi

SOLVERS: dict[str, ConjugateGradient] = {
    "pcg": ConjugateGradient(RootJacobi()),
    "jacobi": ConjugateGradient(Jacobi()),
    "cg": ConjugateGradient(Identity()),
}


def choose_solver(
    solver: str | Solver, *, tol: float, max_iter: int, n_jobs: int | None = None
) -> tuple[Solver, str]:
    """Turn a name into a solver.

    Parameters
    ----------
    solver : str or Solver
        ``"auto"``, a name in ``SOLVERS``, or an object with a ``solve`` method,
        which is returned as it is.
    tol, max_iter : float, int
        Options of a solver given by name.
    n_jobs : int or None

    Returns
    -------
    solver : Solver
    reason : str
        Why this one, for people.

    Raises
    ------
    InputError
        If the name is unknown, or the object has no ``solve``.

    Examples
    --------
    >>> choose_solver("cg", tol=1e-3, max_iter=50)[1]
    'cg, as asked'
    """
    unusable = isinstance(solver, type) or not hasattr(solver, "solve")
    if not isinstance(solver, str) and unusable:
        raise InputError(f"solver must be a name or an object with a solve method, got {solver!r}.")
    if not isinstance(solver, str):
        return solver, f"{type(solver).__name__}, as given"
    if solver == "auto":
        reason = "pcg: squared loss on bins, whose counts give the diagonal"
        return choose_solver("pcg", tol=tol, max_iter=max_iter, n_jobs=n_jobs)[0], reason
    if solver not in SOLVERS:
        raise InputError(
            f"unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or an object "
            f"with a solve method."
        )
    chosen = replace(SOLVERS[solver], tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return chosen, f"{solver}, as asked"
