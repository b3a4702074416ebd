"""What a run needs to know of its rows, learned from a small sample with the exact kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigvalsh

from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.kernels import Kernel, SpectralKernel
from gramless.losses import Loss

FloatArray = NDArray[np.float64]

_ALPHAS = tuple(10.0**-k for k in range(1, 6))
"""Smaller ones would favour wide kernels, whose fine structure takes gradients too long."""
_FREQUENCIES = 64


def best_units(
    kernel: Kernel, rows: FloatArray, targets: FloatArray, candidates: Sequence[FloatArray]
) -> tuple[int, list[float]]:
    """Return the units of the inputs with the least error of exact kernel ridge regression.

    Parameters
    ----------
    kernel : Kernel
    rows : array (n, n_inputs)
        A sample: the first half is fitted, the second judges.
    targets : array (n, n_outputs)
    candidates : list of array (n_inputs,)
        What rows are divided by; infinity leaves an input out.

    Returns
    -------
    best : int
    errors : list of float
        Mean squared errors, each at its best of five penalties.

    Notes
    -----
    An eigendecomposition of half the rows a candidate: a quarter of a second for 2,000 rows.

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.sin(3 * X[:, :1])
    >>> best_units(Gaussian(), X, y, [np.full(2, 9.0), np.array([0.5, 5.0])])[0]
    1
    """
    with one_blas_thread():
        errors = [_error(kernel, rows / units, targets) for units in candidates]
    return int(np.argmin(errors)), errors


def _error(kernel: Kernel, rows: FloatArray, targets: FloatArray) -> float:
    """Return the least mean squared error of ridge regression over the penalties."""
    half = len(rows) // 2
    values, vectors = eigh(kernel.gram(rows[:half]))
    center = targets[:half].mean(axis=0)
    inside = vectors.T @ (targets[:half] - center)
    ahead = kernel.gram(rows[half:], rows[:half]) @ vectors
    errors = []
    for alpha in _ALPHAS:
        fitted = ahead @ (inside / (np.maximum(values, 0.0) + half * alpha)[:, None])
        errors.append(float(np.mean((targets[half:] - center - fitted) ** 2)))
    return min(errors)


def largest_curvature(kernel: Kernel, rows: FloatArray, centered: bool) -> float:
    """Return the largest eigenvalue of the kernel's operator on the law of the rows.

    Parameters
    ----------
    kernel : Kernel
    rows : array (n, n_inputs)
        A sample at bandwidth 1.
    centered : bool
        Of features less their means.

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> X = np.zeros((10, 1))
    >>> float(round(largest_curvature(Gaussian(), X, centered=False), 6))
    1.0
    """
    gram = kernel.gram(rows)
    if centered:
        gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    with one_blas_thread():
        top = eigvalsh(gram, subset_by_index=[len(gram) - 1, len(gram) - 1])
    return max(float(top[0]), 0.0) / len(gram)


def first_step(
    loss: Loss, n_outputs: int, curvature: float, block_size: int, batch_rows: int
) -> float:
    """Return how long a step may be: 1 over the curvature that one step meets.

    Parameters
    ----------
    loss : Loss
        Its mean curvature at 0 counts; 1 for a hinge, which has none.
    n_outputs : int
    curvature : float
        See :func:`largest_curvature`.
    block_size, batch_rows : int
        The operator of a random block and batch is noisier: ``1 / (2 F) + 1 / B`` more.

    Examples
    --------
    >>> from gramless.losses import Squared
    >>> first_step(Squared(), 1, 0.5, block_size=1, batch_rows=10**9) < 1.01
    True
    """
    noisy = curvature + 0.5 / block_size + 1.0 / batch_rows
    return 1.0 / (loss_curvature(loss, n_outputs) * noisy)


def loss_curvature(loss: Loss, n_outputs: int) -> float:
    """Return a loss's mean curvature at 0, or 1 where it has none.

    Examples
    --------
    >>> from gramless.losses import Logistic
    >>> loss_curvature(Logistic(), 1)
    0.25
    """
    targets = np.where(np.eye(max(n_outputs, 2))[:, :n_outputs] > 0, 1.0, -1.0)
    mean = float(loss.curvature(np.zeros_like(targets), targets).mean())
    return mean if mean > 0.0 else 1.0


def block_variance(kernel: SpectralKernel, rows: FloatArray, block_size: int, seed: int) -> float:
    """Return sigma^2 of DSG16's (8): what one block's kernel varies by from row to row.

    ``E_w Var_y [phi_w(x)' phi_w(y) - k(x, y)]``, averaged over x, of a block of frequencies: that
    of one frequency over their number.

    Parameters
    ----------
    kernel : SpectralKernel
    rows : array (n, n_inputs)
        A sample at bandwidth 1: x from the first half, y from the second.
    block_size : int
    seed : int

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> 0.4 < block_variance(Gaussian(), X, 1, 0) < 0.6
    True
    """
    half = len(rows) // 2
    generator = stream(seed, "variance of blocks")
    n_inputs = rows.shape[1]
    frequencies = kernel.frequencies(
        generator.standard_normal((_FREQUENCIES, n_inputs)),
        generator.random((_FREQUENCIES, kernel.n_uniforms(n_inputs))),
    )
    exact = kernel.gram(rows[:half], rows[half:])
    with one_blas_thread():
        angles = rows @ frequencies.T
    turned = (
        np.cos(angles[:half, None, f] - angles[None, half:, f]) - exact for f in range(_FREQUENCIES)
    )
    return float(np.mean([part.var(axis=1).mean() for part in turned])) / block_size
