"""Feature maps that concatenate the features of other feature maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import _BaseComposition

from gramless.base.errors import InputError
from gramless.base.random import RandomStateLike, seed_from, stream
from gramless.base.state import State, array_in, check_columns, part_in, require
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.features.base import FeatureMap, SizedMap, as_output
from gramless.kernels import Sum, bandwidth_vector
from gramless.matrices.stacked import HStack
from gramless.preprocessing.categories import category_mask, check_categories
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.rows import Rows, check_rows


class ConcatenatedMaps(FeatureMap):
    """Concatenated features of fitted maps over the same inputs, each times its scale."""

    fitted_name: ClassVar[str] = "maps_"
    maps_: Sequence[FeatureMap]
    scales_: FloatArray

    def rows_matrix(self, X: Rows) -> HStack:
        return HStack([part.rows_matrix(X) for part in self.maps_], self.scales_)

    def check_state(self, state: State) -> None:
        parts = part_in(state, "maps_", list)
        require(len(parts) > 0, "maps_ is empty")
        for part in parts:
            is_valid = isinstance(part, FeatureMap) and part.n_inputs == parts[0].n_inputs
            require(is_valid, "maps_ must be feature maps with the same number of inputs")
        scales = array_in(state, "scales_", np.float64, (len(parts),), finite=True)
        require((scales > 0).all(), "scales_ must be positive")
        check_columns(state, parts[0].n_inputs)

    @property
    def n_inputs(self) -> int:
        return self.maps_[0].n_inputs

    @property
    def numbers_per_row(self) -> int:
        return sum(part.numbers_per_row for part in self.maps_)

    @property
    def n_features_out(self) -> int:
        return sum(part.n_features_out for part in self.maps_)


class JoinedMaps(ConcatenatedMaps):
    """Concatenated features of maps that were fitted separately; see :meth:`of`."""

    size_unit: ClassVar[str] = "features"
    n_features_in_: int

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @classmethod
    def of(
        cls, maps: Sequence[FeatureMap], scales: Sequence[float], n_jobs: int | None = None
    ) -> Self:
        """Return the concatenation of fitted maps over the same inputs."""
        joined = cls(n_jobs)
        joined.maps_, joined.scales_ = list(maps), np.array(scales, np.float64)
        joined.n_features_in_ = maps[0].n_inputs
        return joined

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Fit the same maps to other rows."""
        self._check_fitted()
        rows = check_rows(self, X, reset=True)
        self.maps_ = [part.fit(rows) for part in self.maps_]
        return self

    def transform(self, X: TableLike) -> sp.csr_array:
        return self.feature_matrix(X).tocsr()


def parts_of(features: FeatureMap) -> list[FeatureMap]:
    """Return the parts of :class:`JoinedMaps`, or a list of the map itself."""
    return list(features.maps_) if isinstance(features, JoinedMaps) else [features]


