"""Two models over grids of their own, averaged as rows held back would have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.features.binning import BinningMap, GivenBinning
from gramless.matrices.base import Vector
from gramless.model_selection.data import Score
from gramless.model_selection.judging import Fit
from gramless.solvers.objective import Solution

_SHARES = np.linspace(0.0, 1.0, 11)
_BLOCKS = 20
"""Of the rows held back: how their scores differ tells how sure a difference is."""
_CLEAR = 2.0
"""Standard errors."""
_WORST_FIRST = ("stopped", "max_iter", "stalled", "converged")


@dataclass(frozen=True)
class Shares:
    """Averages of two models, judged: share 0 is the first model alone, 1 the second.

    Attributes
    ----------
    scores : array (11,)
        Of shares 0, 0.1, ..., 1.
    errors : array (11,)
        The standard error of what each share's score is above the least.

    Examples
    --------
    >>> def squares(z, y, weight):
    ...     return float(np.mean((z - y) ** 2))
    >>> truth = np.zeros(40)
    >>> near, far = np.full(40, 1.0), np.full(40, -4.0)
    >>> Shares.judge(near, far, truth, None, squares).best
    (0.2, 0.0)
    """

    scores: NDArray[np.float64]
    errors: NDArray[np.float64]

    @classmethod
    def judge(
        cls,
        first: Vector,
        second: Vector,
        targets: Vector,
        weight: NDArray[np.float64] | None,
        score: Score,
    ) -> Shares:
        """Judge averages by rows that neither model knows.

        Parameters
        ----------
        first, second : array (n,) or (n, K)
            Responses of both models.
        targets : array (n,) or (n, K)
        weight : array (n,) or None
        score : callable
            ``score(responses, targets, weight)``, a mean over rows: smaller is better.

        Returns
        -------
        Shares
        """

        def scores(rows: slice) -> list[float]:
            own, other, truth = first[rows], second[rows], targets[rows]
            counts = None if weight is None else weight[rows]
            return [score((1.0 - share) * own + share * other, truth, counts) for share in _SHARES]

        found = np.array(scores(slice(None)))
        n_blocks = min(_BLOCKS, len(targets))
        rows = [slice(k, None, n_blocks) for k in range(n_blocks)]
        blocks = np.array([scores(own) for own in rows])
        worse = blocks - blocks[:, [found.argmin()]]
        parts = np.ones(n_blocks)
        if weight is not None:
            parts = np.array([weight[own].sum() for own in rows])
        parts = (parts / parts.sum())[:, None]
        errors = np.linalg.norm(parts * (worse - (parts * worse).sum(axis=0)), axis=0)
        return cls(found, errors)

    @property
    def best(self) -> tuple[float, float]:
        """The most even share within a standard error of the best, and its score.

        An average of unlike models forgives more than rows held back can tell (the rule of
        one standard error, Breiman, Friedman, Olshen & Stone 1984). Share 0 or 1 where one
        model by itself is clearly better.
        """
        good = np.flatnonzero(self.scores <= self.scores.min() + self.errors)
        even = good[np.abs(_SHARES[good] - 0.5).argmin()]
        return round(float(_SHARES[even]), 1), float(self.scores[even])

    @property
    def first_helps(self) -> bool:
        """Whether the best average is clearly better than the second model alone."""
        return bool(self.scores[-1] > self.scores.min() + _CLEAR * self.errors[-1])


@dataclass(frozen=True)
class Blend:
    """Two models over grids of their own, and how much each counts.

    Attributes
    ----------
    share : float
        Of the second model's predictions in the average.
    alphas : (float, float)
        Of each model.
    """

    share: float
    alphas: tuple[float, float]

    def joined(
        self, fits: Sequence[Fit], solutions: Sequence[Solution], n_free: int
    ) -> tuple[GivenBinning, Solution]:
        """Return the average as one model over the grids of both.

        Parameters
        ----------
        fits : two Fits
            Of bins, with features of the value ``1/sqrt(n_grids)`` of each model.
        solutions : two Solutions
            Of each model by itself.
        n_free : int
            How many last weights have no penalty; both models share their columns.

        Returns
        -------
        feature_map : GivenBinning
        solution : Solution
            Iterations and history of one after the other; the worse status.
        """
        first, second = (fit.feature_map for fit in fits)
        assert isinstance(first, BinningMap)
        assert isinstance(second, BinningMap)
        both, n_grids = GivenBinning.beside(first, second), (len(first.nu_), len(second.nu_))
        return both, self._solution(solutions, n_grids, n_free)

    def _solution(
        self, solutions: Sequence[Solution], n_grids: tuple[int, int], n_free: int
    ) -> Solution:
        shares = 1.0 - self.share, self.share
        # A model of fewer grids has larger features.
        scales = [
            share * np.sqrt(sum(n_grids) / own) for share, own in zip(shares, n_grids, strict=True)
        ]
        one, other = (found.weights for found in solutions)
        end, n_columns = len(one) - n_free, len(one) + len(other) - n_free
        weights = np.empty((n_columns, *one.shape[1:]))
        np.multiply(one[:end], scales[0], out=weights[:end])
        np.multiply(other, scales[1], out=weights[end:])
        weights[n_columns - n_free :] = shares[0] * one[end:]
        weights[n_columns - n_free :] += shares[1] * other[len(other) - n_free :]
        return Solution(
            weights,
            min((found.status for found in solutions), key=_WORST_FIRST.index),
            sum(found.n_iter for found in solutions),
            [entry for found in solutions for entry in found.history],
        )
