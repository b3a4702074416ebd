"""Every constant that steers model selection, and the ladder of effort."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class SearchConfig:
    """How thoroughly features are grown and validated.

    Each round of growth scores ``proposals`` candidate grids, keeps the ``kept_a_round`` best of
    them, up to ``most_grids``, and fits the weights of ``refitted_a_round`` earlier ones, drawn at
    random, again. At ``stages``, numbers of grids, all weights are fitted again and the validation
    loss is looked at: growth ends when 160 more grids lower it by a smaller share than
    ``least_gain``. It uses ``growth_rows`` rows at most to fit, and ``judging_rows`` to judge.

    Up to ``ridge_rows`` rows, kernel ridge regression with a Gaussian kernel is tried first; 0
    never does. Smooth kernels of ``n_landmarks`` each are tried beside the grids, 0 tries none;
    ``smooth_lengths`` are their inverse bandwidths, in units of how finely the grids divide the
    inputs. ``dropped_share`` of the grids, those that add least, is tried to be dropped; 0 drops
    none. ``n_seeds`` sets of grids, grown with different seeds, are fitted as one.
    """

    most_grids: int = 640
    proposals: int = 160
    kept_a_round: int = 12
    refitted_a_round: int = 18
    stages: tuple[int, ...] = (40, 80, 160, 320, 480, 640, 800)
    least_gain: float = 0.005
    growth_rows: int = 60_000
    judging_rows: int = 5_000
    ridge_rows: int = 2000
    n_landmarks: int = 250
    smooth_lengths: tuple[float, ...] = (0.5, 1.0)
    dropped_share: float = 0.6
    n_seeds: int = 1


_FAST = SearchConfig(
    most_grids=160,
    proposals=128,
    kept_a_round=8,
    refitted_a_round=12,
    growth_rows=30_000,
    ridge_rows=0,
    n_landmarks=0,
    dropped_share=0.5,
)
_THOROUGH = SearchConfig(
    most_grids=960,
    proposals=400,
    kept_a_round=8,
    refitted_a_round=32,
    n_landmarks=1000,
    dropped_share=0.5,
)
EFFORTS: dict[int, SearchConfig] = {
    1: _FAST,
    2: SearchConfig(most_grids=256, growth_rows=30_000),
    3: SearchConfig(),
    4: _THOROUGH,
    5: replace(_THOROUGH, n_landmarks=2000, n_seeds=4),
}
"""From "as fast as boosted trees" to "several models averaged"; 3 is the default."""
