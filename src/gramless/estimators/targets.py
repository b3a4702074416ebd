"""Encode targets as the numbers that are fitted, and decode raw predictions."""

from __future__ import annotations

import datetime
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import log_expit, log_softmax
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from gramless.base.columns import (
    category_labels,
    exact_labels,
    is_frame,
    labels,
)
from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.notation import NOTATIONS_OF_TIMES, PLAIN, notation_of, read_cells
from gramless.base.quantiles import robust_centre, robust_scale
from gramless.base.types import AnyArray, ArrowTable, FloatArray, IntArray, NamedColumns
from gramless.losses import CumulativeLogistic, Loss, Squared
from gramless.portable import is_missing
from gramless.preprocessing.rows import check_integers, validate_targets
from gramless.selection.data import Score
from gramless.selection.goal import mean_loss

# Predictions can exceed all targets; this leaves room before they overflow.
_MAX_TARGET = np.finfo(np.float64).max / 16
# Encoded targets of robust losses are clipped here, so that sums over rows keep eight digits.
MAX_CODE = 1e8
# Least-squares predictions of counts are at least this share of the mean.
_MIN_COUNT = 1e-3
# Per row and class: the codes, and the copies for the fit and for the validation.
_BYTES_PER_CODE = 24.0

_TIMES = datetime.date, datetime.time, datetime.timedelta
PROBABILISTIC = "logistic", "multinomial", "cumulative"  # losses that give probabilities


