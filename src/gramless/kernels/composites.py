"""Kernels that are composed of other kernels: means, products and stretched kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
from scipy import special

from gramless.base.errors import KernelError
from gramless.kernels.base import BoolArray, FloatArray, Kernel, check_positive_number
from gramless.kernels.gridded import BinningKernel
from gramless.kernels.spectral import SpectralKernel


@dataclass(frozen=True)
class Scaled(BinningKernel, SpectralKernel):
    """A stretched kernel, ``k(x, y) = kernel(x / scale, y / scale)``.

    The bandwidth is multiplied by the scale, which is useful in a :class:`Sum` or
    :class:`Product`. It has random grids or frequencies if the kernel has them.

    Parameters
    ----------
    kernel : Kernel
        The kernel to stretch.
    scale : float
        A positive number.

    Examples
    --------
    >>> from gramless.kernels import Laplacian
    >>> Scaled(Laplacian(), scale=10.0).gram([[0.0]], [[10.0]]).round(4)
    array([[0.3679]])
    """

    name: ClassVar[str] = "scaled"
    kernel: Kernel
    scale: float

    def __post_init__(self) -> None:
        (kernel,) = _check_kernels([self.kernel], "Scaled")
        scale = check_positive_number(self.scale, "Scaled", "scale")
        vars(self).update(scale=scale, metric=kernel.metric)

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    def profile(self, distance: FloatArray) -> FloatArray:
        return self.kernel.profile(np.asarray(distance) / self.scale)

    def n_uniforms(self, n_inputs: int) -> int:
        (part,) = _spectral_parts(self)
        return part.n_uniforms(n_inputs)

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        (part,) = _spectral_parts(self)
        return part.frequencies(normals, uniforms) / self.scale

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        (part,) = _binning_parts(self)
        return self.scale * part.sample_widths(generator, size)

    def gram_of_checked(
        self, rows: FloatArray, others: FloatArray, widths: FloatArray, categorical: BoolArray
    ) -> FloatArray:
        return self.kernel.gram_of_checked(rows, others, widths * self.scale, categorical)


@dataclass(frozen=True)
class _CompositeKernel(SpectralKernel):
    kernels: Sequence[Kernel]

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return tuple(self.kernels)


@dataclass(frozen=True)
class Sum(BinningKernel, _CompositeKernel):
    """A weighted mean of kernels, ``k(x, y) = sum_i weights_i k_i(x, y) / sum_i weights_i``.

    It is the mean of kernels over all inputs, while a :class:`Mixture` is a product of means over
    single inputs. A frequency or a grid is drawn from kernel i with probability proportional to its
    weight, if all kernels have frequencies or grids. The median distance is in the metric of the
    first kernel.

    Parameters
    ----------
    kernels : sequence of Kernel
        At least one. Use :class:`Scaled` for kernels of different widths.
    weights : sequence of float
        A positive number per kernel; only their proportions matter.

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> two_scales = Sum([Gaussian(), Scaled(Gaussian(), 10.0)], weights=[1, 3])
    >>> two_scales.gram([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.6619]])
    """

    name: ClassVar[str] = "sum"
    weights: Sequence[float]

    def __post_init__(self) -> None:
        kernels = _check_kernels(self.kernels, "Sum")
        weights = _check_one_per_kernel(self.weights, "Sum", "weights", kernels)
        vars(self).update(kernels=kernels, weights=weights, metric=kernels[0].metric)

    @property
    def is_separable(self) -> bool:
        return len(self.kernels) == 1 and self.kernels[0].is_separable

    def profile(self, distance: FloatArray) -> FloatArray:
        parts = zip(self.kernels, self._normalised_weights(), strict=True)
        profiles = (share * kernel.profile(distance) for kernel, share in parts)
        return sum(profiles, np.zeros(np.shape(distance)))

    def n_uniforms(self, n_inputs: int) -> int:
        return 1 + max(part.n_uniforms(n_inputs) for part in _spectral_parts(self))

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        ends = np.cumsum(self._normalised_weights())[:-1]
        chosen = np.searchsorted(ends, uniforms[:, 0], side="right")
        frequencies = np.empty_like(normals)
        for i, part in enumerate(_spectral_parts(self)):
            rows, last = chosen == i, 1 + part.n_uniforms(normals.shape[1])
            frequencies[rows] = part.frequencies(normals[rows], uniforms[rows, 1:last])
        return frequencies

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        shape = size or (1,)
        chosen = generator.choice(
            len(self.kernels), size=(*shape[:-1], 1), p=self._normalised_weights()
        )
        widths = np.empty(shape)
        for i, part in enumerate(_binning_parts(self)):
            widths = np.where(chosen == i, part.sample_widths(generator, shape), widths)
        return widths.reshape(size)

    def gram_of_checked(
        self, rows: FloatArray, others: FloatArray, widths: FloatArray, categorical: BoolArray
    ) -> FloatArray:
        parts = zip(self.kernels, self._normalised_weights(), strict=True)
        total = np.zeros((len(rows), len(others)))
        for kernel, share in parts:
            total += share * kernel.gram_of_checked(rows, others, widths, categorical)
        return total

    def _normalised_weights(self) -> FloatArray:
        weights = np.array(self.weights, dtype=np.float64)
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class Product(_CompositeKernel):
    """A product of kernels, ``k(x, y) = prod_i k_i(x, y)``.

    If all kernels have frequencies, those of the product are sums of one independent frequency of
    each kernel. The median distance is in the metric of the first kernel.

    Parameters
    ----------
    kernels : sequence of Kernel
        At least one. Use :class:`Scaled` for kernels of different widths.

    Examples
    --------
    >>> from gramless.kernels import Gaussian, Laplacian
    >>> Product([Gaussian(), Laplacian()]).gram([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.0498]])
    """

    name: ClassVar[str] = "product"
    no_binning_because: ClassVar[str] = "the intersection of random grids is not a random grid"

    def __post_init__(self) -> None:
        kernels = _check_kernels(self.kernels, "Product")
        vars(self).update(kernels=kernels, metric=kernels[0].metric)

    def profile(self, distance: FloatArray) -> FloatArray:
        return math.prod(
            (kernel.profile(distance) for kernel in self.kernels), start=np.ones(np.shape(distance))
        )

    def n_uniforms(self, n_inputs: int) -> int:
        of_parts = sum(part.n_uniforms(n_inputs) for part in _spectral_parts(self))
        # The normals are those of the first part; all other parts make theirs from uniforms.
        return of_parts + (len(self.kernels) - 1) * n_inputs

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        n_inputs = normals.shape[1]
        first, *others = _spectral_parts(self)
        used = first.n_uniforms(n_inputs)
        total = first.frequencies(normals, uniforms[:, :used])
        for part in others:
            part_normals = special.ndtri(uniforms[:, used : used + n_inputs])
            start = used + n_inputs
            used = start + part.n_uniforms(n_inputs)
            total += part.frequencies(part_normals, uniforms[:, start:used])
        return total

    def gram_of_checked(
        self, rows: FloatArray, others: FloatArray, widths: FloatArray, categorical: BoolArray
    ) -> FloatArray:
        total = np.ones((len(rows), len(others)))
        for kernel in self.kernels:
            total *= kernel.gram_of_checked(rows, others, widths, categorical)
        return total


@dataclass(frozen=True)
class Mixture(BinningKernel, _CompositeKernel):
    """A product over the inputs of a weighted mean of profiles.

    ``profile(t) = sum_i weights_i profile_i(t / scales_i) / sum_i weights_i``. The width of a grid
    in an input is drawn from profile i with probability proportional to its weight, and multiplied
    by its scale. Frequencies are drawn in the same way, if all kernels have frequencies.

    Parameters
    ----------
    kernels : sequence of BinningKernel
        At least one.
    weights : sequence of float
        A positive number per kernel; only their proportions matter.
    scales : sequence of float, default=()
        A positive number per kernel, in units of the bandwidth. All are 1 by default.

    Examples
    --------
    >>> from gramless.kernels import Laplacian
    >>> mixture = Mixture([Laplacian(), Laplacian()], weights=[1, 3], scales=[1, 10])
    >>> mixture.gram([[0.0]], [[1.0]]).round(4)
    array([[0.7706]])
    """

    name: ClassVar[str] = "mixture"
    weights: Sequence[float]
    scales: Sequence[float] = ()
    _one_input: Sum = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        for kernel in kernels:
            if not isinstance(kernel, Kernel) or kernel.part_without(BinningKernel):
                raise KernelError(
                    f"Mixture takes kernels that have random binning, got {kernel!r}."
                )
        weights = _check_one_per_kernel(self.weights, "Mixture", "weights", kernels)
        scales = tuple(self.scales) or (1.0,) * len(kernels)
        scales = _check_one_per_kernel(scales, "Mixture", "scales", kernels)
        # For one input, a Sum is the same kernel.
        one_input = Sum([Scaled(*part) for part in zip(kernels, scales, strict=True)], weights)
        vars(self).update(kernels=kernels, weights=weights, scales=scales)
        vars(self).update(metric=one_input.metric, _one_input=one_input)

    def profile(self, distance: FloatArray) -> FloatArray:
        return self._one_input.profile(distance)

    def n_uniforms(self, n_inputs: int) -> int:
        return n_inputs * self._one_input.n_uniforms(1)

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        columns = uniforms.reshape(normals.size, self._one_input.n_uniforms(1))
        return self._one_input.frequencies(normals.reshape(-1, 1), columns).reshape(normals.shape)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return self._one_input.sample_widths(generator, (*size, 1))[..., 0]


def _check_kernels(kernels: Sequence[object], owner: str) -> tuple[Kernel, ...]:
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise KernelError(f"{owner} takes kernel objects, such as Laplacian(); got {kernel!r}.")
    if not kernels:
        raise KernelError(f"{owner} needs at least one kernel.")
    return cast(tuple[Kernel, ...], tuple(kernels))


def _check_one_per_kernel(
    values: Sequence[float], owner: str, parameter: str, kernels: Sequence[Kernel]
) -> tuple[float, ...]:
    checked = tuple(
        check_positive_number(value, owner, f"each of its {parameter}") for value in values
    )
    if not checked or len(checked) != len(kernels):
        raise KernelError(
            f"{owner} needs at least one kernel and as many {parameter}: got {len(kernels)} "
            f"kernels and {len(checked)} {parameter}."
        )
    return checked


def _binning_parts(kernel: Kernel) -> tuple[BinningKernel, ...]:
    """Return the parts of a kernel, or raise ``KernelError`` if one has no random grids."""
    for part in kernel.parts:
        if not isinstance(part, BinningKernel):
            raise KernelError(f"{part!r} has no distribution of widths: {part.no_binning_because}.")
    return cast(tuple[BinningKernel, ...], kernel.parts)


def _spectral_parts(kernel: Kernel) -> tuple[SpectralKernel, ...]:
    """Return the parts of a kernel, or raise ``KernelError`` if one has no frequencies."""
    for part in kernel.parts:
        if not isinstance(part, SpectralKernel):
            reason = part.no_fourier_because
            raise KernelError(f"{part!r} has no distribution of frequencies: {reason}.")
    return cast(tuple[SpectralKernel, ...], kernel.parts)
