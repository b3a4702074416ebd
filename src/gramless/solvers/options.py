"""Checks of solvers' options: the message names the solver, the option and what it got."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import as_float, is_whole, too_large

_FROM_ONE = frozenset(("n_rows", "rank", "n_simultaneous", "batch_rows", "restart"))
"""Sizes; other counts may be 0."""


def check_options(solver: Any) -> None:
    """Check the integers and floats among the fields of a solver or preconditioner.

    Parameters
    ----------
    solver : dataclass
        Fields of type ``int`` hold whole numbers below 2**63, those of type ``float`` finite ones,
        none of them negative. ``n_jobs`` is left out: threads are counted where they begin.

    Raises
    ------
    InputError

    Examples
    --------
    >>> from gramless.solvers.cg import ConjugateGradient
    >>> check_options(ConjugateGradient(tol=1e-3))
    """
    who = type(solver).__name__
    for field in fields(solver):
        name, value = field.name, getattr(solver, field.name)
        whole = field.type in ("int", "int | None") and name != "n_jobs"
        if whole and not (value is None and field.type == "int | None"):
            least = int(name in _FROM_ONE)
            if not is_whole(value, least):
                raise InputError(
                    f"{who}: {name} must be a whole number of at least {least}"
                    f"{too_large(value)}, got {value!r}."
                )
        if field.type == "float" and not 0.0 <= as_float(value) < np.inf:
            raise InputError(f"{who}: {name} must be a finite number, not negative; got {value!r}.")