class Hybrid(_BaseComposition, ConcatenatedMaps, SizedMap):
    """Concatenated features of several maps (Rahimi & Recht 2007, section 6).

    Its kernel is the weighted mean of the parts' kernels. The features of part i are multiplied by
    ``sqrt(weights[i])``, with weights that sum to 1.

    Parameters
    ----------
    maps : list of feature maps, or of (name, feature map)
        For example ``RandomBinning()``. They are cloned before the fit. Parameters of named maps
        can be set as ``name__parameter``, as in scikit-learn.
    weights : array-like (n_maps,), optional
        Positive weights of the kernels; only their proportions matter. Equal by default.
    bandwidth : "own", "median", float or array-like (n_features,), default="own"
        With ``"own"`` each part keeps its bandwidth. Anything else replaces the bandwidths of all
        parts. ``"median"`` is the median distance in each part's metric. Numbers, one or one per
        input, refer to the metric of the first part; for another metric they are multiplied by the
        ratio of the median distances. For parts of different widths use kernels such as
        ``Scaled(Laplacian(), 10.0)``.
    categorical : list of int or array (n_features,) of bool, default=None
        If given, it replaces ``categorical`` of all parts.
    sparse_output : bool, default=True
        Whether ``transform`` returns SciPy CSR if a part does. With False it returns an array,
        which ``set_output(transform="pandas")`` needs.
    random_state : int, RandomState or None, default=None
        Seed of the parts whose ``random_state`` is None. The seed of part i depends on this one and
        on i only.
    n_jobs : int or None, default=None
        Number of threads of the parts whose ``n_jobs`` is None. Results do not depend on it.

    Attributes
    ----------
    maps_ : list of feature maps
        The fitted parts.
    scales_ : array (n_maps,)
        Factors of the parts' features.
    bandwidth_ : array (n_features,)
        Bandwidth of the first part.
    seed_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> parts = [RandomBinning(bandwidth=2.0), RandomBinning("hat", bandwidth=9.0)]
    >>> Z = Hybrid(parts, weights=[3, 1], random_state=0).fit_transform(X)
    >>> exact = 0.75 * np.exp(-np.abs(X[0] - X[1]).sum() / 2.0)
    >>> exact += 0.25 * np.prod(1 - np.abs(X[0] - X[1]) / 9.0)
    >>> bool(abs((Z[[0]] @ Z[[1]].T).toarray()[0, 0] - exact) < 0.1)
    True
    """

    size_name: ClassVar[str] = "maps"
    maps_: Sequence[SizedMap]

    def __init__(
        self,
        maps: Sequence[SizedMap | tuple[str, SizedMap]] = (),
        *,
        weights: ArrayLike | None = None,
        bandwidth: float | ArrayLike | str = "own",
        categorical: ArrayLike | None = None,
        sparse_output: bool = True,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
    ) -> None:
        self.maps = maps
        self.weights = weights
        self.bandwidth = bandwidth
        self.categorical = categorical
        self.sparse_output = sparse_output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters, including those of named parts if ``deep``."""
        params: dict[str, object] = self._get_params("maps", deep=deep)
        return params

    def set_params(self, **params: object) -> Self:
        """Set parameters; those of named parts are ``name__parameter``."""
        self._set_params("maps", **params)
        return self

    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        self._check_fitted()
        rows = check_rows(self, X, reset=False)
        scaled_maps = zip(self.maps_, self.scales_.tolist(), strict=True)
        parts = [scale * part.transform(rows) for part, scale in scaled_maps]
        if any(sp.issparse(part) for part in parts):
            joined = sp.hstack([sp.csr_array(part) for part in parts], format="csr")
            return as_output(self, joined)
        return np.hstack(parts)

    def _check_rows(self, X: TableLike) -> Rows:
        rows = check_rows(self, X, reset=True)
        for part in [self, *self._parts()]:
            check_categories(rows, category_mask(part.categorical, rows.shape[1]))
        return rows

    def fit_rows(self, X: Rows) -> HStack:
        self.check_parameters()
        self.seed_ = seed_from(self.random_state)
        self.scales_ = np.sqrt(self._normalised_weights())
        self.maps_ = [self._configure_part(i, part, X) for i, part in enumerate(self._parts())]
        matrices = [part.fit_rows(X) for part in self.maps_]
        self.bandwidth_ = self.maps_[0].bandwidth_
        return HStack(matrices, self.scales_)

    def check_parameters(self) -> Sum:
        """Return the weighted mean of the parts' kernels.

        With ``bandwidth="own"`` it differs from the hybrid's kernel, because parts may have
        different bandwidths.
        """
        if isinstance(self.bandwidth, str) and self.bandwidth not in ("own", "median"):
            raise InputError(
                f"Hybrid: bandwidth must be 'own', 'median' or numbers, got {self.bandwidth!r}."
            )
        kernels = [part.check_parameters() for part in self._parts()]
        return Sum(kernels, self._normalised_weights().tolist())

    def check_state(self, state: State) -> None:
        super().check_state(state)
        SizedMap.check_state(self, state)
        n_inputs = len(part_in(state, "bandwidth_", np.ndarray))
        for part in part_in(state, "maps_", list):
            is_valid = isinstance(part, SizedMap) and part.n_inputs == n_inputs
            require(is_valid, "maps_ must be feature maps with the same number of inputs")

    def bytes_to_fit(self, n_rows: int, n_inputs: int) -> float:
        return float(sum(part.bytes_to_fit(n_rows, n_inputs) for part in self._parts()))

    def check_memory(self, shape: tuple[int, int]) -> None:
        for part in self._parts():
            part.check_memory(shape)

    @property
    def metric(self) -> Literal["cityblock", "euclidean"]:
        return self._parts()[0].metric

    @property
    def size(self) -> int:
        return sum(part.size for part in self._parts())

    @property
    def enough_to_search(self) -> int:  # type: ignore[override]
        """The sum of this attribute of the parts."""
        return sum(part.enough_to_search for part in self._parts())

    def sketch(self, max_size: int) -> Self:
        share = max_size / self.enough_to_search
        parts = self._parts()
        return self._with_parts(
            [part.sketch(max(1, int(share * part.enough_to_search))) for part in parts]
        )

    def resized(self, size: int) -> Self:
        share = size / self.size
        parts = self._parts()
        return self._with_parts([part.resized(max(1, round(share * part.size))) for part in parts])

    def _with_parts(self, parts: list[SizedMap]) -> Self:
        has_names = isinstance(self.maps[0], tuple)
        names = [item[0] for item in self.maps] if has_names else []
        hybrid: Self = clone(self)
        return hybrid.set_params(maps=list(zip(names, parts, strict=True)) if has_names else parts)

    def _parts(self) -> list[SizedMap]:
        """Return the maps without their names; raise InputError if they are invalid."""
        items: list[Any] = list(self.maps)
        have_names = [isinstance(item, tuple) and len(item) == 2 for item in items]
        parts = [item[1] if pair else item for item, pair in zip(items, have_names, strict=True)]
        invalid = [part for part in parts if not isinstance(part, SizedMap)]
        if invalid or not parts or len(set(have_names)) > 1:
            raise InputError(
                f"Hybrid: maps must be a list of feature maps such as RandomBinning(), at least "
                f"one, all with names or none; got {invalid[0] if invalid else self.maps!r}."
            )
        if have_names[0]:
            try:
                self._validate_names([item[0] for item in items])
            except (TypeError, ValueError) as error:
                raise InputError(f"Hybrid: invalid names of maps: {error}") from error
        return parts

    def _normalised_weights(self) -> FloatArray:
        n_maps = len(self._parts())
        weights = np.ones(n_maps) if self.weights is None else np.asarray(self.weights, float)
        if weights.shape != (n_maps,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise InputError(
                f"Hybrid: weights must be {n_maps} numbers above 0; got {self.weights!r}."
            )
        return weights / weights.sum()

    def _configure_part(self, i: int, part: SizedMap, X: Rows) -> SizedMap:
        """Return a clone of part i with the parameters that the hybrid sets."""
        part = clone(part)
        if part.random_state is None:
            seed = int(stream(self.seed_, "hybrid part", i).integers(2**31))
            part.set_params(random_state=seed)
        if part.n_jobs is None:
            part.set_params(n_jobs=self.n_jobs)
        if self.categorical is not None:
            part.set_params(categorical=self.categorical)
        if isinstance(self.bandwidth, str):
            return part.set_params(bandwidth="median") if self.bandwidth == "median" else part
        bandwidth = bandwidth_vector(self.bandwidth, X.shape[1])
        ratio = 1.0
        if part.metric != self.metric:
            # Numbers refer to the metric of the first part.
            mask = self._mask(X)
            part_median = median_distance(X, self.seed_, mask, part.metric)
            ratio = part_median / median_distance(X, self.seed_, mask, self.metric)
        return part.set_params(bandwidth=bandwidth * ratio)
