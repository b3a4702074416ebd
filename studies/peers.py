"""Trainers that use other packages, and our estimators with their defaults."""

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

HELD_BACK = 0.1  # fraction of the rows for early stopping of boosted trees
_CACHE_MEGABYTES = 1000


def boosted_trees(
    method: str, training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Train boosted trees, with early stopping on a tenth of the rows.

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
        With the fact ``trees``, the number of trees of the model.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed.
    """
    peer: Any = find_peer(method)(seed=training.seed, **{"held_back": HELD_BACK, **options})
    model = peer.make(training.task, len(training.y))
    with clock.phase("fit"):
        model.fit(peer.rows(training.X), training.y)
    yield Snapshot(lambda rows: model.predict(peer.rows(rows)), facts={"trees": peer.trees(model)})


def support_vectors(
    training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Train a support vector machine with a Gaussian kernel: LIBSVM in scikit-learn.

    Parameters
    ----------
    training : Training
    options : mapping
        ``bandwidth``, a number or ``"median"`` for the median distance; ``units``, the unit of the
        bandwidth, as in :class:`~studies.settings.Setting`; ``C``; for regression also ``epsilon``.
        In regression, ``C`` and ``epsilon`` are in units of the targets' standard deviation.
    clock : Clock

    Yields
    ------
    Snapshot
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.svm import SVC, SVR

    parameters = dict(options)
    units, bandwidth = parameters.pop("units"), parameters.pop("bandwidth")
    with clock.phase("fit"):
        X = dense(training.X)
        divisors = unit_of(units, X)
        X = X / divisors
        if bandwidth == "median":
            bandwidth = median_distance(X, training.seed, None, "euclidean")
        kernel = {"gamma": 0.5 / bandwidth**2, "cache_size": _CACHE_MEGABYTES}
        parameters = {**kernel, **parameters}
        if training.task == "regression":
            model = TransformedTargetRegressor(SVR(**parameters), transformer=StandardScaler())
        else:
            model = SVC(random_state=training.seed, **parameters)
        model.fit(X, training.y)
    fitted = getattr(model, "regressor_", model)
    yield Snapshot(
        lambda rows: model.predict(dense(rows) / divisors),
        facts={"support vectors": len(fitted.support_), "bandwidth": float(bandwidth)},
    )


def defaults(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Train :class:`KernelRegressor` or :class:`KernelClassifier`, with their own model selection.

    Parameters
    ----------
    training : Training
    options : mapping
        ``inputs``: indices of the inputs to use, all by default. All other options are parameters
        of the estimator.
    clock : Clock

    Yields
    ------
    Snapshot
    """
    estimator_class = KernelRegressor if training.task == "regression" else KernelClassifier
    parameters = dict(options)
    inputs = [int(j) for j in parameters.pop("inputs", "").split()] or slice(None)
    model = estimator_class(random_state=training.seed, **parameters)
    with clock.phase("fit"):
        model.fit(training.X[:, inputs], training.y)
    facts = {"columns": len(model.weights_), "status": model.status_}
    yield Snapshot(lambda rows: model.predict(rows[:, inputs]), facts=facts)


TRAINERS: dict[str, Trainer] = {
    "LightGBM": partial(boosted_trees, "lightgbm"),
    "HistGradientBoosting": partial(boosted_trees, "hist_gradient_boosting"),
    "LIBSVM": support_vectors,
    "gramless defaults": defaults,
}