class TargetEncoder(ABC):
    """An invertible encoding of targets as numbers.

    Attributes
    ----------
    fits_intercept : bool
        Whether raw predictions have an unpenalised constant.
    measure : str
        The name of the score that :meth:`score` returns.
    has_least_squares : bool
        Whether a least-squares fit is an alternative to a fit of the codes by another loss.
    """

    fits_intercept: bool
    measure: ClassVar[str] = "squared error"
    has_least_squares: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """The number of columns of the encoded targets, 1 if they are one-dimensional."""

    @abstractmethod
    def encode(self, y: ArrayLike) -> FloatArray:
        """Return the encoded targets, (n,) or (n, n_outputs)."""

    @abstractmethod
    def decode(self, raw: FloatArray) -> AnyArray:
        """Return predicted targets from raw predictions of encoded targets."""

    def decode_squares(self, raw: FloatArray) -> AnyArray:
        """Return predicted targets from least-squares predictions of encoded targets."""
        return self.decode(raw)

    def decode_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return coefficients and intercept in units of the targets.

        By default targets have no unit, and the intercept is 0.
        """
        return weights, np.zeros(weights.shape[1]) if weights.ndim == 2 else 0.0

    def encode_weights(self, coef: FloatArray, intercept: FloatArray | float) -> FloatArray:
        """Return the weights that :meth:`decode_weights` turns into ``coef`` and ``intercept``."""
        return coef

    def class_numbers(self, y: ArrayLike) -> IntArray | None:
        """Return the index of each target's class, or None if targets are not classes."""
        return None

    def attributes(self) -> dict[str, object]:
        """Return the fitted attributes that describe the targets."""
        return {}

    def weigh(self, y: AnyArray, weight: FloatArray | None) -> FloatArray | None:
        """Return the weights of encoded targets in the loss, from those of the rows."""
        return weight

    def unweigh(self, y: AnyArray, weight: FloatArray | None) -> FloatArray | None:
        """Return the weights of rows, from those of encoded targets in the loss."""
        return weight

    @staticmethod
    @abstractmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Return the score of raw predictions in a least-squares search; lower is better."""

    def score_of(self, loss: Loss) -> Score:
        """Return the score on validation rows: the mean loss, or :meth:`score` if it is squared."""
        return self.score if loss.name == "squared" else mean_loss(loss)


@dataclass(frozen=True)
class NumberEncoder(TargetEncoder):
    """The encoding of numbers, which are centred and scaled, or only scaled for a log link.

    ``mean`` and ``deviation`` are in multiples of ``unit``, a power of two. Dividing by it is
    exact, and keeps squares of huge targets finite. With a log link, targets are divided by their
    mean, so that fits start from the best constant, and ``offset`` is the logarithm of the mean.
    A robust loss uses the median instead of the mean, the interquartile range instead of the
    standard deviation, and clips encoded targets at ``largest``. Without an intercept, targets are
    not centred, and with a log link not scaled. ``lower_limit`` is 0 for outputs without negative
    targets, and minus infinity for others.

    Examples
    --------
    >>> encoder = NumberEncoder.fit(np.array([1.0, 3.0]))
    >>> encoder.encode([1.0, 3.0, 5.0]), encoder.decode(np.array([3.0]))
    (array([-1.,  1.,  3.]), array([5.]))
    """

    mean: FloatArray | float
    deviation: FloatArray | float
    unit: FloatArray | float = 1.0
    offset: FloatArray | float | None = None
    largest: float = np.inf
    fits_intercept: bool = True
    lower_limit: FloatArray | float = -np.inf

    @staticmethod
    def check(y: AnyArray, owner: str) -> FloatArray:
        """Return targets in double precision; raise InputError if predictions could overflow."""
        check_integers(y, "y")
        with np.errstate(over="ignore"):
            y = np.asarray(y, np.float64)
        if (largest := np.abs(y).max()) > _MAX_TARGET:
            raise InputError(
                f"{owner}: targets reach {largest:.3g}, so predictions could exceed the largest "
                f"number of double precision; divide the targets by 1e10."
            )
        return y

    @classmethod
    def fit(
        cls,
        y: FloatArray,
        weight: FloatArray | None = None,
        loss: Loss | None = None,
        fit_intercept: bool = True,
    ) -> Self:
        """Return the encoder of checked targets for a loss, by default the squared loss."""
        loss = Squared() if loss is None else loss
        loss.check_targets(y)
        if not fit_intercept:
            return cls._fit_uncentred(y, weight, loss)
        if loss.robust:
            return cls(robust_centre(y, weight), robust_scale(y, weight), largest=MAX_CODE)
        largest = np.abs(y).max(axis=0)
        unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
        mean = np.average(y / unit, axis=0, weights=weight)
        if loss.has_positive_means:
            return cls(np.zeros_like(mean), mean, unit, loss.link(mean * unit))
        deviation = np.sqrt(np.average((y / unit - mean) ** 2, axis=0, weights=weight))
        return cls(mean, np.where(deviation > 0, deviation, 1.0), unit)

    @classmethod
    def _fit_uncentred(cls, y: FloatArray, weight: FloatArray | None, loss: Loss) -> Self:
        zeros = np.zeros(y.shape[1:])
        if loss.has_positive_means:
            return cls(zeros, np.ones_like(zeros), 1.0, zeros, fits_intercept=False)
        # Targets and their negatives together have centre 0 and the scale of the targets.
        weights = None if weight is None else np.concatenate([weight, weight])
        mirrored = cls.fit(np.concatenate([y, -y]), weights, loss)
        return replace(mirrored, mean=zeros, fits_intercept=False)

    @property
    def n_outputs(self) -> int:
        """The number of columns of the targets."""
        return int(np.size(self.mean))

    def attributes(self) -> dict[str, object]:
        """Return the lower end of prediction intervals."""
        return {"lower_limit_": self.lower_limit}

    @property
    def centre(self) -> FloatArray | float:
        """The mean in units of the targets."""
        return self.mean * self.unit

    @property
    def spread(self) -> FloatArray | float:
        """The standard deviation in units of the targets."""
        return self.deviation * self.unit

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return centred and scaled targets."""
        with np.errstate(over="ignore"):
            encoded = (np.asarray(y, np.float64) / self.unit - self.mean) / self.deviation
        return encoded if self.largest == np.inf else np.clip(encoded, -self.largest, self.largest)

    def decode(self, raw: FloatArray) -> FloatArray:
        """Return predictions in units of the targets."""
        if self.offset is not None:
            return np.exp(raw + self.offset)
        return self.decode_squares(raw)

    def decode_squares(self, raw: FloatArray) -> FloatArray:
        """Return predictions in units of the targets, above 0 for a log link."""
        if self.offset is not None:
            raw = np.maximum(raw, _MIN_COUNT)
        decoded: FloatArray = raw * self.spread + self.centre
        return decoded

    def decode_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return coefficients and intercept on the scale of the targets, or of their link."""
        if not self.fits_intercept:
            return super().decode_weights(weights * self.spread)
        coef, constant = weights[:-1], weights[-1]
        if self.offset is not None:
            intercept = constant + self.offset
        else:
            coef, intercept = coef * self.spread, constant * self.spread + self.centre
        return coef, intercept if weights.ndim == 2 else float(intercept)

    def encode_weights(self, coef: FloatArray, intercept: FloatArray | float) -> FloatArray:
        """Return coefficients and intercept on the scale of encoded targets, in one array."""
        if not self.fits_intercept:
            return coef / self.spread
        if self.offset is not None:
            constant = intercept - self.offset
        else:
            coef, constant = coef / self.spread, (intercept - self.centre) / self.spread
        return np.concatenate([coef, np.reshape(constant, (1, *coef.shape[1:]))])

    @staticmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Return the mean squared error."""
        return float(np.mean(np.average((raw - codes) ** 2, axis=0, weights=weight)))


