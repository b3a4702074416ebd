"""Explanations and diagnostics of fitted models.

The names below are imported on first use, so that inspecting a model loads only what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramless.base.public import lazy_getattr

_HOMES = {
    "Attributions": "gramless.inspection.attributions",
    "AttributionsDisplay": "gramless.inspection.displays",
    "FeatureImportancesDisplay": "gramless.inspection.displays",
    "shapley_values": "gramless.inspection.attributions",
}

__all__ = [
    "Attributions",
    "AttributionsDisplay",
    "FeatureImportancesDisplay",
    "shapley_values",
]

if TYPE_CHECKING:
    from gramless.inspection.attributions import Attributions, shapley_values
    from gramless.inspection.displays import AttributionsDisplay, FeatureImportancesDisplay

__getattr__ = lazy_getattr(__name__, _HOMES)
