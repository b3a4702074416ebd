"""Trainers by other packages, and our own estimators with nothing given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from sklearn.preprocessing import StandardScaler

from gramless import KernelClassifier, KernelRegressor
from gramless.preprocessing.median import median_distance
from harness.peers import find_peer
from harness.peers.base import dense
from studies.settings import unit_of
from studies.study import Clock, Snapshot, Trainer, Training

HELD_BACK = 0.1
"""Share of the rows by which boosted trees stop."""
_CACHE_MEGABYTES = 1000


def boosted_trees(
    method: str, training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Train boosted trees, stopped early on a tenth of the rows.

    Parameters
    ----------
    method : {"lightgbm", "hist_gradient_boosting"}
    training : Training
    options : mapping
        Fields of :class:`~harness.peers.base.BoostedTrees`.
    clock : Clock

    Yields
    ------
    Snapshot
        Its facts: ``trees``, how many were kept.

    Raises
    ------
    ModuleNotFoundError
        Where the package is not installed.
    """
    peer: Any = find_peer(method)(seed=training.seed, **{"held_back": HELD_BACK, **options})
    model = peer.make(training.task, len(training.y))
    with clock.phase("fit"):
        model.fit(peer.rows(training.X), training.y)
    yield Snapshot(lambda rows: model.predict(peer.rows(rows)), facts={"trees": peer.trees(model)})


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
        X = dense(training.X)
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
        lambda rows: model.predict(dense(rows) / divisors),
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
    facts = {"columns": len(model.weights_), "status": model.status_}
    yield Snapshot(lambda rows: model.predict(rows[:, used]), facts=facts)


TRAINERS: dict[str, Trainer] = {
    "LightGBM": partial(boosted_trees, "lightgbm"),
    "HistGradientBoosting": partial(boosted_trees, "hist_gradient_boosting"),
    "LIBSVM": support_vectors,
    "gramless defaults": defaults,
}
"""Trainers by name."""
