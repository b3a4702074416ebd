"""Kernels from names, functions and plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from gramless.base.errors import KernelError
from gramless.kernels.base import FloatArray, Kernel, KernelConfig, required_parameters
from gramless.kernels.composites import Mixture, Product, Scaled, Sum
from gramless.kernels.families import Cauchy, ExponentialPower, Hat, InversePower, Laplacian
from gramless.kernels.gridded import BinningKernel
from gramless.kernels.profile import Profile, TabulatedProfile
from gramless.kernels.radial import Gaussian, Matern, RationalQuadratic
from gramless.kernels.spectral import SpectralKernel
from gramless.kernels.windowed import GammaHats, Windowed

KernelLike = str | Kernel | Callable[[FloatArray], FloatArray]

_CLASSES: tuple[type[Kernel], ...] = (
    Laplacian,
    ExponentialPower,
    InversePower,
    Hat,
    Mixture,
    Profile,
    TabulatedProfile,
    Gaussian,
    Matern,
    RationalQuadratic,
    Cauchy,
    Sum,
    Product,
    Scaled,
    GammaHats,
    Windowed,
)
# Kernels that users define are not among these: as_kernel takes them as objects, and from_config
# looks them up in Kernel itself.
KERNELS: dict[str, type[Kernel]] = {kernel.name: kernel for kernel in _CLASSES}

_FEATURES: dict[type, str] = {
    BinningKernel: "random binning",
    SpectralKernel: "random Fourier features",
}
_ALTERNATIVES: dict[type, str] = {
    BinningKernel: "a Mixture of these or your own convex Profile",
    SpectralKernel: "or a Sum, Product, Mixture or Scaled version of these",
}


def as_kernel(kernel: KernelLike) -> Kernel:
    """Return the kernel for a name, a kernel or a profile function.

    Parameters
    ----------
    kernel : str, Kernel or callable
        The name of a kernel of gramless stands for it with default parameters, a callable for a
        :class:`~gramless.kernels.Profile`.

    Raises
    ------
    KernelError
        If the name is unknown or that of a kernel without default parameters, or if ``kernel`` is
        none of these types.

    Examples
    --------
    >>> as_kernel("exponential_power")
    ExponentialPower(power=0.5)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        names = _names_with_defaults(Kernel)
        if kernel in names:
            return KERNELS[kernel]()
        if kernel in KERNELS:
            raise KernelError(
                f"the kernel {kernel!r} has no default parameters: pass an object, "
                f"{KERNELS[kernel].__name__}(...)."
            )
        raise KernelError(f"unknown kernel {kernel!r}; the names are {', '.join(names)}.")
    if isinstance(kernel, type) or not callable(kernel):
        raise KernelError(
            f"kernel must be a name, a kernel object such as Laplacian() or a function of the "
            f"distance, got {kernel!r}."
        )
    return Profile(kernel)


def as_binning_kernel(kernel: KernelLike) -> BinningKernel:
    """Return the kernel as :func:`as_kernel` does, if it has random binning.

    Otherwise raise ``KernelError``. Kernels have random binning if their profile is a mixture of
    hats.

    Parameters
    ----------
    kernel : str, Kernel or callable
        As in :func:`as_kernel`.

    Examples
    --------
    >>> as_binning_kernel("laplacian")
    Laplacian()
    """
    return cast(BinningKernel, _check_features(as_kernel(kernel), BinningKernel))


def as_spectral_kernel(kernel: KernelLike) -> SpectralKernel:
    """Return the kernel as :func:`as_kernel` does, if it has random Fourier features.

    Otherwise raise ``KernelError``: the distribution of the kernel's frequencies is not known, as
    for functions of the distance and for kernels that contain one.

    Parameters
    ----------
    kernel : str or Kernel
        As in :func:`as_kernel`.

    Examples
    --------
    >>> as_spectral_kernel("gaussian")
    Gaussian()
    """
    return cast(SpectralKernel, _check_features(as_kernel(kernel), SpectralKernel))


def from_config(config: KernelConfig) -> Kernel:
    """Return the kernel of a configuration that ``to_config`` returned.

    Parameters
    ----------
    config : mapping
        The name and the parameters as plain data. ``KernelError`` is raised if some are invalid.

    Returns
    -------
    Kernel
        Equal to the original, except that a ``Profile`` becomes a ``TabulatedProfile``.

    Examples
    --------
    >>> from_config({"name": "inverse_power", "power": 2.0})
    InversePower(power=2.0)
    """
    return Kernel.from_state(config)


def _check_features(kernel: Kernel, kind: type) -> Kernel:
    """Return the kernel, or raise ``KernelError`` if it or one of its parts is not a ``kind``."""
    lacking = kernel.part_without(kind)
    if lacking is None:
        return kernel
    owner, (other,) = type(kernel).__name__, _FEATURES.keys() - {kind}
    part = "" if lacking is kernel else f" because its part {lacking!r} has none"
    is_binning = kind is BinningKernel
    reason = lacking.no_binning_because if is_binning else lacking.no_fourier_because
    names = ", ".join(_names_with_defaults(kind))
    advice = f"; {owner} needs {_FEATURES[other]}" if kernel.part_without(other) is None else ""
    raise KernelError(
        f"the {owner} kernel has no {_FEATURES[kind]}{part}: {reason}. Use one of: {names}, "
        f"{_ALTERNATIVES[kind]}{advice}."
    )


def _names_with_defaults(kind: type) -> list[str]:
    return [
        name
        for name, kernel in KERNELS.items()
        if issubclass(kernel, kind) and not required_parameters(kernel)
    ]
