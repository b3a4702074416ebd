"""Every constant that steers model selection, and the ladder of effort."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gramless.losses import Loss


@dataclass(frozen=True)
class SearchConfig:
    """How thoroughly features are grown and validated.

    Each round of growth scores ``proposals`` candidate grids, keeps the ``kept_a_round`` best of
    them, up to ``most_grids``, and fits the weights of ``refitted_a_round`` earlier ones, drawn at
    random, again. At ``stages``, numbers of grids, all weights are fitted again and the validation
    loss is looked at: growth ends when 160 more grids lower it by a smaller share than
    ``least_gain``. It uses ``growth_rows`` rows at most to fit, and ``judging_rows`` to judge.

    Up to ``ridge_rows`` rows, kernel ridge regression with a Gaussian kernel is tried first; 0
    never does. Smooth kernels are tried beside the grids, each of ``landmarks_an_output`` landmarks
    for every output, ``n_landmarks`` at most; 0 tries none. ``smooth_lengths`` are their inverse
    bandwidths, in units of how finely the grids divide the inputs. A kernel of projected rows is
    tried where it lowers the squared error of a sample below ``projection_max_error_ratio``; 0
    tries none. What such a kernel does can be explained by samples alone: default models have none.
    ``tries_trend`` says whether a polynomial trend is tried, alone and beside all that. The
    ``dropped_share`` of the grown grids that adds least is dropped before the fit. ``count_power``
    says how prior variances of bins' weights fall with the rows that a bin holds, see
    :func:`prior_deviations`; 0 makes all alike, as they are for classes. ``n_seeds`` sets of grids,
    grown with different seeds, are fitted as one; every second set may also divide ``n_directions``
    linear combinations of the inputs, see :func:`gradient_directions`. ``tries_nearby_alphas`` says
    whether penalties near that of growth are tried, each by one more fit.

    For classes of fewer than ``quick_rows`` rows there are fewer, larger rounds, and fewer grids
    and landmarks: what a round takes beside its loops over rows would be most of it. No penalties
    nearby are tried: so few rows cannot tell them apart. 0 changes nothing.
    """

    most_grids: int = 640
    proposals: int = 214
    kept_a_round: int = 16
    refitted_a_round: int = 24
    stages: tuple[int, ...] = (40, 80, 160, 320, 480, 640, 800)
    least_gain: float = 0.02
    growth_rows: int = 60_000
    judging_rows: int = 5_000
    ridge_rows: int = 2000
    n_landmarks: int = 250
    landmarks_an_output: int = 100
    smooth_lengths: tuple[float, ...] = (0.5, 1.0)
    projection_max_error_ratio: float = 0.0
    tries_trend: bool = True
    dropped_share: float = 0.2
    count_power: float = 0.5
    n_seeds: int = 1
    n_directions: int = 0
    tries_nearby_alphas: bool = True
    quick_rows: int = 2000

    def of_targets(self, loss: Loss, n_rows: int) -> SearchConfig:
        """Return the configuration for so many rows whose targets have a loss."""
        return self.of_rows(n_rows) if loss.is_of_classes else self

    def of_rows(self, n_rows: int) -> SearchConfig:
        """Return the configuration for so many rows with classes.

        Examples
        --------
        >>> SearchConfig().of_rows(1500).most_grids, SearchConfig().of_rows(2500).most_grids
        (320, 640)
        """
        if n_rows >= self.quick_rows:
            return self
        most = min(self.most_grids, _QUICK_GRIDS)
        return replace(
            self,
            most_grids=most,
            proposals=300,
            kept_a_round=27,
            refitted_a_round=26,
            n_landmarks=min(self.n_landmarks, _QUICK_LANDMARKS),
            tries_nearby_alphas=False,
            quick_rows=0,
        )


_QUICK_GRIDS, _QUICK_LANDMARKS = 320, 100
_FAST = SearchConfig(
    most_grids=160,
    proposals=128,
    kept_a_round=8,
    refitted_a_round=12,
    growth_rows=30_000,
    ridge_rows=0,
    n_landmarks=0,
    tries_trend=False,
    dropped_share=0.0,
    quick_rows=0,
)
_THOROUGH = SearchConfig(
    proposals=400,
    kept_a_round=8,
    refitted_a_round=32,
    least_gain=0.005,
    n_landmarks=500,
    landmarks_an_output=500,
    projection_max_error_ratio=0.9,
    dropped_share=0.0,
    n_seeds=2,
    n_directions=6,
    quick_rows=0,
)
EFFORTS: dict[int, SearchConfig] = {
    1: _FAST,
    2: SearchConfig(most_grids=256, growth_rows=30_000, dropped_share=0.1, quick_rows=0),
    3: SearchConfig(),
    4: _THOROUGH,
    5: replace(_THOROUGH, most_grids=960, n_seeds=4),
}
"""From "as fast as boosted trees" to "several models averaged"; 3 is the default."""
