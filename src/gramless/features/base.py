"""Base classes of feature maps: fitting, checks and feature matrices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.numeric import is_whole, upper_limit_text
from gramless.base.random import RandomStateLike, seed_from
from gramless.base.state import (
    State,
    StatefulEstimator,
    array_in,
    check_columns,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.kernels import Kernel, KernelLike, as_kernel, bandwidth_vector
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.dense import ComputedMatrix
from gramless.preprocessing.categories import Mask, category_mask, check_categories
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.rows import Rows, check_rows, check_width

_BLOCK_ROWS = 1024  # rows that a task of ``transform`` computes
_MAX_NUMBERS_SHOWN = 6  # longer array parameters are abbreviated in a repr


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StatefulEstimator):
    """A scikit-learn transformer that can also return its features as a feature matrix."""

    size_unit: ClassVar[str] = "components"  # the plural, for messages
    fitted_name: ClassVar[str] = "bandwidth_"  # an attribute that exists only after a fit

    n_jobs: int | None

    @abstractmethod
    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn the features from rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Rows to learn from.
        y : ignored
            Ignored; present for scikit-learn's interface.

        Returns
        -------
        The fitted map.
        """

    @abstractmethod
    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        """Return the features of rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Rows to transform.

        Returns
        -------
        array or csr_array (n_samples, n_features_out)
            Binning features are a SciPy CSR matrix of float64, with 12 bytes per non-zero, or an
            array with ``sparse_output=False``. If ``fit`` has not seen the bin of a row in a grid,
            the row has no non-zero for this grid. Other features are a dense array, float32 if the
            rows are float32, else float64.
        """

    @abstractmethod
    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        """Return the feature matrix of validated rows; the map must be fitted."""

    @property
    @abstractmethod
    def n_features_out(self) -> int:
        """Number of features of the fitted map."""

    @property
    def _n_features_out(self) -> int:
        # scikit-learn reads this name in get_feature_names_out.
        return self.n_features_out

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """Number of inputs of the rows that the map was fitted to."""

    @property
    def used_columns(self) -> BoolArray:
        """Mask of the inputs that some feature depends on; all by default."""
        return np.ones(self.n_inputs, bool)

    @property
    def numbers_per_row(self) -> int:
        """The largest number of non-zeros of a row in the feature matrix."""
        return self.n_features_out

    def feature_matrix(self, X: TableLike) -> FeatureMatrix:
        """Return the features of rows as a feature matrix.

        A feature matrix stores bins as small integers. Other features are computed a block of rows
        at a time, whenever a product needs them.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Rows to transform.
        """
        self._check_fitted()
        return self.rows_matrix(check_rows(self, X, reset=False))

    def _check_fitted(self) -> None:
        message = "%(name)s is not fitted yet; fit it first."
        check_is_fitted(self, self.fitted_name, msg=message)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if self.fitted_name not in vars(self):
            return super().__repr__(N_CHAR_MAX)
        name = type(self).__name__
        return f"{name}({self.n_features_out:,} features of {self.n_inputs:,} inputs)"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def as_output(owner: BaseEstimator, features: sp.csr_array) -> AnyArray | sp.csr_array:
    """Return the features, as an array if ``owner`` has ``sparse_output=False``.

    Raise InputError if the array does not fit into memory.
    """
    if owner.sparse_output:
        return features
    n_rows, n_columns = features.shape
    check_memory(
        f"{type(owner).__name__}: {n_columns:,} features of {n_rows:,} rows as an array",
        8.0 * n_rows * n_columns,
        "transform fewer rows at a time, or use sparse_output=True",
    )
    return features.toarray()


class DifferentiableMap(FeatureMap):
    """A feature map whose features have derivatives in the inputs."""

    @abstractmethod
    def gradients(self, X: Rows, weights: FloatArray) -> FloatArray:
        """Return the gradients of predictions ``Z w`` with respect to the inputs.

        Rows are dense and validated. The gradients have the shape (n_rows, n_features) for weights
        (n_features_out,), and (n_rows, n_features, K) for weights (n_features_out, K). They are 0
        for ignored and categorical inputs.
        """


class SeparableMap(FeatureMap):
    """A feature map whose linear functions are sums of products over the inputs.

    ``Z w`` is the real part of a sum over terms. Each term is its coefficient, which
    :meth:`terms` returns, times one factor for each set of columns, which :meth:`factors` returns.
    The sets are disjoint and contain all columns.
    """

    @property
    def is_separable(self) -> bool:
        """True if linear functions have this form; for some maps it depends on the kernel."""
        return True

    @abstractmethod
    def terms(self, weights: FloatArray) -> AnyArray:
        """Return the coefficients of the terms (n_terms, K) for weights (n_features_out, K)."""

    @abstractmethod
    def factors(self, X: FloatArray, columns: IntArray) -> AnyArray:
        """Return the factor of each term that depends on ``columns``, (n_rows, n_terms).

        Rows are dense and validated.
        """


