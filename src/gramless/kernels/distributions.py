"""Transformations of normal and uniform numbers to other distributions."""

from __future__ import annotations

import numpy as np
from scipy import special

from gramless.kernels.base import FloatArray

# Tail probabilities of normal numbers underflow soon after 30. Normal numbers that are made of 64
# random bits are below 10.
_MAX_NORMAL = 30.0
# Lower bound of draws: dividing by it does not overflow, and draws are almost never smaller.
_MIN_GAMMA = 1e-300
# Upper bound of the logarithm of a draw. Products of the largest draw and Cauchy draws do not
# overflow, but still exceed the limit on frequencies.
_MAX_LOG_STABLE = 150.0


def cauchy(normals: FloatArray) -> FloatArray:
    """Transform standard normals g to Cauchy draws ``tan(pi (Phi(g) - 1/2))`` (inverse CDF).

    The density is ``1 / (pi (1 + w^2))``. Draws are an odd function of the normals, and as precise
    in the tails as in the middle. They are finite, because normals are clipped to 30.
    """
    size = np.minimum(np.abs(normals), _MAX_NORMAL)
    return np.copysign(1.0 / np.tan(np.pi * special.ndtr(-size)), normals)


def laplace(normals: FloatArray) -> FloatArray:
    """Transform standard normals g to Laplace draws, ``-log(2 Phi(-g))`` for g > 0.

    The density is ``exp(-|w|) / 2``. Draws are odd, precise and finite as those of :func:`cauchy`.
    """
    size = np.minimum(np.abs(normals), _MAX_NORMAL)
    return np.copysign(np.log(2.0) + special.log_ndtr(-size), normals)


def gamma(uniforms: FloatArray, shape: float) -> FloatArray:
    """Transform uniforms in (0, 1) to Gamma draws of scale 1, at least 1e-300 (inverse CDF)."""
    draws = -np.log1p(-uniforms) if shape == 1.0 else special.gammaincinv(shape, uniforms)
    return np.maximum(draws, _MIN_GAMMA)


def positive_stable(angles: FloatArray, heights: FloatArray, index: float) -> FloatArray:
    """Transform pairs of uniforms to positive stable draws, ``E exp(-s S) = exp(-s**index)``.

    Uniforms are in (0, 1) and the index p is in ``(0, 1]``. If p is 1, draws are 1. Draws are at
    most ``exp(150)``. A draw takes about 300 ns. Source: Kanter, *Stable densities under change of
    scale*, Annals of Probability 3 (1975), Lemma 4.2. With ``t = pi * angle`` and ``e =
    -log(height)``, S is ``sin(p t) / sin(t)**(1/p) * (sin((1-p) t) / e)**((1-p)/p)``.
    """
    t = np.pi * angles
    # sin(t) = sin(pi - t), which is more precise if t is near pi.
    sine = np.sin(np.pi * np.minimum(angles, 1.0 - angles))
    exponent = (1.0 - index) / index
    logarithm = np.log(np.sin(index * t)) - np.log(sine) / index
    logarithm += special.xlogy(exponent, np.sin((1.0 - index) * t) / -np.log(heights))
    return np.exp(np.minimum(logarithm, _MAX_LOG_STABLE))
