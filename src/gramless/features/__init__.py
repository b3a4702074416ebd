"""Feature maps: scikit-learn transformers that can also return a feature matrix.

Public names are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramless.base.public import lazy_getattr

__all__ = [
    "FEATURE_MAPS",
    "DenseMap",
    "ExactKernel",
    "FeatureMap",
    "Hybrid",
    "Nystrom",
    "RandomBinning",
    "RandomFourier",
    "SmoothBinning",
]

if TYPE_CHECKING:
    from gramless.features.base import DenseMap, FeatureMap
    from gramless.features.binning import RandomBinning
    from gramless.features.exact import ExactKernel
    from gramless.features.fourier import RandomFourier
    from gramless.features.hybrid import Hybrid
    from gramless.features.nystrom import Nystrom
    from gramless.features.registry import FEATURE_MAPS
    from gramless.features.smooth import SmoothBinning

__getattr__ = lazy_getattr(
    __name__,
    {
        "DenseMap": "gramless.features.base",
        "ExactKernel": "gramless.features.exact",
        "FEATURE_MAPS": "gramless.features.registry",
        "FeatureMap": "gramless.features.base",
        "Hybrid": "gramless.features.hybrid",
        "Nystrom": "gramless.features.nystrom",
        "RandomBinning": "gramless.features.binning",
        "RandomFourier": "gramless.features.fourier",
        "SmoothBinning": "gramless.features.smooth",
    },
)
