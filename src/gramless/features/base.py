"""What every feature map is: its size, its kernel and metric, and its feature matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError

from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.numeric import is_whole, too_large
from gramless.base.random import seed_from
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.kernels import Kernel, bandwidth_vector
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.computed import ComputedMatrix
from gramless.matrices.slabs import SlabMatrix
from gramless.preprocessing.categories import Mask, category_mask, check_categories
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.rows import Rows, check_rows, check_width


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

    bandwidth: Any
    categorical: Any
    random_state: Any
    n_jobs: int | None
    seed_: int

    @abstractmethod
    def check_parameters(self) -> Kernel:
        """Return the kernel, or say which parameter cannot be used."""

    @abstractmethod
    def fit_rows(self, X: Rows) -> FeatureMatrix:
        """Learn from validated rows and return their feature matrix."""

    @abstractmethod
    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        """Return the feature matrix of validated rows, once fitted."""

    @abstractmethod
    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        """Return the bytes that a fit takes, roughly, without those of the rows themselves."""

    def check_memory(self, shape: tuple[int, int]) -> None:
        """Refuse a size that would not fit into memory for so many rows and inputs.

        Raises
        ------
        InputError
            Saying how much would be needed, how much there is and which parameter to lower.
        """
        n_rows, n_inputs = shape
        check_memory(
            f"{type(self).__name__}: {self.size_name}={self.size:,} for {n_rows:,} rows of "
            f"{n_inputs:,} inputs",
            self.bytes_to_fit(n_rows, n_inputs),
            self._lighter,
        )

    @property
    def _lighter(self) -> str:
        """What to do where memory is short."""
        return f"lower {self.size_name}"

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """How many columns there are, once fitted."""

    @property
    def _row_numbers(self) -> int:
        """How many numbers a row takes in the feature matrix, at most."""
        return self._n_features_out

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

    def _checked(self, X: Any) -> Rows:
        """Return the rows of a fit, validated."""
        rows = check_rows(self, X, reset=True)
        check_categories(rows, self._mask(rows))
        return rows

    def _mask(self, X: Rows) -> Mask:
        return category_mask(self.categorical, X.shape[1])

    def _bandwidth_of(self, X: Rows, kernel: Kernel) -> NDArray[np.float64]:
        """Return one bandwidth an input, as given or the median distance; ``seed_`` is known."""
        if not isinstance(self.bandwidth, str):
            return np.array(bandwidth_vector(self.bandwidth, X.shape[1]))
        if self.bandwidth != "median":
            raise InputError(
                f"{type(self).__name__}: bandwidth must be a number, one number an input or "
                f"'median', got {self.bandwidth!r}."
            )
        median = median_distance(X, self.seed_, self._mask(X), kernel.metric)
        return np.full(X.shape[1], median)

    def _check_size(self) -> None:
        size = getattr(self, self.size_name)
        if not is_whole(size, 1):
            raise InputError(
                f"{type(self).__name__}: {self.size_name} must be an integer, at least "
                f"1{too_large(size)}; got {size!r}."
            )

    def _check_choice(self, name: str, known: Collection[str]) -> None:
        """Check a parameter that is one of some names."""
        if getattr(self, name) not in known:
            raise InputError(
                f"{type(self).__name__}: {name} must be one of {', '.join(map(repr, known))}; "
                f"got {getattr(self, name)!r}."
            )


_ROWS_AT_ONCE = 1024


class DenseMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SizedMap):
    """Rows to features without zeros, of a kernel that a subclass approximates.

    A subclass has the parameters ``kernel``, ``bandwidth``, ``categorical``,
    ``random_state`` and ``n_jobs``, and says how its features are learned and computed.
    """

    kernel: Any

    @abstractmethod
    def learn(self, X: Rows, kernel: Kernel) -> None:
        """Learn what :meth:`compute` needs; ``seed_`` and ``bandwidth_`` are known."""

    @abstractmethod
    def compute(self, X: Rows, out: NDArray[Any]) -> None:
        """Write the features of a block of validated rows into ``out``, in its precision.

        Raises
        ------
        InputError
            If the rows have another number of inputs than those of the fit.
        """

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """The number of features, once fitted."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features from rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : ignored

        Returns
        -------
        The map itself.

        Raises
        ------
        KernelError, InputError
            If a parameter cannot be used.
        """
        self._fit_checked(self._checked(X))
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the features of rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_features_out)
            float32 for float32 rows, else float64.
        """
        self._check_fitted()
        rows = check_rows(self, X, reset=False)
        single = rows.dtype == np.float32
        shape = (rows.shape[0], self._n_features_out)
        check_memory(
            f"{type(self).__name__}: {shape[1]:,} features of {shape[0]:,} rows",
            (4.0 if single else 8.0) * shape[0] * shape[1],
            f"transform fewer rows at a time, or {self._lighter}",
        )
        out = np.empty(shape, np.float32 if single else np.float64)
        blocks = row_blocks(rows.shape[0], _ROWS_AT_ONCE)
        with one_blas_thread():
            map_blocks(lambda a, b: self.compute(rows[a:b], out[a:b]), blocks, self.n_jobs)
        return out

    def fit_matrix(self, X: Any, y: Any = None) -> SlabMatrix:
        """Fit to the rows and return their feature matrix; see :meth:`feature_matrix`."""
        return self.fit_rows(self._checked(X))

    def feature_matrix(self, X: Any) -> SlabMatrix:
        """Return the feature matrix of rows, computed as it is needed.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)

        Returns
        -------
        SlabMatrix (n_samples, n_features_out)
            Of float32; kept where memory allows.
        """
        self._check_fitted()
        return self.rows_matrix(check_rows(self, X, reset=False))

    def fit_rows(self, X: Rows) -> SlabMatrix:
        """Do as :meth:`fit_matrix` on rows that are validated already."""
        self._fit_checked(X)
        return self._matrix_of(X)

    def rows_matrix(self, X: Rows) -> SlabMatrix:
        """Do as :meth:`feature_matrix` on rows that are validated already.

        Raises
        ------
        InputError
            If the rows have another number of inputs than those of the fit.
        """
        self._check_inputs(X)
        return self._matrix_of(X)

    def _matrix_of(self, X: Rows) -> SlabMatrix:
        """Return the feature matrix of rows with as many inputs as those of the fit."""
        return ComputedMatrix(X, self.compute, self._n_features_out, n_jobs=self.n_jobs)

    def _fit_checked(self, X: Rows) -> None:
        kernel = self.check_parameters()
        self.check_memory(X.shape)
        self.seed_ = seed_from(self.random_state)
        self.bandwidth_ = self._bandwidth_of(X, kernel)
        try:
            self.learn(X, kernel)
        except Exception:
            # What was refused must not look fitted.
            del self.bandwidth_
            raise

    def _check_inputs(self, X: Rows) -> None:
        check_width(type(self).__name__, X, len(self.bandwidth_))

    def _check_fitted(self) -> None:
        if not hasattr(self, "bandwidth_"):
            raise NotFittedError(f"{type(self).__name__} knows no features yet; fit it first.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
