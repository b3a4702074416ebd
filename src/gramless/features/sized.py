"""What search and estimators ask of any feature map: its size, its metric, a smaller one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Protocol, Self

from sklearn.base import BaseEstimator, clone

from gramless.features.inputs import Rows
from gramless.kernels import Kernel
from gramless.matrices.base import FeatureMatrix


class FittedMap(Protocol):
    """What predicts: a map that knows its features."""

    size_unit: ClassVar[str]

    @property
    def _n_features_out(self) -> int: ...

    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        """Return the feature matrix of validated rows."""


class SizedMap(BaseEstimator, ABC):
    """A feature map whose size is one of its parameters.

    Besides it has the parameters ``bandwidth``, ``categorical``, ``random_state`` and
    ``n_jobs``, and ``fit_rows(rows)`` and ``rows_matrix(rows)``, which return the feature
    matrices of the rows of the fit and of others.
    """

    size_name: ClassVar[str] = "n_components"
    """The parameter that says how large it is."""
    size_unit: ClassVar[str] = "components"
    """What the size counts, for people."""
    enough_to_search: ClassVar[int] = 1024
    """The size that tells good bandwidths from bad ones."""

    @abstractmethod
    def check_parameters(self) -> Kernel:
        """Return the kernel, or say which parameter cannot be used."""

    @abstractmethod
    def fit_rows(self, X: Rows) -> FeatureMatrix:
        """Learn from validated rows and return their feature matrix."""

    @abstractmethod
    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        """Return the feature matrix of validated rows, once fitted."""

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """How many columns there are, once fitted."""

    @property
    def size(self) -> int:
        """How many grids, frequencies' columns or landmarks there are to be."""
        return int(getattr(self, self.size_name))

    @property
    def metric(self) -> Literal["cityblock", "euclidean"]:
        """The distance that the bandwidth is compared with."""
        return self.check_parameters().metric

    def sketch(self, most: int) -> Any:
        """Return an unfitted map of the same kernel that is no larger than ``most``.

        Examples
        --------
        >>> from gramless import RandomBinning
        >>> RandomBinning(n_grids=512).sketch(96).n_grids
        96
        """
        return self.resized(min(self.size, most))

    def resized(self, size: int) -> Self:
        """Return an unfitted map of another size."""
        other: Self = clone(self)
        return other.set_params(**{self.size_name: size})
