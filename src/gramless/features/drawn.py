"""What maps to the bins of random grids share: their size is the number of grids."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from gramless.features.grids import bytes_of_grid
from gramless.features.sized import SizedMap


class DrawnGrids(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SizedMap):
    """A map that draws grids and learns which of their bins rows occupy."""

    size_name: ClassVar[str] = "n_grids"
    size_unit: ClassVar[str] = "grids"
    enough_to_search: ClassVar[int] = 96

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the grids and learn which bins the rows occupy.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : ignored

        Returns
        -------
        The map itself.

        Raises
        ------
        KernelError
            If the kernel has no such bins.
        InputError
            If another parameter cannot be used.
        """
        self.fit_matrix(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to the rows and return their features as SciPy CSR, in one pass."""
        return self.fit_matrix(X, y).tocsr()

    def fit_matrix(self, X: Any, y: Any = None) -> Any:
        """Fit to the rows and return their compact feature matrix, in one pass.

        Returns
        -------
        BinnedMatrix or WeightedBinnedMatrix (n_samples, D)
        """
        return self.fit_rows(self._checked(X))

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        """Return the bytes that a fit takes, roughly, without those of the rows themselves."""
        return float(self.size) * bytes_of_grid(n_rows, n_inputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
