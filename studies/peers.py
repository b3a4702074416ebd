"""Trainers by other packages, and our own estimators with nothing given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gramless import KernelClassifier, KernelRegressor
from gramless.features.median import median_distance
from studies.settings import unit_of
from studies.study import Clock, Snapshot, Trainer, Training

TREES, LEARNING_RATE, PATIENCE, HELD_BACK = 1000, 0.1, 50, 0.1
"""Of boosted trees: they stop when so many of them have not helped a tenth of the rows."""
_CACHE_MEGABYTES = 1000


def lightgbm(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Train LightGBM, stopped early on a tenth of the rows.

    Parameters
    ----------
    training : Training
    options : mapping
        None are known.
    clock : Clock

    Yields
    ------
    Snapshot

    Raises
    ------
    ModuleNotFoundError
        Where the package is not installed.
    """
    from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping

    kind = LGBMRegressor if training.task == "regression" else LGBMClassifier
    model = kind(
        n_estimators=TREES,
        learning_rate=LEARNING_RATE,
        random_state=training.seed,
        n_jobs=-1,
        verbosity=-1,
        **options,
    )
    with clock.phase("fit"), warnings.catch_warnings():
        X, held, y, y_held = _split(training)
        # Versions 4.3 to 4.6 know no other way to pass the rows held back.
        warnings.filterwarnings("ignore", message="The argument 'eval_set'")
        model.fit(X, y, eval_set=[(held, y_held)], callbacks=[early_stopping(PATIENCE, False)])

    def predict(rows: Any) -> Any:
        with warnings.catch_warnings():
            # LightGBM names the columns of arrays itself, and scikit-learn then misses the names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return model.predict(rows)

    yield Snapshot(predict, facts={"trees": int(model.best_iteration_ or TREES)})


def histogram_boosting(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Train scikit-learn's histogram gradient boosting, stopped early on a tenth of the rows.

    Parameters
    ----------
    training : Training
    options : mapping
        Further parameters.
    clock : Clock

    Yields
    ------
    Snapshot
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = training.task == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    model = kind(
        learning_rate=LEARNING_RATE,
        max_iter=TREES,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        validation_fraction=HELD_BACK,
        random_state=training.seed,
        **options,
    )
    with clock.phase("fit"):
        model.fit(_dense(training.X), training.y)
    trees = int(model.n_iter_)
    yield Snapshot(lambda rows: model.predict(_dense(rows)), facts={"trees": trees})


def support_vectors(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Train an exact support vector machine with a Gaussian kernel: LIBSVM, by scikit-learn.

    Parameters
    ----------
    training : Training
    options : mapping
        ``bandwidth``: a number in ``units``, which are those of
        :class:`~studies.settings.Setting`, or ``"median"``, the median distance; ``C``;
        for numbers ``epsilon``, both in units of the targets' deviation.
    clock : Clock

    Yields
    ------
    Snapshot
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.svm import SVC, SVR

    given = dict(options)
    units, bandwidth = given.pop("units"), given.pop("bandwidth")
    with clock.phase("fit"):
        X = _dense(training.X)
        divisors = unit_of(units, X)
        X = X / divisors
        if bandwidth == "median":
            bandwidth = median_distance(X, training.seed, None, "euclidean")
        shared = {"gamma": 0.5 / bandwidth**2, "cache_size": _CACHE_MEGABYTES, **given}
        if training.task == "regression":
            model = TransformedTargetRegressor(SVR(**shared), transformer=StandardScaler())
        else:
            model = SVC(random_state=training.seed, **shared)
        model.fit(X, training.y)
    fitted = getattr(model, "regressor_", model)
    yield Snapshot(
        lambda rows: model.predict(_dense(rows) / divisors),
        facts={"support vectors": len(fitted.support_), "bandwidth": float(bandwidth)},
    )


def defaults(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Train :class:`KernelRegressor` or :class:`KernelClassifier`, choosing everything itself.

    Parameters
    ----------
    training : Training
    options : mapping
        ``inputs``: positions of the inputs used, all by default. The rest is given to the
        estimator: empty for its defaults.
    clock : Clock

    Yields
    ------
    Snapshot
    """
    kind = KernelRegressor if training.task == "regression" else KernelClassifier
    given = dict(options)
    used = [int(j) for j in given.pop("inputs", "").split()] or slice(None)
    model = kind(random_state=training.seed, **given)
    with clock.phase("fit"):
        model.fit(training.X[:, used], training.y)
    facts = {"columns": len(model.coef_), "status": model.status_}
    yield Snapshot(lambda rows: model.predict(rows[:, used]), facts=facts)


def _split(training: Training) -> list[Any]:
    """Return rows to train on and rows held back, and their targets, classes in proportion."""
    y = training.y
    counts = None if training.task == "regression" else np.unique(y, return_counts=True)[1]
    alike = y if counts is not None and counts.min() > 1 else None
    split: list[Any] = train_test_split(
        training.X, y, test_size=HELD_BACK, random_state=training.seed, stratify=alike
    )
    return split


def _dense(rows: Any) -> Any:
    return rows.toarray() if sp.issparse(rows) else rows


TRAINERS: dict[str, Trainer] = {
    "LightGBM": lightgbm,
    "HistGradientBoosting": histogram_boosting,
    "LIBSVM": support_vectors,
    "gramless defaults": defaults,
}
"""Trainers by name."""
