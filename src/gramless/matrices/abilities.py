"""What some feature matrices can do beyond the basics; ask with ``isinstance``.

A matrix made of others, such as one with a column of ones, has an ability where its parts have it.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, RowFunction, Vector
from gramless.matrices.row_lists import RowLists

Columns = NDArray[np.integer] | slice


class SupportsOnePass(FeatureMatrix):
    """A matrix that multiplies there and back in one pass over its rows."""

    @abstractmethod
    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ function(rows, Z @ w)`` in one pass: each row is computed once.

        ``w`` is (n_columns,) or (n_columns, K). Pool threads call ``function(rows, responses)``
        with a slice of the rows and their responses (m,) or (m, K), which it may overwrite.
        """


class SupportsColumnGram(SupportsOnePass):
    """A matrix without zeros, whose columns may be multiplied with each other."""

    @abstractmethod
    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return ``Z.T @ diag(weights) @ Z``, exactly symmetric, of all columns or some.

        Weights (n_rows,) may have any sign and are 1 by default; columns may be in any order.
        ``out`` (m, m) need not be contiguous.
        """


class SupportsRowProducts(FeatureMatrix):
    """A matrix whose rows are multiplied with each other faster than there and back."""

    @abstractmethod
    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        """Return ``Z @ Z[rows].T @ v`` of ``v`` (m, K), of all rows by default.

        In single precision, if that is asked for.
        """


class SupportsRowLists(FeatureMatrix):
    """A matrix of bins: groups of columns that share no row."""

    @cached_property
    def row_lists(self) -> RowLists:
        """The rows of every column, listed once: another 2 or 4 bytes per non-zero."""
        return self._list_rows()

    @abstractmethod
    def _list_rows(self) -> RowLists:
        """List the rows of every column."""


class SupportsUnwhitening(FeatureMatrix):
    """Whitened kernel values, whose products need only the kernel values."""

    @abstractmethod
    def unwhitened(self) -> SupportsOnePass:
        """Return the same matrix by its products with kernel values."""
