"""Losses of raw predictions ``z`` and targets, with their derivatives, row by row."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gramless.base.arrays import inner, softmax
from gramless.base.errors import InputError
from gramless.base.quantiles import robust_centre, weighted_quantiles
from gramless.base.state import Stateful
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray

Values = FloatArray
# See the attribute ``targets`` of Loss.
TargetKind = Literal["numbers", "labels", "classes", "counts", "amounts", "ranks"]


# Distances from the median in robust standard deviations. Scores clip farther targets to this one.
FAR_TARGET = 10.0
# Fits by least squares move farther targets to this distance.
OUTLIER_BOUND = 3.0
# Half-width of the rounded corner of a pinball loss, as a share of the mean error.
_RELATIVE_WIDTH = 0.1
_ERROR_CLIP = 5.0  # in median errors; larger errors are clipped before their mean is taken
# ``adapted`` changes parameters, which takes a new fit, only if the width falls below this share of
# the current width, or if a threshold moves by more than this distance.
_WIDTH_TOLERANCE, _THRESHOLD_TOLERANCE = 0.8, 0.02
_MEAN_OF_ZEROS = math.exp(-4.0)  # replaces a mean of 0, which has no logarithm
_MIN_LOG_GAP = -7.0  # minimum logarithm of the gap between neighbouring thresholds


class Loss(Stateful, ABC):
    """A convex loss ``L(z, y)`` with its first two derivatives in ``z``.

    The loss of a row is the sum over its outputs. A subclass is a frozen dataclass. Estimators find
    it in ``LOSSES`` by its name; only classifiers of ordered classes use
    :class:`CumulativeLogistic`, which is not listed there. Model files hold the name of the class.

    Attributes
    ----------
    name : str
        The name in the parameter ``loss`` of estimators.
    targets : tuple of str
        The kinds of targets that the loss is defined for: "numbers" (real), "labels" (-1 and
        1), "classes" (one column per class, 1 for the true class and -1 for the others),
        "counts" (not negative), "amounts" (positive) or "ranks" (indices of ordered classes,
        from 0).
    coupled : bool, default=False
        Whether the outputs of a row depend on each other. If so, ``curvature`` returns the
        diagonal of each row's Hessian.
    smooth : bool, default=True
        Whether the derivative is continuous. Otherwise ``gradient`` is a subgradient.
    is_piecewise_linear : bool, default=False
        Whether the loss is piecewise linear, with rounded corners. Few rows then have any
        curvature, and each output has different ones.
    robust : bool, default=False
        Whether the gradient is bounded. If so, targets are centred by their median and scaled by
        their interquartile range, and outliers do not decide which model is selected.
    smoothness : float, default=inf
        The largest possible eigenvalue of a row's Hessian (beta in RB16, Theorem 1).

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class LogCosh(Loss):
    ...     name = "log_cosh"
    ...     targets = ("numbers",)
    ...     smoothness = 1.0
    ...
    ...     def value(self, z, y):
    ...         return np.logaddexp(z - y, y - z) - np.log(2.0)
    ...
    ...     def gradient(self, z, y):
    ...         return np.tanh(z - y)
    ...
    ...     def curvature(self, z, y):
    ...         return 1.0 - np.tanh(z - y) ** 2
    >>> LogCosh().value(np.array([1.0]), np.array([1.0]))
    array([0.])
    """

    name: ClassVar[str]
    targets: ClassVar[tuple[TargetKind, ...]]
    coupled: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    is_piecewise_linear: ClassVar[bool] = False
    robust: ClassVar[bool] = False

    @property
    def smoothness(self) -> float:
        """The largest possible eigenvalue of a row's Hessian, infinite if it is unbounded."""
        return math.inf

    @abstractmethod
    def value(self, z: Values, y: Values) -> Values:
        """Return ``L(z, y)`` elementwise, or one number per row, (n,), if the loss is coupled.

        Parameters
        ----------
        z : array (n,) or (n, K)
            Raw predictions.
        y : array of the shape of ``z``
            Targets.
        """

    @abstractmethod
    def gradient(self, z: Values, y: Values) -> Values:
        """Return ``dL/dz``, elementwise.

        Parameters
        ----------
        z : array (n,) or (n, K)
            Raw predictions.
        y : array of the shape of ``z``
            Targets.
        """

    @abstractmethod
    def curvature(self, z: Values, y: Values) -> Values:
        """Return ``d2L/dz2``, elementwise and at most ``smoothness``.

        Parameters
        ----------
        z : array (n,) or (n, K)
            Raw predictions.
        y : array of the shape of ``z``
            Targets.
        """

    def comparable_value(self, z: Values, y: Values) -> Values:
        """Return the loss for comparisons of models, in which outliers weigh less.

        If the loss is robust, a constant is subtracted for each row with a target farther than
        ``FAR_TARGET`` from 0: the amount by which the loss of a prediction of 0 would fall if the
        target were clipped to ``FAR_TARGET``. Without it, the losses of a few outliers would hide
        all differences between models.
        """
        value = self.value(z, y)
        if not self.robust or (np.abs(y) <= FAR_TARGET).all():
            return value
        zeros, clipped = np.zeros_like(z), np.clip(y, -FAR_TARGET, FAR_TARGET)
        return value - (self.value(zeros, y) - self.value(zeros, clipped))

    def by_row(self, z: Values, y: Values) -> Values:
        """Return the comparable loss of each row, (n,), summed over its outputs."""
        losses = self.comparable_value(z, y)
        return losses if losses.ndim == 1 else losses.sum(axis=1)

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        """Return the curvature of the quadratic model of the loss at ``z``, elementwise.

        By default this is the curvature of the loss. If the loss flattens or steepens away from
        ``z``, a Newton step overshoots its minimum; the surrogate then has a larger curvature.
        """
        return self.curvature(z, y)

    def link(self, mean: Values) -> Values:
        """Return the raw predictions of these means, by default the means themselves.

        They are infinite if the mean is at the end of its range, such as a mean count of 0.
        """
        return mean

    def inverse_link(self, z: Values) -> Values:
        """Return the means of the targets that raw predictions stand for."""
        return z

    def without_offset(self, y: Values, offset: Values) -> tuple[Values, Values]:
        """Return targets ``u`` and weights ``w`` with ``L(z + offset, y) = w L(z, u)``.

        A fit of ``u`` with these sample weights, plus the offset, is a fit of ``y``.
        """
        raise InputError(f"the loss {self.name!r} takes no offset.")

    @property
    def has_positive_means(self) -> bool:
        """True if targets are counts or amounts, and raw predictions logarithms of means."""
        return set(self.targets) <= {"counts", "amounts"}

    @property
    def is_of_classes(self) -> bool:
        """True if targets can only be classes."""
        return set(self.targets) <= {"labels", "classes"}

    def deviation(self, mean: Values) -> Values:
        """Return the scale of errors at each mean: 1, or the square root of a mean count."""
        return np.sqrt(mean) if self.has_positive_means else np.ones_like(mean)

    def check_targets(self, y: Values) -> None:
        """Raise ``InputError`` if the loss is undefined for these targets.

        Examples are negative counts, or an output with only zeros.
        """
        if not self.has_positive_means:
            return
        excludes_zero, smallest = "counts" not in self.targets, float(np.min(y, initial=np.inf))
        if smallest < 0.0 or (excludes_zero and smallest == 0.0):
            allowed = "positive" if excludes_zero else "not negative"
            raise InputError(
                f"the loss {self.name!r} is for targets that are {allowed}; the smallest target "
                f"is {smallest!r}."
            )
        if not (y.sum(axis=0) > 0.0).all():
            raise InputError(f"the loss {self.name!r} needs targets that are not all 0.")

    def of_output(self, k: int) -> Loss:
        """Return the loss of output ``k``, by default the same loss."""
        return self

    def adapted(self, z: Values, y: Values, weights: Values) -> Loss:
        """Return the loss with parameters fitted to these predictions, by default unchanged."""
        return self

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return the best constant raw prediction, the link of each output's weighted mean."""
        mean = np.average(y, axis=0, weights=weights)
        # Rounding can move the mean of equal targets out of their range, where links are NaN.
        return self.link(np.clip(mean, y.min(axis=0), y.max(axis=0)))

    def typical_curvature(self, y: Values, weights: Values) -> float:
        """Return ``smoothness``, or the mean curvature at the initial constant if infinite."""
        if self.smoothness < math.inf:
            return self.smoothness
        z = np.broadcast_to(self.initial_constant(y, weights), y.shape)
        return float(np.average(self.curvature(z, y), axis=0, weights=weights).mean())


