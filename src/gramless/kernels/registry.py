"""Kernels by name, from a function, and from plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from gramless.base.errors import KernelError
from gramless.kernels.base import FloatArray, Kernel, KernelConfig
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
KERNELS: dict[str, type[Kernel]] = {kernel.name: kernel for kernel in _CLASSES}


def as_kernel(kernel: KernelLike) -> Kernel:
    """Turn a name, a kernel or a profile function into a kernel.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name gives the kernel with its default parameters; a callable becomes a
        :class:`~gramless.kernels.Profile`.

    Returns
    -------
    Kernel

    Raises
    ------
    KernelError
        If the name is unknown or its kernel has no defaults, or the object is none of these.

    Examples
    --------
    >>> as_kernel("exponential_power")
    ExponentialPower(power=0.5)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _class_named(kernel, _names_with_defaults(Kernel))()
    if isinstance(kernel, type) or not callable(kernel):
        raise KernelError(
            f"kernel must be a name, a kernel object such as Laplacian() or a function of the "
            f"distance, got {kernel!r}."
        )
    return Profile(kernel)


def as_binning_kernel(kernel: KernelLike) -> BinningKernel:
    """Turn a name, a kernel or a profile function into a kernel that has random binning.

    Parameters
    ----------
    kernel : str, Kernel or callable
        As in :func:`as_kernel`.

    Returns
    -------
    BinningKernel

    Raises
    ------
    KernelError
        As in :func:`as_kernel`, and for a kernel whose profile is no mixture of hats.

    Examples
    --------
    >>> as_binning_kernel("laplacian")
    Laplacian()
    """
    found = as_kernel(kernel)
    if isinstance(found, BinningKernel) and found.part_without(BinningKernel) is None:
        return found
    lacking = found.part_without(BinningKernel) or found
    message = (
        f"{_without(found, lacking, 'random binning')}: {lacking.no_binning_because}. Use one of: "
        f"{', '.join(_names_with_defaults(BinningKernel))}, a Mixture of these or your own convex "
        "Profile"
    )
    if found.part_without(SpectralKernel) is None:
        message += f"; {type(found).__name__} needs random Fourier features"
    raise KernelError(f"{message}.")


def as_spectral_kernel(kernel: KernelLike) -> SpectralKernel:
    """Turn a name or a kernel into a kernel that has random Fourier features.

    Parameters
    ----------
    kernel : str, Kernel or callable
        As in :func:`as_kernel`.

    Returns
    -------
    SpectralKernel

    Raises
    ------
    KernelError
        As in :func:`as_kernel`, and for a kernel, or one made of a kernel, whose frequencies have
        no known law; a function of the distance is one.

    Examples
    --------
    >>> as_spectral_kernel("gaussian")
    Gaussian()
    """
    found = as_kernel(kernel)
    if isinstance(found, SpectralKernel) and found.part_without(SpectralKernel) is None:
        return found
    lacking = found.part_without(SpectralKernel) or found
    message = (
        f"{_without(found, lacking, 'random Fourier features')}: {lacking.no_fourier_because}. Use "
        f"one of: {', '.join(_names_with_defaults(SpectralKernel))}, or a Sum, Product, Mixture or "
        "Scaled version of these"
    )
    if found.part_without(BinningKernel) is None:
        message += f"; {type(found).__name__} needs random binning"
    raise KernelError(f"{message}.")


def from_config(config: KernelConfig) -> Kernel:
    """Build a kernel from what its ``to_config`` returned.

    Parameters
    ----------
    config : mapping
        ``"name"`` and the parameters, plain data.

    Returns
    -------
    Kernel
        Equal to the kernel described; a ``Profile`` comes back as its ``TabulatedProfile``.

    Raises
    ------
    KernelError
        If the name or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> from_config({"name": "inverse_power", "power": 2.0})
    InversePower(power=2.0)
    """
    return Kernel.from_state(config)


def _without(kernel: Kernel, lacking: Kernel, what: str) -> str:
    owner = f"the {type(kernel).__name__} kernel has no {what}"
    return owner if lacking is kernel else f"{owner} because its part {lacking!r} has none"


def _class_named(name: object, allowed: list[str]) -> type[Kernel]:
    known = KERNELS.get(name) if isinstance(name, str) else None
    if known and name in allowed:
        return known
    if known:
        raise KernelError(
            f"the kernel {name!r} has no default parameters: pass an object, {known.__name__}(...)."
        )
    raise KernelError(f"unknown kernel {name!r}; the names are {', '.join(allowed)}.")


def _names_with_defaults(base: type) -> list[str]:
    return [
        name
        for name, kernel in KERNELS.items()
        if issubclass(kernel, base) and not _required(kernel)
    ]


def _required(kernel: type[Kernel]) -> set[str]:
    return {
        field.name
        for field in dataclasses.fields(kernel)
        if field.init and field.default is dataclasses.MISSING
    }
