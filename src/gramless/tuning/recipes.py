"""How features are made of rows: which scaling, which grids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from gramless.features.binning_map import BinningMap
from gramless.features.given import GivenBinning
from gramless.features.grids import Grids
from gramless.features.inputs import Rows
from gramless.features.scaling import Scaler
from gramless.features.sized import FittedMap
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix


class Recipe(Protocol):
    """Fits feature maps, each to some rows."""

    @property
    def scaler(self) -> Scaler:
        """Of the inputs."""

    @property
    def size(self) -> int:
        """How many grids, or other components, there are."""

    def fit(self, rows: Rows, n_jobs: int | None) -> tuple[FittedMap, FeatureMatrix]:
        """Return the feature map fitted to rows, and their matrix."""


@dataclass(frozen=True)
class RandomRecipe:
    """Random features of one kernel.

    Attributes
    ----------
    scaler : Scaler
    template : SizedMap
        With its bandwidth in units of the rows that the scaler returns.
    """

    scaler: Scaler
    template: Any

    @property
    def size(self) -> int:
        """How many grids, or other components, there are."""
        return self.template.size

    def fit(self, rows: Rows, n_jobs: int | None) -> tuple[FittedMap, FeatureMatrix]:
        """Return the feature map fitted to rows, and their matrix."""
        feature_map = clone(self.template)
        return feature_map, feature_map.fit_rows(self.scaler.rows(rows, n_jobs))

    def sized(self, size: int) -> RandomRecipe:
        """Return the recipe with another number of grids, or other components."""
        return replace(self, template=self.template.resized(size))

    def draw(self) -> Grids:
        """Return the grids."""
        return self._drawn(self.template.bandwidth, self.scaler.categorical)

    def beside(self, scaler: Scaler) -> Grids:
        """Return the grids over the rows of a scaler that has all inputs and all ranks."""
        n_features = len(self.scaler.unit)
        own = np.array(self.template.bandwidth, np.float64)
        wants_rank = ~self.scaler.told_apart & (self.scaler.kind == "quantile")
        ranked = wants_rank & np.isfinite(scaler.unit[n_features:])
        # An input of two values has no rank there; its own values serve, in their unit.
        length = np.ptp(scaler.knots, axis=1)
        stretched = wants_rank & ~ranked & (length > 0)
        own[stretched] *= length[stretched]
        bandwidth = np.full(len(scaler.unit), np.inf)
        bandwidth[np.arange(n_features) + n_features * ranked] = own
        return self._drawn(bandwidth, scaler.categorical)

    def _drawn(
        self, bandwidth: NDArray[np.float64], categorical: NDArray[np.bool_] | None
    ) -> Grids:
        kernel, seed = self.template.check_parameters(), self.template.random_state
        return Grids.draw(kernel, bandwidth, self.template.n_grids, seed, categorical)


@dataclass(frozen=True)
class GridRecipe:
    """Grids that were chosen one by one."""

    scaler: Scaler
    grids: Grids

    @property
    def size(self) -> int:
        """How many grids there are."""
        return len(self.grids)

    def fit(self, rows: Rows, n_jobs: int | None) -> tuple[BinningMap, BinnedMatrix]:
        """Return the feature map fitted to rows, and their matrix."""
        feature_map = GivenBinning(n_jobs=n_jobs)
        return feature_map, feature_map.learn_bins(self.scaler.rows(rows, n_jobs), self.grids)

    def with_random(self, random: RandomRecipe) -> GridRecipe:
        """Return the recipe's grids and random ones beside them."""
        return GridRecipe(self.scaler, Grids.joined([self.grids, random.beside(self.scaler)]))
