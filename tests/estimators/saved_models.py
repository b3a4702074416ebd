"""One small fitted model of every kind, for tests that files of earlier versions still load.

``python -m tests.estimators.saved_models`` writes the models of the installed version, and what
they predict, to ``data/models_<version>.zip``. Run it before a release.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp

import gramless as gl
from gramless.datasets import Table

DATA = Path(__file__).with_name("data")

rng = np.random.default_rng(20)
X = rng.normal(size=(400, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=400)
LABELS = np.array(["no", "maybe", "yes"])[np.digitize(X[:, 0], [-0.4, 0.4])]
COUNTS = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)
GAPS = np.where(rng.random(X.shape) < 0.1, np.nan, X)
SPARSE = sp.csr_array(np.where(X > 0, X, 0.0))


def table(n_rows: int = 400) -> Table:
    """Return a table with numbers, gaps, text and a declared category."""
    kind = np.array(["red", "green", "blue", ""], object)[np.arange(n_rows) % 4]
    code = np.arange(n_rows, dtype=float) % 5
    return Table({"a": X[:n_rows, 0], "b": GAPS[:n_rows, 1], "kind": kind, "code": code})


def models() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each model and a function that fits it."""
    fast = {"effort": 1, "random_state": 0}
    times = np.rec.fromarrays([Y > 0, 1.0 + np.abs(Y)], names="event,time")
    yield "regressor", lambda: gl.KernelRegressor(random_state=0).fit(X, Y)
    yield "regressor_few_rows", lambda: gl.KernelRegressor(random_state=0).fit(X[:50], Y[:50])
    yield "regressor_gaps", lambda: gl.KernelRegressor(**fast).fit(GAPS, Y)
    yield (
        "regressor_table",
        lambda: gl.KernelRegressor(**fast, categorical_features=["code"]).fit(table(), Y),
    )
    yield "regressor_sparse", lambda: gl.KernelRegressor(**fast, n_grids=16).fit(SPARSE, Y)
    yield (
        "regressor_outputs",
        lambda: gl.KernelRegressor(**fast).fit(X, np.c_[Y, COUNTS]),
    )
    yield (
        "regressor_quantiles",
        lambda: gl.KernelRegressor(**fast, loss="quantile", quantile=[0.1, 0.5, 0.9]).fit(X, Y),
    )
    yield "regressor_poisson", lambda: gl.KernelRegressor(**fast, loss="poisson").fit(X, COUNTS)
    yield (
        "regressor_huber",
        lambda: gl.KernelRegressor(**fast, loss="huber").fit(X, Y),
    )
    yield (
        "regressor_monotonic",
        lambda: gl.KernelRegressor(**fast, monotonic_cst=[1, 0, 0]).fit(X, Y),
    )
    maps = {
        "fourier": gl.RandomFourier(n_components=64),
        "nystrom": gl.Nystrom(n_components=32),
        "smooth": gl.SmoothBinning(n_grids=8),
        "exact": gl.ExactKernel(),
    }
    for name, features in maps.items():
        yield (
            f"regressor_{name}",
            lambda features=features: gl.KernelRegressor(features, **fast).fit(X[:80], Y[:80]),
        )
    yield "classifier", lambda: gl.KernelClassifier(random_state=0).fit(X, LABELS)
    yield "classifier_two", lambda: gl.KernelClassifier(**fast).fit(X, LABELS == "no")
    yield (
        "classifier_table",
        lambda: gl.KernelClassifier(**fast).fit(table(), np.arange(400) % 4 == 0),
    )
    yield (
        "classifier_ordered",
        lambda: gl.KernelClassifier(**fast, loss="cumulative").fit(X, np.digitize(Y, [-1, 0, 1])),
    )
    yield (
        "classifier_labels",
        lambda: gl.KernelClassifier(**fast).fit(X, np.c_[Y > 0, COUNTS > 1].astype(int)),
    )
    yield "survival", lambda: gl.KernelSurvival(**fast).fit(X, times)
    stream = {"max_steps": 5, "batch_size": 128, "random_state": 0}
    for strategy in ("checking", "uniform", "grow"):
        yield (
            f"stream_{strategy}",
            lambda strategy=strategy: gl.DoublyStochasticRegressor(strategy=strategy, **stream).fit(
                X, Y
            ),
        )
    yield (
        "stream_classifier",
        lambda: gl.DoublyStochasticClassifier(**stream).fit(X, LABELS),
    )
    yield "binning", lambda: gl.RandomBinning(n_grids=8, random_state=0).fit(X)
    yield "fourier", lambda: gl.RandomFourier(n_components=16, random_state=0).fit(X)
    yield (
        "fourier_orthogonal",
        lambda: gl.RandomFourier(n_components=16, sampling="orthogonal", random_state=0).fit(X),
    )
    yield "nystrom", lambda: gl.Nystrom(n_components=16, random_state=0).fit(X)
    yield "smooth", lambda: gl.SmoothBinning(n_grids=8, random_state=0).fit(X)
    yield "exact", lambda: gl.ExactKernel().fit(X[:60])
    yield (
        "hybrid",
        lambda: gl.Hybrid(
            [
                gl.RandomBinning(n_grids=4, random_state=0),
                gl.RandomFourier(n_components=8, random_state=0),
            ]
        ).fit(X),
    )
    yield "anomalies", lambda: gl.AnomalyDetector(random_state=0).fit(X[:60])
    yield (
        "decomposition",
        lambda: gl.FeatureDecomposition(2, n_grids=16, random_state=0).fit(X[:60]),
    )
    yield "kernel_pca", lambda: gl.KernelPCA(2, n_grids=16, random_state=0).fit(X[:60])
    yield "spectral", lambda: gl.SpectralClustering(3, random_state=0).fit(X[:60])


METHODS = (
    *("predict", "predict_proba", "decision_function", "transform", "score_samples"),
    *("predict_interval", "predict_median"),
)


def rows_of(name: str) -> Any:
    """Return the rows that the answers of a model are about."""
    if "table" in name:
        return table(12)
    return {"regressor_gaps": GAPS, "regressor_sparse": SPARSE}.get(name, X)[:12]


def answers(name: str, model: Any) -> dict[str, np.ndarray]:
    """Return what the methods of a model return for its rows."""
    result = {}
    for method in METHODS:
        try:
            value = getattr(model, method)(rows_of(name))
        except (AttributeError, gl.base.errors.InputError):  # not every model has each
            continue
        result[method] = value.toarray() if sp.issparse(value) else np.asarray(value)
    return result


def main() -> None:
    """Write the archive of the installed version."""
    target = DATA / f"models_{gl.__version__.replace('.', '_')}.zip"
    classes, arrays = {}, {}
    with TemporaryDirectory() as folder, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for name, fit in models():
            model = fit()
            path = Path(folder, f"{name}.gramless")
            gl.save(model, path)
            out.write(path, path.name)
            classes[name] = type(model).__name__
            arrays |= {f"{name}.{key}": value for key, value in answers(name, model).items()}
            print(name, path.stat().st_size, sorted(k for k in arrays if k.startswith(f"{name}.")))
        np.savez_compressed(Path(folder, "answers.npz"), **arrays)
        out.write(Path(folder, "answers.npz"), "answers.npz")
        out.writestr("classes.json", json.dumps(classes, indent=1))
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
