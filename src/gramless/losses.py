"""Losses, pointwise in the raw prediction ``z``; averaged by the objective, never here."""

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
TargetKind = Literal["numbers", "labels", "classes", "counts", "amounts", "ranks"]
"""Real numbers; -1 and 1; one column a class, 1 for the true one and -1 elsewhere; at least 0;
above 0; numbers of ordered classes, from 0."""


# Distances from the median in robust standard deviations. Scores count farther targets as this far.
FAR_TARGET = 10.0
# Fits by least squares move farther targets to this distance.
OUTLIER_BOUND = 3.0
_SHARPNESS = 0.1
"""Of the mean error: half-width within which a pinball loss is rounded off."""
_MOST_ERROR = 5.0  # of this mean, in medians: larger errors count as this large
_NARROWER, _SHIFTED = 0.8, 0.02
"""Widths and thresholds that would change by less stay as they are."""
_MEAN_OF_ZEROS = math.exp(-4.0)
"""In the place of a mean of 0, which has no logarithm."""
_LEAST_LOG_GAP = -7.0
"""Between thresholds of neighbouring classes."""


class Loss(Stateful, ABC):
    """A convex loss ``L(z, y)`` with its first two derivatives in ``z``.

    Losses of a row are added over its outputs. A subclass is a frozen dataclass, and is known
    by its name once it is listed in ``LOSSES``.

    Attributes
    ----------
    name : str
        How parameters and model files call it.
    targets : tuple of str
        The targets that it is for: "numbers", "labels" (-1 and 1), "classes" (one column
        each, 1 and -1), "counts" (not negative), "amounts" (positive) or "ranks" (numbers of
        ordered classes, from 0).
    coupled : bool, default=False
        Whether the outputs of a row depend on each other: then ``curvature`` is the diagonal of
        each row's Hessian.
    smooth : bool, default=True
        Whether the derivative is continuous. Otherwise ``gradient`` is a subgradient.
    straight : bool, default=False
        Whether the loss is straight but for a corner that is rounded off: few rows have any
        curvature, and these are others at each output.
    robust : bool, default=False
        Whether the slope is bounded, however far the target is. Then targets are centred by their
        median and scaled by their interquartile range, and outliers do not decide which model is
        the best.
    smoothness : float, default=inf
        The largest eigenvalue that a row's Hessian can have (beta in RB16, Theorem 1).

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
    straight: ClassVar[bool] = False
    robust: ClassVar[bool] = False

    @property
    def smoothness(self) -> float:
        """The largest curvature; infinite where there is no bound."""
        return math.inf

    @abstractmethod
    def value(self, z: Values, y: Values) -> Values:
        """Return ``L(z, y)``, elementwise; one number a row, (n,), if coupled.

        Parameters
        ----------
        z : array (n,) or (n, K)
            Raw predictions.
        y : array like ``z``
            Targets as numbers; of coupled losses the number of the class of each row.
        """

    @abstractmethod
    def gradient(self, z: Values, y: Values) -> Values:
        """Return ``dL/dz``, elementwise.

        Parameters
        ----------
        z : array (n,) or (n, K)
            Raw predictions.
        y : array like ``z``
            Targets as numbers; of coupled losses the number of the class of each row.
        """

    @abstractmethod
    def curvature(self, z: Values, y: Values) -> Values:
        """Return ``d2L/dz2``, elementwise; never above ``smoothness``.

        Parameters
        ----------
        z : array (n,) or (n, K)
            Raw predictions.
        y : array like ``z``
            Targets as numbers; of coupled losses the number of the class of each row.
        """

    def comparable_value(self, z: Values, y: Values) -> Values:
        """Return the loss less a number for each row, by which models are compared.

        The number is 0 unless the loss is robust and the target of the row is farther than
        ``FAR_TARGET`` from 0. Then it is what a prediction of 0 would save if the target were only
        that far. Without it, the losses of a few outliers would hide all differences between
        models.
        """
        value = self.value(z, y)
        if not self.robust or (np.abs(y) <= FAR_TARGET).all():
            return value
        zeros, near = np.zeros_like(z), np.clip(y, -FAR_TARGET, FAR_TARGET)
        return value - (self.value(zeros, y) - self.value(zeros, near))

    def by_row(self, z: Values, y: Values) -> Values:
        """Return the comparable loss of each row, (n,), summed over its outputs."""
        losses = self.comparable_value(z, y)
        return losses if losses.ndim == 1 else losses.sum(axis=1)

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        """Return the curvature of a quadratic model at ``z`` that steps can trust, elementwise.

        That of the loss by default. Where the loss flattens or steepens away from ``z``, the
        minimum of its own quadratic model lies far beyond that of the loss; a surrogate's does not.
        """
        return self.curvature(z, y)

    def link(self, mean: Values) -> Values:
        """Return the raw prediction whose targets have this mean: the mean itself by default.

        Infinite for the mean of targets that are all as small or as large as they can be.
        """
        return mean

    def inverse_link(self, z: Values) -> Values:
        """Return the mean of the targets that a raw prediction stands for."""
        return z

    def without_offset(self, y: Values, offset: Values) -> tuple[Values, Values]:
        """Return targets, and factors of weights, whose fit plus the offset is a fit of ``y``.

        That is, ``L(z + offset, y)`` is the factor times the loss of ``z`` and the targets
        returned, whatever z.
        """
        raise InputError(f"the loss {self.name!r} takes no offset.")

    @property
    def has_positive_means(self) -> bool:
        """Whether it is for counts or amounts: raw predictions are logarithms of means."""
        return set(self.targets) <= {"counts", "amounts"}

    @property
    def is_of_classes(self) -> bool:
        """Whether targets are two or several classes, and nothing else."""
        return set(self.targets) <= {"labels", "classes"}

    def deviation(self, mean: Values) -> Values:
        """Return what errors are proportional to, by the mean: 1, or the root of that of counts."""
        return np.sqrt(mean) if self.has_positive_means else np.ones_like(mean)

    def check_targets(self, y: Values) -> None:
        """Raise ``InputError`` for targets that the loss is not defined for: negative counts."""
        if not self.has_positive_means:
            return
        above_zero, least = "counts" not in self.targets, float(np.min(y, initial=np.inf))
        if least < 0.0 or (above_zero and least == 0.0):
            allowed = "positive" if above_zero else "not negative"
            raise InputError(
                f"the loss {self.name!r} is for targets that are {allowed}; the least of these "
                f"is {least!r}."
            )
        if not (y.sum(axis=0) > 0.0).all():
            raise InputError(f"the loss {self.name!r} needs targets that are not all 0.")

    def of_output(self, k: int) -> Loss:
        """Return the loss of one output alone, by default the same."""
        return self

    def adapted(self, z: Values, y: Values, weights: Values) -> Loss:
        """Return the loss whose own parameters suit predictions like these, by default itself."""
        return self

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return the link of each output's weighted mean: a constant prediction to start from."""
        mean = np.average(y, axis=0, weights=weights)
        # Rounding can move the mean of equal targets out of their range, where links are NaN.
        return self.link(np.clip(mean, y.min(axis=0), y.max(axis=0)))

    def typical_curvature(self, y: Values, weights: Values) -> float:
        """Return the unit of curvature: ``smoothness``, or the mean at the initial constant."""
        if self.smoothness < math.inf:
            return self.smoothness
        z = np.broadcast_to(self.initial_constant(y, weights), y.shape)
        return float(np.average(self.curvature(z, y), axis=0, weights=weights).mean())


