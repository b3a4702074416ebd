"""Contract of random frequencies: their cosines average to the kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.stats import qmc

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.kernels import (
    ExponentialPower,
    Matern,
    RationalQuadratic,
    distributions,
)
from tests.kernels.conftest import SPECTRAL_KERNELS

DISTANCES = np.array([0.2, 0.7, 1.3, 2.5])


def drawn(kernel, n_inputs, n_draws, seed=0):
    """Frequencies from independent normals and uniforms."""
    generator = stream(seed, "frequencies")
    normals = generator.standard_normal((n_draws, n_inputs))
    return kernel.frequencies(normals, generator.random((n_draws, kernel.n_uniforms(n_inputs))))


def evenly_drawn(kernel, n_inputs, log2_draws, seed=0):
    """Frequencies from a scrambled Sobol sequence through the inverse normal distribution."""
    sequence = qmc.Sobol(n_inputs + kernel.n_uniforms(n_inputs), seed=seed)
    uniforms = sequence.random_base2(log2_draws)
    return kernel.frequencies(special.ndtri(uniforms[:, :n_inputs]), uniforms[:, n_inputs:])


def differences(n_inputs):
    """Vectors of the distances, along one input and along them all."""
    one, all_alike = np.eye(n_inputs)[-1], np.full(n_inputs, n_inputs**-0.5)
    directions = [one] if n_inputs == 1 else [one, all_alike]
    return np.concatenate([DISTANCES[:, None] * direction for direction in directions])


def deviations(kernel, frequencies):
    """Return mean cosine less kernel value for each difference, and the standard error of it."""
    t = differences(frequencies.shape[1])
    exact = kernel.gram(np.zeros((1, t.shape[1])), t)[0]
    cosines = np.cos(frequencies @ t.T)
    return cosines.mean(axis=0) - exact, cosines.std(axis=0) / math.sqrt(len(frequencies))


def standard_errors_off(kernel, frequencies):
    result, error = deviations(kernel, frequencies)
    return np.max(np.abs(result) / error)


def test_cosines_are_unbiased(spectral_kernel):
    for n_inputs, n_draws in ((1, 40_000), (3, 12_000), (8, 5_000)):
        frequencies = drawn(spectral_kernel, n_inputs, n_draws)
        assert standard_errors_off(spectral_kernel, frequencies) < 4.0


def test_five_percent_error_of_scale_is_detected(spectral_kernel):
    t = differences(1)
    values = [spectral_kernel.gram([[0.0]], scale * t)[0] for scale in (1.0, 1.05)]
    shift = np.abs(values[0] - values[1]).max()
    # Rough kernels hardly feel the scale: they take more draws.
    frequencies = evenly_drawn(spectral_kernel, 1, log2_draws=14 if shift > 0.01 else 19)
    assert np.abs(deviations(spectral_kernel, frequencies)[0]).max() < 0.5 * shift
    for factor in (1.05, 1 / 1.05):
        wrong, _ = deviations(spectral_kernel, frequencies * factor)
        assert np.abs(wrong).max() > 0.5 * shift


def gaps_of_sobol_sequences(kernel, n_inputs, log2_draws):
    """Root mean square deviation of a few scrambles, and its standard error were they random."""
    scrambles = [evenly_drawn(kernel, n_inputs, log2_draws, seed) for seed in range(4)]
    pairs = np.array([deviations(kernel, frequencies) for frequencies in scrambles])
    return np.sqrt(np.mean(pairs**2, axis=(0, 2)))


@pytest.mark.parametrize("label", ["gaussian", "laplacian", "inverse_power_3", "sum", "product"])
def test_sobol_sequences_converge_and_are_closer_than_independent_draws(label):
    spectral_kernel = SPECTRAL_KERNELS[label]
    result, error = gaps_of_sobol_sequences(spectral_kernel, n_inputs=1, log2_draws=11)
    assert result < 0.9 * error
    few, _ = gaps_of_sobol_sequences(spectral_kernel, n_inputs=3, log2_draws=7)
    many, error = gaps_of_sobol_sequences(spectral_kernel, n_inputs=3, log2_draws=11)
    assert many < 1.05 * error
    assert many < 0.35 * few


def test_frequencies_are_finite_and_odd_far_in_the_tails():
    for spectral_kernel in SPECTRAL_KERNELS.values():
        normals = np.repeat([[1e-3], [1.0], [8.0], [12.0], [40.0]], 2, axis=1)
        for uniform in (0.0, 2.0**-53, 0.5, 1.0 - 2.0**-53, 1.0):
            uniforms = np.full((len(normals), spectral_kernel.n_uniforms(2)), uniform)
            frequencies = spectral_kernel.frequencies(normals, uniforms)
            assert np.isfinite(frequencies).all()
            if uniforms.shape[1] == 0:
                assert (np.diff(np.abs(frequencies[:4]), axis=0) > 0).all()
                np.testing.assert_array_equal(
                    spectral_kernel.frequencies(-normals, uniforms), -frequencies
                )


def test_frequency_depends_on_its_uniforms_only():
    for spectral_kernel in SPECTRAL_KERNELS.values():
        generator = stream(2, "frequencies")
        normals = generator.standard_normal((50, 4)).astype(np.float32)
        uniforms = generator.random((50, spectral_kernel.n_uniforms(4)))
        normals.setflags(write=False)
        uniforms.setflags(write=False)
        whole = spectral_kernel.frequencies(normals, uniforms)
        assert whole.dtype == np.float64
        assert whole.shape == (50, 4)
        np.testing.assert_array_equal(
            spectral_kernel.frequencies(normals[7:9], uniforms[7:9]), whole[7:9]
        )
        assert spectral_kernel.frequencies(normals[:0], uniforms[:0]).shape == (0, 4)


def test_invalid_uniforms_are_rejected():
    for spectral_kernel in SPECTRAL_KERNELS.values():
        n_uniforms = spectral_kernel.n_uniforms(2)
        with pytest.raises(InputError, match="needs uniforms of shape"):
            spectral_kernel.frequencies(np.zeros((3, 2)), np.full((3, n_uniforms + 1), 0.5))


@pytest.mark.parametrize("kernel", [Matern(), RationalQuadratic()])
def test_radial_frequencies_are_normals_times_one_factor(kernel):
    normals = stream(3, "frequencies").standard_normal((20, 5))
    uniforms = stream(4, "frequencies").random((20, kernel.n_uniforms(5)))
    factors = kernel.frequencies(normals, uniforms) / normals
    np.testing.assert_allclose(factors, kernel.radii(uniforms)[:, None] * np.ones(5))


def test_huge_frequencies_stay_distinct():
    # So rough a kernel has four in ten of its frequencies there.
    kernel = ExponentialPower(power=0.01)
    frequencies = drawn(kernel, 1, 100_000)
    largest = np.abs(frequencies).max()
    assert 2.0**99 < largest < 2.0**100
    assert np.mean(np.abs(frequencies) > 2.0**99) == pytest.approx(0.39, abs=0.01)
    assert standard_errors_off(kernel, frequencies) < 4.0


# The distributions by themselves.

NORMALS = np.array([-25.0, -12.0, -8.0, -2.0, -0.1, 0.3, 1.0, 5.0, 8.0, 12.0, 25.0])


def test_laplace_draws_are_exact_in_both_tails():
    lower = stats.laplace.ppf(stats.norm.cdf(NORMALS))
    upper = stats.laplace.isf(stats.norm.sf(NORMALS))
    draws = distributions.laplace(NORMALS)
    np.testing.assert_allclose(draws, np.where(NORMALS < 0, lower, upper), rtol=1e-13)
    assert abs(distributions.laplace(np.zeros(1))[0]) < 1e-15


def test_cauchy_draws_are_exact_in_both_tails():
    # The quantiles of SciPy 1.12 are wrong beyond 1e14, so probabilities are compared.
    draws = distributions.cauchy(NORMALS)
    assert (np.sign(draws) == np.sign(NORMALS)).all()
    beyond = np.arctan2(1.0, np.abs(draws)) / np.pi
    np.testing.assert_allclose(beyond, stats.norm.sf(np.abs(NORMALS)), rtol=1e-13)
    assert abs(distributions.cauchy(np.zeros(1))[0]) < 1e-15


@pytest.mark.parametrize("shape", [0.01, 0.5, 1.0, 7.5])
def test_gamma_draws_follow_their_distribution(shape):
    uniforms = (np.arange(1000) + 0.5) / 1000
    np.testing.assert_allclose(
        special.gammainc(shape, distributions.gamma(uniforms, shape)), uniforms, atol=1e-3
    )


@pytest.mark.parametrize("index", [0.2, 0.5, 0.9, 1.0])
def test_positive_stable_draws_have_their_laplace_transform(index):
    angles, heights = qmc.Sobol(2, seed=5).random_base2(14).T
    draws = distributions.positive_stable(angles, heights, index)
    for s in (0.1, 1.0, 4.0):
        assert np.exp(-s * draws).mean() == pytest.approx(np.exp(-(s**index)), abs=1e-3)


def test_matern_frequencies_follow_the_textbook_distribution():
    frequencies = drawn(Matern(nu=1.5), 3, 20_000)
    assert stats.kstest(frequencies[:, 1], stats.t(3).cdf).pvalue > 1e-3
    squares = np.sum(frequencies**2, axis=1) / 3
    assert stats.kstest(squares, stats.f(3, 3).cdf).pvalue > 1e-3