class ResidualLoss(Loss):
    """A loss that depends on ``z - y`` only."""

    def without_offset(self, y: Values, offset: Values) -> tuple[Values, Values]:
        return y - offset, np.ones_like(offset)


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """``L(z, y) = (z - y)^2 / 2`` (RB16, section 3.2: beta = 1).

    Examples
    --------
    >>> Squared().value(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name = "squared"
    targets = ("numbers", "labels", "classes")
    smoothness = 1.0

    def value(self, z: Values, y: Values) -> Values:
        return 0.5 * (z - y) ** 2

    def gradient(self, z: Values, y: Values) -> Values:
        return z - y

    def curvature(self, z: Values, y: Values) -> Values:
        return np.ones_like(z)


@dataclass(frozen=True)
class Hinge(Loss):
    """``L(z, y) = max(0, 1 - y z)`` for labels -1 and 1, with a corner at ``y z = 1``.

    Only stochastic gradient descent, which can take subgradients, supports it; other solvers
    need a smooth loss.

    Examples
    --------
    >>> Hinge().value(np.array([-1.0, 3.0]), np.array([1.0, 1.0]))
    array([2., 0.])
    >>> Hinge().gradient(np.array([-1.0, 3.0]), np.array([1.0, 1.0]))
    array([-1.,  0.])
    """

    name = "hinge"
    targets = ("labels", "classes")
    smooth = False

    def value(self, z: Values, y: Values) -> Values:
        return np.maximum(0.0, 1.0 - y * z)

    def gradient(self, z: Values, y: Values) -> Values:
        return np.where(y * z < 1.0, -y, 0.0)

    def curvature(self, z: Values, y: Values) -> Values:
        return np.zeros_like(z)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``L(z, y) = max(0, 1 - y z)^2 / 2`` for labels -1 and 1 (RB16, section 3.2).

    Examples
    --------
    >>> SquaredHinge().value(np.array([-1.0, 3.0]), np.array([1.0, 1.0]))
    array([2., 0.])
    """

    name = "squared_hinge"
    targets = ("labels", "classes")
    smoothness = 1.0

    def value(self, z: Values, y: Values) -> Values:
        return 0.5 * np.maximum(0.0, 1.0 - y * z) ** 2

    def gradient(self, z: Values, y: Values) -> Values:
        return -y * np.maximum(0.0, 1.0 - y * z)

    def curvature(self, z: Values, y: Values) -> Values:
        return (y * z < 1.0).astype(np.float64)


