"""What held-back rows say about probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.errors import InputError
from gramless.base.numeric import check_counts, check_numbers, check_shape
from gramless.base.state import Stateful, array_in, number_in, require
from gramless.base.threads import one_blas_thread
from gramless.solvers.objective import columns

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SEGMENTS = 8
_TAILS = 0.01
_ROUGHNESS = 10.0
_SLOPE_PULL = 0.01
_LOG_SLOPES = (-20.0, 20.0)
_UNDECIDED_ROWS = 0.5
_FLOOR = 0.1


@dataclass(frozen=True, repr=False)
class Calibration(Stateful):
    """Probabilities from the raw responses of a classifier.

    ``softmax(g(z_k))`` over the classes; ``g(z)`` against 0 for two classes with one response.
    ``g``, the same for all classes, is increasing, 0 at 0, and linear between knots. One slope
    alone is temperature scaling. Several bend it where responses do not grow like log-odds, as
    those of least squares.

    Attributes
    ----------
    knots : array (n_segments + 1,)
        Evenly spaced; the outer slopes hold beyond the outer knots too.
    slopes : array (n_segments,)
        Of ``g``, above 0.
    n_responses : int
        In a row: 1 for two classes, else one a class.
    floor : float
        Share of the probability that is spread evenly over the classes: none is 0 or 1.
    """

    knots: Values
    slopes: Values
    n_responses: int
    floor: float

    def check(self) -> None:
        """Check that the parts of a calibration from a file fit each other."""
        fields = vars(self)
        slopes = array_in(fields, "slopes", np.float64, (None,), finite=True)
        require(slopes.size > 0, "a calibration has no slopes")
        knots = array_in(fields, "knots", np.float64, (slopes.size + 1,), finite=True)
        require((knots[1:] >= knots[:-1]).all(), "the knots of a calibration do not rise")
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
        """Minimise the log loss on held-back rows, with a little regularisation.

        Logarithms of neighbouring slopes are drawn together, and half a row is undecided between
        the classes (after Platt 1999): all stays finite. 20 to 60 steps of L-BFGS-B.

        Parameters
        ----------
        responses : array (n,) or (n, K)
            Of rows that the classifier was not fitted to; (n,) for two classes.
        targets : array of the same shape
            1 and -1; in each row of K columns 1 once, for the true class.
        sample_weight : array (n,), optional
            Counts: a row of weight 2 is two rows. Give other weights a mean of 1.
        tol : float, default=1e-13
            By how much of the log loss the last step may have lowered it.

        Examples
        --------
        >>> z = np.array([-0.9, -0.5, -0.1, 0.1, 0.5, 0.9])
        >>> calibration = Calibration.fit(z, np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0]))
        >>> calibration.probabilities(np.array([-0.8, 0.8])).round(1)
        array([[0.9, 0.1],
               [0.1, 0.9]])
        """
        z, hit, weights = _held_back_rows(responses, targets, sample_weight)
        knots = _place_knots(z, hit, weights)
        unit = 0.5 * (knots[-1] - knots[0])
        # Its linear systems have eight unknowns: BLAS threads would only wait for each other, a
        # hundred times as long where another program keeps a core busy.
        with one_blas_thread():
            best = scipy.optimize.minimize(
                LinkObjective.build(z / unit, hit, weights, knots / unit),
                np.zeros(_SEGMENTS),
                jac=True,
                method="L-BFGS-B",
                bounds=[_LOG_SLOPES] * _SEGMENTS,
                options={"maxiter": 500, "gtol": 1e-7, "ftol": tol},
            ).x
        floor = float(_FLOOR / (weights.sum() + 1.0))
        return cls(knots, np.exp(best) / unit, z.shape[1], floor)

    def log_probabilities(self, responses: Values) -> Values:
        """Return the logarithm of each class's probability, (n, 2) or (n, K)."""
        z = np.asarray(responses, np.float64)
        if z.shape[1:] != (() if self.n_responses == 1 else (self.n_responses,)):
            raise InputError(
                f"Calibration: fitted to {self.n_responses} column(s) of responses, got an array "
                f"of shape {z.shape}."
            )
        by_class = np.ascontiguousarray(columns(z).T)
        risen = np.zeros_like(by_class)
        for slope, ramp in zip(self.slopes, _ramps(by_class, self.knots), strict=True):
            risen += slope * ramp
        scores = _relative(risen)
        log_p = scores - np.log(np.exp(scores).sum(axis=0))
        found = np.logaddexp(np.log1p(-self.floor) + log_p, np.log(self.floor / len(log_p)))
        return np.ascontiguousarray(found.T)

    def probabilities(self, responses: Values) -> Values:
        """Return each class's probability, (n, 2) or (n, K).

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
    """The regularised log loss of logarithms of slopes, and its gradient.

    ``ramps`` (n_segments, K, n) is what each response rises within each segment, ``wanted``
    (n_classes, n) the weight of each class in each row, ``masses`` (n,) their sums. The rows of
    a class are contiguous, which makes sums over few classes two to three times as fast.
    """

    ramps: Values
    wanted: Values
    masses: Values

    @classmethod
    def build(cls, z: Values, hit: Flags, weights: Values, knots: Values) -> LinkObjective:
        """Return the objective over responses (n, K), ``hit`` where a target is 1.

        Examples
        --------
        >>> z, hit = np.array([[-1.0], [2.0]]), np.array([[False], [True]])
        >>> loss = LinkObjective.build(z, hit, np.ones(2), np.array([-2.0, 0.0, 2.0]))
        >>> value, gradient = loss(np.zeros(2))
        >>> round(value, 4), gradient.round(4)
        (0.3701, array([-0.0845, -0.0192]))
        """
        truth = np.vstack([~hit.T, hit.T]) if hit.shape[1] == 1 else hit.T
        undecided = _UNDECIDED_ROWS / (weights.sum() * len(truth))
        wanted = weights * (truth + undecided)
        ramps = np.stack([*_ramps(np.ascontiguousarray(z.T), knots)])
        return cls(ramps, wanted, wanted.sum(axis=0))

    def __call__(self, logs: Values) -> tuple[float, Values]:
        """Return the mean loss with its penalty, and the gradient."""
        slopes = np.exp(logs)
        scores = _relative(np.einsum("j,jkn->kn", slopes, self.ramps))
        shares = np.exp(scores)
        sums = shares.sum(axis=0)
        excess = shares * (self.masses / sums) - self.wanted
        log_loss = inner(self.masses, np.log(sums)) - inner(self.wanted, scores)
        steps = np.diff(logs, prepend=logs[0], append=logs[-1])
        value = 0.5 * (_ROUGHNESS * inner(steps, steps) + _SLOPE_PULL * inner(logs, logs))
        gradient = slopes * np.einsum("kn,jkn->j", excess[-self.ramps.shape[1] :], self.ramps)
        gradient += _SLOPE_PULL * logs - _ROUGHNESS * np.diff(steps)
        total = float(self.masses.sum())
        return (value + log_loss) / total, gradient / total


def _held_back_rows(
    responses: Values, targets: Values, sample_weight: Values | None
) -> tuple[Values, Flags, Values]:
    """Return responses (n, K), where the target is 1, and weights, of rows that have one."""
    z = check_numbers("Calibration: responses", responses)
    y = check_shape("targets", targets, z.shape)
    hit = columns(y) > 0
    one_each = z.ndim == 1 or (hit.sum(axis=1) == 1).all()
    if not (np.abs(y) == 1).all() or not one_each or z.shape[1:] == (1,):
        raise InputError("Calibration: targets must be -1 and 1; of several columns 1 in just one.")
    weights = check_counts("Calibration", sample_weight, len(z))
    return columns(z)[weights > 0], hit[weights > 0], weights[weights > 0]


def _place_knots(z: Values, hit: Flags, weights: Values) -> Values:
    """Spread knots over the responses that decide: of the true class and its strongest rival."""
    if z.shape[1] > 1:
        z = np.column_stack([z[hit], np.where(hit, -np.inf, z).max(axis=1)])
    order = np.argsort(z, axis=None, kind="stable")
    masses = np.cumsum(np.repeat(weights, z.shape[1])[order])
    tail = _TAILS * masses[-1]
    first, last = masses.searchsorted(tail), masses.searchsorted(masses[-1] - tail, "right")
    low, high = z.ravel()[order[[first, last]]]
    if not high > low:
        size = abs(low) or 1.0
        low, high = low - size, low + size
    return np.linspace(low, high, _SEGMENTS + 1)


def _ramps(z: Values, knots: Values) -> Iterator[Values]:
    """Yield what responses rise from 0 within each segment; the outer ones have no end."""
    ends = [-np.inf, *knots[1:-1], np.inf]
    for low, high in pairwise(ends):
        yield np.clip(z, low, high) - np.clip(0.0, low, high)


def _relative(scores: Values) -> Values:
    """Return scores (n_classes, n) less the largest of each row.

    A single one belongs to the second of two classes, of which the first has a score of 0.
    """
    both = np.vstack([np.zeros_like(scores), scores]) if len(scores) == 1 else scores
    return both - both.max(axis=0)