@dataclass(frozen=True)
class QuantileEncoder(NumberEncoder):
    """The encoding of numbers for several quantiles, one output per quantile.

    Predicted quantiles are sorted so that they never cross, which never increases the pinball loss
    of a row (Chernozhukov, Fernandez-Val & Galichon 2010).

    Examples
    --------
    >>> encoder = QuantileEncoder(0.0, 1.0, n_levels=2)
    >>> encoder.encode([1.0]), encoder.decode(np.array([[3.0, 2.0]]))
    (array([[1., 1.]]), array([[2., 3.]]))
    """

    n_levels: int = 1

    @property
    def n_outputs(self) -> int:
        """The number of quantiles."""
        return self.n_levels

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return centred and scaled targets, one copy per quantile."""
        return np.repeat(super().encode(y)[:, None], self.n_levels, axis=1)

    def decode_squares(self, raw: FloatArray) -> FloatArray:
        """Return quantiles in units of the targets, in increasing order."""
        return np.sort(super().decode_squares(raw), axis=1)


@dataclass(frozen=True)
class ClassEncoder(TargetEncoder):
    """The encoding of two classes as -1 and 1, or of more classes by one column each.

    The column of the true class is 1, the others are -1.

    Examples
    --------
    >>> encoder = ClassEncoder.fit(["no", "yes", "maybe"], "KernelClassifier")
    >>> encoder.encode(["no"]), encoder.decode(np.array([[0.2, -1.0, 0.1]]))
    (array([[-1.,  1., -1.]]), array(['maybe'], dtype='<U5'))
    """

    classes: AnyArray

    # Without a constant, rows in unknown bins get no class instead of the largest one, which lowers
    # the test error of ijcnn1 from 1.4 to 1.1 %. The bins of a grid sum to a constant anyway.
    fits_intercept = False
    measure = "wrong classes"

    @staticmethod
    def check(y: AnyArray, warn: bool = False) -> AnyArray:
        """Return labels as one column; raise ValueError for continuous or multi-column targets."""
        check_classification_targets(y)
        column: AnyArray = column_or_1d(y, warn=warn)
        return column

    @classmethod
    def fit(cls, labels: ArrayLike, owner: str) -> Self:
        """Return the encoder of the distinct labels; ``owner`` is named in error messages."""
        classes = np.unique(np.asarray(labels))
        if len(classes) < 2:
            raise InputError(
                f"{owner} needs at least 2 classes, got only one class: {classes.tolist()}."
            )
        return cls(classes)

    def attributes(self) -> dict[str, object]:
        """Return the classes."""
        return {"classes_": self.classes, "multilabel_": False}

    @property
    def n_outputs(self) -> int:
        """The number of columns of the codes, 1 for two classes."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def class_numbers(self, y: ArrayLike) -> IntArray:
        """Return the index of each label's class; raise InputError for an unknown label."""
        labels, order = np.asarray(y), np.argsort(self.classes, kind="stable")
        positions = np.searchsorted(self.classes, labels, sorter=order)
        indices = order[np.minimum(positions, len(self.classes) - 1)]
        is_unknown = self.classes[indices] != labels
        if is_unknown.any():
            raise InputError(
                f"the label {labels[is_unknown].tolist()[0]!r} was not among the first labels; "
                f"pass all labels by classes=."
            )
        return indices

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return codes -1 and 1, (n,) for two classes, else (n, n_classes)."""
        indices, n_classes = self.class_numbers(y), len(self.classes)
        if n_classes == 2:
            return np.where(indices == 1, 1.0, -1.0)
        check_memory(
            f"{n_classes:,} classes of {len(indices):,} rows",
            _BYTES_PER_CODE * len(indices) * n_classes,
            "merge classes, or fit fewer rows",
        )
        return np.where(indices[:, None] == np.arange(n_classes), 1.0, -1.0)

    def decode(self, raw: FloatArray) -> AnyArray:
        """Return the class with the largest raw prediction."""
        return self.classes[most_likely(raw)]

    @staticmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Return the error rate plus a tenth of the squared hinge loss, which breaks ties."""
        is_wrong = most_likely(raw) != most_likely(codes)
        hinge = np.maximum(0.0, 1.0 - codes * raw) ** 2
        hinge = hinge if raw.ndim == 1 else hinge.sum(axis=1)
        return float(np.average(is_wrong + 0.1 * hinge, weights=weight))

    def score_of(self, loss: Loss) -> Score:
        """Return the score on validation rows, :meth:`score` for the squared hinge loss too."""
        return self.score if loss.name == "squared_hinge" else super().score_of(loss)


