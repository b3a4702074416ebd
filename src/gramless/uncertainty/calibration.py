"""Calibrated probabilities of a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.errors import InputError
from gramless.base.numeric import check_numbers, check_sample_weight, check_shape
from gramless.base.state import Stateful, array_in, number_in, require
from gramless.base.threads import one_blas_thread
from gramless.solvers.objective import columns

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

_N_SEGMENTS = 8
_TAIL_SHARE = 0.01  # fraction of the responses beyond the last knot on either side
# Penalties of squared differences of neighbouring log slopes, and of squared log slopes. They are
# added to the log loss summed over rows.
_ROUGHNESS_PENALTY, _SLOPE_PENALTY = 10.0, 0.01
_LOG_SLOPE_BOUNDS = (-20.0, 20.0)
# Half a row of equal probabilities, spread over all rows, keeps slopes finite if the classes are
# separable (Platt 1999).
_PSEUDO_ROWS = 0.5
_FLOOR = 0.1  # number of rows of equal probabilities that is mixed into all predictions


@dataclass(frozen=True, repr=False)
class Calibration(Stateful):
    """A map from the raw responses of a classifier to probabilities.

    Probabilities are ``softmax(g(z_k))`` over the classes, or the logistic function of ``g(z)`` for
    two classes with one response. ``g`` is the same for all classes, increasing, 0 at 0, and linear
    between knots. With one slope this is temperature scaling. Several slopes are for responses that
    are not proportional to log-odds, such as those of least squares.

    Attributes
    ----------
    knots : array (n_segments + 1,)
        Evenly spaced knots. The outer segments extend beyond the outer knots.
    slopes : array (n_segments,)
        The positive slopes of ``g``.
    n_responses : int
        The number of responses per row, 1 for two classes, else the number of classes.
    floor : float
        The share of the probability that is spread evenly over the classes, so that none is 0.
    """

    knots: Values
    slopes: Values
    n_responses: int
    floor: float

    def check(self) -> None:
        fields = vars(self)
        slopes = array_in(fields, "slopes", np.float64, (None,), finite=True)
        require(slopes.size > 0, "a calibration has no slopes")
        knots = array_in(fields, "knots", np.float64, (slopes.size + 1,), finite=True)
        require(
            (knots[1:] >= knots[:-1]).all(), "the knots of a calibration are not in ascending order"
        )
        number_in(fields, "n_responses", int, 1)
        require(number_in(fields, "floor", float, 0.0, 1.0) > 0.0, "floor is out of range")

    @classmethod
    def fit(
        cls,
        responses: Values,
        targets: Values,
        sample_weight: Values | None = None,
        tol: float = 1e-13,
    ) -> Calibration:
        """Return the calibration that minimises the regularised log loss of validation rows.

        Parameters
        ----------
        responses : array (n,) or (n, K)
            Responses of rows that the classifier was not fitted to; (n,) for two classes.
        targets : array of the same shape
            1 and -1; each row of K columns has one 1, for the true class.
        sample_weight : array (n,), optional
            Weights that count rows: a row of weight 2 is two rows. Other weights should have a mean
            of 1.
        tol : float, default=1e-13
            L-BFGS-B stops when a step lowers the log loss by less than this share. It takes 20 to
            60 steps.

        Examples
        --------
        >>> z = np.array([-0.9, -0.5, -0.1, 0.1, 0.5, 0.9])
        >>> calibration = Calibration.fit(z, np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0]))
        >>> calibration.probabilities(np.array([-0.8, 0.8])).round(1)
        array([[0.9, 0.1],
               [0.1, 0.9]])
        """
        z = check_numbers("Calibration: responses", responses)
        y = check_shape("targets", targets, z.shape)
        is_true = columns(y) > 0
        has_one_class = z.ndim == 1 or (is_true.sum(axis=1) == 1).all()
        if not (np.abs(y) == 1).all() or not has_one_class or z.shape[1:] == (1,):
            raise InputError(
                "Calibration: targets must be -1 and 1, with one 1 per row of several columns."
            )
        weights = check_sample_weight("Calibration", sample_weight, len(z))
        has_weight = weights > 0
        z, is_true, weights = columns(z)[has_weight], is_true[has_weight], weights[has_weight]
        knots = _place_knots(z, is_true, weights)
        # The optimiser's steps then do not depend on the unit of the responses.
        unit = 0.5 * (knots[-1] - knots[0])
        # Linear systems of eight unknowns gain nothing from BLAS threads, and become a hundred
        # times slower if another program keeps a core busy.
        with one_blas_thread():
            best = scipy.optimize.minimize(
                LinkObjective.build(z / unit, is_true, weights, knots / unit),
                np.zeros(_N_SEGMENTS),
                jac=True,
                method="L-BFGS-B",
                bounds=[_LOG_SLOPE_BOUNDS] * _N_SEGMENTS,
                options={"maxiter": 500, "gtol": 1e-7, "ftol": tol},
            ).x
        floor = float(_FLOOR / (weights.sum() + 1.0))
        return cls(knots, np.exp(best) / unit, z.shape[1], floor)

    def log_probabilities(self, responses: Values) -> Values:
        """Return the log probability of each class, (n, 2) or (n, K)."""
        z = np.asarray(responses, np.float64)
        if z.shape[1:] != (() if self.n_responses == 1 else (self.n_responses,)):
            raise InputError(
                f"Calibration was fitted to {self.n_responses} column(s) of responses, got an "
                f"array of shape {z.shape}."
            )
        by_class = np.ascontiguousarray(columns(z).T)
        scores = np.zeros_like(by_class)
        for slope, ramp in zip(self.slopes, _ramps(by_class, self.knots), strict=True):
            scores += slope * ramp
        scores = _relative_scores(scores)
        log_p = scores - np.log(np.exp(scores).sum(axis=0))
        log_p = np.logaddexp(np.log1p(-self.floor) + log_p, np.log(self.floor / len(log_p)))
        return np.ascontiguousarray(log_p.T)

    def probabilities(self, responses: Values) -> Values:
        """Return the probability of each class, (n, 2) or (n, K).

        Examples
        --------
        >>> calibration = Calibration(np.array([-1.0, 1.0]), np.array([3.0]), 1, 1e-3)
        >>> calibration.probabilities(np.array([0.0, 1e6])).round(4)
        array([[5.000e-01, 5.000e-01],
               [5.000e-04, 9.995e-01]])
        """
        return np.exp(self.log_probabilities(responses))


@dataclass(frozen=True)
class LinkObjective:
    """The regularised log loss as a function of the log slopes, with its gradient.

    Attributes
    ----------
    ramps : array (n_segments, K, n)
        The part of each response that lies within each segment.
    class_weights : array (n_classes, n)
        The weight of each class in each row.
    row_weights : array (n,)
        The sums of ``class_weights`` over the classes.
    """

    # Each class is contiguous, which makes sums over few classes two to three times as fast.

    ramps: Values
    class_weights: Values
    row_weights: Values

    @classmethod
    def build(cls, z: Values, is_true: Flags, weights: Values, knots: Values) -> LinkObjective:
        """Return the objective for responses (n, K) and the mask of targets that are 1.

        Examples
        --------
        >>> z, is_true = np.array([[-1.0], [2.0]]), np.array([[False], [True]])
        >>> loss = LinkObjective.build(z, is_true, np.ones(2), np.array([-2.0, 0.0, 2.0]))
        >>> value, gradient = loss(np.zeros(2))
        >>> round(value, 4), gradient.round(4)
        (0.3701, array([-0.0845, -0.0192]))
        """
        truth = np.vstack([~is_true.T, is_true.T]) if is_true.shape[1] == 1 else is_true.T
        pseudo_mass = _PSEUDO_ROWS / (weights.sum() * len(truth))
        class_weights = weights * (truth + pseudo_mass)
        ramps = np.stack([*_ramps(np.ascontiguousarray(z.T), knots)])
        return cls(ramps, class_weights, class_weights.sum(axis=0))

    def __call__(self, log_slopes: Values) -> tuple[float, Values]:
        slopes = np.exp(log_slopes)
        scores = _relative_scores(np.einsum("j,jkn->kn", slopes, self.ramps))
        exponentials = np.exp(scores)
        sums = exponentials.sum(axis=0)
        residuals = exponentials * (self.row_weights / sums) - self.class_weights
        log_loss = inner(self.row_weights, np.log(sums)) - inner(self.class_weights, scores)
        steps = np.diff(log_slopes, prepend=log_slopes[0], append=log_slopes[-1])
        penalty = 0.5 * (
            _ROUGHNESS_PENALTY * inner(steps, steps)
            + _SLOPE_PENALTY * inner(log_slopes, log_slopes)
        )
        gradient = slopes * np.einsum("kn,jkn->j", residuals[-self.ramps.shape[1] :], self.ramps)
        gradient += _SLOPE_PENALTY * log_slopes - _ROUGHNESS_PENALTY * np.diff(steps)
        total = float(self.row_weights.sum())
        return (penalty + log_loss) / total, gradient / total


def _place_knots(z: Values, is_true: Flags, weights: Values) -> Values:
    """Return evenly spaced knots; one percent of the weight lies beyond them on either side.

    With several classes, the knots follow each row's response of the true class and the largest of
    its other responses. If the responses between the tails are all equal, the knots surround that
    value.
    """
    if z.shape[1] > 1:
        z = np.column_stack([z[is_true], np.where(is_true, -np.inf, z).max(axis=1)])
    order = np.argsort(z, axis=None, kind="stable")
    cumulative_weights = np.cumsum(np.repeat(weights, z.shape[1])[order])
    tail = _TAIL_SHARE * cumulative_weights[-1]
    first, last = (
        cumulative_weights.searchsorted(tail),
        cumulative_weights.searchsorted(cumulative_weights[-1] - tail, "right"),
    )
    low, high = z.ravel()[order[[first, last]]]
    if not high > low:
        size = abs(low) or 1.0
        low, high = low - size, low + size
    return np.linspace(low, high, _N_SEGMENTS + 1)


def _ramps(z: Values, knots: Values) -> Iterator[Values]:
    """Yield the part of responses, measured from 0, that lies within each segment."""
    ends = [-np.inf, *knots[1:-1], np.inf]
    for low, high in pairwise(ends):
        yield np.clip(z, low, high) - np.clip(0.0, low, high)


def _relative_scores(scores: Values) -> Values:
    # One score is that of the second of two classes; the first has the score 0.
    scores = np.vstack([np.zeros_like(scores), scores]) if len(scores) == 1 else scores
    return scores - scores.max(axis=0)
