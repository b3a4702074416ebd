"""What to fit, once everything is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.model_selection.blending import Blend
from gramless.model_selection.judging import Judged
from gramless.model_selection.recipes import Recipe
from gramless.model_selection.search_space import Settings


@dataclass(frozen=True)
class Plan:
    """What to fit.

    Attributes
    ----------
    recipe : Recipe
    settings : Settings
    alpha : float
        For all rows.
    bandwidth : float, array or None
        Of random grids, in units of the scaled inputs.
    relevance : array (n_features,)
    trials, growth : list of dict
        What was tried, and the stages of growth.
    limits : list of str
        What a budget of time or memory cut short.
    judged : Judged or None
        A fit of this kind that did not know the rows held back.
    blend : Blend or None
        How the model is an average of two; ``alpha`` is then that of grown grids.
    """

    recipe: Recipe
    settings: Settings
    alpha: float
    bandwidth: Any
    relevance: NDArray[np.float64]
    trials: list[dict[str, Any]] = field(repr=False)
    growth: list[dict[str, float]] = field(default_factory=list, repr=False)
    limits: list[str] = field(default_factory=list)
    judged: Judged | None = field(default=None, repr=False)
    blend: Blend | None = None

    @property
    def score(self) -> float:
        """Of the rows held back, by a fit that did not know them."""
        assert self.judged is not None
        return self.judged.score