class SizedMap(FeatureMap):
    """Base class of feature maps with a kernel, whose size is one of their parameters.

    A subclass has the parameters ``kernel``, ``bandwidth``, ``categorical``, ``random_state``,
    ``n_jobs`` and the one named by ``size_name``. It implements :meth:`check_parameters`,
    :meth:`fit_rows`, :meth:`rows_matrix`, :meth:`bytes_to_fit`, ``transform`` and
    ``n_features_out``. Model selection and estimators use only these.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> isinstance(RandomBinning(), SizedMap), RandomBinning(n_grids=512).size
    (True, 512)
    """

    size_name: ClassVar[str] = "n_components"  # the parameter with the size
    enough_to_search: ClassVar[int] = 1024  # a size at which the scores of bandwidths are reliable

    seed_: int
    bandwidth_: FloatArray

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        bandwidth: float | ArrayLike | str = "median",
        categorical: ArrayLike | None = None,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel, self.bandwidth, self.categorical = kernel, bandwidth, categorical
        self.random_state, self.n_jobs = random_state, n_jobs

    @abstractmethod
    def check_parameters(self) -> Kernel:
        """Return the kernel; raise ``InputError`` or ``KernelError`` for an unusable parameter."""

    @abstractmethod
    def fit_rows(self, X: Rows) -> FeatureMatrix:
        """Learn from validated rows and return their feature matrix."""

    @abstractmethod
    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        """Return an estimate of the bytes that a fit needs in addition to the rows."""

    def fit(self, X: TableLike, y: object = None) -> Self:
        self.fit_matrix(X, y)
        return self

    def fit_matrix(self, X: TableLike, y: object = None) -> FeatureMatrix:
        """Fit to rows and return their feature matrix.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Rows to learn from and to transform.
        y : ignored
            Ignored; present for scikit-learn's interface.
        """
        return self.fit_rows(self._check_rows(X))

    def check_memory(self, shape: tuple[int, int]) -> None:
        """Raise ``InputError`` if memory is too small for a fit to (n_rows, n_inputs)."""
        n_rows, n_inputs = shape
        check_memory(
            f"{type(self).__name__}: {self.size_name}={self.size:,} for {n_rows:,} rows of "
            f"{n_inputs:,} inputs",
            self.bytes_to_fit(n_rows, n_inputs),
            self._memory_advice,
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # The repr of arrays has line breaks; log lines need one line.
        with np.printoptions(threshold=_MAX_NUMBERS_SHOWN, edgeitems=2):
            return " ".join(BaseEstimator.__repr__(self, N_CHAR_MAX).split())

    @property
    def _memory_advice(self) -> str:
        return f"lower {self.size_name}"

    @property
    def size(self) -> int:
        """The requested number of grids, components or landmarks."""
        return int(getattr(self, self.size_name))

    @property
    def metric(self) -> Literal["cityblock", "euclidean"]:
        """The distance between rows that the bandwidth scales."""
        return self.check_parameters().metric

    def sketch(self, max_size: int) -> SizedMap:
        """Return an unfitted map of the same kernel with a size of at most ``max_size``."""
        return self.resized(min(self.size, max_size))

    def resized(self, size: int) -> Self:
        """Return an unfitted map of another size."""
        other: Self = clone(self)
        return other.set_params(**{self.size_name: size})

    @property
    def n_inputs(self) -> int:
        return len(self.bandwidth_)

    @property
    def used_columns(self) -> BoolArray:
        return np.isfinite(self.bandwidth_)

    def check_state(self, state: State) -> None:
        bandwidth = array_in(state, "bandwidth_", np.float64, (None,))
        require(bandwidth.size > 0 and (bandwidth > 0).all(), "bandwidth_ must be positive")
        number_in(state, "seed_", int, 0, 2**64)
        check_columns(state, len(bandwidth))

    def _parameters_to_save(self) -> dict[str, object]:
        params = super()._parameters_to_save()
        kernel = params.get("kernel")
        return params | ({"kernel": as_kernel(kernel)} if callable(kernel) else {})

    def _check_rows(self, X: TableLike) -> Rows:
        rows = check_rows(self, X, reset=True)
        check_categories(rows, self._mask(rows))
        return rows

    def _mask(self, X: Rows) -> Mask:
        return category_mask(self.categorical, X.shape[1])

    def _prepare(self, X: Rows) -> Kernel:
        """Check parameters and memory, set ``seed_`` and ``bandwidth_``, and return the kernel."""
        kernel = self.check_parameters()
        self.check_memory(X.shape)
        self.seed_ = seed_from(self.random_state)
        self.bandwidth_ = self._bandwidth_of(X, kernel)
        return kernel

    def _bandwidth_of(self, X: Rows, kernel: Kernel) -> FloatArray:
        """Return the bandwidth of each input; ``seed_`` must be set."""
        if not isinstance(self.bandwidth, str):
            return np.array(bandwidth_vector(self.bandwidth, X.shape[1]))
        if self.bandwidth != "median":
            raise InputError(
                f"{type(self).__name__}: bandwidth must be a number, one number per input "
                f"or 'median', got {self.bandwidth!r}."
            )
        median = median_distance(X, self.seed_, self._mask(X), kernel.metric)
        return np.full(X.shape[1], median)

    def _check_size(self) -> None:
        size, owner = getattr(self, self.size_name), f"{type(self).__name__}: {self.size_name}"
        if not is_whole(size, 1):
            bounds = f"at least 1{upper_limit_text(size)}"
            raise InputError(f"{owner} must be an integer, {bounds}; got {size!r}.")

    def _check_choice(self, name: str, value: str, known: Collection[str]) -> None:
        if value not in known:
            owner, names = type(self).__name__, ", ".join(map(repr, known))
            raise InputError(f"{owner}: {name} must be one of {names}; got {value!r}.")


class DenseMap(SizedMap):
    """Base class of feature maps with dense features.

    A subclass implements :meth:`learn` and :meth:`compute`.

    Parameters
    ----------
    kernel : str, Kernel or callable
        The kernel that inner products of features approximate.
    bandwidth : float or array-like (n_features,)
        In units of the inputs.
    categorical : list of int or array (n_features,) of bool, optional
        Positions or a mask of categorical inputs.
    random_state : int, RandomState or None, optional
        Seed of the random numbers.
    n_jobs : int, optional
        Number of threads; None means all processors.
    """

    def check_state(self, state: State) -> None:
        super().check_state(state)
        self.check_parameters()
        self._mask(part_in(state, "bandwidth_", np.ndarray)[None, :])

    @abstractmethod
    def learn(self, X: Rows, kernel: Kernel) -> None:
        """Learn what :meth:`compute` needs; ``seed_`` and ``bandwidth_`` are already set."""

    @abstractmethod
    def compute(self, X: Rows, out: AnyArray) -> None:
        """Write the features of a block of validated rows into ``out``, with its dtype."""

    def fit(self, X: TableLike, y: object = None) -> Self:
        self._fit_checked(self._check_rows(X))
        return self

    def transform(self, X: TableLike) -> AnyArray:
        self._check_fitted()
        rows = check_rows(self, X, reset=False)
        dtype = np.dtype(np.float32 if rows.dtype == np.float32 else np.float64)
        shape = (rows.shape[0], self.n_features_out)
        check_memory(
            f"{type(self).__name__}: {shape[1]:,} features of {shape[0]:,} rows",
            float(dtype.itemsize) * shape[0] * shape[1],
            f"transform fewer rows at a time, or {self._memory_advice}",
        )
        out = np.empty(shape, dtype)
        blocks = row_blocks(rows.shape[0], _BLOCK_ROWS)
        with one_blas_thread():
            map_blocks(lambda a, b: self.compute(rows[a:b], out[a:b]), blocks, self.n_jobs)
        return out

    def fit_rows(self, X: Rows) -> FeatureMatrix:
        self._fit_checked(X)
        return self._matrix_of(X)

    def rows_matrix(self, X: Rows) -> FeatureMatrix:
        self._check_inputs(X)
        return self._matrix_of(X)

    def _matrix_of(self, X: Rows) -> FeatureMatrix:
        return ComputedMatrix(X, self.compute, self.n_features_out, n_jobs=self.n_jobs)

    def _fit_checked(self, X: Rows) -> None:
        kernel = self._prepare(X)
        try:
            self.learn(X, kernel)
        except Exception:
            # Otherwise the map would seem to be fitted.
            del self.bandwidth_
            raise

    def _check_inputs(self, X: Rows) -> None:
        check_width(type(self).__name__, X, len(self.bandwidth_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
