"""Parameters of the doubly stochastic estimators as objects, with messages that name them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.base.threads import thread_count
from gramless.estimators.parameters import check_count, check_number, check_switch, is_auto
from gramless.kernels import as_spectral_kernel
from gramless.losses import Loss
from gramless.streaming.doubly_stochastic import FreeIntercept, NewtonStep, NoIntercept, Update
from gramless.streaming.sources import rows_to_judge
from gramless.streaming.step_sizes import InverseTime, first_step, loss_curvature
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform
from gramless.streaming.training_loop import Limits

STRATEGIES: dict[str, Strategy] = {"checking": Checking(), "uniform": Uniform(), "grow": Grow()}
"""CDSG, UDSG and DSG."""

_THETA_ALPHA = 1.5
"""DSG16's Theorem 3 wants it between 1 and 2."""
_ALPHA_ROWS = 0.1
"""alpha times rows, by default."""
_LEAST_ALPHA = 1e-100
MOST_SHRINKING = 1e6
"""Of weights in a step, to which 1 - step alpha is the factor: numbers overflow far beyond."""
_UNKNOWN_ROWS = 1_000_000
_FEWEST_TO_HOLD_OUT = 200
_MOST_NEWTON_COLUMNS = 2048
_LEAST_RIDGE = 1e-6
"""Rounding of sums of single-precision features is below it."""


def check_parameters(owner: Any, losses: Mapping[str, Loss]) -> None:
    """Refuse what can be seen to be wrong before any row is read.

    Parameters
    ----------
    owner : estimator
    losses : mapping of str to Loss
        Those that it knows.

    Raises
    ------
    InputError, KernelError
        Naming the parameter.
    """
    as_spectral_kernel(owner.kernel)
    given_loss(owner, losses)
    given_strategy(owner)
    given_scalings(owner)
    given_alpha(owner, None)
    given_patience(owner)
    if not isinstance(owner.schedule, InverseTime) and not is_auto(owner.schedule):
        raise _unknown(owner, "schedule", ("auto",), " or an InverseTime")
    for name in ("block_size", "batch_size", "max_steps"):
        check_count(owner, name)
    check_count(owner, "cache_bytes", low=0)
    if owner.n_components is not None:
        check_count(owner, "n_components")
    for name in ("fit_intercept", "average"):
        check_switch(owner, name)
    _check_update(owner)
    check_number(owner, "tol", high=1.0)
    check_number(owner, "checkpoint_seconds")
    if owner.time_budget is not None:
        check_number(owner, "time_budget")
    thread_count(owner.n_jobs)
    _check_places(owner)


def _check_update(owner: Any) -> None:
    if owner.update not in ("auto", "newton", "gradient"):
        raise _unknown(owner, "update", ("auto", "newton", "gradient"))
    if owner.update == "newton" and not owner.fit_intercept:
        raise InputError(
            f"{type(owner).__name__}: update='newton' needs fit_intercept=True; or use "
            f"update='gradient'."
        )


def _check_places(owner: Any) -> None:
    if not isinstance(owner.device, str):
        raise InputError(
            f"{type(owner).__name__}: device must be 'cpu' or text that names a device of PyTorch; "
            f"got {owner.device!r}."
        )
    if owner.checkpoint is None:
        return
    if not isinstance(owner.checkpoint, str | os.PathLike):
        raise InputError(
            f"{type(owner).__name__}: checkpoint must name a file; got {owner.checkpoint!r}."
        )
    if not Path(owner.checkpoint).absolute().parent.is_dir():
        raise InputError(
            f"{type(owner).__name__}: checkpoint {str(owner.checkpoint)!r} is in a folder that "
            f"does not exist; make it, or name another file."
        )


def given_patience(owner: Any) -> int | None:
    """Return the evaluations without progress that end a run, None for no end."""
    return None if owner.patience is None else check_count(owner, "patience")


def given_limits(owner: Any, deadline: Deadline) -> Limits:
    """Return when a run ends."""
    tol = check_number(owner, "tol", high=1.0)
    return Limits(check_count(owner, "max_steps"), given_patience(owner), tol, deadline)


def rows_to_hold_out(owner: Any, n_rows: int) -> int:
    """Return how many rows of a table judge the run: none where that is not wanted, or few."""
    if given_patience(owner) is None or n_rows < _FEWEST_TO_HOLD_OUT:
        return 0
    return rows_to_judge(n_rows)


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
    return check_number(owner, "alpha", low=_LEAST_ALPHA)


def given_update(owner: Any, n_outputs: int) -> Update:
    """Return what steps do to their block; the owner knows its loss and schedule."""
    if not owner.fit_intercept:
        return NoIntercept()
    curvature = loss_curvature(owner.loss_, n_outputs)
    few = 2 * owner.block_size_ <= _MOST_NEWTON_COLUMNS
    if owner.update == "newton" or (owner.update == "auto" and few):
        ridge = max(1.0 / owner.batch_rows_, _LEAST_RIDGE)
        return NewtonStep(curvature, owner.schedule_.step(1), ridge)
    return FreeIntercept(1.0 / curvature)


def given_schedule(owner: Any, curvature: float, n_outputs: int) -> InverseTime:
    """Return the steps as given, or as long as the first may be, and falling in the end.

    Parameters
    ----------
    owner : estimator
        Knows its loss, alpha, size of blocks and rows of a batch.
    curvature : float
        The kernel's largest eigenvalue over the rows.
    n_outputs : int
    """
    if isinstance(owner.schedule, InverseTime):
        first = owner.schedule.step(1) * owner.alpha_
        if first > MOST_SHRINKING:
            raise InputError(
                f"{type(owner).__name__}: the first step of schedule={owner.schedule!r} times "
                f"alpha is {first:g}, where 2 is long; give a longer delay."
            )
        return owner.schedule
    sizes = (owner.block_size_, owner.batch_rows_)
    first = first_step(owner.loss_, n_outputs, curvature, *sizes)
    theta = _THETA_ALPHA / owner.alpha_
    return InverseTime(theta, max(0.0, theta / first - 1.0))


def _unknown(owner: Any, name: str, known: Any, others: str = "") -> InputError:
    return InputError(
        f"{type(owner).__name__}: {name} must be one of {', '.join(map(repr, known))}{others}; "
        f"got {getattr(owner, name)!r}."
    )
