"""Feature maps side by side, as one feature map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import _BaseComposition

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.state import State, array_in, check_columns, part_in, require
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.features.base import FeatureMap, SizedMap, as_output
from gramless.kernels import Sum, bandwidth_vector
from gramless.matrices.stacked import HStack
from gramless.preprocessing.categories import check_categories
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.rows import Rows, check_rows


class SideBySide(FeatureMap):
    """Fitted feature maps over the same inputs, each times its scale."""

    fitted_name: ClassVar[str] = "maps_"
    maps_: Sequence[FeatureMap]
    scales_: FloatArray

    def rows_matrix(self, X: Rows) -> HStack:
        return HStack([part.rows_matrix(X) for part in self.maps_], self.scales_)

    def check_state(self, state: State) -> None:
        parts = part_in(state, "maps_", list)
        require(len(parts) > 0, "maps_ holds no feature maps")
        for part in parts:
            fits = isinstance(part, FeatureMap) and part.n_inputs == parts[0].n_inputs
            require(fits, "maps_ holds something else, or takes another number of inputs")
        scales = array_in(state, "scales_", np.float64, (len(parts),), finite=True)
        require((scales > 0).all(), "scales_ are not positive")
        check_columns(state, parts[0].n_inputs)

    @property
    def n_inputs(self) -> int:
        return self.maps_[0].n_inputs

    @property
    def numbers_per_row(self) -> int:
        return sum(part.numbers_per_row for part in self.maps_)

    @property
    def _n_features_out(self) -> int:
        return sum(part._n_features_out for part in self.maps_)


class JoinedMaps(SideBySide):
    """Feature maps that were fitted by themselves, side by side; see :meth:`of`."""

    size_unit: ClassVar[str] = "features"
    n_features_in_: int

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    @classmethod
    def of(
        cls, maps: Sequence[FeatureMap], scales: Sequence[float], n_jobs: int | None = None
    ) -> Self:
        """Join fitted maps over the same inputs."""
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
    """Return the maps that were joined, or a list of the map itself."""
    return list(features.maps_) if isinstance(features, JoinedMaps) else [features]


class Hybrid(_BaseComposition, SideBySide, SizedMap):
    """Several feature maps side by side (Rahimi & Recht 2007, section 6).

    Its kernel is the weighted mean of the parts' kernels: the features of part i are
    multiplied by ``sqrt(weights[i])``, the weights summing to 1.

    Parameters
    ----------
    maps : list of feature maps, or of (name, feature map)
        Such as ``RandomBinning()``; not changed. The parameters of named ones are parameters of the
        hybrid too, as in scikit-learn: ``name__parameter``.
    weights : array-like (n_maps,), optional
        Of the kernels, above 0; only their proportions matter. Equal by default.
    bandwidth : "own", "median", float or array-like (n_features,), default="own"
        ``"own"`` leaves each part the bandwidth that it has. Anything else takes the place of all
        parts' own: ``"median"`` the median distance of each part's metric; a number, or one an
        input, in the metric of the first part, for others in proportion to the median distances.
        For parts of different widths use kernels such as ``Scaled(Laplacian(), 10.0)``.
    categorical : list of int or array (n_features,) of bool, default=None
        Takes the place of the parts' own where it is given.
    sparse_output : bool, default=True
        Whether ``transform`` returns SciPy CSR if a part does. False returns an array, which
        ``set_output(transform="pandas")`` needs.
    random_state : int, RandomState or None, default=None
        Part i depends on the seed and i alone. Parts with a seed of their own keep it.
    n_jobs : int or None, default=None
        Threads, for parts that leave it open. Results do not depend on it.

    Attributes
    ----------
    maps_ : list of feature maps
        Fitted.
    scales_ : array (n_maps,)
        What each part's features are multiplied by.
    bandwidth_ : array (n_features,)
        Of the first part.
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
        random_state: RandomState = None,
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
        """Return the parameters, with ``deep`` those of named parts too."""
        params: dict[str, object] = self._get_params("maps", deep=deep)
        return params

    def set_params(self, **params: object) -> Self:
        """Set parameters, those of named parts by ``name__parameter``."""
        self._set_params("maps", **params)
        return self

    def transform(self, X: TableLike) -> AnyArray | sp.csr_array:
        self._check_fitted()
        rows = check_rows(self, X, reset=False)
        fitted = zip(self.maps_, self.scales_.tolist(), strict=True)
        parts = [scale * part.transform(rows) for part, scale in fitted]
        if any(sp.issparse(part) for part in parts):
            joined = sp.hstack([sp.csr_array(part) for part in parts], format="csr")
            return as_output(self, joined)
        return np.hstack(parts)

    def _checked(self, X: TableLike) -> Rows:
        rows = check_rows(self, X, reset=True)
        for part in [self, *self._parts()]:
            check_categories(rows, part._mask(rows))
        return rows

    def fit_rows(self, X: Rows) -> HStack:
        self.check_parameters()
        self.seed_ = seed_from(self.random_state)
        self.scales_ = np.sqrt(self._shares())
        self.maps_ = [self._part(i, part, X) for i, part in enumerate(self._parts())]
        matrices = [part.fit_rows(X) for part in self.maps_]
        self.bandwidth_ = self.maps_[0].bandwidth_
        return HStack(matrices, self.scales_)

    def check_parameters(self) -> Sum:
        """Return the mean of the parts' kernels: the hybrid's, if a bandwidth is given."""
        if isinstance(self.bandwidth, str) and self.bandwidth not in ("own", "median"):
            given = self.bandwidth
            raise InputError(
                f"Hybrid: bandwidth must be 'own', 'median' or numbers, got {given!r}."
            )
        kernels = [part.check_parameters() for part in self._parts()]
        return Sum(kernels, self._shares().tolist())

    def check_state(self, state: State) -> None:
        super().check_state(state)
        SizedMap.check_state(self, state)
        n_inputs = len(part_in(state, "bandwidth_", np.ndarray))
        for part in part_in(state, "maps_", list):
            fits = isinstance(part, SizedMap) and part.n_inputs == n_inputs
            require(fits, "maps_ holds something else, or takes another number of inputs")

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
        """The sum of what the parts need."""
        return sum(part.enough_to_search for part in self._parts())

    def sketch(self, most: int) -> Self:
        share = most / self.enough_to_search
        parts = self._parts()
        return self._of([part.sketch(max(1, int(share * part.enough_to_search))) for part in parts])

    def resized(self, size: int) -> Self:
        share = size / self.size
        return self._of([part.resized(max(1, round(share * part.size))) for part in self._parts()])

    def _of(self, parts: list[SizedMap]) -> Self:
        named = isinstance(self.maps[0], tuple)
        names = [item[0] for item in self.maps] if named else []
        changed: Self = clone(self)
        return changed.set_params(maps=list(zip(names, parts, strict=True)) if named else parts)

    def _parts(self) -> list[SizedMap]:
        """Return the maps without their names."""
        items: list[Any] = list(self.maps)
        named = [isinstance(item, tuple) and len(item) == 2 for item in items]
        parts = [item[1] if pair else item for item, pair in zip(items, named, strict=True)]
        odd = [part for part in parts if not isinstance(part, SizedMap)]
        if odd or not parts or len(set(named)) > 1:
            raise InputError(
                f"Hybrid: maps must be a list of feature maps such as RandomBinning(), at least "
                f"one, all with names or none; got {odd[0] if odd else self.maps!r}."
            )
        if named[0]:
            try:
                self._validate_names([item[0] for item in items])
            except (TypeError, ValueError) as error:
                raise InputError(f"Hybrid: names of maps that cannot be used: {error}") from error
        return parts

    def _shares(self) -> FloatArray:
        """Return the weights, summing to 1."""
        n_maps = len(self._parts())
        weights = np.ones(n_maps) if self.weights is None else np.asarray(self.weights, float)
        if weights.shape != (n_maps,) or not (np.isfinite(weights) & (weights > 0)).all():
            given = self.weights
            raise InputError(f"Hybrid: weights must be {n_maps} numbers above 0; got {given!r}.")
        return weights / weights.sum()

    def _part(self, i: int, part: SizedMap, X: Rows) -> SizedMap:
        """Return a copy of a part, what it leaves open as the hybrid has it."""
        own = clone(part)
        if own.random_state is None:
            own.set_params(random_state=int(stream(self.seed_, "hybrid part", i).integers(2**31)))
        if own.n_jobs is None:
            own.set_params(n_jobs=self.n_jobs)
        if self.categorical is not None:
            own.set_params(categorical=self.categorical)
        if isinstance(self.bandwidth, str):
            return own.set_params(bandwidth="median") if self.bandwidth == "median" else own
        bandwidth = bandwidth_vector(self.bandwidth, X.shape[1])
        return own.set_params(bandwidth=bandwidth * self._unit(own.metric, X))

    def _unit(self, metric: Literal["cityblock", "euclidean"], X: Rows) -> float:
        """Return the median distance in a metric, over that in the first part's."""
        if metric == self.metric:
            return 1.0
        kinds, mask = (metric, self.metric), self._mask(X)
        own, first = (median_distance(X, self.seed_, mask, kind) for kind in kinds)
        return own / first