class ResidualLoss(Loss):
    """A loss of ``z - y`` alone."""

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
    """``L(z, y) = max(0, 1 - y z)`` for labels -1 and 1, with a corner where ``y z = 1``.

    For stochastic gradients, which take subgradients; solvers that need a smooth
    loss refuse it.

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
    """``L(z, y) = log(sum_k exp z_k) - z_c`` over the classes, c the true one.

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
        # The rows of the Hessian sum to 0: twice its diagonal is never below it.
        return 2.0 * self.curvature(z, y)

    def value(self, z: Values, y: Values) -> Values:
        # The rows of a class contiguous, as in :func:`~gramless.base.arrays.softmax`.
        by_class = np.ascontiguousarray(z.T)
        most = by_class.max(axis=0)
        total = np.log(np.exp(by_class - most).sum(axis=0)) + most
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

    Proportional odds (McCullagh 1980): larger predictions stand for higher classes.

    Parameters
    ----------
    thresholds : tuple of float, default=(0.0,)
        ``t_0`` to ``t_{K-1}``, rising.

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
        """Return the loss whose probabilities at 0 are the shares of the classes.

        Each class counts half a row more than it has.
        """
        masses = 0.5 + np.bincount(y.astype(np.intp), weights, n_classes)
        below = np.cumsum(masses)[:-1] / masses.sum()
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
        """Return zeros: thresholds are where constant predictions need them."""
        return np.zeros(y.shape[1:])

    def adapted(self, z: Values, y: Values, weights: Values) -> CumulativeLogistic:
        """Return the loss with the thresholds that suit these predictions best.

        Half a row of each class, at the median prediction, keeps all classes apart.
        """
        from scipy.optimize import minimize

        n_classes, pseudo = len(self.thresholds) + 1, 0.5 / len(z)
        own = np.append(z, np.full(n_classes, np.median(z)))
        ranks = np.append(y, np.arange(float(n_classes)))
        masses = np.append(weights / weights.sum(), np.full(n_classes, pseudo))
        first, gaps = self.thresholds[:1], np.log(np.diff(self.thresholds))
        with one_blas_thread():
            best = minimize(
                _threshold_objective,
                np.append(first, np.maximum(gaps, _LEAST_LOG_GAP)),
                args=(own, ranks, masses),
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, None), *[(_LEAST_LOG_GAP, None)] * len(gaps)],
            ).x
        found = best[0] + np.append(0.0, np.cumsum(np.exp(best[1:])))
        moved = np.abs(found - self.thresholds).max()
        return CumulativeLogistic(tuple(found.tolist())) if moved > _SHIFTED else self

    def _ends(self, z: Values, y: Values) -> tuple[Values, Values, NDArray[np.intp]]:
        """Return the thresholds above and below each class less the prediction; the classes."""
        rank = y.astype(np.intp)
        ends = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        return ends[rank + 1] - z, ends[rank] - z, rank


