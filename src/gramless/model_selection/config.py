"""Every constant that steers model selection, and the ladder of effort."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

from gramless.base.errors import InputError


@dataclass(frozen=True)
class SearchConfig:
    """How thoroughly features are grown and validated.

    Parameters
    ----------
    most_grids : int
        Grids that are grown at most.
    proposals : int
        Candidate grids that each round of growth scores.
    kept_a_round : int
        The best of them that are kept.
    refitted_a_round : int
        Earlier grids, drawn at random, whose weights are fitted again in each round.
    stages : tuple of int
        Numbers of grids at which all weights are fitted again and the validation loss is looked at.
    least_gain : float
        Growth ends when 160 more grids lower the validation loss by a smaller share.
    growth_rows, judging_rows : int
        Rows that growth uses at most, to fit and to judge.
    ridge_rows : int
        Up to so many rows, kernel ridge regression with a Gaussian kernel is tried first; 0 never
        does.
    n_landmarks : int
        Landmarks of the smooth kernel that is tried beside the grids; 0 tries none.
    smooth_lengths : tuple of float
        Inverse bandwidths of that kernel, in units of how finely the grids divide the inputs.
    dropped_share : float
        Share of the grids, those that add least, that is tried to be dropped; 0 drops none.
    n_seeds : int
        Models over grids grown with different seeds, whose predictions are averaged.
    """

    most_grids: int = 640
    proposals: int = 240
    kept_a_round: int = 8
    refitted_a_round: int = 16
    stages: tuple[int, ...] = (40, 80, 160, 320, 480, 640, 800)
    least_gain: float = 0.005
    growth_rows: int = 60_000
    judging_rows: int = 5_000
    ridge_rows: int = 2000
    n_landmarks: int = 250
    smooth_lengths: tuple[float, ...] = (0.5, 1.0)
    dropped_share: float = 0.5
    n_seeds: int = 1


_FAST = SearchConfig(
    most_grids=96, proposals=128, stages=(48, 96), growth_rows=20_000, ridge_rows=0, n_landmarks=0
)
_THOROUGH = SearchConfig(most_grids=960, proposals=400, refitted_a_round=32, n_landmarks=1000)
EFFORTS: dict[int, SearchConfig] = {
    1: _FAST,
    2: SearchConfig(most_grids=256, proposals=160, growth_rows=30_000),
    3: SearchConfig(),
    4: _THOROUGH,
    5: replace(_THOROUGH, n_landmarks=2000, n_seeds=4),
}
"""From "as fast as boosted trees" to "several models averaged"; 3 is the default."""


def config_of(effort: int) -> SearchConfig:
    """Return the configuration of an effort, a whole number from 1 to 5."""
    if isinstance(effort, bool) or not isinstance(effort, Integral) or effort not in EFFORTS:
        raise InputError(f"effort must be a whole number from 1 to 5, got {effort!r}.")
    return EFFORTS[int(effort)]
