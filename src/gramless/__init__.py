"""Kernel machines without the Gram matrix.

The public names load on first use, so that ``import gramless`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "DoublyStochasticClassifier": "gramless.estimators.doubly_stochastic",
    "DoublyStochasticRegressor": "gramless.estimators.doubly_stochastic",
    "ExactKernel": "gramless.features.exact",
    "GrownBinning": "gramless.estimators.grown",
    "Hybrid": "gramless.features.hybrid",
    "IndependentBlocks": "gramless.features.blocks",
    "KernelClassifier": "gramless.estimators.classifier",
    "KernelRegressor": "gramless.estimators.regressor",
    "Nystrom": "gramless.features.nystrom",
    "RandomBinning": "gramless.features.binning",
    "RandomFourier": "gramless.features.fourier",
    "SmoothBinning": "gramless.features.smooth",
    "load": "gramless.estimators.persistence",
    "open_stream": "gramless.streaming.opening",
    "save": "gramless.estimators.persistence",
}

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "ExactKernel",
    "GrownBinning",
    "Hybrid",
    "IndependentBlocks",
    "KernelClassifier",
    "KernelRegressor",
    "Nystrom",
    "RandomBinning",
    "RandomFourier",
    "SmoothBinning",
    "__version__",
    "load",
    "open_stream",
    "save",
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
    from gramless.features.binning import RandomBinning
    from gramless.features.blocks import IndependentBlocks
    from gramless.features.exact import ExactKernel
    from gramless.features.fourier import RandomFourier
    from gramless.features.hybrid import Hybrid
    from gramless.features.nystrom import Nystrom
    from gramless.features.smooth import SmoothBinning
    from gramless.streaming.opening import open_stream


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gramless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