def _threshold_objective(
    parameters: Values, z: Values, y: Values, masses: Values
) -> tuple[float, Values]:
    """Return the mean loss of predictions, and its slopes, by first threshold and log gaps."""
    gaps = np.exp(parameters[1:])
    thresholds = parameters[0] + np.append(0.0, np.cumsum(gaps))
    loss = CumulativeLogistic(tuple(thresholds.tolist()))
    upper, lower, rank = loss._ends(z, y)
    n_classes = len(thresholds) + 1
    above = np.bincount(rank, masses * expit(-upper), n_classes)
    below = np.bincount(rank, masses * expit(lower), n_classes)
    inside = np.bincount(rank, masses, n_classes)[1:-1] / np.expm1(gaps)
    slopes = below[1:] - above[:-1]
    slopes = slopes + np.append(inside, 0.0) - np.append(0.0, inside)
    tails = np.cumsum(slopes[::-1])[::-1]
    return inner(masses, loss.value(z, y)), np.append(tails[0], tails[1:] * gaps)


@dataclass(frozen=True)
class Huber(ResidualLoss):
    """Squared within ``threshold`` of the target, linear beyond.

    Parameters
    ----------
    threshold : float, default=1.35
        In units of the targets.

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
        # The parabola that touches the loss at z and at its mirror image is nowhere below it, and
        # less so with more curvature: steps do not depend on how far an outlier is.
        near = np.minimum(np.abs(z - y), FAR_TARGET)
        return self.threshold / np.maximum(near, self.threshold)

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return each output's weighted median."""
        return robust_centre(y, weights)


