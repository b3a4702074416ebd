"""Kernels by name, as parameters of an estimator, and as plain data."""

from __future__ import annotations

import copy
import json
import pickle
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from gramless.base.errors import KernelError
from gramless.base.random import stream
from gramless.kernels import (
    KERNELS,
    BinningKernel,
    ExponentialPower,
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
    as_binning_kernel,
    as_kernel,
    as_spectral_kernel,
    from_config,
)
from tests.kernels.conftest import ALL_KERNELS, BINNING_KERNELS, SPECTRAL_KERNELS


class Holder(BaseEstimator):
    def __init__(self, kernel="laplacian"):
        self.kernel = kernel


def test_every_registered_kernel_is_under_contract():
    assert {kernel.name: type(kernel) for kernel in ALL_KERNELS.values()} == KERNELS


def test_name_gives_the_default_kernel():
    assert as_kernel("laplacian") == Laplacian()
    assert as_kernel("gaussian") == Gaussian()
    assert as_binning_kernel("inverse_power") == InversePower(power=1.0)


def test_function_becomes_a_profile():
    def decay(t):
        return np.exp(-t)

    assert as_binning_kernel(decay) == Profile(decay)


NO_KERNELS = [
    ("rbf", "unknown kernel 'rbf'; the names are laplacian, exponential_power"),
    ("mixture", re.escape("pass an object, Mixture(...)")),
    (Laplacian, re.escape("a kernel object such as Laplacian()")),
    (3, "kernel must be a name"),
]


def test_invalid_kernels_are_rejected():
    for kernel, message in NO_KERNELS:
        with pytest.raises(KernelError, match=message):
            as_kernel(kernel)


def test_gaussian_binning_is_rejected_with_alternatives():
    with pytest.raises(KernelError) as refusal:
        as_binning_kernel("gaussian")
    assert str(refusal.value) == (
        "the Gaussian kernel has no random binning: its profile exp(-t^2/2) is not convex at 0, "
        "so delta*k''(delta) is not a probability distribution. Use one of: laplacian, "
        "exponential_power, inverse_power, hat, gamma_hats, a Mixture of these or your own convex "
        "Profile; Gaussian needs random Fourier features."
    )
    assert not isinstance(Gaussian(), BinningKernel)


def test_kernel_without_fourier_features_is_rejected_with_alternatives():
    with pytest.raises(KernelError) as refusal:
        as_spectral_kernel("hat")
    assert str(refusal.value) == (
        "the Hat kernel has no random Fourier features: the distribution of its frequencies, "
        "(1 - cos w) / (pi w^2), has no closed inverse. Use one of: laplacian, exponential_power, "
        "inverse_power, gaussian, matern, rational_quadratic, cauchy, or a Sum, Product, Mixture "
        "or Scaled version of these; Hat needs random binning."
    )
    assert not isinstance(Hat(), SpectralKernel)


LACKING = [
    (as_spectral_kernel, lambda t: np.exp(-t), "Profile kernel has no .*closed form"),
    (as_spectral_kernel, TabulatedProfile([0, 1], [1, 0]), "no closed form"),
    (
        as_spectral_kernel,
        Mixture([Laplacian(), Hat()], [1, 1]),
        r"Mixture kernel has no random Fourier features because its part Hat\(\) has none: "
        ".*; Mixture needs random binning",
    ),
    (as_spectral_kernel, Product([Gaussian(), Hat()]), r"its part Hat\(\).*of these\.$"),
    (
        as_binning_kernel,
        Sum([Laplacian(), Scaled(Gaussian(), 2.0)], [1, 1]),
        r"Sum kernel has no random binning because its part Gaussian\(\) has none: .* convex "
        ".*; Sum needs random Fourier features",
    ),
    (as_binning_kernel, "matern", "the Matern kernel .* Euclidean distance"),
    (as_binning_kernel, "cauchy", "the Cauchy kernel .* not convex at 0"),
    (as_binning_kernel, Product([Hat()]), r"intersection of random grids is not a.*Profile\.$"),
]


def test_error_names_what_a_kernel_lacks():
    for ask, kernel, message in LACKING:
        with pytest.raises(KernelError, match=message):
            ask(kernel)


def test_suitable_kernels_are_returned():
    for kernel in ALL_KERNELS.values():
        for ask, kind in ((as_binning_kernel, BinningKernel), (as_spectral_kernel, SpectralKernel)):
            if kernel.part_without(kind) is None:
                assert ask(kernel) is kernel
            else:
                with pytest.raises(KernelError, match=f"the {type(kernel).__name__} kernel has no"):
                    ask(kernel)


