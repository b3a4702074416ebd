"""The one list of kernels that every contract test runs over; a new kernel adds a line here."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.kernels import (
    BinningKernel,
    ExponentialPower,
    Gaussian,
    Hat,
    InversePower,
    Kernel,
    Laplacian,
    Mixture,
    Profile,
    TabulatedProfile,
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
    "profile": Profile(inverse_root),
    "profile_kinked": Profile(lambda t: 0.5 * np.maximum(0, 1 - t) + 0.5 * np.exp(-t / 2)),
    "tabulated_profile": TabulatedProfile([0.0, 0.5, 1.5, 4.0], [1.0, 0.6, 0.2, 0.0]),
    "gaussian": Gaussian(),
}
BINNING_KERNELS = {
    label: kernel for label, kernel in ALL_KERNELS.items() if isinstance(kernel, BinningKernel)
}


@pytest.fixture
def all_kernels() -> list[Kernel]:
    return list(ALL_KERNELS.values())


@pytest.fixture(params=ALL_KERNELS.values(), ids=ALL_KERNELS.keys())
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return request.param


@pytest.fixture(params=BINNING_KERNELS.values(), ids=BINNING_KERNELS.keys())
def binning_kernel(request: pytest.FixtureRequest) -> BinningKernel:
    return request.param