@dataclass(frozen=True)
class SmoothPinball(ResidualLoss):
    """The pinball loss, whose minimum is a quantile, rounded off at its corner.

    ``max(q (y - z), (q - 1) (y - z))``, convolved with a uniform density of
    half-width ``width`` (Fernandes, Guerre & Horta 2021).

    Parameters
    ----------
    quantile : float or tuple of float, default=0.5
        Between 0 and 1. Of a tuple each output has its own, in rising order.
    width : float, default=0.05
        In units of the targets; narrower where grids are grown and errors are small.

    Examples
    --------
    >>> SmoothPinball(0.9, 0.1).value(np.array([0.0, 0.0]), np.array([1.0, -1.0])).round(6)
    array([0.9, 0.1])
    """

    quantile: float | tuple[float, ...] = 0.5
    width: float = 0.05
    name = "quantile"
    targets = ("numbers",)
    straight = True
    robust = True

    def __post_init__(self) -> None:
        levels = np.atleast_1d(self.levels)
        if levels.size == 0 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise InputError(f"quantile must lie between 0 and 1, got {self.quantile!r}.")
        if not (np.diff(levels) > 0.0).all():
            raise InputError(f"quantiles must be in rising order, got {self.quantile!r}.")
        if not 0.0 < self.width < np.inf:
            raise InputError(f"SmoothPinball: width must be positive, got {self.width!r}.")

    @property
    def levels(self) -> Values:
        """The quantile, or those of the outputs."""
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
        # The parabola that touches the loss at z is nowhere below it (Hunter & Lange 2000), and
        # less so with more curvature: steps do not depend on how far an outlier is.
        return 0.5 / np.maximum(np.minimum(np.abs(y - z), FAR_TARGET), self.width)

    def of_output(self, k: int) -> SmoothPinball:
        """Return the loss of the output's own quantile."""
        return self if self.levels.ndim == 0 else replace(self, quantile=float(self.levels[k]))

    def adapted(self, z: Values, y: Values, weights: Values) -> SmoothPinball:
        """Return the loss with a width that is small beside the errors of these predictions."""
        errors = np.abs(y - z)
        most = _MOST_ERROR * weighted_quantiles(errors, 0.5, weights)
        typical = float(np.average(np.minimum(errors, most), axis=0, weights=weights).min())
        width = _SHARPNESS * typical
        return replace(self, width=width) if 0.0 < width < _NARROWER * self.width else self

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return each output's weighted quantile."""
        return weighted_quantiles(y, self.levels, weights)

    def correction(self, z: Values, y: Values, weights: Values | None = None) -> Values:
        """Return what to add to predictions, by rows that were held back from the fit.

        A fit adapts to its own rows, so its outer quantiles of new rows lie too close to the
        middle. Each is moved by ``|2 q - 1|`` times the quantile q of the residuals of the rows
        held back. The median, which has no such bias, stays: it would only become noisier.

        Examples
        --------
        >>> float(SmoothPinball(0.9).correction(np.full(10, 3.0), np.arange(10.0)))
        4.0
        """
        counts = np.ones(len(y)) if weights is None else weights
        return np.asarray(np.abs(2.0 * self.levels - 1.0) * self.initial_constant(y - z, counts))

    def typical_curvature(self, y: Values, weights: Values) -> float:
        """Return the mean surrogate curvature at the initial constant."""
        z = np.broadcast_to(self.initial_constant(y, weights), y.shape)
        return float(np.average(self.surrogate_curvature(z, y), axis=0, weights=weights).mean())