@dataclass(frozen=True)
class Logistic(Loss):
    """``L(z, y) = log(1 + exp(-y z))`` for labels -1 and 1 (RB16, section 3.2).

    Examples
    --------
    >>> Logistic().value(np.array([0.0, 1000.0]), np.array([1.0, -1.0])).round(4)
    array([6.931e-01, 1.000e+03])
    """

    name = "logistic"
    targets = ("labels",)
    smoothness = 0.25

    def value(self, z: Values, y: Values) -> Values:
        return np.logaddexp(0.0, -y * z)

    def gradient(self, z: Values, y: Values) -> Values:
        return -y * expit(-y * z)

    def curvature(self, z: Values, y: Values) -> Values:
        return expit(z) * expit(-z)

    def link(self, mean: Values) -> Values:
        with np.errstate(divide="ignore"):
            return 2.0 * np.arctanh(mean)

    def inverse_link(self, z: Values) -> Values:
        return np.tanh(0.5 * z)


@dataclass(frozen=True)
class Multinomial(Loss):
    """``L(z, y) = log(sum_k exp z_k) - z_c``, where c is the true class.

    ``y`` (n, K) holds 1 for the true class and -1 for all others.

    Examples
    --------
    >>> Multinomial().value(np.zeros((1, 4)), np.array([[1.0, -1.0, -1.0, -1.0]])).round(4)
    array([1.3863])
    """

    name = "multinomial"
    targets = ("classes",)
    coupled = True
    smoothness = 0.5

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        # The rows of the Hessian sum to 0, so twice its diagonal is an upper bound.
        return 2.0 * self.curvature(z, y)

    def value(self, z: Values, y: Values) -> Values:
        # Each class is contiguous, as in :func:`~gramless.base.arrays.softmax`.
        by_class = np.ascontiguousarray(z.T)
        largest = by_class.max(axis=0)
        total = np.log(np.exp(by_class - largest).sum(axis=0)) + largest
        return np.asarray(total - np.where(y.T > 0, by_class, 0.0).sum(axis=0))

    def gradient(self, z: Values, y: Values) -> Values:
        return softmax(z) - (y > 0)

    def curvature(self, z: Values, y: Values) -> Values:
        p = softmax(z)
        return p * (1.0 - p)

    def link(self, mean: Values) -> Values:
        with np.errstate(divide="ignore"):
            return np.log(0.5 * (1.0 + mean))

    def inverse_link(self, z: Values) -> Values:
        return 2.0 * softmax(np.atleast_2d(z)).reshape(np.shape(z)) - 1.0


