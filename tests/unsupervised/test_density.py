"""Densities: integrals by quadrature, likelihoods, samples, files, bad input."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramless import Density, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import pack, write


def clusters(n_rows: int, d: int, seed: int = 0):
    """Return rows of three clusters of different widths."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 3, n_rows)
    centres, widths = np.array([-3.0, 0.0, 4.0]), np.array([0.3, 1.0, 0.1])
    return centres[own][:, None] + widths[own][:, None] * rng.normal(size=(n_rows, d))


@parametrize_with_checks([Density(n_grids=8, random_state=0)])
def test_scikit_learns_checks(estimator, check) -> None:
    check(estimator)


def test_integrals_are_one_by_quadrature() -> None:
    line = Density(n_grids=16, random_state=0).fit(clusters(500, 1))
    places = np.linspace(-16, 16, 100_001)[:, None]
    step = places[1, 0] - places[0, 0]
    assert np.exp(line.score_samples(places)).sum() * step == pytest.approx(1.0, abs=3e-3)
    plane = Density(n_grids=4, random_state=0).fit(clusters(500, 2) * [1.0, 10.0])
    x, y = np.linspace(-12, 12, 501), np.linspace(-120, 120, 501)
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    area = (x[1] - x[0]) * (y[1] - y[0])
    assert np.exp(plane.score_samples(places)).sum() * area == pytest.approx(1.0, abs=2e-2)


def test_densities_follow_the_definition() -> None:
    X, new = clusters(60, 2), clusters(10, 2, seed=1)
    density = Density(0.5, n_grids=4, random_state=0).fit(X)
    (histograms,) = density.histograms_
    wanted, left_out = np.zeros(10), np.zeros(60)
    for shift in histograms.bins.shifts_:
        cells = [
            [tuple(c) for c in np.floor((rows / density.unit_ - shift) / 0.5)] for rows in (X, new)
        ]
        counts = Counter(cells[0])
        wanted += np.array([counts[cell] for cell in cells[1]]) / (60 * 0.25 * 4)
        left_out += np.array([counts[cell] - 1 for cell in cells[0]]) / (59 * 0.25 * 4)
    np.testing.assert_allclose(histograms.densities(new / density.unit_), wanted)
    found = histograms.densities(X / density.unit_, without=1)
    np.testing.assert_allclose(found, left_out, atol=1e-15)


def test_held_out_likelihood_is_that_of_the_best_kernel_density() -> None:
    for d, slack in ((1, 0.05), (2, 0.0)):
        X, new = clusters(1000, d), clusters(300, d, seed=1)
        found = Density(random_state=0).fit(X)
        told = found.score_samples(new).mean()
        best = max(
            KernelDensity(bandwidth=h).fit(X).score_samples(new).mean()
            for h in 0.5 ** np.arange(0, 6)
        )
        assert told > best - slack
        assert found.log_likelihood_ == pytest.approx(told, abs=0.2)
        assert found.score(new) == pytest.approx(300 * told)


def test_samples_follow_the_density() -> None:
    density = Density(random_state=0).fit(clusters(3000, 1))
    drawn = np.sort(density.sample(4000, random_state=1).ravel())
    places = np.linspace(-16, 16, 40_001)
    densities = np.exp(density.score_samples(places[:, None]))
    below = np.interp(drawn, places, np.cumsum(densities) * (places[1] - places[0]))
    # Massart's bound on the Kolmogorov-Smirnov distance, at 1e-4, and the sum's error.
    assert np.abs(below - np.linspace(0, 1, 4000)).max() < np.sqrt(np.log(2e4) / 8000) + 3e-3


def test_units_of_the_inputs_change_the_density_alone() -> None:
    X, new = clusters(300, 2), clusters(20, 2, seed=1)
    factors = np.array([4.0, 0.125])
    one = Density(n_grids=8, random_state=0).fit(X).score_samples(new)
    other = Density(n_grids=8, random_state=0).fit(X * factors).score_samples(new * factors)
    np.testing.assert_allclose(other, one - np.log(factors).sum(), atol=1e-9)


def test_results_do_not_depend_on_threads() -> None:
    X = clusters(500, 2)
    one, two = (Density(n_grids=8, random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))


def test_far_rows_have_small_densities() -> None:
    density = Density(n_grids=8, random_state=0).fit(clusters(300, 2))
    found = density.score_samples([[50.0, 50.0], [1e4, 0.0]])
    assert np.isfinite(found).all()
    assert found[0] > found[1]


@pytest.mark.parametrize(
    ("given", "X"),
    [
        ({"bandwidth": -1.0}, clusters(9, 1)),
        ({"n_grids": 0}, clusters(9, 1)),
        ({}, np.ones((9, 60))),
        ({}, sp.csr_array(clusters(9, 2))),
        ({}, np.full((9, 1), np.nan)),
        ({}, 1e200 * clusters(9, 2)),
        ({}, 1e-200 * clusters(9, 2)),
    ],
)
def test_bad_input_is_refused(given, X) -> None:
    with pytest.raises(InputError):
        Density(**given).fit(X)


def test_files_hold_the_density(tmp_path) -> None:
    X = clusters(200, 2)
    density = Density(n_grids=8, random_state=0).fit(X)
    save(density, tmp_path / "density")
    again = load(tmp_path / "density")
    np.testing.assert_array_equal(again.score_samples(X), density.score_samples(X))
    np.testing.assert_array_equal(again.sample(5, 0), density.sample(5, 0))


@pytest.mark.parametrize("part", ["weights_", "bandwidths_", "rows_", "counts"])
def test_foreign_files_are_refused(tmp_path, part) -> None:
    content, tensors = pack(Density(n_grids=4, random_state=0).fit(clusters(50, 2)))
    name = next(name for name in tensors if name.endswith(part))
    tensors[name] = tensors[name][..., :-1]
    write(tmp_path / "foreign", content, tensors)
    with pytest.raises(ModelFileError):
        load(tmp_path / "foreign")