class TweedieFamily(Loss):
    """Half the deviance of a Tweedie distribution at the mean ``exp(z)``.

    ``y^(2-p) / ((1-p) (2-p)) - y m^(1-p) / (1-p) + m^(2-p) / (2-p)`` at the mean m, its limits at
    p = 1 and 2. Divided targets change the loss by a factor alone. The curvature has no bound.

    Examples
    --------
    >>> Poisson().gradient(np.array([0.0]), np.array([3.0]))
    array([-2.])
    """

    power: float

    def initial_constant(self, y: Values, weights: Values) -> Values:
        """Return the logarithm of each output's weighted mean.

        Some of the rows may have no target above 0, though all together have: their constant is
        -4, from which descent goes on.
        """
        mean = np.average(y, axis=0, weights=weights)
        return self.link(np.where(mean > 0.0, mean, _MEAN_OF_ZEROS))

    def value(self, z: Values, y: Values) -> Values:
        some = y > 0.0
        # The terms are far larger than their sum: its digits are those of z - log(y).
        error = z - np.log(np.where(some, y, 1.0))
        with np.errstate(over="ignore", invalid="ignore"):
            scale = y ** (2.0 - self.power)
            value = scale * (_risen(2.0 - self.power, error) - _risen(1.0 - self.power, error))
            if self.power < 2.0:
                at_zero = np.exp((2.0 - self.power) * z) / (2.0 - self.power)
                value = np.where(some, value, at_zero)
        return np.maximum(value, 0.0)

    def gradient(self, z: Values, y: Values) -> Values:
        falling, rising = self._parts(z, y)
        with np.errstate(invalid="ignore"):
            return rising - falling

    def curvature(self, z: Values, y: Values) -> Values:
        falling, rising = self._parts(z, y)
        with np.errstate(invalid="ignore"):
            return (2.0 - self.power) * rising + (self.power - 1.0) * falling

    def surrogate_curvature(self, z: Values, y: Values) -> Values:
        # Of rows with one z, steps are then 2 (r - 1) / (r + 1), r the mean of their targets over
        # exp(z): nearly the exact log(r), and never beyond it.
        falling, rising = self._parts(z, y)
        return 0.5 * (falling + rising)

    def deviation(self, mean: Values) -> Values:
        return np.asarray(mean ** (0.5 * self.power))

    def without_offset(self, y: Values, offset: Values) -> tuple[Values, Values]:
        # All terms are of degree 2 - p in the target and the mean together.
        with np.errstate(over="ignore"):
            return y * np.exp(-offset), np.exp((2.0 - self.power) * offset)

    def _parts(self, z: Values, y: Values) -> tuple[Values, Values]:
        """Return the negative slopes of the terms with ``y`` and the slopes of those without."""
        with np.errstate(over="ignore", invalid="ignore"):
            falling = np.where(y > 0.0, y * np.exp((1.0 - self.power) * z), 0.0)
            return falling, np.exp((2.0 - self.power) * z)

    def link(self, mean: Values) -> Values:
        with np.errstate(divide="ignore"):
            return np.log(mean)

    def inverse_link(self, z: Values) -> Values:
        with np.errstate(over="ignore"):
            return np.exp(z)


def _risen(rate: float, z: Values) -> Values:
    """Return ``(exp(rate z) - 1) / rate``, which is z where the rate is 0."""
    return np.expm1(rate * z) / rate if rate != 0.0 else z


@dataclass(frozen=True)
class Poisson(TweedieFamily):
    """``L(z, y) = exp(z) - y z + y log y - y``, half the Poisson deviance at the mean ``exp(z)``.

    For counts and other targets that are not negative.

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

    For positive targets whose deviation is proportional to their mean.

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
    """Half the deviance of a compound Poisson distribution: sums of gamma amounts, 0 where none is.

    Parameters
    ----------
    power : float, default=1.5
        Variances grow with this power of the mean; between 1 (Poisson) and 2 (gamma).

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
                f"Tweedie: power must lie between 1 and 2, got {self.power!r}; for 1 and 2 use the "
                f"losses 'poisson' and 'gamma'."
            )


_ALL: tuple[type[Loss], ...] = (
    *(Squared, Hinge, SquaredHinge, Logistic, Multinomial),
    *(Huber, SmoothPinball, Poisson, Gamma, Tweedie),
)
LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in _ALL}
"""Losses by name: parameters, model files and tests know those that are listed here."""
