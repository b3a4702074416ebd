"""Kernels: exact Gram matrices, and distributions of random grids and frequencies."""

from gramless.kernels.base import Kernel, bandwidth_vector
from gramless.kernels.composites import Mixture, Product, Scaled, Sum
from gramless.kernels.families import Cauchy, ExponentialPower, Hat, InversePower, Laplacian
from gramless.kernels.gridded import BinningKernel
from gramless.kernels.profile import Profile, TabulatedProfile
from gramless.kernels.radial import Gaussian, Matern, RationalQuadratic
from gramless.kernels.registry import (
    KERNELS,
    KernelLike,
    as_binning_kernel,
    as_kernel,
    as_spectral_kernel,
    from_config,
)
from gramless.kernels.spectral import RadialKernel, SpectralKernel
from gramless.kernels.windowed import GammaHats, Windowed

__all__ = [
    "KERNELS",
    "BinningKernel",
    "Cauchy",
    "ExponentialPower",
    "GammaHats",
    "Gaussian",
    "Hat",
    "InversePower",
    "Kernel",
    "KernelLike",
    "Laplacian",
    "Matern",
    "Mixture",
    "Product",
    "Profile",
    "RadialKernel",
    "RationalQuadratic",
    "Scaled",
    "SpectralKernel",
    "Sum",
    "TabulatedProfile",
    "Windowed",
    "as_binning_kernel",
    "as_kernel",
    "as_spectral_kernel",
    "bandwidth_vector",
    "from_config",
]