@dataclass(frozen=True)
class CumulativeLogistic(Loss):
    """``-log P(y)`` of ordered classes 0 to K, with ``P(y <= k) = 1 / (1 + exp(z - t_k))``.

    This is the proportional odds model (McCullagh 1980); larger raw predictions stand for higher
    classes.

    Parameters
    ----------
    thresholds : tuple of float, default=(0.0,)
        ``t_0`` to ``t_{K-1}``, in increasing order.

    Examples
    --------
    >>> loss = CumulativeLogistic((-1.0, 1.0))
    >>> np.exp(-loss.value(np.zeros(3), np.arange(3.0))).round(3)
    array([0.269, 0.462, 0.269])
    """

    thresholds: tuple[float, ...] = (0.0,)
    name = "cumulative"
    targets = ("ranks",)
    smoothness = 0.5

    @classmethod
    def of_ranks(cls, y: Values, weights: Values | None, n_classes: int) -> CumulativeLogistic:
        """Return the loss with the class frequencies as class probabilities at ``z = 0``."""
        # Half a row more for each class keeps the thresholds of empty classes finite.
        class_totals = 0.5 + np.bincount(y.astype(np.intp), weights, n_classes)
        below = np.cumsum(class_totals)[:-1] / class_totals.sum()
        return cls(tuple(np.log(below / (1.0 - below)).tolist()))

    def value(self, z: Values, y: Values) -> Values:
        upper, lower, rank = self._ends(z, y)
        gaps = np.append(np.append(np.inf, np.diff(self.thresholds)), np.inf)[rank]
        inside = -np.log1p(-np.exp(-gaps))
        return np.asarray(np.logaddexp(0.0, -upper) + np.logaddexp(0.0, lower) + inside)

    def gradient(self, z: Values, y: Values) -> Values:
        upper, lower, _ = self._ends(z, y)
        return np.asarray(expit(-upper) - expit(lower))

    def curvature(self, z: Values, y: Values) -> Values:
        upper, lower, _ = self._ends(z, y)
        return np.asarray(expit(upper) * expit(-upper) + expit(lower) * expit(-lower))

    def probabilities(self, z: Values) -> Values:
        """Return the probability of each class, (n, K + 1)."""
        below = expit(np.asarray(self.thresholds) - z[:, None])
        ends = np.column_stack([np.zeros(len(z)), below, np.ones(len(z))])
        return np.diff(ends, axis=1)

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return zeros, because the thresholds already fit a constant prediction."""
        return np.zeros(y.shape[1:])

    def adapted(self, z: Values, y: Values, weights: Values) -> CumulativeLogistic:
        """Return the loss with the thresholds that are most likely given these predictions."""
        from scipy.optimize import minimize

        # Half a row of each class at the median prediction keeps the thresholds apart.
        n_classes, pseudo_weight = len(self.thresholds) + 1, 0.5 / len(z)
        predictions = np.append(z, np.full(n_classes, np.median(z)))
        ranks = np.append(y, np.arange(float(n_classes)))
        row_weights = np.append(weights / weights.sum(), np.full(n_classes, pseudo_weight))
        first, log_gaps = self.thresholds[:1], np.log(np.diff(self.thresholds))
        with one_blas_thread():
            best = minimize(
                _threshold_objective,
                np.append(first, np.maximum(log_gaps, _MIN_LOG_GAP)),
                args=(predictions, ranks, row_weights),
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, None), *[(_MIN_LOG_GAP, None)] * len(log_gaps)],
            ).x
        thresholds = best[0] + np.append(0.0, np.cumsum(np.exp(best[1:])))
        if np.abs(thresholds - self.thresholds).max() > _THRESHOLD_TOLERANCE:
            return CumulativeLogistic(tuple(thresholds.tolist()))
        return self

    def _ends(self, z: Values, y: Values) -> tuple[Values, Values, NDArray[np.intp]]:
        """Return each row's upper and lower threshold minus its prediction, and its class."""
        rank = y.astype(np.intp)
        ends = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        return ends[rank + 1] - z, ends[rank] - z, rank