@dataclass(frozen=True)
class OrderedEncoder(ClassEncoder):
    """The encoding of ordered classes as their indices, from 0.

    ``loss`` has the first thresholds between the classes.

    Examples
    --------
    >>> OrderedEncoder.of_order(np.array(["low", "high"]), ["high", "low"]).encode(["high", "low"])
    array([1., 0.])
    """

    loss: CumulativeLogistic

    measure = "squared error"
    has_least_squares = False
    n_outputs = 1

    @classmethod
    def of_order(
        cls, classes: AnyArray, y: ArrayLike, weight: FloatArray | None = None
    ) -> OrderedEncoder:
        """Return the encoder of classes from low to high, with thresholds for the labels ``y``."""
        ranks = ClassEncoder(classes).class_numbers(y).astype(np.float64)
        return cls(classes, CumulativeLogistic.of_ranks(ranks, weight, len(classes)))

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return the index of each label's class."""
        return self.class_numbers(y).astype(np.float64)

    score = staticmethod(NumberEncoder.score)


@dataclass(frozen=True)
class LabelsEncoder(TargetEncoder):
    """The encoding of several labels per row: one column per label, 1 if it is set, else -1.

    Examples
    --------
    >>> LabelsEncoder(2).encode([[1, 0]]), LabelsEncoder(2).decode(np.array([[0.2, -1.0]]))
    (array([[ 1., -1.]]), array([[1, 0]]))
    """

    n_labels: int

    fits_intercept = False
    measure = "wrong labels"
    has_least_squares = False

    @property
    def n_outputs(self) -> int:
        """The number of labels."""
        return self.n_labels

    def attributes(self) -> dict[str, object]:
        """Return the indices of the labels as classes."""
        return {"classes_": np.arange(self.n_labels), "multilabel_": True}

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return codes -1 and 1."""
        return np.where(np.asarray(y) > 0, 1.0, -1.0)

    def decode(self, raw: FloatArray) -> AnyArray:
        """Return 1 for each label with a positive raw prediction, 0 for others."""
        return (raw > 0.0).astype(np.int64)

    @staticmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Return the error rate of labels plus a tenth of the squared hinge loss."""
        scores = ((raw > 0.0) != (codes > 0.0)) + 0.1 * np.maximum(0.0, 1.0 - codes * raw) ** 2
        return float(np.average(scores.mean(axis=1), weights=weight))


def most_likely(raw: FloatArray) -> IntArray:
    """Return the index of the class with the largest raw prediction or code.

    Examples
    --------
    >>> most_likely(np.array([-0.5, 0.5])), most_likely(np.array([[0.1, 0.2, 0.0]]))
    (array([0, 1]), array([1]))
    """
    if raw.ndim == 1:
        return (raw > 0).astype(np.intp)
    return raw.argmax(axis=1) if raw.shape[1] > 1 else (raw[:, 0] > 0).astype(np.intp)


