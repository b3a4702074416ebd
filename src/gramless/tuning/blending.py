"""Two models over grids of their own, averaged as rows held back would have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.matrices.base import Vector
from gramless.matrices.stacked import WithIntercept
from gramless.penalties import L2
from gramless.solvers.gram import without_ones
from gramless.solvers.objective import Problem, Solution
from gramless.tuning.data import Score

_SHARES = np.linspace(0.0, 1.0, 11)
_BLOCKS = 20
"""Of the rows held back: how their scores differ tells how sure a difference is."""
_WORST_FIRST = ("stopped", "max_iter", "stalled", "converged")


def best_share(
    first: Vector,
    second: Vector,
    targets: Vector,
    weight: NDArray[np.float64] | None,
    score: Score,
) -> tuple[float, float]:
    """Return the second model's share of an average of both, and its score.

    The most even share whose score is within a standard error of the best: an average
    of unlike models forgives more than rows held back can tell (the rule of one
    standard error, Breiman, Friedman, Olshen & Stone 1984).

    Parameters
    ----------
    first, second : array (n,) or (n, K)
        Responses of rows that neither model knows.
    targets : array (n,) or (n, K)
    weight : array (n,) or None
    score : callable
        ``score(responses, targets, weight)``, a mean over rows: smaller is better.

    Returns
    -------
    share, score : float
        Share 0 or 1 where one model by itself is clearly better.

    Examples
    --------
    >>> def squares(z, y, weight):
    ...     return float(np.mean((z - y) ** 2))
    >>> truth = np.zeros(40)
    >>> near, far = np.full(40, 1.0), np.full(40, -4.0)
    >>> best_share(near, far, truth, None, squares)
    (0.2, 0.0)
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
    parts = np.ones(n_blocks) if weight is None else np.array([weight[own].sum() for own in rows])
    parts = (parts / parts.sum())[:, None]
    errors = np.linalg.norm(parts * (worse - (parts * worse).sum(axis=0)), axis=0)
    good = np.flatnonzero(found <= found.min() + errors)
    even = good[np.abs(_SHARES[good] - 0.5).argmin()]
    return round(float(_SHARES[even]), 1), float(found[even])


@dataclass(frozen=True)
class Blend:
    """Which grids of a matrix are whose, and how much each model counts.

    Attributes
    ----------
    n_first : int
        Grids of the first model; the others are the second's.
    share : float
        Of the second model's predictions in the average.
    alphas : (float, float)
        Of each model.
    """

    n_first: int
    share: float
    alphas: tuple[float, float]

    def problems(self, problem: Problem) -> tuple[Problem, Problem]:
        """Return each model's own problem, given the problem over the grids of both."""
        whole, n_free = without_ones(problem.matrix)
        parts = whole.take_grids(0, self.n_first), whole.take_grids(self.n_first, whole.n_grids)
        first, second = (
            replace(
                problem,
                matrix=WithIntercept(part) if n_free else part,
                penalty=L2(alpha, problem.penalty.n_free),
            )
            for part, alpha in zip(parts, self.alphas, strict=True)
        )
        return first, second

    def joined(self, problem: Problem, solutions: Sequence[Solution]) -> Solution:
        """Return the average as one solution over the grids of both.

        Parameters
        ----------
        problem : Problem
            Over the grids of both.
        solutions : two Solutions
            Of :meth:`problems`.

        Returns
        -------
        Solution
            Iterations and history of one after the other; the worse status.
        """
        whole, n_free = without_ones(problem.matrix)
        n_grids = self.n_first, whole.n_grids - self.n_first
        shares = 1.0 - self.share, self.share
        # A model of fewer grids has larger features.
        scales = [
            share * np.sqrt(whole.n_grids / own) for share, own in zip(shares, n_grids, strict=True)
        ]
        parts = [
            scale * found.weights[: len(found.weights) - n_free]
            for scale, found in zip(scales, solutions, strict=True)
        ]
        if n_free:
            first, second = (found.weights[-1:] for found in solutions)
            parts.append(shares[0] * first + shares[1] * second)
        return Solution(
            np.concatenate(parts),
            min((found.status for found in solutions), key=_WORST_FIRST.index),
            sum(found.n_iter for found in solutions),
            [entry for found in solutions for entry in found.history],
        )
