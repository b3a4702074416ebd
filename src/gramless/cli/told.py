"""What a model chose, in words."""

from __future__ import annotations

from typing import Any

from gramless.cli.report import number

_KINDS = {"random": "random grids", "grown": "grown grids", "both": "grown and random grids"}


def bandwidth_of(model: Any) -> str:
    """Return the bandwidths of a model's random grids."""
    if model.bandwidth_ is None:
        return "none, each grid has its own widths"
    import numpy as np

    ends = (float(np.min(model.bandwidth_)), float(np.max(model.bandwidth_)))
    return " to ".join(dict.fromkeys(map(number, ends)))


def relevance_of(model: Any) -> str:
    """Return how a model weighs its inputs."""
    if model.settings_.grids != "random":
        return "by choice of grids"
    return "equal" if model.settings_.relevance is None else "learned"


def kind_of_grids(model: Any) -> str:
    """Return what a model's grids are."""
    return _KINDS[model.settings_.grids]
