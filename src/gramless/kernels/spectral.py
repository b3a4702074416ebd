"""Kernels that have random Fourier features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from gramless.base.errors import InputError
from gramless.kernels.base import FloatArray, Kernel, Metric

# Uniforms of 53 bits can be 0, and inverse CDFs are infinite at 0 and 1.
_MIN_UNIFORM = 2.0**-54
_MAX_UNIFORM = 1.0 - 2.0**-53
_MAX_EXPONENT = 100


@dataclass(frozen=True)
class SpectralKernel(Kernel):
    """A kernel that is a mean of cosines over random frequencies, ``k(t) = E cos(w't)``.

    All positive definite kernels of the difference t of two rows have this form (Bochner's theorem;
    Rahimi & Recht 2007, Theorem 1), but the distribution must be known. Frequencies are functions
    of standard normals, which may be independent, orthogonal or of low discrepancy, and of
    additional uniforms if one normal per input is not enough.

    A subclass implements ``profile`` and ``_frequencies``, and ``n_uniforms`` if it needs uniforms.
    """

    def n_uniforms(self, n_inputs: int) -> int:
        """Return the number of uniforms that a frequency needs in addition to its normals."""
        return 0

    def frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Transform normals and uniforms to frequencies at bandwidth 1.

        Parameters
        ----------
        normals : ndarray of shape (n_frequencies, n_inputs)
            Standard normal vectors.
        uniforms : ndarray of shape (n_frequencies, n_uniforms)
            In ``[0, 1]``, independent of each other and of the normals.

        Returns
        -------
        ndarray of shape (n_frequencies, n_inputs)
            Frequencies in radians, to be divided by the bandwidths of the inputs. Each row depends
            only on the same row of normals and uniforms. Binary exponents above 100 are reduced
            to 100.

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
        shape = (len(normals), self.n_uniforms(normals.shape[1]))
        if uniforms.shape != shape:
            raise InputError(
                f"{type(self).__name__} needs uniforms of shape {shape}, got {uniforms.shape}."
            )
        inside = np.clip(uniforms, _MIN_UNIFORM, _MAX_UNIFORM)
        return limit_exponents(self._frequencies(normals, inside), _MAX_EXPONENT)

    @abstractmethod
    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Return frequencies of any size as a new array, for uniforms in (0, 1)."""


@dataclass(frozen=True)
class RadialKernel(SpectralKernel):
    """A kernel of the Euclidean distance: ``k(x, y) = profile(||(x - y) / bandwidth||)``.

    Its frequencies are normal vectors times random factors, which :meth:`radii` returns.
    """

    metric: ClassVar[Metric] = "euclidean"
    no_binning_because: ClassVar[str] = (
        "it depends on the Euclidean distance, and kernels of random grids are products over the "
        "inputs"
    )

    @property
    def is_separable(self) -> bool:
        return False

    @abstractmethod
    def radii(self, uniforms: FloatArray) -> FloatArray:
        """Transform uniforms (n_frequencies, n_uniforms) in (0, 1) to factors of normal vectors.

        The factors r are positive, and ``E exp(-(r t)^2 / 2)`` is the profile at t.
        """

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        return np.asarray(normals * self.radii(uniforms)[:, None])

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        return self.profile(cdist(rows, others))


def limit_exponents(numbers: FloatArray, largest: int) -> FloatArray:
    """Return numbers, with binary exponents above ``largest`` reduced to it."""
    large = np.abs(numbers) > 2.0**largest
    if not large.any():
        return numbers
    # Clipped numbers would all be equal, and the mean of their cosines would not be 0.
    bounded, mantissas = numbers.copy(), np.frexp(numbers[large])[0]
    bounded[large] = np.ldexp(mantissas, largest)
    return bounded