def _threshold_objective(
    parameters: Values, z: Values, y: Values, weights: Values
) -> tuple[float, Values]:
    """Return the weighted loss and its gradient in the first threshold and the log gaps."""
    gaps = np.exp(parameters[1:])
    thresholds = parameters[0] + np.append(0.0, np.cumsum(gaps))
    loss = CumulativeLogistic(tuple(thresholds.tolist()))
    upper, lower, rank = loss._ends(z, y)
    n_classes = len(thresholds) + 1
    above = np.bincount(rank, weights * expit(-upper), n_classes)
    below = np.bincount(rank, weights * expit(lower), n_classes)
    inside = np.bincount(rank, weights, n_classes)[1:-1] / np.expm1(gaps)
    # The gradient with respect to the thresholds.
    gradient = below[1:] - above[:-1]
    gradient = gradient + np.append(inside, 0.0) - np.append(0.0, inside)
    # A gap moves all thresholds above it.
    tails = np.cumsum(gradient[::-1])[::-1]
    return inner(weights, loss.value(z, y)), np.append(tails[0], tails[1:] * gaps)


@dataclass(frozen=True)
class Huber(ResidualLoss):
    """Squared error within ``threshold`` of the target, and linear beyond.

    Parameters
    ----------
    threshold : float, default=1.35
        Distance from the target, in the unit of the targets.

    Examples
    --------
    >>> Huber(1.0).value(np.array([0.5, 3.0]), np.zeros(2))
    array([0.125, 2.5  ])
    """

    threshold: float = 1.35
    name = "huber"
    targets = ("numbers",)
    smoothness = 1.0
    robust = True

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < np.inf:
            raise InputError(f"Huber: threshold must be a positive number, got {self.threshold!r}.")

    def value(self, z: Values, y: Values) -> Values:
        distance = np.abs(z - y)
        near = np.minimum(distance, self.threshold)
        return near * (distance - 0.5 * near)

    def gradient(self, z: Values, y: Values) -> Values:
        return np.clip(z - y, -self.threshold, self.threshold)

    def curvature(self, z: Values, y: Values) -> Values:
        return (np.abs(z - y) <= self.threshold).astype(np.float64)

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        # The parabola that touches the loss at z and at its mirror image is an upper bound, and
        # remains one with more curvature. The limit keeps far outliers from changing the steps.
        distance = np.minimum(np.abs(z - y), FAR_TARGET)
        return self.threshold / np.maximum(distance, self.threshold)

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return each output's weighted median."""
        return robust_centre(y, weights)


