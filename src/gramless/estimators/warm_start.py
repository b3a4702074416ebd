"""What a further fit of the same estimator keeps: ``warm_start``."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import _num_samples

from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.state import StatefulEstimator
from gramless.base.types import RowTable, TableLike
from gramless.estimators.parameters import check_switch, is_auto
from gramless.estimators.targets import TargetEncoder
from gramless.features.expansion import KernelExpansion
from gramless.model_selection.select import EarlierFit

_MOST_LANDMARKS = 5000
"""Of kernel ridge regression that goes on: its time grows with the cube of the rows."""
FREE_TO_CHANGE = frozenset(
    [
        *("alpha", "calibrate", "class_weight", "max_iter", "memory_budget", "n_jobs", "solver"),
        *("time_budget", "tol", "verbose", "warm_start"),
    ]
)
"""Parameters that steer no choice: with others, a warm start begins anew."""


def steering_parameters(model: StatefulEstimator) -> dict[str, object]:
    """Return the parameters that steer what a fit chooses."""
    given = model.get_params().items()
    steering = {k: v for k, v in given if k.partition("__")[0] not in FREE_TO_CHANGE}
    return steering | {"chooses alpha": is_auto(model.alpha)}


def keeps_choice(model: StatefulEstimator, X: TableLike) -> bool:
    """Tell whether a fit to rows keeps what the last one chose."""
    if not check_switch(model, "warm_start") or "coef_" not in vars(model):
        return False
    if isinstance(X, (RowTable, LazyRows)):
        return False
    if isinstance(model.features_, KernelExpansion) and _num_samples(X) > _MOST_LANDMARKS:
        return False
    before, now = dict(model._choice), steering_parameters(model)
    # What was found beside a penalty that was given need not be what would be chosen.
    chooses_now, chose_before = now.pop("chooses alpha"), before.pop("chooses alpha")
    if chooses_now and not chose_before:
        return False
    return before.keys() == now.keys() and all(_are_same(before[k], now[k]) for k in now)


def earlier_fit(model: StatefulEstimator, encoder: TargetEncoder, n_rows: int) -> EarlierFit:
    """Return what the last fit chose, for so many rows with encoded targets."""
    n_outputs = model.coef_[:1].size
    if encoder.n_outputs != n_outputs:
        raise InputError(
            f"{type(model).__name__}: targets have {encoder.n_outputs} outputs, and those of "
            f"the fit that goes on had {n_outputs}; set warm_start=False."
        )
    alpha = model._given_alpha()
    if alpha is None:
        alpha = model.alpha_ * (model.n_samples_fit_ or n_rows) / n_rows
    return EarlierFit(
        model.scaler_,
        model.features_,
        model.settings_,
        alpha,
        model.bandwidth_,
        model.relevance_,
        model.growth_,
        encoder.encode_weights(model.coef_, model.intercept_),
    )


def _are_same(first: object, second: object) -> bool:
    """Tell whether two values of a parameter are the same."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(np.asarray(first), np.asarray(second))
    return first is second or (type(first) is type(second) and bool(first == second))
