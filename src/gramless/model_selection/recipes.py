"""How features are made of rows: which scaling, which grids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap, GivenBinning
from gramless.features.grids import Grids
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler


class Recipe(Protocol):
    """Fits feature maps, each to some rows."""

    @property
    def scaler(self) -> Scaler:
        """Of the inputs."""

    @property
    def size(self) -> int:
        """How many grids, or other components, there are."""

    @property
    def learns_bins(self) -> bool:
        """Whether features are bins, which each row has or has not by itself."""

    def fit(self, rows: Rows, n_jobs: int | None) -> tuple[FeatureMap, FeatureMatrix]:
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

    @property
    def learns_bins(self) -> bool:
        """Whether features are bins, which each row has or has not by itself."""
        return isinstance(self.template, BinningMap)

    def fit(self, rows: Rows, n_jobs: int | None) -> tuple[FeatureMap, FeatureMatrix]:
        """Return the feature map fitted to rows, and their matrix."""
        feature_map = clone(self.template)
        return feature_map, feature_map.fit_rows(self.scaler.rows(rows, n_jobs))

    def sized(self, size: int) -> RandomRecipe:
        """Return the recipe with another number of grids, or other components."""
        return replace(self, template=self.template.resized(size))

    def draw(self) -> Grids:
        """Return the grids."""
        kernel, template = self.template.check_parameters(), self.template
        told_apart = self.scaler.categorical
        seed = template.random_state
        return Grids.draw(kernel, template.bandwidth, template.n_grids, seed, told_apart)

    def over(self, scaler: Scaler) -> RandomRecipe:
        """Return the recipe over the rows of a scaler that has all inputs and all ranks."""
        n_features = len(self.scaler.unit)
        own = np.array(self.template.bandwidth, np.float64)
        wants_rank = ~self.scaler.categorical_mask & (self.scaler.kind == "quantile")
        ranked = wants_rank & np.isfinite(scaler.unit[n_features:])
        # An input of two values has no rank there; its own values serve, in their unit.
        length = np.ptp(scaler.knots, axis=1)
        stretched = wants_rank & ~ranked & (length > 0)
        own[stretched] *= length[stretched]
        bandwidth = np.full(len(scaler.unit), np.inf)
        bandwidth[np.arange(n_features) + n_features * ranked] = own
        template = clone(self.template)
        template.set_params(bandwidth=bandwidth, categorical=scaler.categorical)
        return RandomRecipe(scaler, template)


@dataclass(frozen=True)
class GridRecipe:
    """Grids that were chosen one by one."""

    scaler: Scaler
    grids: Grids

    @property
    def size(self) -> int:
        """How many grids there are."""
        return len(self.grids)

    @property
    def learns_bins(self) -> bool:
        """Always."""
        return True

    def fit(self, rows: Rows, n_jobs: int | None) -> tuple[BinningMap, BinnedMatrix]:
        """Return the feature map fitted to rows, and their matrix."""
        feature_map = GivenBinning(n_jobs=n_jobs)
        return feature_map, feature_map.learn_bins(self.scaler.rows(rows, n_jobs), self.grids)

    def draw(self) -> Grids:
        """Return the grids."""
        return self.grids

    def joined(self, other: RandomRecipe | GridRecipe) -> GridRecipe:
        """Return the recipe's grids and those of another over the same scaler."""
        return GridRecipe(self.scaler, Grids.joined([self.grids, other.draw()]))
