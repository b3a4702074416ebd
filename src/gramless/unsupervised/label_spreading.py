"""Labels of a few rows spread over the graph of features that rows share."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.state import (
    State,
    Stateful,
    array_in,
    check_columns,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.features import given_map, named_map
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count, check_number, is_auto
from gramless.features.base import FeatureMap, SizedMap
from gramless.features.neighbours import NearestLandmarks
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.neighbours import NeighbourMatrix
from gramless.matrices.plain_bins import PlainBins
from gramless.preprocessing.median import neighbour_distance, scaled_sample
from gramless.preprocessing.rows import Rows
from gramless.solvers.cg import ConjugateRuns, RowCurvature
from gramless.solvers.preconditioners import DiagonalInverse
from gramless.solvers.vectors import matvec, rmatvec
from gramless.unsupervised.base import TableEstimator, are_neighbors, refuse_kernel_parameters
from gramless.unsupervised.principal_axes import MOST_INPUTS, PrincipalAxes, dense, spreads

_UNLABELLED = -1
_BANDWIDTH = 0.12
"""Of the graph, in distances to the tenth neighbour: far rows are many, and must not count."""
_NEIGHBOURS = 10
_N_AXES, _FEW_INPUTS = 10, 20
"""Principal axes, and the inputs beyond which they take the place of all."""
_AXES_ROWS = 10_000
_POWERS = {"inputs": 2.0, "axes": 1.0}
"""Powers of the relevance of inputs, by which these are multiplied in each space."""
_LEAST_RELEVANCE = 1e-3
_CHANGED_ROWS, _CHANGES = (20, 200), 20_000
"""Rows in which inputs are changed to learn their relevance, at least and at most, and of all."""
_NUMBERS_AT_ONCE = 1 << 21
_THRESHOLDS = (0.1, 0.9)
"""Bounds of the share of the scores beyond which a row is of the second of two classes."""
_NONZEROS = 1 << 29
"""Bounds grids times rows times classes."""
_GRIDS = (64, 256)
_BLOCK_ROWS = 65_536
_ALONE = 1e-9
"""Degrees below this are rounding errors of 0."""


@dataclass(frozen=True)
class GraphSpace(Stateful):
    """Where neighbours are looked for: inputs divided by their units, or principal axes of them.

    Units are the smaller the more relevant inputs are. Where there are no axes all inputs count.
    ``categorical`` marks inputs that are categories.
    """

    axes: PrincipalAxes
    categorical: BoolArray

    @classmethod
    def of(
        cls, kind: str, rows: Rows, categorical: BoolArray, relevance: FloatArray, seed: int
    ) -> Self:
        """Learn units, or axes, from at most 10,000 rows."""
        n_rows, n_inputs = rows.shape
        drawn = stream(seed, "axes").permutation(n_rows)[:_AXES_ROWS]
        sample = rows[np.sort(drawn)]
        unit = spreads(sample, categorical)
        by_rule = "axes" if n_inputs > _FEW_INPUTS else "inputs"
        kind = by_rule if kind == "auto" else kind
        if kind == "axes":
            # Inputs as they are, but for those that are constant or categories.
            unit = np.where(np.isfinite(unit), 1.0, np.inf)
        unit = unit / relevance ** _POWERS[kind]
        most = _N_AXES if kind == "axes" else 0
        return cls(PrincipalAxes.of(sample, unit, most), categorical)

    def check(self) -> None:
        """Check that the parts of a space from a file fit each other."""
        axes = part_in(vars(self), "axes", PrincipalAxes)
        array_in(vars(self), "categorical", np.bool_, axes.unit.shape)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return self.axes.n_axes or len(self.axes.unit)

    @property
    def mask(self) -> BoolArray:
        """Which coordinates are categories."""
        return np.zeros(self.axes.n_axes, bool) if self.axes.n_axes else self.categorical

    def rows(self, X: Rows) -> Rows:
        """Return coordinates of rows."""
        if self.axes.n_axes > 0:
            return self.axes.along(X)
        if sp.issparse(X):
            return sp.csr_array(X @ sp.diags_array(1.0 / self.axes.unit))
        return np.asarray(X, np.float64) / self.axes.unit


class NormalisedGraph:
    """The equations ``(I - alpha S) F = Y`` of a graph without loops.

    ``S = D^-1/2 (Z Z' - own I) D^-1/2``, where ``own`` is the similarity of a row to itself, and D
    has the degrees. Rows without neighbours are alone: their scores are those given.
    """

    def __init__(self, matrix: FeatureMatrix, alpha: float, right: FloatArray) -> None:
        n_rows = matrix.shape[0]
        self.matrix, self.alpha, self.right = matrix, alpha, right
        # Loops of other features stay: their rows differ in length.
        self.own = 1.0 if isinstance(matrix, (PlainBins, NeighbourMatrix)) else 0.0
        self.sums = matrix.rmatvec(np.ones(n_rows))
        degrees = matrix.matvec(self.sums) - self.own
        if degrees.min() < -_ALONE:
            raise InputError(
                "LabelSpreading: some rows have a negative degree; use features of bins, or a "
                "larger bandwidth."
            )
        self.roots = inverse_roots(degrees)
        self.ridge: FloatArray = np.ones(n_rows)
        self.curvature = RowCurvature(np.ones((1, 1)))

    def times(
        self, w: FloatArray, active: NDArray[np.intp], out: FloatArray | None = None
    ) -> FloatArray:
        """Return ``-alpha S w``."""
        scaled = w * self.roots[:, None]
        found = matvec(self.matrix, rmatvec(self.matrix, scaled), out)
        found -= self.own * scaled
        found *= -self.alpha * self.roots[:, None]
        return found

    def weights(self, scores: FloatArray) -> FloatArray:
        """Return ``Z' D^-1/2 F`` and, last, ``Z' 1``: all that new rows need."""
        spread = rmatvec(self.matrix, scores * self.roots[:, None])
        return np.column_stack([spread, self.sums])


@dataclass(eq=False, repr=False)
class LabelSpreading(ClassifierMixin, TableEstimator):
    """Semi-supervised classification: labels of a few rows spread to all, in linear time.

    Rows are the nodes of a graph, joined by the products of their features: of random binning, by
    the share of the grids in which they have one bin. The scores of all classes solve
    ``(I - alpha S) F = Y`` with the normalised graph S (Zhou et al. 2004), by conjugate gradients:
    a product with Z and one with its transpose an iteration, no graph is formed. ``Y`` has the
    labels and, for rows without one, the probabilities of a classifier that is fitted to the
    labelled rows (Zhu, Ghahramani & Lafferty 2003, section 5).

    Parameters
    ----------
    alpha : float, default=0.5
        How much a row follows its neighbours, above 0 and below 1.
    estimator : "auto", None or classifier, default="auto"
        What tells the probabilities of rows without labels: with "auto" a
        :class:`~gramless.KernelClassifier`. With None labels alone spread; ``alpha=0.9`` is then
        better.
    bandwidth : float or "auto", default="auto"
        Of the kernel, in units of the space of the graph. With "auto" 0.12 times the median
        distance of a row to its tenth neighbour among 1,000 rows.
    relevance : {"learned", "equal"}, default="learned"
        How inputs are weighted in the space of the graph. With "learned" by how much the
        classifier's probabilities change with them, relative to the most relevant input: inputs in
        standard deviations are multiplied by the square of that, inputs of principal axes by
        itself. Without a classifier, and with ``features="neighbors"``, all count equally.
    space : {"auto", "inputs", "axes"}, default="auto"
        Whether neighbours are near in all inputs, in standard deviations, or along the ten
        principal axes of the inputs as they are; "auto" takes the axes of more than 20 inputs for
        features of a kernel, and all inputs for neighbours.
    features : str or feature map, default="binning"
        As in :class:`~gramless.KernelRegressor`; products must not be negative. With "neighbors"
        rows are joined by their nearest neighbours in common, as in :class:`SpectralClustering`:
        far better for images (with ``alpha=0.7``), no better for tables.
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`~gramless.KernelRegressor`.
    n_grids : int or "auto", default="auto"
        Number of grids of features by name: from 256 down to 64, the fewer the more rows times
        classes.
    tol : float, default=1e-3
        Of the gradient, relative to that at zero.
    max_iter : int, default=100
        The most conjugate gradient steps.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    classes_ : array (n_classes,)
    label_distributions_ : array (n_samples, n_classes)
        Scores of the rows of the fit, divided by their sums; the shares of the classes among the
        labelled rows where nothing reaches a row.
    transduction_ : array (n_samples,)
        The class of each row of the fit.
    coef_ : array (n_features_out, n_classes + 1)
        What new rows need of the graph.
    prior_ : array (n_classes,)
        The shares of the classes among the labelled rows.
    estimator_ : classifier or None
    relevance_ : array (n_inputs,)
        How much the probabilities change with each input, 1 for the most relevant.
    class_factors_ : array (n_classes,)
        Factors of the scores. Of two classes, the rarer one would lose rows, whose neighbours
        mostly belong to the other: with these factors the predicted shares of the rows without
        labels are those of the classifier. They are 1 for more than two classes.
    bandwidth_, space_, features_, n_iter_

    Notes
    -----
    A new row gets the scores that it would have as a further row without a label, if those of the
    others stayed.
    Memory: a byte or two a row and grid, and six numbers a row and class.

    Examples
    --------
    >>> from gramless import LabelSpreading
    >>> rng = np.random.default_rng(0)
    >>> ring = np.repeat([1.0, 3.0], 300)
    >>> angle = rng.uniform(0, 2 * np.pi, 600)
    >>> X = np.column_stack([ring * np.cos(angle), ring * np.sin(angle)])
    >>> y = np.full(600, -1)
    >>> y[[0, 1, 300, 301]] = [0, 0, 1, 1]
    >>> model = LabelSpreading(0.99, estimator=None, bandwidth=0.1, random_state=0).fit(X, y)
    >>> bool(np.mean(model.transduction_ == (ring > 2)) > 0.95)
    True
    """

    alpha: float = 0.5
    _: KW_ONLY
    estimator: BaseEstimator | str | None = "auto"
    bandwidth: float | str = "auto"
    relevance: str = "learned"
    space: str = "auto"
    features: str | SizedMap = "binning"
    categorical_features: str | ArrayLike = "auto"
    n_grids: int | str = "auto"
    tol: float = 1e-3
    max_iter: int = 100
    random_state: RandomState = None
    n_jobs: int | None = None

    def fit(self, X: TableLike, y: ArrayLike) -> Self:
        """Spread labels to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Training rows.
        y : array-like (n_samples,)
            Labels, -1 for rows without one.

        Returns
        -------
        The estimator itself.
        """
        self._check_parameters()
        rows, labels = self._learn_inputs(X, y)
        self.seed_: int = seed_from(self.random_state)
        codes = self._encoded(labels)
        known = np.flatnonzero(codes >= 0)
        self.prior_: FloatArray = np.bincount(codes[known]) / len(known)
        self.estimator_: ClassifierMixin | None = self._supervised(rows[known], codes[known])
        given = self._probabilities(rows)
        given[known] = 0.0
        given[known, codes[known]] = 1.0
        categorical = self.inputs_.categorical
        categorical = np.zeros(rows.shape[1], bool) if categorical is None else categorical
        by_rule = "inputs" if are_neighbors(self.features) else "auto"
        kind = by_rule if is_auto(self.space) else self.space
        self.relevance_: FloatArray = self._learned_relevance(rows)
        self.space_ = GraphSpace.of(kind, rows, categorical, self.relevance_, self.seed_)
        graph = NormalisedGraph(self._featured(self.space_.rows(rows)), float(self.alpha), given)
        inverse = DiagonalInverse(graph.ridge)
        runs = ConjugateRuns(graph, inverse, float(self.tol), self.n_jobs)
        self.n_iter_, scores = runs.run(int(self.max_iter)), runs.weights
        self.coef_: FloatArray = graph.weights(scores)
        hidden = np.flatnonzero(codes < 0)
        self.class_factors_: FloatArray = self._factors(scores[hidden], given[hidden])
        self.label_distributions_: FloatArray = self._distributions(scores)
        self.transduction_: AnyArray = self.classes_[self.label_distributions_.argmax(axis=1)]
        return self

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the scores of new rows, divided by their sums.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
        """
        check_is_fitted(self)
        rows = self.inputs_.transform(self, X)
        parts = [np.zeros((0, len(self.classes_)))]
        for a, b in row_blocks(rows.shape[0], _BLOCK_ROWS):
            block = rows[a:b]
            matrix = self.features_.rows_matrix(self.space_.rows(block))
            spread = matrix.matvec(self.coef_)
            roots = inverse_roots(spread[:, -1])
            scores = self._probabilities(block)
            scores += float(self.alpha) * roots[:, None] * spread[:, :-1]
            parts.append(self._distributions(scores))
        return np.concatenate(parts)

    def predict(self, X: TableLike) -> AnyArray:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,)
        """
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        features, space = state.get("features_"), part_in(state, "space_", GraphSpace)
        if not isinstance(features, FeatureMap):
            raise ValueError("features_ is no feature map")
        require(features.n_inputs == space.n_coordinates, "space_ does not fit the features")
        n_features = number_in(state, "n_features_in_", int, 1)
        part_in(state, "inputs_", RowInputs).check_sizes(len(space.categorical), n_features)
        check_columns(state, n_features)
        classes = part_in(state, "classes_", np.ndarray)
        require(classes.ndim == 1 and len(classes) > 0, "classes_ has a wrong shape")
        n_classes = len(classes)
        for name in ("prior_", "class_factors_"):
            array_in(state, name, np.float64, (n_classes,), finite=True)
        array_in(state, "relevance_", np.float64, space.categorical.shape, finite=True)
        shape = features._n_features_out, n_classes + 1
        array_in(state, "coef_", np.float64, shape, finite=True)
        array_in(state, "label_distributions_", np.float64, (None, n_classes), finite=True)
        supervised = state.get("estimator_")
        if supervised is not None:
            fitted = part_in(state, "estimator_", KernelClassifier)
            n_inputs = len(space.categorical)
            require(fitted.n_features_in_ == n_inputs, "estimator_ does not fit the inputs")
            require(fitted.classes_.max() < n_classes, "estimator_ does not fit the classes")

    def _check_parameters(self) -> None:
        if not 0.0 < check_number(self, "alpha") < 1.0:
            raise InputError(
                f"LabelSpreading: alpha must be above 0 and below 1; got {self.alpha!r}."
            )
        if self.space not in ("auto", "inputs", "axes"):
            raise InputError(
                f"LabelSpreading: space must be 'auto', 'inputs' or 'axes'; got {self.space!r}."
            )
        if self.relevance not in ("learned", "equal"):
            raise InputError(
                f"LabelSpreading: relevance must be 'learned' or 'equal'; got {self.relevance!r}."
            )
        check_number(self, "tol")
        check_count(self, "max_iter")
        if are_neighbors(self.features):
            refuse_kernel_parameters(self)

    def _encoded(self, labels: AnyArray) -> IntArray:
        """Learn the classes; return the number of each row's class, -1 for rows without one."""
        known = np.flatnonzero(np.asarray(labels != _UNLABELLED))
        if len(known) == 0:
            raise InputError("LabelSpreading: all of y is -1; give some rows a label.")
        check_classification_targets(labels[known])
        self.classes_, codes = np.unique(labels[known], return_inverse=True)
        found = np.full(len(labels), _UNLABELLED)
        found[known] = codes
        return found

    def _supervised(self, rows: Rows, codes: IntArray) -> ClassifierMixin | None:
        """Return a classifier fitted to the labelled rows, or None."""
        if self.estimator is None or len(self.classes_) < 2:
            return None
        if not is_auto(self.estimator):
            return clone(self.estimator).fit(rows, codes)
        categorical = self.inputs_.categorical
        return KernelClassifier(
            categorical_features="auto" if categorical is None else categorical,
            random_state=self.seed_,
            n_jobs=self.n_jobs,
        ).fit(rows, codes)

    def _probabilities(self, rows: Rows) -> FloatArray:
        """Return what the classifier tells of rows without labels, else zeros."""
        found = np.zeros((rows.shape[0], len(self.classes_)))
        if self.estimator_ is not None:
            for a, b in row_blocks(rows.shape[0], _BLOCK_ROWS):
                found[a:b, self.estimator_.classes_] = self.estimator_.predict_proba(rows[a:b])
        return found

    def _learned_relevance(self, rows: Rows) -> FloatArray:
        """Return how much probabilities change when an input takes the value of another row."""
        n_rows, n_inputs = rows.shape
        equal = self.relevance == "equal" or are_neighbors(self.features)
        if equal or self.estimator_ is None or n_inputs > MOST_INPUTS:
            return np.ones(n_inputs)
        n_changed = min(n_rows, int(np.clip(_CHANGES // n_inputs, *_CHANGED_ROWS)))
        drawn = stream(self.seed_, "relevance").permutation(n_rows)[:n_changed]
        sample = dense(rows[drawn])
        before, others = self._probabilities(rows[drawn]), np.roll(sample, 1, axis=0)
        change = np.zeros(n_inputs)
        for a, b in row_blocks(n_inputs, max(1, _NUMBERS_AT_ONCE // sample.size)):
            changed = np.repeat(sample[None], b - a, axis=0)
            for j in range(a, b):
                changed[j - a, :, j] = others[:, j]
            after = self._probabilities(changed.reshape(-1, n_inputs))
            squares = (after.reshape(b - a, *before.shape) - before) ** 2
            change[a:b] = np.sqrt(squares.sum(axis=2).mean(axis=1))
        largest = change.max(initial=0.0)
        return np.maximum(change / largest, _LEAST_RELEVANCE) if largest > 0 else np.ones(n_inputs)

    def _factors(self, scores: FloatArray, given: FloatArray) -> FloatArray:
        """Return factors with which two classes have the shares that the classifier predicts."""
        share = float(np.mean(given[:, -1] > given[:, 0])) if len(given) else 0.0
        if self.estimator_ is None or len(self.classes_) != 2 or not 0.0 < share < 1.0:
            return np.ones(len(self.classes_))
        positive = np.maximum(scores, 0.0)
        positive = positive[positive.sum(axis=1) > _ALONE]
        own = positive[:, 1] / positive.sum(axis=1)
        # Without bounds, ties at 0 or 1 would leave a class no rows.
        threshold = np.clip(np.quantile(own, 1.0 - share), *_THRESHOLDS) if len(own) else 0.5
        return np.array([threshold, 1.0 - threshold])

    def _featured(self, coordinates: Rows) -> FeatureMatrix:
        """Learn the features of coordinates, and return their matrix."""
        shape, mask = coordinates.shape, self.space_.mask
        if are_neighbors(self.features):
            self.__dict__.pop("bandwidth_", None)
            neighbours = NearestLandmarks(
                categorical=mask, random_state=self.seed_, n_jobs=self.n_jobs
            )
            self.features_: FeatureMap = neighbours
            return neighbours.fit_rows(coordinates)
        feature_map = self._feature_map(shape)
        if is_auto(self.bandwidth):
            sample = scaled_sample(coordinates, np.ones(shape[1]), self.seed_)
            near = neighbour_distance(sample, _NEIGHBOURS, mask, feature_map.metric)
            self.bandwidth_ = _BANDWIDTH * near
        else:
            self.bandwidth_ = check_number(self, "bandwidth", low=1e-300)
        feature_map.set_params(bandwidth=self.bandwidth_, categorical=mask if mask.any() else None)
        matrix: FeatureMatrix = feature_map.fit_rows(coordinates)
        self.features_ = feature_map
        return matrix

    def _feature_map(self, shape: tuple[int, int]) -> SizedMap:
        n_grids = None if is_auto(self.n_grids) else check_count(self, "n_grids")
        if not isinstance(self.features, str):
            return given_map(
                self.features, type(self).__name__, shape, n_grids, self.seed_, self.n_jobs
            )
        if n_grids is None and self.features == "binning":
            numbers = shape[0] * (len(self.classes_) + 1)
            n_grids = int(np.clip(_NONZEROS // max(1, numbers), *_GRIDS))
        return named_map(self.features, shape, 1, n_grids, self.seed_, self.n_jobs)

    def _distributions(self, scores: FloatArray) -> FloatArray:
        """Return scores divided by their sums, the prior where all are 0."""
        # Conjugate gradients leave errors around 0.
        positive = np.maximum(scores, 0.0) * self.class_factors_
        sums = positive.sum(axis=1, keepdims=True)
        alone = sums <= _ALONE
        return np.where(alone, self.prior_, positive / np.where(alone, 1.0, sums))


def inverse_roots(degrees: FloatArray) -> FloatArray:
    """Return ``degrees**-0.5``, 0 for rows without neighbours."""
    alone = degrees <= _ALONE
    found: FloatArray = np.where(alone, 0.0, np.where(alone, 1.0, degrees) ** -0.5)
    return found