@dataclass(frozen=True)
class SmoothPinball(ResidualLoss):
    """The pinball loss with a rounded corner; its minimum is a quantile.

    ``max(q (y - z), (q - 1) (y - z))`` is convolved with a uniform density of
    half-width ``width`` (Fernandes, Guerre & Horta 2021).

    Parameters
    ----------
    quantile : float or tuple of float, default=0.5
        Quantile between 0 and 1, or one quantile per output in increasing order.
    width : float, default=0.05
        Half-width of the rounded corner in the unit of the targets. Growth of grids narrows it if
        errors are small.

    Examples
    --------
    >>> SmoothPinball(0.9, 0.1).value(np.array([0.0, 0.0]), np.array([1.0, -1.0])).round(6)
    array([0.9, 0.1])
    """

    quantile: float | tuple[float, ...] = 0.5
    width: float = 0.05
    name = "quantile"
    targets = ("numbers",)
    is_piecewise_linear = True
    robust = True

    def __post_init__(self) -> None:
        levels = np.atleast_1d(self.levels)
        if levels.size == 0 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise InputError(f"quantile must lie between 0 and 1, got {self.quantile!r}.")
        if not (np.diff(levels) > 0.0).all():
            raise InputError(f"quantiles must be in increasing order, got {self.quantile!r}.")
        if not 0.0 < self.width < np.inf:
            raise InputError(f"SmoothPinball: width must be positive, got {self.width!r}.")

    @property
    def levels(self) -> Values:
        """The quantile, or the quantiles of the outputs, as an array."""
        return np.asarray(self.quantile, np.float64)

    @property
    def smoothness(self) -> float:
        return 0.5 / self.width

    def value(self, z: Values, y: Values) -> Values:
        u = y - z
        inside = np.clip(u, -self.width, self.width)
        rounded = (inside**2 / self.width + self.width) / 4.0 + (np.abs(u) - np.abs(inside)) / 2.0
        return np.asarray(rounded + (self.levels - 0.5) * u)

    def gradient(self, z: Values, y: Values) -> Values:
        inside = np.clip(y - z, -self.width, self.width)
        return np.asarray(-(inside / (2.0 * self.width) + self.levels - 0.5))

    def curvature(self, z: Values, y: Values) -> Values:
        return np.where(np.abs(y - z) <= self.width, self.smoothness, 0.0)

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        # The parabola that touches the loss at z is an upper bound (Hunter & Lange 2000), and
        # remains one with more curvature. The limit keeps far outliers from changing the steps.
        return 0.5 / np.maximum(np.minimum(np.abs(y - z), FAR_TARGET), self.width)

    def of_output(self, k: int) -> SmoothPinball:
        """Return the loss of the quantile of output ``k``."""
        return self if self.levels.ndim == 0 else replace(self, quantile=float(self.levels[k]))

    def adapted(self, z: Values, y: Values, weights: Values) -> SmoothPinball:
        """Return the loss with a width that is small compared with the prediction errors."""
        errors = np.abs(y - z)
        clip = _ERROR_CLIP * weighted_quantiles(errors, 0.5, weights)
        mean_error = float(np.average(np.minimum(errors, clip), axis=0, weights=weights).min())
        width = _RELATIVE_WIDTH * mean_error
        return replace(self, width=width) if 0.0 < width < _WIDTH_TOLERANCE * self.width else self

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return each output's weighted quantile."""
        return weighted_quantiles(y, self.levels, weights)

    def correction(self, z: Values, y: Values, weights: Values | None = None) -> Values:
        """Return the correction of predicted quantiles by the residuals of validation rows.

        A fit adapts to its training rows, so its outer quantiles of new rows lie too close to
        the median. The correction, to be added, is ``|2 q - 1|`` times the quantile q of the
        residuals. It is 0 for the median, which has no such bias.

        Examples
        --------
        >>> float(SmoothPinball(0.9).correction(np.full(10, 3.0), np.arange(10.0)))
        4.0
        """
        w = np.ones(len(y)) if weights is None else weights
        return np.asarray(np.abs(2.0 * self.levels - 1.0) * self.initial_constant(y - z, w))

    def typical_curvature(self, y: Values, weights: Values) -> float:
        """Return the mean surrogate curvature at the initial constant."""
        z = np.broadcast_to(self.initial_constant(y, weights), y.shape)
        return float(np.average(self.surrogate_curvature(z, y), axis=0, weights=weights).mean())


