"""Checks of the estimators' parameters: the message names the estimator, the value, the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import as_float, is_whole, too_large
from gramless.preprocessing.scaling import SCALINGS, ScalingKind


def check_number(owner: Any, name: str, *, low: float = 0.0, high: float = np.inf) -> float:
    """Return parameter ``name`` of an estimator as a finite float from ``low`` to ``high``.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_number(SimpleNamespace(tol=1), "tol")
    1.0
    """
    value = getattr(owner, name)
    number = as_float(value)
    if not low <= number <= high or number == np.inf:
        most = "" if high == np.inf else f", at most {high:g}"
        raise InputError(
            f"{type(owner).__name__}: {name} must be a finite number, at least {low:g}{most}; "
            f"got {value!r}."
        )
    return number


def check_count(owner: Any, name: str, *, low: int = 1, high: int = 2**63 - 1) -> int:
    """Return parameter ``name`` of an estimator as an integer from ``low`` to ``high``.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_count(SimpleNamespace(max_iter=5), "max_iter")
    5
    """
    value = getattr(owner, name)
    if not is_whole(value, low) or value > high:
        most = too_large(value) if high == 2**63 - 1 else f" and at most {high:,}"
        raise InputError(
            f"{type(owner).__name__}: {name} must be an integer, at least {low}{most}; "
            f"got {value!r}."
        )
    return int(value)


def check_switch(owner: Any, name: str, *, others: str = "") -> bool:
    """Return parameter ``name`` of an estimator as True or False.

    Parameters
    ----------
    owner : estimator
    name : str
    others : str, default=""
        What the caller also takes, for the message.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_switch(SimpleNamespace(calibrate=True), "calibrate")
    True
    """
    value = getattr(owner, name)
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(
            f"{type(owner).__name__}: {name} must be True or False{others}; got {value!r}."
        )
    return bool(value)


def is_auto(value: Any) -> bool:
    """Tell whether a parameter is left open.

    Examples
    --------
    >>> is_auto("auto"), is_auto(2.0)
    (True, False)
    """
    return isinstance(value, str) and value == "auto"


def scalings_of(scaling: Any, sparse: bool) -> tuple[ScalingKind, ...]:
    """Return the kinds of scaling that a search chooses from, of sparse rows or dense ones.

    Raises
    ------
    InputError
        If ``scaling`` is neither "auto" nor a kind.

    Examples
    --------
    >>> scalings_of("auto", sparse=False)
    ('standard', 'quantile')
    """
    if isinstance(scaling, str) and scaling == "auto":
        return ("standard", "none") if sparse else ("standard", "quantile")
    for kind in SCALINGS:
        if isinstance(scaling, str) and scaling == kind:
            return (kind,)
    raise InputError(
        f"scaling must be 'auto' or one of {', '.join(map(repr, SCALINGS))}, got {scaling!r}."
    )