def log_probabilities(raw: FloatArray) -> FloatArray:
    """Return the log probabilities of the classes for the logistic or multinomial loss.

    Examples
    --------
    >>> np.exp(log_probabilities(np.array([0.0])))
    array([[0.5, 0.5]])
    """
    if raw.ndim == 1 or raw.shape[1] == 1:
        raw = raw.reshape(-1)
        return np.column_stack([log_expit(-raw), log_expit(raw)])
    result: FloatArray = log_softmax(raw, axis=1)
    return result


def plain_numbers(y: ArrayLike, owner: str) -> ArrayLike:
    """Return the targets of a regression, with text converted to numbers.

    Raises ``InputError`` if a target is missing, or if text cannot be read as numbers without
    ambiguity.

    Examples
    --------
    >>> plain_numbers(["0,5", "1,25"], "KernelRegressor")
    array([0.5 , 1.25])
    """
    try:
        dtype = np.asarray(y).dtype
    except ValueError:
        # scikit-learn has an error message for ragged lists.
        return y
    if dtype.kind in "mM":
        raise _times_error(owner, f"of type {dtype}")
    values = _column_of_objects(y, owner, "target")
    if values is None:
        return y
    times = [value for value in values if isinstance(value, _TIMES)]
    if times:
        raise _times_error(owner, f"of type {type(times[0]).__name__}")
    words = [value for value in values if isinstance(value, str)]
    if not words:
        return y
    cells = [*labels(values)]
    notation = notation_of(cells) or PLAIN
    if notation in NOTATIONS_OF_TIMES:
        raise _times_error(owner, f"text such as {words[0][:40]!r}")
    try:
        return read_cells(cells, notation)
    except ValueError as fault:
        raise InputError(
            f"{owner}: could not convert targets such as {words[0][:40]!r} to numbers without "
            f"ambiguity; convert them, or use a classifier for labels."
        ) from fault


def _times_error(owner: str, what: str) -> InputError:
    return InputError(
        f"{owner}: targets are {what}, dates or durations; convert them to numbers, such as "
        f"seconds by (y - y.min()) / np.timedelta64(1, 's')."
    )


def plain_labels(y: ArrayLike, owner: str) -> ArrayLike:
    """Return labels that scikit-learn can handle; raise InputError for missing or other ones.

    Integers and booleans of nullable and Arrow columns keep their type and all digits.
    """
    if is_frame(y) and not isinstance(y, (ArrowTable, NamedColumns)) and len(y.columns) == 1:
        y = y[y.columns[0]]
    exact = exact_labels(y)
    y = y if exact is None else exact
    values = _column_of_objects(y, owner, "label")
    if values is None:
        return y
    if len(values) and all(isinstance(value, numbers.Integral) for value in values):
        return np.array(values.tolist())
    is_text = all(isinstance(value, str) for value in values)
    is_numeric = all(isinstance(value, (numbers.Real, np.bool_)) for value in values)
    if not is_text and not is_numeric:
        kinds = sorted({type(value).__name__ for value in values})
        raise InputError(
            f"{owner}: labels are of type {' and '.join(kinds)}; give all as text or all as whole "
            f"numbers, such as by y.astype(str)."
        )
    return y


def checked_labels(y: AnyArray, owner: str) -> AnyArray:
    """Return labels as one column, or as several columns of 0 and 1."""
    if y.ndim == 1 or y.shape[1] == 1:
        return ClassEncoder.check(y, warn=True)
    check_classification_targets(y)
    labels = sp.csr_array(y).toarray() if sp.issparse(y) else np.asarray(y)
    if not np.isin(labels, (0, 1)).all():
        raise InputError(
            f"{owner}: targets of several columns must be labels, 1 if set and 0 if not; fit one "
            f"model per column of classes."
        )
    return labels


@dataclass(frozen=True)
class TargetReader:
    """How an estimator reads targets.

    ``plain`` converts text and missing values first, ``options`` are for scikit-learn's validation,
    and ``check`` returns the targets in the shape that the estimator needs. Both functions take the
    name of the estimator for error messages.
    """

    plain: Callable[[ArrayLike, str], ArrayLike]
    check: Callable[[AnyArray, str], AnyArray]
    options: Mapping[str, object]

    def read(self, model: BaseEstimator, y: ArrayLike) -> AnyArray:
        """Return targets after all checks."""
        owner = type(model).__name__
        return self.check(validate_targets(model, self.plain(y, owner), **self.options), owner)