SENSELESS = [
    (lambda: ExponentialPower(power=1.5), r"in \(0, 1\], got 1.5.*not convex"),
    (lambda: ExponentialPower(power=0), "above 0, got 0"),
    (lambda: ExponentialPower(power="half"), "above 0, got 'half'"),
    (lambda: InversePower(power=-1.0), "above 0"),
    (lambda: InversePower(power=np.nan), "above 0"),
    (lambda: InversePower(power=10**400), "above 0"),
    (lambda: Matern(nu=0), "Matern needs nu to be a number above 0"),
    (lambda: Matern(nu=100.5), r"nu in \(0, 100\], got 100.5: use Gaussian"),
    (lambda: RationalQuadratic(alpha=np.inf), "alpha to be a number above 0"),
    (lambda: Mixture([], []), "at least one kernel"),
    (lambda: Mixture([Laplacian()], [1.0, 2.0]), "1 kernels and 2 weights"),
    (lambda: Mixture([Laplacian()], [0.0]), "each of its weights to be a number above 0"),
    (lambda: Mixture([Laplacian()], [1.0], [1.0, 2.0]), "1 kernels and 2 scales"),
    (lambda: Mixture([Laplacian()], [1.0], [-1.0]), "each of its scales"),
    (lambda: Mixture([Gaussian()], [1.0]), r"have random binning.*Gaussian\(\)"),
]


def test_invalid_parameters_are_rejected():
    for build, message in SENSELESS:
        with pytest.raises(KernelError, match=message):
            build()


def test_mixture_weights_are_proportions():
    t = np.linspace(0, 3, 7)
    mixture = Mixture([Laplacian(), Hat()], [2, 6])
    np.testing.assert_allclose(
        mixture.profile(t), 0.25 * Laplacian().profile(t) + 0.75 * Hat().profile(t)
    )


def test_kernel_state_survives_json():
    for kernel in ALL_KERNELS.values():
        config = kernel.to_config()
        restored = from_config(json.loads(json.dumps(config)))
        t = np.geomspace(1e-6, 100, 200)
        np.testing.assert_allclose(restored.profile(t), kernel.profile(t), atol=1.5e-3)
        assert restored.to_config() == config
        if not isinstance(kernel, Profile):
            assert restored == kernel


def test_restored_kernel_draws_the_same_grids():
    for binning_kernel in BINNING_KERNELS.values():
        restored = from_config(binning_kernel.to_config())
        np.testing.assert_array_equal(
            restored.sample_widths(stream(0, "grids"), (50,)),
            binning_kernel.sample_widths(stream(0, "grids"), (50,)),
        )


def test_restored_kernel_draws_the_same_frequencies():
    for spectral_kernel in SPECTRAL_KERNELS.values():
        restored = from_config(spectral_kernel.to_config())
        normals = stream(0, "frequencies").standard_normal((20, 3))
        uniforms = stream(1, "frequencies").random((20, spectral_kernel.n_uniforms(3)))
        np.testing.assert_array_equal(
            restored.frequencies(normals, uniforms), spectral_kernel.frequencies(normals, uniforms)
        )


DAMAGED = [
    ({}, "unknown kernel None"),
    ({"name": ["laplacian"]}, "unknown kernel"),
    ({"name": "nothing"}, "unknown kernel 'nothing'; the names are .*tabulated_profile"),
    ({"name": "hat", "power": 2}, "Hat has no parameter power"),
    ({"name": "tabulated_profile", "distances": [0, 1]}, "TabulatedProfile needs values"),
    ({"name": "mixture", "kernels": 3, "weights": [1]}, "Mixture cannot use its parameters"),
    ({"name": "mixture", "kernels": [{"name": "gaussian"}], "weights": [1]}, "random binning"),
    ({"name": "inverse_power", "power": -2}, "above 0"),
    ({"name": "sum", "kernels": 3, "weights": [1]}, "Sum cannot use its parameters"),
    ({"name": "scaled", "kernel": {"name": "matern", "nu": 500}, "scale": 1}, "nu in"),
    ({"name": "scaled", "kernel": "hat", "scale": 1}, "Scaled takes kernel objects"),
]


def test_invalid_kernel_states_are_rejected():
    for config, message in DAMAGED:
        with pytest.raises(KernelError, match=message):
            from_config(config)


def test_estimators_that_hold_a_kernel_can_be_cloned():
    for kernel in ALL_KERNELS.values():
        cloned = clone(Holder(kernel=kernel)).kernel
        assert isinstance(cloned, Kernel)
        assert cloned == kernel
        assert cloned.metric == kernel.metric
        assert copy.deepcopy(kernel) == kernel
        if not isinstance(kernel, Profile):
            assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert hash(cloned) == hash(kernel)


def test_kernels_differ_by_class_and_parameters():
    assert ExponentialPower(power=0.3) != ExponentialPower(power=0.4)
    assert ExponentialPower(power=1.0) != Laplacian()
    assert TabulatedProfile([0, 1], [1, 0]) == TabulatedProfile([0.0, 1.0], [1.0, 0.0])


def test_kernel_repr_shows_its_parameters():
    assert repr(InversePower(power=2)) == "InversePower(power=2.0)"
    assert repr(TabulatedProfile([0, 2], [1, 0])) == "TabulatedProfile(2 distances up to 2)"
