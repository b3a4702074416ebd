"""Small fitted models of every kind, for campaigns that test fitted models and their files."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramless import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    ExactKernel,
    Hybrid,
    KernelClassifier,
    KernelRegressor,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
    load,
)
from gramless.datasets import Table
from gramless.estimators.grown import GrownBinning
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.features.hybrid import JoinedMaps
from gramless.kernels import Laplacian

N_FEATURES = 5
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(320, N_FEATURES))
Y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * _RNG.normal(size=len(X))
TWO = (Y > 0).astype(int)
THREE = np.digitize(Y, [-0.5, 0.5])
# Parameters for a fit without a search, which takes a few milliseconds.
FIXED = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}


def _coded() -> np.ndarray:
    """Return rows with a categorical input 2 and missing numbers."""
    rows = X.copy()
    rows[:, 2] = np.digitize(X[:, 2], [-1.0, 0.0, 1.0])
    rows[::7, 0] = np.nan
    return rows


def _table() -> Table:
    rows = _coded()
    text = np.array(["one", "two", "", "three"], dtype=object)[rows[:, 2].astype(int)]
    return Table({"a": rows[:, 0], "b": rows[:, 1], "c": text, "d": rows[:, 3], "e": rows[:, 4]})


def _hybrid() -> Hybrid:
    inner = Hybrid([RandomBinning(n_grids=8), SmoothBinning(n_grids=8)])
    return Hybrid([RandomFourier(n_components=16), Nystrom(n_components=20), inner], random_state=0)


def _regressor(features: Any, X: Any = X, y: Any = Y, **options: Any) -> KernelRegressor:
    return KernelRegressor(features, **{**FIXED, **options}).fit(X, y)


def _classifier(y: Any, **options: Any) -> KernelClassifier:
    features = RandomBinning(n_grids=16, random_state=0)
    return KernelClassifier(features, **{**FIXED, **options}).fit(X, y)


def _checkpoint() -> Any:
    """Return a model loaded from a checkpoint, with the state of its run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        _streamed(DoublyStochasticClassifier, THREE, n_components=3, checkpoint=str(path))
        return load(path).set_params(checkpoint=None)


def _streamed(kind: Any, y: Any, **options: Any) -> Any:
    fast = {"max_steps": 12, "block_size": 16, "batch_size": 64, "bandwidth": 2.0, "alpha": 1e-3}
    return kind(random_state=0, **{**fast, **options}).fit(X, y)


def _given() -> GivenBinning:
    binning, grids = GivenBinning(), Grids.draw(Laplacian(), np.full(N_FEATURES, 2.0), 24, seed=0)
    binning.fit_grids(X, grids)
    return binning


def _joined() -> JoinedMaps:
    return JoinedMaps.of([_given(), Nystrom(n_components=20, random_state=0).fit(X)], [1.0, 2.0])


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "default regressor": lambda: KernelRegressor(random_state=0).fit(X, Y),
    "default classifier": lambda: KernelClassifier(random_state=0).fit(X, THREE),
    "grown regressor": lambda: KernelRegressor(grids="grown", random_state=0).fit(X, Y),
    "grown classifier": lambda: KernelClassifier(grids="grown", random_state=0).fit(X, TWO),
    "binning regressor": lambda: _regressor(RandomBinning(n_grids=16, random_state=0)),
    "ranks": lambda: _regressor(RandomBinning(n_grids=16), scaling="quantile"),
    "gaps": lambda: _regressor(RandomBinning(n_grids=16), _coded(), categorical_features=[2]),
    "table": lambda: _regressor(RandomBinning(n_grids=16), _table()),
    "sparse": lambda: _regressor(RandomBinning(n_grids=16), sp.csr_array(X * (X > 0))),
    "two outputs": lambda: _regressor(RandomBinning(n_grids=8), y=np.column_stack([Y, -Y])),
    "posterior": lambda: _regressor(RandomBinning(n_grids=8), n_posterior=5),
    "conformal regressor": lambda: _regressor(RandomBinning(n_grids=8), calibrate=True),
    "two classes": lambda: _classifier(TWO, calibrate=True),
    "named classes": lambda: _classifier(np.array(["a", "ö", "c"])[THREE], loss="logistic"),
    "calibrated": lambda: _classifier(THREE, calibrate=True),
    "smooth": lambda: _regressor(SmoothBinning(n_grids=16)),
    "half precision": lambda: _regressor(SmoothBinning(n_grids=8, precision="float16")),
    "fourier": lambda: _regressor(RandomFourier(n_components=32)),
    "shifted": lambda: _regressor(RandomFourier(n_components=33, map="shifted")),
    "fourier of categories": lambda: _regressor(
        RandomFourier(n_components=32), np.nan_to_num(_coded()), categorical_features=[2]
    ),
    "structured": lambda: _regressor(RandomFourier(n_components=40, sampling="structured")),
    "nystrom": lambda: _regressor(Nystrom(n_components=40)),
    "exact": lambda: _regressor(ExactKernel("laplacian"), X[:120], Y[:120]),
    "hybrid": lambda: _regressor(_hybrid(), bandwidth="auto"),
    "streamed regressor": lambda: _streamed(DoublyStochasticRegressor, Y),
    "streamed outputs": lambda: _streamed(DoublyStochasticRegressor, np.column_stack([Y, -Y])),
    "streamed classifier": lambda: _streamed(DoublyStochasticClassifier, TWO, kernel="matern"),
    "checkpoint": _checkpoint,
}

MAPS: dict[str, Callable[[], Any]] = {
    "RandomBinning": lambda: RandomBinning(n_grids=16, random_state=0).fit(X),
    "hat bins": lambda: RandomBinning("hat", n_grids=16, random_state=0).fit(X),
    "GivenBinning": _given,
    "SmoothBinning": lambda: SmoothBinning(n_grids=16, random_state=0).fit(X),
    "RandomFourier": lambda: RandomFourier(n_components=32, random_state=0).fit(X),
    "structured Fourier": lambda: RandomFourier(
        n_components=40, sampling="structured", map="shifted", random_state=0
    ).fit(X),
    "Nystrom": lambda: Nystrom(n_components=30, random_state=0).fit(X),
    "precomputed Nystrom": lambda: Nystrom("precomputed", n_components=30, random_state=0).fit(
        X @ X.T
    ),
    "ExactKernel": lambda: ExactKernel(random_state=0).fit(X[:100]),
    "Hybrid": lambda: _hybrid().fit(X),
    "JoinedMaps": _joined,
}

OTHERS: dict[str, Callable[[], Any]] = {
    # These cannot be saved.
    "GrownBinning": lambda: GrownBinning(n_grids=16, random_state=0).fit(X, Y),
}


def fit(name: str) -> Any:
    """Return a fitted model of a kind, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {**ESTIMATORS, **MAPS, **OTHERS}[name]()


def rows_for(model: Any, n_rows: int = 40) -> Any:
    """Return rows that a fitted model of this module accepts."""
    if getattr(model, "encoder_", None) is not None:
        return _table().take_rows(np.arange(n_rows))
    inputs = getattr(model, "inputs_", None)
    if inputs is not None and inputs.categorical is not None:
        return _coded()[:n_rows]
    n_inputs = int(getattr(model, "n_features_in_", N_FEATURES))
    if n_inputs == N_FEATURES:
        return X[:n_rows]
    return np.random.default_rng(1).normal(size=(n_rows, n_inputs))
