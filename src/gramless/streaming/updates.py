"""What a doubly stochastic step does to its block: along the gradient, or by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from gramless.base.sums import weighted_sums
from gramless.base.threads import one_blas_thread
from gramless.streaming.products import BlockProducts
from gramless.streaming.strategies import Choice

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """What a step adds.

    Parameters
    ----------
    weights : array (block_columns, n_outputs)
        To those of the block.
    intercept, offset : array (n_outputs,)
        To the two parts of the constant.
    """

    weights: FloatArray
    intercept: FloatArray
    offset: FloatArray


class Update(Protocol):
    """What a step does to its block and to the constant."""

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: FloatArray,
        choice: Choice,
        share: float,
    ) -> Change:
        """Return what is added to the block's weights and to the constant.

        Parameters
        ----------
        products : BlockProducts
        rows : what ``products.prepare`` returned, of n rows
        slopes : array (n, n_outputs)
            Derivatives of the loss.
        choice : Choice
        share : float
            The schedule's step, relative to its first.
        """


@dataclass(frozen=True)
class NoIntercept:
    """The papers' function: blocks of features alone."""

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: FloatArray,
        choice: Choice,
        share: float,
    ) -> Change:
        """Return minus the step times the mean of derivative times features, and zeros."""
        nothing = np.zeros(slopes.shape[1])
        gradient = products.gradient(rows, choice.block, slopes) / len(slopes)
        return Change(-choice.step * gradient, nothing, nothing)


@dataclass(frozen=True)
class FreeIntercept:
    """A constant without penalty, and steps along features less their mean over the batch.

    The function ``f(x) + b`` is written as ``sum_k (phi_k(x) - m_k)' alpha_k + c``: another
    basis for the same functions and penalty, whatever the m_k. All features of a smooth kernel
    are about constant over wide regions, which makes the mean the direction in which steps become
    unstable first; without it they may be many times longer.

    Parameters
    ----------
    length : float
        The first step of the constant.
    """

    length: float

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: FloatArray,
        choice: Choice,
        share: float,
    ) -> Change:
        """Return the same for features less their means, and what keeps the means out."""
        gradient, means = _centred_gradient(products, rows, choice.block, slopes)
        weights = -choice.step * gradient
        intercept = -share * self.length * slopes.mean(axis=0)
        return Change(weights, intercept, -weighted_sums(means, weights))


@dataclass(frozen=True)
class NewtonStep:
    """The same functions as ``FreeIntercept``'s, and a damped Newton step of the block.

    The gradient is divided by the covariance of the block's features over the batch, so that
    directions in which rows differ little are learned as fast as others. (The code of Dai et al.
    2014 does so too, without saying it.) Where the run would end is then no longer the penalty's
    minimum; rows held back must say when it is over.

    Parameters
    ----------
    curvature : float
        Of the loss.
    first : float
        The schedule's first step: a step of that length is the full damped one.
    ridge : float
        Added to the covariance, whose trace is at most 1.
    damping : float, default=0.3

    Notes
    -----
    ``(2 F)^2`` operations a row of the batch and ``(2 F)^3 / 3`` once.
    """

    curvature: float
    first: float
    ridge: float
    damping: float = 0.3

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: FloatArray,
        choice: Choice,
        share: float,
    ) -> Change:
        """Return the damped Newton step, that of the constant, and what keeps the means out."""
        gradient, means = _centred_gradient(products, rows, choice.block, slopes)
        covariance = products.moments(rows, choice.block) / len(slopes) - np.outer(means, means)
        covariance[np.diag_indices(len(means))] += self.ridge
        with one_blas_thread():
            direction = solve(covariance, gradient, assume_a="pos", overwrite_a=True)
        length = self.damping * choice.step / (self.first * self.curvature)
        weights: FloatArray = -length * direction
        intercept = -share / self.curvature * slopes.mean(axis=0)
        return Change(weights, intercept, -weighted_sums(means, weights))


def _centred_gradient(
    products: BlockProducts, rows: Any, block: int, slopes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of slopes times features less their means, and those means."""
    both = np.column_stack([slopes - slopes.mean(axis=0), np.ones(len(slopes))])
    found = products.gradient(rows, block, both) / len(slopes)
    return found[:, :-1], found[:, -1]
