"""Distributions of random frequencies: normals and uniforms in, draws of others out."""

from __future__ import annotations

import numpy as np
from scipy import special

from gramless.kernels.base import FloatArray

# Beyond 30 the tail of the normal distribution soon leaves the range of float64. No draw gets
# there: the largest normal made of 64 random bits is below 10.
_LARGEST_NORMAL = 30.0
# Two gamma draws are never both this small, and dividing by one does not overflow.
_SMALLEST_GAMMA = 1e-300
# In logarithms. Times a Cauchy draw it neither overflows nor falls below the largest frequency.
_LARGEST_STABLE = 150.0


def cauchy(normals: FloatArray) -> FloatArray:
    """Turn standard normals into Cauchy draws by the inverse CDF, ``tan(pi (Phi(g) - 1/2))``.

    The density is ``1 / (pi (1 + w^2))``. Draws are an odd function of the normals, finite, and as
    precise in the tails as in the middle; normals beyond 30 count as 30.
    """
    far = np.minimum(np.abs(normals), _LARGEST_NORMAL)
    return np.copysign(1.0 / np.tan(np.pi * special.ndtr(-far)), normals)


def laplace(normals: FloatArray) -> FloatArray:
    """Turn standard normals into Laplace draws by the inverse CDF, ``-log(2 Phi(-g))`` for g > 0.

    The density is ``exp(-|w|) / 2``, the rest as for :func:`cauchy`.
    """
    far = np.minimum(np.abs(normals), _LARGEST_NORMAL)
    return np.copysign(np.log(2.0) + special.log_ndtr(-far), normals)


def gamma(uniforms: FloatArray, shape: float) -> FloatArray:
    """Turn uniforms in (0, 1) into Gamma draws of scale 1, at least 1e-300, by the inverse CDF."""
    draws = -np.log1p(-uniforms) if shape == 1.0 else special.gammaincinv(shape, uniforms)
    return np.maximum(draws, _SMALLEST_GAMMA)


def positive_stable(angles: FloatArray, heights: FloatArray, index: float) -> FloatArray:
    """Turn pairs of uniforms into positive stable draws, ``E exp(-s S) = exp(-s**index)``.

    Uniforms are in (0, 1), the index in ``(0, 1]``; at 1 every draw is 1. Draws are at most
    ``exp(150)``. About 300 ns a number. Source: Kanter, *Stable densities under change of scale*,
    Annals of Probability 3 (1975), Lemma 4.2: with ``t = pi * angle`` and ``e = -log(height)``,
    ``S`` is ``sin(p t) / sin(t)**(1/p) * (sin((1-p) t) / e)**((1-p)/p)``.
    """
    turn = np.pi * angles
    # The sine of an angle near pi is that of what it lacks to pi, which has more digits.
    opening = np.sin(np.pi * np.minimum(angles, 1.0 - angles))
    rest = (1.0 - index) / index
    logarithm = np.log(np.sin(index * turn)) - np.log(opening) / index
    logarithm += special.xlogy(rest, np.sin((1.0 - index) * turn) / -np.log(heights))
    return np.exp(np.minimum(logarithm, _LARGEST_STABLE))
