"""Targets to the numbers that are fitted, and back: units, classes, codes and links."""

from __future__ import annotations

import datetime
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit, log_softmax
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
from gramless.losses import Loss, Squared
from gramless.portable import is_missing
from gramless.preprocessing.rows import check_integers
from gramless.selection.data import Score
from gramless.selection.goal import mean_loss

_LARGEST_TARGET = np.finfo(np.float64).max / 16
"""Predictions may lie beyond all targets."""
LARGEST_CODE = 1e8  # of robust losses, whose sums over rows keep eight digits beside outliers
_LEAST_COUNT = 1e-3
"""Of the mean: least-squares predictions of counts below this are taken for so much."""
_BYTES_PER_CODE = 24.0
"""Of a row and class: the codes, and what is taken of them to fit and to validate."""


_TIMES = datetime.date, datetime.time, datetime.timedelta
PROBABILISTIC = "logistic", "multinomial", "cumulative"
"""Losses whose raw predictions stand for probabilities."""


class TargetEncoder(ABC):
    """How the targets of an estimator become numbers, and raw predictions become targets again."""

    fits_intercept: bool
    """Whether predictions have a free constant."""
    measure: ClassVar[str] = "squared error"
    """What :meth:`score` returns, in words."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Columns of the encoded targets, 1 where they have no second dimension."""

    @abstractmethod
    def encode(self, y: ArrayLike) -> FloatArray:
        """Return the numbers to fit, (n,) or (n, n_outputs)."""

    @abstractmethod
    def decode(self, raw: FloatArray) -> AnyArray:
        """Return the targets that raw predictions of encoded targets stand for."""

    def decode_squares(self, raw: FloatArray) -> AnyArray:
        """Return the targets that predictions of encoded targets by least squares stand for."""
        return self.decode(raw)

    def decode_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return coefficients and intercept of raw predictions in units of the targets.

        By default there is no unit, and the intercept is 0.
        """
        return weights, np.zeros(weights.shape[1]) if weights.ndim == 2 else 0.0

    def encode_weights(self, coef: FloatArray, intercept: FloatArray | float) -> FloatArray:
        """Return the weights of which :meth:`decode_weights` makes these."""
        return coef

    def class_numbers(self, y: ArrayLike) -> IntArray | None:
        """Return the number of each target's class; None where targets are no classes."""
        return None

    @staticmethod
    @abstractmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Score raw predictions of encoded targets in a least-squares search; less is better."""

    def score_of(self, loss: Loss) -> Score:
        """Return how held-back rows score fits by a loss: its mean, or the search's own score."""
        return self.score if loss.name == "squared" else mean_loss(loss)


