"""Explanations and diagnostics of fitted models.

Modules are imported one by one, so that looking at a model loads no more than it needs; the names
below load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gramless.inspection' has no attribute {name!r}")
