"""Kernels: exact Gram matrices and, where the profile is convex, laws of random grids."""

from gramless.kernels.base import BinningKernel, Kernel, bandwidth_vector
from gramless.kernels.families import (
    ExponentialPower,
    Gaussian,
    Hat,
    InversePower,
    Laplacian,
    Mixture,
)
from gramless.kernels.profile import Profile, TabulatedProfile
from gramless.kernels.registry import (
    KERNELS,
    KernelLike,
    as_binning_kernel,
    as_kernel,
    from_config,
)

__all__ = [
    "KERNELS",
    "BinningKernel",
    "ExponentialPower",
    "Gaussian",
    "Hat",
    "InversePower",
    "Kernel",
    "KernelLike",
    "Laplacian",
    "Mixture",
    "Profile",
    "TabulatedProfile",
    "as_binning_kernel",
    "as_kernel",
    "bandwidth_vector",
    "from_config",
]