@dataclass(frozen=True)
class NumberEncoder(TargetEncoder):
    """Numbers, centred and scaled; those of a loss with a log link are only scaled.

    ``mean`` and ``deviation`` are in multiples of ``unit``, a power of two: it divides without
    rounding, and keeps squares of huge targets finite. With a log link, ``offset`` is that of raw
    predictions, the logarithm of what the targets are divided by: encoded targets have mean 1, so
    that fits start from the best constant. For a robust loss, the median stands for the mean and
    the interquartile range for the deviation, and encoded targets are at most ``largest``. Without
    an intercept targets are not centred, nor divided beneath a log link.

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

    @staticmethod
    def check(y: AnyArray, owner: str) -> FloatArray:
        """Return targets in double precision; refuse such that predictions may be infinite."""
        check_integers(y, "y")
        with np.errstate(over="ignore"):
            y = np.asarray(y, np.float64)
        if (largest := np.abs(y).max()) > _LARGEST_TARGET:
            raise InputError(
                f"{owner}: targets reach {largest:.3g}, and predictions beyond the largest "
                f"number of double precision would be infinite; divide them by 1e10."
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
        """Learn the units of checked targets, which depend on the loss (squared by default)."""
        loss = Squared() if loss is None else loss
        loss.check_targets(y)
        if not fit_intercept:
            return cls._without_centre(y, weight, loss)
        if loss.robust:
            return cls(robust_centre(y, weight), robust_scale(y, weight), largest=LARGEST_CODE)
        largest = np.abs(y).max(axis=0)
        unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
        mean = np.average(y / unit, axis=0, weights=weight)
        if loss.has_positive_means:
            return cls(np.zeros_like(mean), mean, unit, loss.link(mean * unit))
        deviation = np.sqrt(np.average((y / unit - mean) ** 2, axis=0, weights=weight))
        return cls(mean, np.where(deviation > 0, deviation, 1.0), unit)

    @classmethod
    def _without_centre(cls, y: FloatArray, weight: FloatArray | None, loss: Loss) -> Self:
        """Learn the unit of targets alone: the centre of their mirrored copies is 0."""
        zeros = np.zeros(y.shape[1:])
        if loss.has_positive_means:
            return cls(zeros, np.ones_like(zeros), 1.0, zeros, fits_intercept=False)
        weights = None if weight is None else np.concatenate([weight, weight])
        mirrored = cls.fit(np.concatenate([y, -y]), weights, loss)
        return replace(mirrored, mean=zeros, fits_intercept=False)

    @property
    def n_outputs(self) -> int:
        """Number of columns of the targets."""
        return int(np.size(self.mean))

    @property
    def centre(self) -> FloatArray | float:
        """The mean in units of the targets."""
        return self.mean * self.unit

    @property
    def spread(self) -> FloatArray | float:
        """What one unit of encoded targets is in units of the targets."""
        return self.deviation * self.unit

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return targets in deviations from their mean."""
        with np.errstate(over="ignore"):
            encoded = (np.asarray(y, np.float64) / self.unit - self.mean) / self.deviation
        return encoded if self.largest == np.inf else np.clip(encoded, -self.largest, self.largest)

    def decode(self, raw: FloatArray) -> FloatArray:
        """Return predictions in units of the targets."""
        if self.offset is not None:
            return np.exp(raw + self.offset)
        return self.decode_squares(raw)

    def decode_squares(self, raw: FloatArray) -> FloatArray:
        """Return predictions in units of the targets; those of counts stay above 0."""
        if self.offset is not None:
            raw = np.maximum(raw, _LEAST_COUNT)
        decoded: FloatArray = raw * self.spread + self.centre
        return decoded

    def decode_weights(self, weights: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Return coefficients and intercept in units of the targets, or of their link."""
        if not self.fits_intercept:
            return super().decode_weights(weights * self.spread)
        coef, constant = weights[:-1], weights[-1]
        if self.offset is not None:
            intercept = constant + self.offset
        else:
            coef, intercept = coef * self.spread, constant * self.spread + self.centre
        return coef, intercept if weights.ndim == 2 else float(intercept)

    def encode_weights(self, coef: FloatArray, intercept: FloatArray | float) -> FloatArray:
        """Return coefficients and intercept in units of encoded targets, or of their link."""
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
    """Numbers of which several quantiles are predicted, an output each, never crossing.

    Sorting the quantiles of a row never raises its pinball losses (Chernozhukov, Fernandez-Val &
    Galichon 2010).

    Examples
    --------
    >>> encoder = QuantileEncoder(0.0, 1.0, n_levels=2)
    >>> encoder.encode([1.0]), encoder.decode(np.array([[3.0, 2.0]]))
    (array([[1., 1.]]), array([[2., 3.]]))
    """

    n_levels: int = 1

    @property
    def n_outputs(self) -> int:
        """Number of quantiles."""
        return self.n_levels

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return targets in deviations from their mean, a copy for each quantile."""
        return np.repeat(super().encode(y)[:, None], self.n_levels, axis=1)

    def decode_squares(self, raw: FloatArray) -> FloatArray:
        """Return quantiles in units of the targets, in rising order."""
        return np.sort(super().decode_squares(raw), axis=1)


@dataclass(frozen=True)
class ClassEncoder(TargetEncoder):
    """Two classes as -1 and 1; more as a column each, 1 for the true class and -1 for others.

    Examples
    --------
    >>> encoder = ClassEncoder.fit(["no", "yes", "maybe"], "KernelClassifier")
    >>> encoder.encode(["no"]), encoder.decode(np.array([[0.2, -1.0, 0.1]]))
    (array([[-1.,  1., -1.]]), array(['maybe'], dtype='<U5'))
    """

    classes: AnyArray

    # A row of no known bin should be undecided, not of the larger class: ijcnn1's test error
    # falls from 1.4 to 1.1 %. Every grid's bins sum to a constant, so one can still be fitted.
    fits_intercept = False
    measure = "wrong classes"

    @staticmethod
    def check(y: AnyArray, warn: bool = False) -> AnyArray:
        """Return labels as one column; refuse measurements, and several columns."""
        check_classification_targets(y)
        column: AnyArray = column_or_1d(y, warn=warn)
        return column

    @classmethod
    def fit(cls, labels: ArrayLike, owner: str) -> Self:
        """Learn the classes from labels; where there is but one, a message names ``owner``."""
        classes = np.unique(np.asarray(labels))
        if len(classes) < 2:
            raise InputError(
                f"{owner} needs at least 2 classes, got only one class: {classes.tolist()}."
            )
        return cls(classes)

    @property
    def n_outputs(self) -> int:
        """Columns of the codes: one for two classes."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def class_numbers(self, y: ArrayLike) -> IntArray:
        """Return the number of each label's class; refuse a label that is none of the classes."""
        labels, order = np.asarray(y), np.argsort(self.classes, kind="stable")
        places = np.searchsorted(self.classes, labels, sorter=order)
        numbers = order[np.minimum(places, len(self.classes) - 1)]
        unknown = self.classes[numbers] != labels
        if unknown.any():
            raise InputError(
                f"the label {labels[unknown].tolist()[0]!r} was not among the first; name all "
                f"labels with classes=."
            )
        return numbers

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return codes -1 and 1, (n,) for two classes, else (n, n_classes)."""
        numbers, n_classes = self.class_numbers(y), len(self.classes)
        if n_classes == 2:
            return np.where(numbers == 1, 1.0, -1.0)
        check_memory(
            f"{n_classes:,} classes of {len(numbers):,} rows",
            _BYTES_PER_CODE * len(numbers) * n_classes,
            "merge classes, or fit fewer rows",
        )
        return np.where(numbers[:, None] == np.arange(n_classes), 1.0, -1.0)

    def decode(self, raw: FloatArray) -> AnyArray:
        """Return the class with the largest raw prediction."""
        return self.classes[most_likely(raw)]

    @staticmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Return the share of wrong classes, with ties broken by a tenth of the squared hinge."""
        wrong = most_likely(raw) != most_likely(codes)
        hinge = np.maximum(0.0, 1.0 - codes * raw) ** 2
        shortfall = hinge if raw.ndim == 1 else hinge.sum(axis=1)
        return float(np.average(wrong + 0.1 * shortfall, weights=weight))

    def score_of(self, loss: Loss) -> Score:
        """Return how held-back rows score fits by a loss: the squared hinge as least squares."""
        return self.score if loss.name == "squared_hinge" else super().score_of(loss)


@dataclass(frozen=True)
class OrderedEncoder(ClassEncoder):
    """Classes in an order as their numbers, from 0; raw predictions rise with the class.

    Examples
    --------
    >>> OrderedEncoder(np.array(["low", "high"])).encode(["high", "low"])
    array([1., 0.])
    """

    measure = "squared error"
    n_outputs = 1

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return the number of each label's class."""
        return self.class_numbers(y).astype(np.float64)

    score = staticmethod(NumberEncoder.score)


@dataclass(frozen=True)
class LabelsEncoder(TargetEncoder):
    """Several labels a row, of which each holds or not: a column each, 1 where it holds, else -1.

    Examples
    --------
    >>> LabelsEncoder(2).encode([[1, 0]]), LabelsEncoder(2).decode(np.array([[0.2, -1.0]]))
    (array([[ 1., -1.]]), array([[1, 0]]))
    """

    n_labels: int

    fits_intercept = False
    measure = "wrong labels"

    @property
    def n_outputs(self) -> int:
        """One for each label."""
        return self.n_labels

    def encode(self, y: ArrayLike) -> FloatArray:
        """Return codes -1 and 1."""
        return np.where(np.asarray(y) > 0, 1.0, -1.0)

    def decode(self, raw: FloatArray) -> AnyArray:
        """Return 1 for labels that rather hold than not, 0 for others."""
        return (raw > 0.0).astype(np.int64)

    @staticmethod
    def score(raw: FloatArray, codes: FloatArray, weight: FloatArray | None) -> float:
        """Return the share of wrong labels, with ties broken by a tenth of the squared hinge."""
        wrong = ((raw > 0.0) != (codes > 0.0)) + 0.1 * np.maximum(0.0, 1.0 - codes * raw) ** 2
        return float(np.average(wrong.mean(axis=1), weights=weight))


def most_likely(raw: FloatArray) -> IntArray:
    """Return the number of the class with the largest raw prediction, or code.

    Examples
    --------
    >>> most_likely(np.array([-0.5, 0.5])), most_likely(np.array([[0.1, 0.2, 0.0]]))
    (array([0, 1]), array([1]))
    """
    if raw.ndim == 1:
        return (raw > 0).astype(np.intp)
    return raw.argmax(axis=1) if raw.shape[1] > 1 else (raw[:, 0] > 0).astype(np.intp)


def log_probabilities(raw: FloatArray) -> FloatArray:
    """Return the logarithms of the classes' probabilities of a logistic or multinomial loss.

    Examples
    --------
    >>> np.exp(log_probabilities(np.array([0.0])))
    array([[0.5, 0.5]])
    """
    if raw.ndim == 1 or raw.shape[1] == 1:
        raw = raw.reshape(-1)
        return np.column_stack([log_expit(-raw), log_expit(raw)])
    found: FloatArray = log_softmax(raw, axis=1)
    return found


def plain_numbers(y: ArrayLike, owner: str) -> ArrayLike:
    """Return targets of a regression, those that come as text as numbers.

    Raises ``InputError`` where a target is missing, or text is not certainly numbers.

    Examples
    --------
    >>> plain_numbers(["0,5", "1,25"], "KernelRegressor")
    array([0.5 , 1.25])
    """
    try:
        dtype = np.asarray(y).dtype
    except ValueError:
        # Ragged lists, of which scikit-learn says what is wrong.
        return y
    if dtype.kind in "mM":
        raise _refused_times(owner, f"of type {dtype}")
    values = _column_of_objects(y, owner, "target")
    if values is None:
        return y
    times = [value for value in values if isinstance(value, _TIMES)]
    if times:
        raise _refused_times(owner, f"of type {type(times[0]).__name__}")
    words = [value for value in values if isinstance(value, str)]
    if not words:
        return y
    cells = [*labels(values)]
    notation = notation_of(cells) or PLAIN
    if notation in NOTATIONS_OF_TIMES:
        raise _refused_times(owner, f"text such as {words[0][:40]!r}")
    try:
        return read_cells(cells, notation)
    except ValueError as fault:
        raise InputError(
            f"{owner}: could not convert targets such as {words[0][:40]!r} to numbers with "
            f"certainty; convert them, or use a classifier for labels."
        ) from fault


def _refused_times(owner: str, what: str) -> InputError:
    return InputError(
        f"{owner}: targets are {what}, dates or durations; convert them to numbers, such as "
        f"seconds by (y - y.min()) / np.timedelta64(1, 's')."
    )


def plain_labels(y: ArrayLike, owner: str) -> ArrayLike:
    """Return labels; refuse missing ones, and such of types that scikit-learn does not know.

    Integers and booleans of nullable and Arrow columns keep their type and every digit.
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
    kinds = sorted({type(value).__name__ for value in values})
    words = [isinstance(value, str) for value in values]
    numeric = all(isinstance(value, (numbers.Real, np.bool_)) for value in values)
    if not all(words) and not numeric:
        raise InputError(
            f"{owner}: labels are of type {' and '.join(kinds)}; give all as text or all as whole "
            f"numbers, such as by y.astype(str)."
        )
    return y


def weights_of_classes(given: Mapping[Any, float], classes: AnyArray) -> FloatArray:
    """Return the weight of each class, 1 of a class that is not given.

    Classes are named as the labels are, or in another spelling if only one class can be meant.

    Examples
    --------
    >>> weights_of_classes({"0": 1, "1": 5}, np.array([0, 1]))
    array([1., 5.])
    """
    names = [*category_labels(classes.tolist())]
    weights, unknown = np.ones(len(classes)), []
    weighted: dict[int, object] = {}
    for key, weight in given.items():
        same = [k for k, label in enumerate(classes.tolist()) if label == key]
        (name,) = category_labels([key])
        meant = same or [k for k, label in enumerate(names) if label == name]
        if not meant:
            unknown.append(key)
            continue
        if len(meant) > 1 or meant[0] in weighted:
            raise InputError(
                f"class_weight: {key!r} may be another key or class too; write the classes as the "
                f"labels are, {classes.tolist()[:5]}."
            )
        weighted[meant[0]], weights[meant[0]] = key, weight
    if unknown and len(weighted) < len(classes):
        raise InputError(
            f"class_weight: {unknown[0]!r} is none of the classes; write them as the labels are, "
            f"{classes.tolist()[:5]}."
        )
    return weights


def ordered_classes(y: object) -> AnyArray | None:
    """Return the categories of an ordered column of pandas, from low to high, that it holds.

    None for any other labels.
    """
    dtype = getattr(y, "dtype", None)
    if not getattr(dtype, "ordered", False):
        return None
    categories, found = np.asarray(dtype.categories), np.asarray(y)  # type: ignore[union-attr]
    return categories[np.isin(categories, found)]


def _column_of_objects(y: ArrayLike, owner: str, what: str) -> AnyArray | None:
    """Return one column of objects or text, none of them missing; None for any other targets."""
    if y is None or is_frame(y):
        return None
    try:
        values = np.asarray(y)
    except ValueError:
        # Ragged lists, of which scikit-learn says what is wrong.
        return None
    if values.dtype.kind in "mM":
        refuse_missing(values, owner, what)
    if values.dtype.kind not in "OUT" or values.ndim != 1:
        return None
    refuse_missing(y if isinstance(y, list) else values.astype(object), owner, what)
    return values.astype(object)


def refuse_missing(values: Sequence[Any] | AnyArray, owner: str, what: str) -> None:
    """Raise InputError if a value is None, NaN, NaT or pandas' NA; ``what`` names the values.

    Lists are checked as they are, because NumPy turns NaN in a list of text into "nan".
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuSU":
        return
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise InputError(
            f"{owner}: the {what} of row {missing[0]} is missing ({values[missing[0]]}), as "
            f"of {len(missing):,} of {len(values):,} rows; remove these rows."
        )
