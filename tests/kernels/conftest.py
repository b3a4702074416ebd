"""The one list of kernels that every contract test runs over; a new kernel adds a line here."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.kernels import (
    BinningKernel,
    Cauchy,
    ExponentialPower,
    GammaHats,
    Gaussian,
    Hat,
    InversePower,
    Kernel,
    Laplacian,
    Matern,
    Mixture,
    Product,
    Profile,
    RationalQuadratic,
    Scaled,
    SpectralKernel,
    Sum,
    TabulatedProfile,
    Windowed,
)


def inverse_root(distance):
    return 1.0 / np.sqrt(1.0 + distance)


ALL_KERNELS: dict[str, Kernel] = {
    "laplacian": Laplacian(),
    "exponential_power_0.5": ExponentialPower(),
    "exponential_power_0.3": ExponentialPower(power=0.3),
    "exponential_power_1": ExponentialPower(power=1.0),
    "inverse_power_1": InversePower(),
    "inverse_power_3": InversePower(power=3.0),
    "hat": Hat(),
    "mixture": Mixture([Laplacian(), Hat(), InversePower()], [2.0, 1.0, 3.0], [0.5, 2.0, 1.0]),
    "mixture_of_frequencies": Mixture([ExponentialPower(0.6), Laplacian()], [1.0, 2.0], [1.0, 4.0]),
    "profile": Profile(inverse_root),
    "profile_kinked": Profile(lambda t: 0.5 * np.maximum(0, 1 - t) + 0.5 * np.exp(-t / 2)),
    "tabulated_profile": TabulatedProfile([0.0, 0.5, 1.5, 4.0], [1.0, 0.6, 0.2, 0.0]),
    "gaussian": Gaussian(),
    "matern_0.5": Matern(nu=0.5),
    "matern_1.5": Matern(),
    "matern_2.5": Matern(nu=2.5),
    "matern_0.7": Matern(nu=0.7),
    "matern_10": Matern(nu=10),
    "rational_quadratic_1": RationalQuadratic(),
    "rational_quadratic_4": RationalQuadratic(alpha=4.0),
    "cauchy": Cauchy(),
    "gamma_hats": GammaHats(shape=8.0),
    "windowed": Windowed(),
    "scaled": Scaled(Matern(), scale=2.5),
    "scaled_grids": Scaled(InversePower(2.0), scale=0.4),
    "sum": Sum([Gaussian(), Scaled(Matern(0.5), 3.0), Cauchy()], [2.0, 1.0, 1.0]),
    "sum_of_grids": Sum([Scaled(Laplacian(), 0.5), Hat()], [1.0, 2.0]),
    "sum_of_both": Sum([InversePower(2.0), Scaled(Laplacian(), 2.0)], [1.0, 3.0]),
    "product": Product([Gaussian(), Scaled(RationalQuadratic(), 3.0), Scaled(Laplacian(), 2.0)]),
    "product_of_hats": Product([Hat(), Scaled(Hat(), 2.0)]),
}
BINNING_KERNELS = {
    label: kernel
    for label, kernel in ALL_KERNELS.items()
    if kernel.part_without(BinningKernel) is None
}
SPECTRAL_KERNELS = {
    label: kernel
    for label, kernel in ALL_KERNELS.items()
    if kernel.part_without(SpectralKernel) is None
}


@pytest.fixture(params=BINNING_KERNELS.values(), ids=BINNING_KERNELS.keys())
def binning_kernel(request: pytest.FixtureRequest) -> BinningKernel:
    return request.param


@pytest.fixture(params=SPECTRAL_KERNELS.values(), ids=SPECTRAL_KERNELS.keys())
def spectral_kernel(request: pytest.FixtureRequest) -> SpectralKernel:
    return request.param
