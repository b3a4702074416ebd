"""Step sizes: their schedule, the curvature that limits the first one, and block variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.state import Stateful
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.kernels import Kernel, SpectralKernel
from gramless.losses import Loss


@dataclass(frozen=True)
class InverseTime(Stateful):
    """The schedule ``gamma_t = theta / (t + delay)``, with t from 1.

    DSG16's Theorem 3 requires ``theta alpha`` between 1 and 2. Without a delay the first steps are
    too long to be stable. A delay does not change the asymptotic rate.

    Parameters
    ----------
    theta : float
        Step size times the number of the step, for large numbers.
    delay : float, default=0.0
        Delay in iterations.

    Examples
    --------
    >>> [InverseTime(theta=3.0, delay=1.0).step(t) for t in (1, 2)]
    [1.5, 1.0]
    """

    theta: float
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 < self.theta < np.inf and 0.0 <= self.delay < np.inf):
            raise InputError(
                f"InverseTime: theta must be positive and delay not negative, got "
                f"theta={self.theta!r}, delay={self.delay!r}."
            )

    def step(self, iteration: int) -> float:
        """Return the step size of an iteration, from 1."""
        return self.theta / (iteration + self.delay)


def first_step(
    loss: Loss, n_outputs: int, curvature: float, block_size: int, batch_rows: int
) -> float:
    """Return the longest stable first step, the inverse of the curvature of one step.

    Random blocks of F frequencies and batches of B rows add ``1/(2 F) + 1/B`` to the curvature of
    the kernel.
    """
    noisy = curvature + 0.5 / block_size + 1.0 / batch_rows
    return 1.0 / (loss_curvature(loss, n_outputs) * noisy)


def loss_curvature(loss: Loss, n_outputs: int) -> float:
    """Return the mean curvature of a loss at 0, or 1 if that is 0, as for the hinge loss."""
    # The targets of one row of each class: 1 for its output, -1 for the others. With one output,
    # they are 1 and -1.
    targets = np.where(np.eye(max(n_outputs, 2))[:, :n_outputs] > 0, 1.0, -1.0)
    mean = float(loss.curvature(np.zeros_like(targets), targets).mean())
    return mean if mean > 0.0 else 1.0


def largest_curvature(kernel: Kernel, rows: FloatArray, centered: bool) -> float:
    """Return the largest eigenvalue of the kernel's operator on a sample, at bandwidth 1.

    With ``centered``, the features have a mean of 0, as in fits with an intercept.
    """
    gram = kernel.gram(rows)
    if centered:
        gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    with one_blas_thread():
        top = eigvalsh(gram, subset_by_index=[len(gram) - 1, len(gram) - 1])
    return max(float(top[0]), 0.0) / len(gram)


def block_variance(
    kernel: SpectralKernel, rows: FloatArray, block_size: int, seed: int, n_frequencies: int = 64
) -> float:
    """Return sigma^2 of DSG16's (8), the variance of the kernel estimate of one block.

    This is ``E_w Var_y [phi_w(x)' phi_w(y) - k(x, y)] / block_size``, averaged over x, at bandwidth
    1. x are the rows of the first half of the sample, y those of the second half, and w are
    ``n_frequencies`` random frequencies. The product of features is ``cos(w'(x - y))``. The
    strategies ``cdsg`` and ``checking`` use the variance in their bound.
    """
    half = len(rows) // 2
    generator = stream(seed, "variance of blocks")
    n_inputs = rows.shape[1]
    frequencies = kernel.frequencies(
        generator.standard_normal((n_frequencies, n_inputs)),
        generator.random((n_frequencies, kernel.n_uniforms(n_inputs))),
    )
    exact = kernel.gram(rows[:half], rows[half:])
    with one_blas_thread():
        angles = rows @ frequencies.T
    errors = (
        np.cos(angles[:half, None, f] - angles[None, half:, f]) - exact
        for f in range(n_frequencies)
    )
    return float(np.mean([part.var(axis=1).mean() for part in errors])) / block_size
