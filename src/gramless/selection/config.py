"""The configuration of model selection for each effort."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gramless.losses import Loss


@dataclass(frozen=True)
class SearchConfig:
    """How thoroughly models are searched.

    Attributes
    ----------
    most_grids, proposals, kept_a_round, refitted_a_round : int
        Each round of growth scores ``proposals`` grids and keeps the ``kept_a_round`` best if they
        lower the loss, up to ``most_grids`` in all. It also fits the weights of
        ``refitted_a_round`` earlier grids again, which are drawn at random.
    stages : tuple of int
        Numbers of grids at which all weights are fitted again.
    least_gain : float
        Growth stops after a stage that lowers the validation loss by a smaller share per 160 grids,
        once there are more than 160 grids.
    growth_rows, validation_rows : int
        Maximum numbers of training and validation rows of growth.
    ridge_rows : int
        Kernel ridge regression is tried up to this number of rows; 0 never tries it.
    n_landmarks, landmarks_an_output : int
        Maximum number of landmarks of each smooth kernel that is added to the grids, and the
        maximum per output; 0 tries no smooth kernels.
    smooth_inverse_bandwidths : tuple of float
        Inverse bandwidths of the smooth kernels, in units of how finely grids divide the inputs.
    projection_max_error_ratio : float
        A kernel of projected rows is tried if it lowers the squared error of a sample below this
        share; 0 never tries one, which is the default, because such models can only be explained by
        sampling.
    tries_trend : bool
        Whether polynomial trends are tried, alone and added to the best features.
    dropped_share : float
        The share of the grown grids that is dropped; these are the grids that contribute least.
    count_power : float
        How the prior variances of bins fall with their rows, see :func:`prior_deviations`; 0 makes
        them equal, as they are for classes.
    n_seeds, n_directions : int
        ``n_seeds`` sets of grids are grown with different seeds and fitted as one. Every second set
        may also divide ``n_directions`` linear combinations of the inputs, see
        :func:`gradient_directions`.
    tries_nearby_alphas : bool
        Whether penalties near that of growth are tried, which takes one more fit each.
    quick_rows : int
        For classes in tables of fewer rows, growth has fewer and larger rounds, and there are fewer
        grids and landmarks, because the overhead of a round would be most of the time. Nearby
        penalties are not tried, because so few rows cannot tell them apart. 0 changes nothing.
    blends : bool
        Whether kernel ridge regression may be added to a model of classes, or of numbers if the
        loss is squared.
    """

    most_grids: int = 640
    proposals: int = 214
    kept_a_round: int = 16
    refitted_a_round: int = 24
    stages: tuple[int, ...] = (40, 80, 160, 320, 480, 640, 800)
    least_gain: float = 0.02
    growth_rows: int = 60_000
    validation_rows: int = 5_000
    ridge_rows: int = 2000
    n_landmarks: int = 250
    landmarks_an_output: int = 100
    smooth_inverse_bandwidths: tuple[float, ...] = (0.5, 1.0)
    projection_max_error_ratio: float = 0.0
    tries_trend: bool = True
    dropped_share: float = 0.2
    count_power: float = 0.5
    n_seeds: int = 1
    n_directions: int = 0
    tries_nearby_alphas: bool = True
    quick_rows: int = 2000
    blends: bool = True

    def of_targets(self, loss: Loss, n_rows: int) -> SearchConfig:
        """Return the configuration for tables of ``n_rows`` rows with a loss."""
        return self.of_rows(n_rows) if loss.is_of_classes else self

    def of_rows(self, n_rows: int) -> SearchConfig:
        """Return the configuration for ``n_rows`` rows whose targets are classes.

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
    blends=False,
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
# The keys are the values of ``effort``: 1 is as fast as boosted trees, 5 grows several sets of
# grids for one model, and 3 is the default.
EFFORTS: dict[int, SearchConfig] = {
    1: _FAST,
    2: SearchConfig(most_grids=256, growth_rows=30_000, dropped_share=0.1, quick_rows=0),
    3: SearchConfig(),
    4: _THOROUGH,
    5: replace(_THOROUGH, most_grids=960, n_seeds=4),
}
