"""Kernels by name, from a function, and from plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from gramless.base.errors import KernelError
from gramless.kernels.base import BinningKernel, FloatArray, Kernel, KernelConfig
from gramless.kernels.families import (
    ExponentialPower,
    Gaussian,
    Hat,
    InversePower,
    Laplacian,
    Mixture,
)
from gramless.kernels.profile import Profile, TabulatedProfile

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
    if not isinstance(found, BinningKernel):
        name = type(found).__name__
        raise KernelError(
            f"the {name} kernel has no random binning: {found.no_binning_because}. Use one of: "
            f"{', '.join(_names_with_defaults(BinningKernel))}, a Mixture of these or your own "
            f"convex Profile; {name} needs random Fourier features."
        )
    return found


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
    parameters = {key: _restored(value) for key, value in config.items() if key != "name"}
    kernel = _class_named(config.get("name"), list(KERNELS))
    expected = {field.name for field in dataclasses.fields(kernel) if field.init}
    if unknown := parameters.keys() - expected:
        raise KernelError(f"{kernel.__name__} has no parameter {', '.join(sorted(unknown))}.")
    if missing := _required(kernel) - parameters.keys():
        raise KernelError(f"{kernel.__name__} needs {', '.join(sorted(missing))}.")
    try:
        return kernel(**parameters)
    except TypeError as error:
        raise KernelError(f"{kernel.__name__} cannot use its parameters: {error}.") from error


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return from_config(value)
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    return value


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
