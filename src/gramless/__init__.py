"""Kernel machines without the Gram matrix.

The public names load on first use, so that ``import gramless`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramless.base.public import PUBLIC_MODULES, lazy_getattr
from gramless.base.public import VERSION as __version__

__all__ = [
    "AnomalyDetector",
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "ExactKernel",
    "FeatureDecomposition",
    "GrownBinning",
    "Hybrid",
    "KernelClassifier",
    "KernelPCA",
    "KernelRegressor",
    "KernelSurvival",
    "Nystrom",
    "RandomBinning",
    "RandomFourier",
    "SmoothBinning",
    "SpectralClustering",
    "__version__",
    "load",
    "open_stream",
    "save",
    "two_sample_test",
    "warmup",
]

if TYPE_CHECKING:
    from gramless.estimators.classifier import KernelClassifier
    from gramless.estimators.doubly_stochastic import (
        DoublyStochasticClassifier,
        DoublyStochasticRegressor,
    )
    from gramless.estimators.grown import GrownBinning
    from gramless.estimators.persistence import load, save
    from gramless.estimators.regressor import KernelRegressor
    from gramless.estimators.survival import KernelSurvival
    from gramless.estimators.warmup import warmup
    from gramless.features.binning import RandomBinning
    from gramless.features.exact import ExactKernel
    from gramless.features.fourier import RandomFourier
    from gramless.features.hybrid import Hybrid
    from gramless.features.nystrom import Nystrom
    from gramless.features.smooth import SmoothBinning
    from gramless.streaming.opening import open_stream
    from gramless.unsupervised.anomalies import AnomalyDetector
    from gramless.unsupervised.clustering import SpectralClustering
    from gramless.unsupervised.decomposition import FeatureDecomposition, KernelPCA
    from gramless.unsupervised.two_sample import two_sample_test


__getattr__ = lazy_getattr(__name__, PUBLIC_MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
