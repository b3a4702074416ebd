"""The version, the modules that define the public names, and their import on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

VERSION = "0.2.0"

PUBLIC_MODULES = {
    "AnomalyDetector": "gramless.unsupervised.anomalies",
    "DoublyStochasticClassifier": "gramless.estimators.doubly_stochastic",
    "DoublyStochasticRegressor": "gramless.estimators.doubly_stochastic",
    "ExactKernel": "gramless.features.exact",
    "FeatureDecomposition": "gramless.unsupervised.decomposition",
    "GrownBinning": "gramless.estimators.grown",
    "Hybrid": "gramless.features.hybrid",
    "KernelClassifier": "gramless.estimators.classifier",
    "KernelPCA": "gramless.unsupervised.decomposition",
    "KernelRegressor": "gramless.estimators.regressor",
    "KernelSurvival": "gramless.estimators.survival",
    "Nystrom": "gramless.features.nystrom",
    "RandomBinning": "gramless.features.binning",
    "RandomFourier": "gramless.features.fourier",
    "SmoothBinning": "gramless.features.smooth",
    "SpectralClustering": "gramless.unsupervised.clustering",
    "load": "gramless.estimators.persistence",
    "open_stream": "gramless.streaming.opening",
    "save": "gramless.estimators.persistence",
    "two_sample_test": "gramless.unsupervised.two_sample",
    "warmup": "gramless.estimators.warmup",
}

# Removed classes, with the last version that reads their files.
LAST_VERSIONS = dict.fromkeys(
    (
        "Density",
        "IndependentBlocks",
        "Jacobi",
        "KernelKMeans",
        "LabelSpreading",
        "RandomisedNystrom",
        "RootJacobi",
        "RowConjugateGradient",
    ),
    "0.2.0",
)


def lazy_getattr(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports names from their modules when used."""

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
