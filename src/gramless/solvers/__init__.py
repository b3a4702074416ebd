"""Solvers: minimise a :class:`Problem` and return a :class:`Solution` with its history.

The public names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramless.base.public import lazy_getattr

__all__ = [
    "SOLVERS",
    "Capabilities",
    "Cholesky",
    "ConjugateGradient",
    "Falkon",
    "Gmres",
    "GridDescent",
    "Identity",
    "MatrixNeed",
    "NewtonCG",
    "ParallelRandomDescent",
    "Preconditioner",
    "Problem",
    "RandomDescent",
    "SampledRows",
    "Solution",
    "Solver",
]

if TYPE_CHECKING:
    from gramless.solvers.base import Capabilities, MatrixNeed, Solver
    from gramless.solvers.cg import ConjugateGradient
    from gramless.solvers.choose import SOLVERS
    from gramless.solvers.direct import Cholesky
    from gramless.solvers.falkon import Falkon
    from gramless.solvers.gmres import Gmres
    from gramless.solvers.grid_descent import GridDescent
    from gramless.solvers.newton_cg import NewtonCG
    from gramless.solvers.objective import Problem, Solution
    from gramless.solvers.preconditioners import (
        Identity,
        Preconditioner,
        SampledRows,
    )
    from gramless.solvers.random_descent import ParallelRandomDescent, RandomDescent

__getattr__ = lazy_getattr(
    __name__,
    {
        "Capabilities": "gramless.solvers.base",
        "Cholesky": "gramless.solvers.direct",
        "ConjugateGradient": "gramless.solvers.cg",
        "Falkon": "gramless.solvers.falkon",
        "Gmres": "gramless.solvers.gmres",
        "GridDescent": "gramless.solvers.grid_descent",
        "Identity": "gramless.solvers.preconditioners",
        "MatrixNeed": "gramless.solvers.base",
        "NewtonCG": "gramless.solvers.newton_cg",
        "ParallelRandomDescent": "gramless.solvers.random_descent",
        "Preconditioner": "gramless.solvers.preconditioners",
        "Problem": "gramless.solvers.objective",
        "RandomDescent": "gramless.solvers.random_descent",
        "SOLVERS": "gramless.solvers.choose",
        "SampledRows": "gramless.solvers.preconditioners",
        "Solution": "gramless.solvers.objective",
        "Solver": "gramless.solvers.base",
    },
)
