"""Kernels that have random Fourier features: distributions of frequencies."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from gramless.base.errors import InputError
from gramless.kernels.base import FloatArray, Kernel, Metric

# Uniforms of 53 bits may be 0, where inverse CDFs are infinite: half a step inside is as good.
_SMALLEST_UNIFORM = 2.0**-54
_LARGEST_UNIFORM = 1.0 - 2.0**-53
_LARGEST_EXPONENT = 100


@dataclass(frozen=True)
class SpectralKernel(Kernel):
    """A kernel that is a mean of cosines over a distribution of frequencies: ``k(t) = E cos(w't)``.

    Every positive definite kernel of the difference is one (Bochner's theorem; Rahimi & Recht 2007,
    Theorem 1). The distribution is a function of standard normals, which may be independent,
    orthogonal or of low discrepancy; distributions that need more than one normal an input take
    uniforms as well.

    A subclass defines ``profile`` and ``_frequencies``, and ``n_uniforms`` if it needs some.
    """

    def n_uniforms(self, n_inputs: int) -> int:
        """Return how many uniforms a frequency needs besides its normals."""
        return 0

    def frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Turn normals and uniforms into frequencies at bandwidth 1.

        Parameters
        ----------
        normals : ndarray of shape (n_frequencies, n_inputs)
            Each row a standard normal vector.
        uniforms : ndarray of shape (n_frequencies, n_uniforms)
            In ``[0, 1]``, independent of each other and of the normals.

        Returns
        -------
        ndarray of shape (n_frequencies, n_inputs)
            To be divided by the bandwidth of each input; each row depends on its own normals and
            uniforms alone. Frequencies above ``2**100`` keep their digits and get the exponent 100.

        Examples
        --------
        >>> from gramless.kernels import Laplacian
        >>> normals = np.random.default_rng(0).standard_normal((100_000, 2))
        >>> w = Laplacian().frequencies(normals, np.empty((100_000, 0)))
        >>> float(np.cos(w @ [0.3, 0.7]).mean().round(2)), float(np.exp(-1).round(2))
        (0.37, 0.37)
        """
        normals = np.asarray(normals, dtype=np.float64)
        uniforms = np.asarray(uniforms, dtype=np.float64)
        wanted = (len(normals), self.n_uniforms(normals.shape[1]))
        if uniforms.shape != wanted:
            raise InputError(
                f"{type(self).__name__} needs uniforms of shape {wanted}, got {uniforms.shape}."
            )
        inside = np.clip(uniforms, _SMALLEST_UNIFORM, _LARGEST_UNIFORM)
        return within_exponents(self._frequencies(normals, inside), _LARGEST_EXPONENT)

    @abstractmethod
    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Do as ``frequencies`` in a new array, without bounds, for uniforms in (0, 1)."""


@dataclass(frozen=True)
class RadialKernel(SpectralKernel):
    """A kernel of the Euclidean distance: ``k(x, y) = profile(||(x - y) / bandwidth||)``.

    Its frequencies are normal vectors, each times a factor of its own, ``radii``.
    """

    metric: ClassVar[Metric] = "euclidean"
    no_binning_because: ClassVar[str] = (
        "it depends on the Euclidean distance, and random grids multiply over the inputs"
    )

    @property
    def is_separable(self) -> bool:
        return False

    @abstractmethod
    def radii(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms (n_frequencies, n_uniforms) in (0, 1) into factors of normal vectors.

        The factors are positive, and ``E exp(-(radius t)^2 / 2)`` is the profile.
        """

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        return np.asarray(normals * self.radii(uniforms)[:, None])

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        return self.profile(cdist(rows, others))


def within_exponents(numbers: FloatArray, largest: int) -> FloatArray:
    """Lower the exponents of numbers above ``2**largest``."""
    large = np.abs(numbers) > 2.0**largest
    if not large.any():
        return numbers
    # Moved to one value they would be an atom of the distribution, whose cosine is not 0 on
    # average.
    bounded, mantissas = numbers.copy(), np.frexp(numbers[large])[0]
    bounded[large] = np.ldexp(mantissas, largest)
    return bounded
