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


def features_of(model: Any) -> str:
    """Return what a model's features are, and how many."""
    features = model.features_
    n_columns = features._n_features_out
    if not hasattr(features, "n_bins_"):
        return f"{type(features).__name__}, {n_columns:,} columns"
    return f"{len(features.n_bins_):,} {_KINDS[model.settings_.grids]}, {n_columns:,} bins"
