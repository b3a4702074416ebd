"""Parameters of the doubly stochastic estimators as objects, with messages that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gramless.base.errors import InputError
from gramless.estimators.parameters import check_number, check_switch, is_auto
from gramless.losses import Loss
from gramless.streaming.choosing import first_step, loss_curvature
from gramless.streaming.doubly_stochastic import FreeIntercept, Intercept, NoIntercept
from gramless.streaming.schedules import InverseTime
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform

STRATEGIES: dict[str, Strategy] = {"checking": Checking(), "uniform": Uniform(), "grow": Grow()}
"""CDSG, UDSG and DSG."""

_THETA_ALPHA = 1.5
"""DSG16's Theorem 3 wants it between 1 and 2."""
_ALPHA_ROWS = 0.1
"""alpha times rows, by default."""
_UNKNOWN_ROWS = 1_000_000


def given_strategy(owner: Any) -> Strategy:
    """Return the strategy by its name, or as it is given.

    Raises
    ------
    InputError
        If there is none such.
    """
    given = owner.strategy
    if isinstance(given, str) and given in STRATEGIES:
        return STRATEGIES[given]
    if isinstance(given, (Checking, Grow, Uniform)):
        return given
    raise _unknown(owner, "strategy", STRATEGIES, " or such an object")


def given_loss(owner: Any, losses: Mapping[str, Loss]) -> Loss:
    """Return the loss by its name.

    Raises
    ------
    InputError
        If there is none such.
    """
    if isinstance(owner.loss, str) and owner.loss in losses:
        return losses[owner.loss]
    raise _unknown(owner, "loss", losses)


def given_scalings(owner: Any) -> tuple[str, ...]:
    """Return the scalings to choose from.

    Raises
    ------
    InputError
        If there is none such.
    """
    if owner.scaling in ("standard", "none"):
        return (owner.scaling,)
    if not is_auto(owner.scaling):
        raise _unknown(owner, "scaling", ("auto", "standard", "none"))
    return ("none",) if owner.n_components is not None else ("standard", "none")


def given_alpha(owner: Any, n_rows: int | None) -> float:
    """Return the penalty, by the rows where it is left open."""
    if is_auto(owner.alpha):
        return _ALPHA_ROWS / (n_rows or _UNKNOWN_ROWS)
    return check_number(owner, "alpha", low=float(np.finfo(np.float64).tiny))


def given_intercept(owner: Any, n_outputs: int) -> Intercept:
    """Return how the constant is learned; the owner knows its loss."""
    if not check_switch(owner, "fit_intercept"):
        return NoIntercept()
    return FreeIntercept(1.0 / loss_curvature(owner.loss_, n_outputs))


def given_schedule(owner: Any, curvature: float, n_outputs: int) -> InverseTime:
    """Return the steps as given, or as long as the first may be, and falling in the end.

    Parameters
    ----------
    owner : estimator
        Knows its loss, alpha, size of blocks and rows of a batch.
    curvature : float
        The kernel's largest eigenvalue over the rows.
    n_outputs : int

    Raises
    ------
    InputError
        If the schedule is none.
    """
    if isinstance(owner.schedule, InverseTime):
        return owner.schedule
    if not is_auto(owner.schedule):
        raise _unknown(owner, "schedule", ("auto",), " or an InverseTime")
    sizes = (owner.block_size_, owner.batch_rows_)
    first = first_step(owner.loss_, n_outputs, curvature, *sizes)
    theta = _THETA_ALPHA / owner.alpha_
    return InverseTime(theta, max(0.0, theta / first - 1.0))


def _unknown(owner: Any, name: str, known: Any, others: str = "") -> InputError:
    return InputError(
        f"{type(owner).__name__}: {name} must be one of {', '.join(map(repr, known))}{others}; "
        f"got {getattr(owner, name)!r}."
    )
