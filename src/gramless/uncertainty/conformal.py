"""Split conformal prediction: intervals and sets of classes with a given coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.numeric import check_counts, check_numbers, check_shape
from gramless.base.state import Stateful, array_in, require
from gramless.solvers.objective import columns

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

_N_LARGEST_SCORES = 1000
# Relative rounding error of ``(n + 1) coverage``, by which a whole number must not be rounded up.
_ROUNDING = 1e-10


@dataclass(frozen=True, repr=False)
class Conformal(Stateful):
    """The distribution of the scores of validation rows, for split conformal prediction.

    The score of a new row that is drawn like the validation rows is at most :meth:`quantile` with
    at least the given probability (Vovk, Gammerman & Shafer 2005; Lei et al. 2018).

    Attributes
    ----------
    scores : array (m,) or (m, K)
        Scores in increasing order. If there are more than 2,000, only the 1,000 largest and 1,000
        at evenly spaced ranks are kept; ranks between two of them are rounded up.
    masses : array of the same shape
        The total weight of all rows up to each score.
    """

    scores: Values
    masses: Values

    def check(self) -> None:
        scores = array_in(vars(self), "scores", np.float64, finite=True)
        require(scores.ndim in (1, 2) and scores.size > 0, "scores have a wrong shape")
        array_in(vars(self), "masses", np.float64, scores.shape, finite=True)

    @classmethod
    def fit(cls, scores: Values, sample_weight: Values | None = None) -> Conformal:
        """Return the distribution of scores, (n,) or (n, K); larger scores are worse.

        Weights count rows: a row of weight 2 is two rows. A new row has weight 1.

        Examples
        --------
        >>> Conformal.fit(np.array([3.0, 1.0, 2.0, 4.0])).quantile(0.6)
        3.0
        """
        scores = check_numbers("Conformal: scores", scores)
        weights = check_counts("Conformal", sample_weight, len(scores))
        scores, weights = scores[weights > 0], weights[weights > 0]
        order = np.argsort(scores, axis=0, kind="stable")
        masses = np.cumsum(weights[order], axis=0)
        kept = np.arange(len(scores))
        if len(kept) > 2 * _N_LARGEST_SCORES:
            spaced = np.linspace(0, len(kept) - 1, _N_LARGEST_SCORES).astype(np.intp)
            kept = np.union1d(spaced, kept[-_N_LARGEST_SCORES:])
        return cls(np.take_along_axis(scores, order, axis=0)[kept], masses[kept])

    def quantile(self, coverage: float) -> float | Values:
        """Return the ``ceil((n + 1) coverage)``-th smallest of n scores in each column.

        The quantile is infinite with fewer than ``coverage / (1 - coverage)`` rows.

        Examples
        --------
        >>> conformal = Conformal.fit(np.arange(1.0, 10.0))
        >>> conformal.quantile(0.9), conformal.quantile(0.95)
        (9.0, inf)
        """
        if not 0.0 < coverage < 1.0:
            raise InputError(f"coverage must lie between 0 and 1, got {coverage!r}.")
        needed = (columns(self.masses)[-1] + 1.0) * coverage * (1.0 - _ROUNDING)
        rank = (columns(self.masses) < needed).sum(axis=0)
        extended = np.vstack([columns(self.scores), np.full(len(rank), np.inf)])
        quantiles = extended[rank, np.arange(len(rank))]
        return float(quantiles[0]) if self.scores.ndim == 1 else quantiles


def interval_scores(predictions: Values, targets: Values, scale: Values | None = None) -> Values:
    """Return absolute errors, divided by a local scale if given.

    If q is their quantile, the interval ``prediction +- q * scale`` covers a new target (Lei et al.
    2018). The scale must be positive and depend only on the inputs of a row.

    Examples
    --------
    >>> interval_scores(np.array([1.0, 2.0]), np.array([3.0, 2.5]), np.array([2.0, 1.0]))
    array([1. , 0.5])
    """
    errors = np.abs(check_shape("targets", targets, np.shape(predictions)) - predictions)
    if scale is None:
        return errors
    unit = check_shape("scale", scale, errors.shape)
    if not (unit > 0).all():
        raise InputError("interval_scores: scale must be above 0.")
    return errors / unit


def set_scores(log_probabilities: Values, class_index: NDArray[np.intp]) -> Values:
    """Return one minus the probability of the true class (Sadinle, Lei & Wasserman 2019).

    Examples
    --------
    >>> set_scores(np.log([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0])).round(6)
    array([0.25, 0.5 ])
    """
    return -np.expm1(log_probabilities[np.arange(len(log_probabilities)), class_index])


def sets(log_probabilities: Values, threshold: float) -> Flags:
    """Return whether each class is in the set of each row.

    The set holds the classes with a score of at most ``threshold``, a quantile of
    :func:`set_scores`. It is empty if no class is as probable as true classes usually are, and
    holds all classes if the threshold is infinite.

    Examples
    --------
    >>> sets(np.log([[0.1, 0.9], [0.5, 0.5]]), 0.3)
    array([[False,  True],
           [False, False]])
    """
    return -np.expm1(log_probabilities) <= threshold
