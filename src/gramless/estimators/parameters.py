"""Checks of the parameters of estimators."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import as_float, is_whole, upper_limit_text
from gramless.preprocessing.scaling import SCALINGS, ScalingKind


def check_number(owner: object, name: str, *, low: float = 0.0, high: float = np.inf) -> float:
    """Return parameter ``name`` of an estimator as a finite float from ``low`` to ``high``."""
    value = getattr(owner, name)
    number = as_float(value)
    if not low <= number <= high or number == np.inf:
        limit = "" if high == np.inf else f", at most {high:g}"
        raise InputError(
            f"{type(owner).__name__}: {name} must be a finite number, at least {low:g}{limit}; "
            f"got {value!r}."
        )
    return number


def check_count(owner: object, name: str, *, low: int = 1, high: int = 2**63 - 1) -> int:
    """Return parameter ``name`` of an estimator as an integer from ``low`` to ``high``."""
    value = getattr(owner, name)
    if not is_whole(value, low) or value > high:
        limit = upper_limit_text(value) if high == 2**63 - 1 else f" and at most {high:,}"
        raise InputError(
            f"{type(owner).__name__}: {name} must be an integer, at least {low}{limit}; "
            f"got {value!r}."
        )
    return int(value)


def check_switch(owner: object, name: str, *, others: str = "") -> bool:
    """Return parameter ``name`` of an estimator as True or False.

    ``others`` names further accepted values in the error message.
    """
    value = getattr(owner, name)
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(
            f"{type(owner).__name__}: {name} must be True or False{others}; got {value!r}."
        )
    return bool(value)


def check_choice(owner: object, name: str, known: Collection[str]) -> str:
    """Return parameter ``name`` of an estimator, which must be one of the ``known`` words."""
    value = getattr(owner, name)
    if isinstance(value, str) and value in known:
        return value
    raise unknown_value(owner, name, known)


def unknown_value(owner: object, name: str, known: Collection[str], others: str = "") -> InputError:
    """Return the error for parameter ``name`` of an estimator, which is not a known word.

    ``others`` names further accepted values in the error message.
    """
    words = ", ".join(map(repr, known))
    return InputError(
        f"{type(owner).__name__}: {name} must be one of {words}{others}; got "
        f"{getattr(owner, name)!r}."
    )


def is_auto(value: object) -> bool:
    """Return whether a parameter is left to the selection."""
    return isinstance(value, str) and value == "auto"


def scalings_of(scaling: object, sparse: bool) -> tuple[ScalingKind, ...]:
    """Return the kinds of scaling to select from, for sparse or dense rows."""
    if is_auto(scaling):
        return ("standard", "none") if sparse else ("standard", "quantile")
    for kind in SCALINGS:
        if isinstance(scaling, str) and scaling == kind:
            return (kind,)
    raise InputError(
        f"scaling must be 'auto' or one of {', '.join(map(repr, SCALINGS))}, got {scaling!r}."
    )
