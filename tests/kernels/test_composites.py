"""Kernels made of kernels: what they mean, which features they have, what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import KernelError
from gramless.base.random import stream
from gramless.features.grids import Grids
from gramless.kernels import (
    BinningKernel,
    Cauchy,
    ExponentialPower,
    Gaussian,
    Hat,
    InversePower,
    Laplacian,
    Matern,
    Mixture,
    Product,
    Scaled,
    SpectralKernel,
    Sum,
)

X = np.random.default_rng(0).normal(size=(6, 3))


def test_scaled_kernel_multiplies_the_bandwidth():
    kernel = Scaled(Matern(), scale=4.0)
    np.testing.assert_allclose(kernel.gram(X, bandwidth=0.5), Matern().gram(X, bandwidth=2.0))
    half = Scaled(Scaled(Laplacian(), 0.25), 2.0)
    np.testing.assert_array_equal(
        half.sample_widths(stream(0, "grids"), (40,)),
        0.5 * Laplacian().sample_widths(stream(0, "grids"), (40,)),
    )


def test_sum_is_over_inputs_and_mixture_per_input():
    parts, weights = [Laplacian(), Scaled(Laplacian(), 8.0)], [1.0, 3.0]
    whole, each = Sum(parts, weights), Mixture(parts, weights)
    np.testing.assert_allclose(whole.gram(X[:, :1]), each.gram(X[:, :1]))
    grams = [part.gram(X) for part in parts]
    np.testing.assert_allclose(whole.gram(X), np.average(grams, axis=0, weights=weights))
    assert np.abs(whole.gram(X) - each.gram(X)).max() > 0.01


def test_sums_and_products_of_one_kernel_equal_it():
    normals = stream(0, "frequencies").standard_normal((30, 2))
    uniforms = stream(1, "frequencies").random((30, 2))
    alone = Matern().frequencies(normals, uniforms[:, 1:])
    for kernel in (Sum([Matern()], [7.0]), Product([Matern()])):
        np.testing.assert_array_equal(kernel.gram(X), Matern().gram(X))
        used = uniforms[:, 2 - kernel.n_uniforms(2) :]
        np.testing.assert_array_equal(kernel.frequencies(normals, used), alone)


def test_sum_draws_one_part_per_grid():
    kernel = Sum([Hat(), Scaled(Hat(), 8.0)], [1.0, 3.0])
    widths = kernel.sample_widths(stream(2, "grids"), (4000, 5))
    assert (widths == widths[:, :1]).all()
    assert np.mean(widths[:, 0] == 8.0) == pytest.approx(0.75, abs=0.03)
    mixed = Mixture([kernel], [1.0]).sample_widths(stream(2, "grids"), (4000, 5))
    assert np.mean(mixed == mixed[:, :1]) < 0.8


def test_grids_of_a_sum_are_unbiased_with_categories():
    kernel = Sum([Scaled(Laplacian(), 0.3), Scaled(InversePower(), 4.0)], [1.0, 1.0])
    bandwidth, categorical = np.array([1.0, 0.6, 2.0]), np.array([False, True, False])
    rows = np.array([[0.0, 1.0, 0.0], [0.3, 2.0, 0.4], [0.1, 1.0, -0.2], [2.0, 5.0, 1.0]])
    n_grids = 3000
    grids = Grids.draw(kernel, bandwidth, n_grids, seed=4, categorical=categorical)
    cells = np.floor((rows[:, None] - grids.shifts) / grids.widths)
    together = (cells[:, None] == cells).all(axis=3).mean(axis=2)
    exact = kernel.gram(rows, bandwidth=bandwidth, categorical=categorical)
    error = np.sqrt(exact * (1 - exact) / n_grids)
    assert (np.abs(together - exact) <= 4 * error).all()
    separate = np.prod(
        [kernel.gram(rows[:, [j]], bandwidth=bandwidth[j]) for j in range(3)], axis=0
    )
    assert (np.abs(together - separate) > 4 * error).any()


def test_n_uniforms_adds_up_over_parts():
    rough = ExponentialPower()
    assert rough.n_uniforms(5) == 10
    assert Scaled(rough, 2.0).n_uniforms(5) == 10
    assert Sum([Gaussian(), rough, Matern()], [1, 1, 1]).n_uniforms(5) == 11
    assert Product([rough, Gaussian(), Matern()]).n_uniforms(5) == 10 + 5 + 5 + 1
    assert Mixture([Laplacian(), InversePower()], [1, 1]).n_uniforms(5) == 10
    assert Mixture([Laplacian(), rough], [1, 1]).n_uniforms(5) == 15


def test_bandwidth_uses_the_metric_of_the_first_part():
    for compose in (
        lambda first: Scaled(first, 2.0),
        lambda first: Sum([first, Hat()], [1.0, 1.0]),
        lambda first: Product([first, Hat()]),
    ):
        assert compose(Gaussian()).metric == "euclidean"
        assert compose(Cauchy()).metric == "cityblock"
        assert compose(compose(Matern())).metric == "euclidean"


def test_error_names_the_part_that_lacks_features():
    kernel = Sum([Laplacian(), Product([Gaussian(), Scaled(Hat(), 2.0)])], [1.0, 1.0])
    assert kernel.part_without(SpectralKernel) == Hat()
    assert kernel.part_without(BinningKernel) == kernel.kernels[1]
    assert Laplacian().part_without(SpectralKernel) is None


def test_features_that_a_part_lacks_are_rejected():
    message = r"Hat\(\) has no distribution of frequencies: .*closed inverse"
    with pytest.raises(KernelError, match=message):
        Scaled(Hat(), 2.0).n_uniforms(3)
    message = r"Gaussian\(\) has no distribution of widths: .*not convex"
    with pytest.raises(KernelError, match=message):
        Sum([Gaussian()], [1.0]).sample_widths(stream(0, "grids"), (3,))


SENSELESS = [
    (lambda: Sum([], []), "Sum needs at least one kernel"),
    (lambda: Sum(["gaussian"], [1.0]), "Sum takes kernel objects, .* got 'gaussian'"),
    (lambda: Sum([Gaussian()], [1.0, 2.0]), "Sum needs .* 1 kernels and 2 weights"),
    (lambda: Sum([Gaussian()], [-1.0]), "Sum needs each of its weights to be a number above 0"),
    (lambda: Product([]), "Product needs at least one kernel"),
    (lambda: Product([Gaussian]), "Product takes kernel objects"),
    (lambda: Scaled("hat", 1.0), "Scaled takes kernel objects"),
    (lambda: Scaled(Hat(), 0.0), "Scaled needs scale to be a number above 0"),
    (lambda: Mixture([Scaled(Gaussian(), 2.0)], [1.0]), "Mixture .* have random binning"),
    (lambda: Mixture(["hat"], [1.0]), "Mixture .* have random binning"),
]


def test_invalid_parts_are_rejected():
    for build, message in SENSELESS:
        with pytest.raises(KernelError, match=message):
            build()