NUMBERS = TargetReader(
    plain_numbers, NumberEncoder.check, {"multi_output": True, "y_numeric": True}
)
LABELS = TargetReader(plain_labels, checked_labels, {"multi_output": True})


def class_weights(
    given: Mapping[Any, float] | str,
    y: AnyArray,
    weight: FloatArray | None,
    classes: AnyArray | None = None,
) -> FloatArray:
    """Return each row's class weight, the product over labels if there are several.

    ``classes`` holds further classes that ``given`` may name.
    """
    if isinstance(given, Mapping) and y.ndim == 1:
        known = y if classes is None else np.concatenate([y, classes])
        labels, index = np.unique(known, return_inverse=True)
        return weights_of_classes(given, labels)[index[: len(y)]]
    if given != "balanced":
        return compute_sample_weight(given, y)
    if y.ndim == 2:
        return np.prod([class_weights(given, label, weight) for label in y.T], axis=0)
    # Unlike scikit-learn, "balanced" takes sample weights into account.
    _, index = np.unique(y, return_inverse=True)
    counts = np.bincount(index, weights=weight)
    return (counts.sum() / (len(counts) * counts))[index]


def weights_of_classes(given: Mapping[Any, float], classes: AnyArray) -> FloatArray:
    """Return the weight of each class, 1 if a class is not given.

    A class can be given by another spelling of its label if this matches only one class.

    Examples
    --------
    >>> weights_of_classes({"0": 1, "1": 5}, np.array([0, 1]))
    array([1., 5.])
    """
    names = [*category_labels(classes.tolist())]
    weights, unknown = np.ones(len(classes)), []
    weighted: dict[int, object] = {}
    for key, weight in given.items():
        equal = [k for k, label in enumerate(classes.tolist()) if label == key]
        (name,) = category_labels([key])
        matches = equal or [k for k, label in enumerate(names) if label == name]
        if not matches:
            unknown.append(key)
            continue
        if len(matches) > 1 or matches[0] in weighted:
            raise InputError(
                f"class_weight: {key!r} is ambiguous; write the classes like the labels, "
                f"{classes.tolist()[:5]}."
            )
        weighted[matches[0]], weights[matches[0]] = key, weight
    if unknown and len(weighted) < len(classes):
        raise InputError(
            f"class_weight: {unknown[0]!r} is none of the classes; write them like the labels, "
            f"{classes.tolist()[:5]}."
        )
    return weights


def ordered_classes(y: object) -> AnyArray | None:
    """Return the categories that occur in an ordered column of pandas, from low to high.

    It is None for any other labels.
    """
    dtype = getattr(y, "dtype", None)
    if not getattr(dtype, "ordered", False):
        return None
    categories = np.asarray(dtype.categories)  # type: ignore[union-attr]
    return categories[np.isin(categories, np.asarray(y))]


def _column_of_objects(y: ArrayLike, owner: str, what: str) -> AnyArray | None:
    """Return a column of objects or text after a check for missing values, or None for others."""
    if y is None or is_frame(y):
        return None
    try:
        values = np.asarray(y)
    except ValueError:
        # scikit-learn has an error message for ragged lists.
        return None
    if values.dtype.kind in "mM":
        check_not_missing(values, owner, what)
    if values.dtype.kind not in "OUT" or values.ndim != 1:
        return None
    check_not_missing(y if isinstance(y, list) else values.astype(object), owner, what)
    return values.astype(object)


def check_not_missing(values: Sequence[Any] | AnyArray, owner: str, what: str) -> None:
    """Raise InputError if a value is None, NaN, NaT or pandas' NA; ``what`` names the values.

    Lists are not converted first, because NumPy turns NaN in a list of text into "nan".
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuSU":
        return
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise InputError(
            f"{owner}: the {what} of row {missing[0]} is missing ({values[missing[0]]}), as in "
            f"{len(missing):,} of {len(values):,} rows; remove these rows."
        )