class TweedieFamily(Loss):
    """Half the deviance of a Tweedie distribution at the mean ``exp(z)``.

    At the mean m it is ``y^(2-p) / ((1-p) (2-p)) - y m^(1-p) / (1-p) + m^(2-p) / (2-p)``, or its
    limit for p = 1 and 2. Scaling the targets multiplies the loss by a constant. The curvature is
    unbounded.

    Examples
    --------
    >>> Poisson().gradient(np.array([0.0]), np.array([3.0]))
    array([-2.])
    """

    power: float

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return the logarithm of each output's weighted mean, or -4 for a mean of 0.

        A subset of the rows can have only zeros as targets.
        """
        mean = np.average(y, axis=0, weights=weights)
        return self.link(np.where(mean > 0.0, mean, _MEAN_OF_ZEROS))

    def value(self, z: Values, y: Values) -> Values:
        # The ratio below would overflow for subnormal targets.
        is_positive = y >= np.finfo(np.float64).tiny
        # The formula in the docstring of the class loses digits by cancellation; differences of
        # z - log(y) keep all digits.
        error = z - np.log(np.where(is_positive, y, 1.0))
        with np.errstate(over="ignore", invalid="ignore"):
            scale = y ** (2.0 - self.power)
            value = scale * (
                _scaled_expm1(2.0 - self.power, error) - _scaled_expm1(1.0 - self.power, error)
            )
            if self.power < 2.0:
                at_zero = np.exp((2.0 - self.power) * z) / (2.0 - self.power)
                value = np.where(is_positive, value, at_zero)
        return np.maximum(value, 0.0)

    def gradient(self, z: Values, y: Values) -> Values:
        y_part, mean_part = self._gradient_parts(z, y)
        with np.errstate(invalid="ignore"):
            return mean_part - y_part

    def curvature(self, z: Values, y: Values) -> Values:
        y_part, mean_part = self._gradient_parts(z, y)
        with np.errstate(invalid="ignore"):
            return (2.0 - self.power) * mean_part + (self.power - 1.0) * y_part

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        # If all rows have the same z, the step is 2 (r - 1) / (r + 1) with r the mean target
        # divided by exp(z). This is close to the exact step log(r) and never longer.
        y_part, mean_part = self._gradient_parts(z, y)
        return 0.5 * (y_part + mean_part)

    def deviation(self, mean: Values) -> Values:
        return np.asarray(mean ** (0.5 * self.power))

    def without_offset(self, y: Values, offset: Values) -> tuple[Values, Values]:
        # The loss is homogeneous of degree 2 - p in the target and the mean.
        with np.errstate(over="ignore"):
            return y * np.exp(-offset), np.exp((2.0 - self.power) * offset)

    def _gradient_parts(self, z: Values, y: Values) -> tuple[Values, Values]:
        """Return ``y m^(1-p)`` and ``m^(2-p)``; the gradient is the second minus the first."""
        with np.errstate(over="ignore", invalid="ignore"):
            y_part = np.where(y > 0.0, y * np.exp((1.0 - self.power) * z), 0.0)
            return y_part, np.exp((2.0 - self.power) * z)

    def link(self, mean: Values) -> Values:
        with np.errstate(divide="ignore"):
            return np.log(mean)

    def inverse_link(self, z: Values) -> Values:
        with np.errstate(over="ignore"):
            return np.exp(z)


def _scaled_expm1(rate: float, z: Values) -> Values:
    """Return ``(exp(rate z) - 1) / rate``, or its limit z if the rate is 0."""
    return np.expm1(rate * z) / rate if rate != 0.0 else z


@dataclass(frozen=True)
class Poisson(TweedieFamily):
    """``L(z, y) = exp(z) - y z + y log y - y``, half the Poisson deviance at the mean ``exp(z)``.

    It is for counts and other targets that are not negative.

    Examples
    --------
    >>> Poisson().value(np.log([1.0, 2.0]), np.array([0.0, 2.0]))
    array([1., 0.])
    >>> Poisson().inverse_link(np.array([0.0]))
    array([1.])
    """

    name = "poisson"
    targets = ("counts",)
    power = 1.0


@dataclass(frozen=True)
class Gamma(TweedieFamily):
    """``L(z, y) = z - log y + y exp(-z) - 1``, half the gamma deviance at the mean ``exp(z)``.

    It is for positive targets with a standard deviation in proportion to their mean.

    Examples
    --------
    >>> Gamma().value(np.log([1.0, 2.0]), np.array([1.0, 1.0])).round(4)
    array([0.    , 0.1931])
    """

    name = "gamma"
    targets = ("amounts",)
    power = 2.0


@dataclass(frozen=True)
class Tweedie(TweedieFamily):
    """Half the deviance of a compound Poisson distribution.

    It is for sums of a random number of positive amounts, which can be 0, such as yearly claims.

    Parameters
    ----------
    power : float, default=1.5
        The variance is proportional to this power of the mean, between 1 (Poisson) and 2 (gamma).

    Examples
    --------
    >>> Tweedie(1.5).value(np.log([1.0, 4.0]), np.array([0.0, 4.0]))
    array([2., 0.])
    """

    power: float = 1.5
    name = "tweedie"
    targets = ("counts",)

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            raise InputError(
                f"Tweedie: power must lie between 1 and 2, got {self.power!r}; use the losses "
                f"'poisson' for 1 and 'gamma' for 2."
            )


_ALL: tuple[type[Loss], ...] = (
    *(Squared, Hinge, SquaredHinge, Logistic, Multinomial),
    *(Huber, SmoothPinball, Poisson, Gamma, Tweedie),
)
LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in _ALL}
