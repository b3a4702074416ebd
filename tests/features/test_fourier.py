"""Random Fourier features: their kernel, their distributions, and what they accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gramless.base.errors import InputError, KernelError
from gramless.features.fourier import HadamardBlocks, RandomFourier, draw_frequencies
from gramless.kernels import (
    Cauchy,
    ExponentialPower,
    Gaussian,
    InversePower,
    Kernel,
    Laplacian,
    Matern,
    Mixture,
    Product,
    RadialKernel,
    RationalQuadratic,
    Scaled,
    Sum,
)
from tests.solvers.pairwise import each_value, pairs

SAMPLINGS = ("iid", "orthogonal", "qmc", "structured")
KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian(),
    "laplacian": Laplacian(),
    "matern_0.5": Matern(0.5),
    "matern_1.5": Matern(),
    "matern_2.5": Matern(2.5),
    "matern_0.8": Matern(0.8),
    "cauchy": Cauchy(),
    "rational_quadratic": RationalQuadratic(2.0),
    "exponential_power": ExponentialPower(0.7),
    "inverse_power": InversePower(2.0),
    "mixture": Mixture([Laplacian(), InversePower()], [1.0, 2.0], [1.0, 3.0]),
    "scaled": Scaled(Matern(), 2.0),
    "sum": Sum([Gaussian(), Laplacian()], [1.0, 2.0]),
    "product": Product([Gaussian(), Scaled(Laplacian(), 2.0)]),
}
# Each kernel with one sampling, each sampling with several kernels.
CASES = [
    (label, sampling)
    for label, sampling in each_value(KERNELS, ["structured", "iid", "orthogonal", "qmc"])
    if sampling != "structured" or isinstance(KERNELS[label], RadialKernel)
] + [("inverse_power", "iid"), ("cauchy", "qmc"), ("sum", "orthogonal"), ("product", "iid")]
BANDWIDTH = np.array([1.0, 2.0, np.inf, 1.5])

any_sampling = pytest.mark.parametrize("sampling", SAMPLINGS)


def some_rows(n_rows: int = 5, n_inputs: int = 4, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(n_rows, n_inputs))


def estimates(template: RandomFourier, X: Any, n_seeds: int) -> NDArray[np.float64]:
    """Return the inner products of all pairs of rows, by seed."""
    features, results = clone(template), []
    Z = np.empty((len(X), template.n_components))
    for seed in range(n_seeds):
        features.random_state = seed
        features.fit_rows(X)
        features.compute(X, Z)
        results.append((Z @ Z.T)[np.triu_indices(len(Z), 1)])
    return np.array(results)


def largest_z(
    template: RandomFourier, X: Any, exact: NDArray[np.float64], n_seeds: int = 24
) -> float:
    """Return the largest distance of a pair's mean from the kernel, in standard errors."""
    values = estimates(template, X, n_seeds)
    errors = np.maximum(values.std(axis=0, ddof=1) / np.sqrt(n_seeds), 1e-7)
    expected = exact[np.triu_indices(len(exact), 1)]
    return float(np.abs((values.mean(axis=0) - expected) / errors).max())


# The kernel.


@pytest.mark.parametrize(("label", "sampling"), CASES)
def test_features_average_to_the_kernel(label: str, sampling: str) -> None:
    X, kernel = some_rows(), KERNELS[label]
    template = RandomFourier(kernel, bandwidth=BANDWIDTH, n_components=1200, sampling=sampling)
    assert largest_z(template, X, kernel.gram(X, bandwidth=BANDWIDTH)) < 4.0


def test_shifted_features_average_to_the_kernel() -> None:
    X, kernel = some_rows(), Gaussian()
    template = RandomFourier(kernel, bandwidth=BANDWIDTH, n_components=1200, map="shifted")
    assert largest_z(template, X, kernel.gram(X, bandwidth=BANDWIDTH)) < 4.0


@pytest.mark.parametrize(("sampling", "kernel"), each_value(SAMPLINGS, [Gaussian(), Matern(0.5)]))
def test_five_percent_error_would_be_detected(sampling: str, kernel: Kernel) -> None:
    X = some_rows()
    template = RandomFourier(kernel, bandwidth=1.5, n_components=1200, sampling=sampling)
    assert largest_z(template, X, 1.05 * kernel.gram(X, bandwidth=1.5), n_seeds=40) > 4.0
    assert largest_z(template, X, kernel.gram(X, bandwidth=1.05 * 1.5), n_seeds=40) > 4.0


@pytest.mark.parametrize("kernel", [Matern(2.5), Cauchy()])
def test_other_samplings_have_smaller_errors(kernel: Kernel) -> None:
    X = some_rows(20, 8)
    exact = kernel.gram(X, bandwidth=4.0)[np.triu_indices(20, 1)]
    template = RandomFourier(kernel, bandwidth=4.0, n_components=512)
    squares = {
        sampling: np.mean((estimates(template.set_params(sampling=sampling), X, 15) - exact) ** 2)
        for sampling in SAMPLINGS
        if sampling != "structured" or isinstance(kernel, RadialKernel)
    }
    assert squares["orthogonal"] < 0.8 * squares["iid"]
    assert squares["qmc"] < 0.5 * squares["iid"]
    assert squares.get("structured", 0.0) < 0.8 * squares["iid"]


@pytest.mark.parametrize(
    ("sampling", "map_", "n_inputs"),
    pairs(SAMPLINGS, ["paired", "shifted"], [1, 40]),
)
def test_features_are_cosines_of_the_frequencies(sampling: str, map_: str, n_inputs: int) -> None:
    X = some_rows(30, n_inputs)
    features = RandomFourier(
        "matern", bandwidth=3.0, n_components=1300, map=map_, sampling=sampling, random_state=3
    ).fit(X)
    angles = (X - features.center_) @ features.frequencies_.T
    if map_ == "paired":
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        expected = np.sqrt(1 / 650) * pairs.reshape(30, 1300)
    else:
        expected = np.sqrt(2 / 1300) * np.cos(angles + features.phases_)
    np.testing.assert_allclose(features.transform(X), expected, atol=1e-11)


@pytest.mark.parametrize("n_components", [1, 3, 1301])
def test_last_odd_column_is_a_shifted_cosine(n_components: int) -> None:
    X = some_rows(30)
    features = RandomFourier(n_components=n_components, random_state=3).fit(X)
    angles = (X - features.center_) @ features.frequencies_.T
    pairs = np.stack([np.cos(angles[:, :-1]), np.sin(angles[:, :-1])], axis=-1)
    single = np.cos(angles[:, -1] + features.phases_[0])
    expected = np.sqrt(2 / n_components) * np.column_stack([pairs.reshape(30, -1), single])
    np.testing.assert_allclose(features.transform(X), expected, atol=1e-11)


def test_odd_columns_average_to_the_kernel() -> None:
    X = some_rows()
    template = RandomFourier(bandwidth=BANDWIDTH, n_components=3)
    assert largest_z(template, X, Gaussian().gram(X, bandwidth=BANDWIDTH), n_seeds=2000) < 4.0


# Frequencies.


@pytest.mark.parametrize(("sampling", "map_"), each_value(SAMPLINGS, ["paired", "shifted"]))
def test_more_components_keep_the_first(sampling: str, map_: str) -> None:
    X = some_rows()
    template = RandomFourier("matern", bandwidth=2.0, sampling=sampling, map=map_, random_state=5)
    few, many = (clone(template).set_params(n_components=n).fit(X) for n in (90, 1100))
    n = len(few.frequencies_)
    np.testing.assert_array_equal(few.frequencies_, many.frequencies_[:n])
    columns = many.transform(X)[:, :90] * np.sqrt(1100 / 90)
    np.testing.assert_allclose(few.transform(X), columns, atol=1e-14)


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc", "structured"])
def test_frequencies_of_the_gaussian_kernel_are_normal(sampling: str) -> None:
    d = 20
    if sampling == "structured":
        drawn = HadamardBlocks.draw(Gaussian(), 1, 32 * 800, d).frequencies(d)[::32]
    else:
        step = {"iid": 1, "orthogonal": d, "qmc": 1}[sampling]
        drawn = draw_frequencies(Gaussian(), sampling, 1, 800 * step, d)[::step]
    for numbers, distribution in (
        (drawn[:, 0], stats.norm()),
        (drawn[:, 7], stats.norm()),
        ((drawn**2).sum(axis=1), stats.chi2(d)),
        (drawn @ np.ones(d) / np.sqrt(d), stats.norm()),
    ):
        assert stats.kstest(numbers, distribution.cdf).pvalue > 1e-3


def test_inconsistent_blocks_are_rejected() -> None:
    good = HadamardBlocks.draw(Gaussian(), 0, 40, 20)
    parts = vars(good)
    bad = [
        {"orders": good.orders + 1},
        {"orders": np.zeros_like(good.orders)},
        {"orders": good.orders[:, :20], "signs": good.signs[:, :20]},
        {"signs": good.signs[:1]},
        {"factors": good.factors[:, :16]},
        {"scales": good.scales[:30]},
        {"scales": np.ones(65)},
    ]
    for change in bad:
        with pytest.raises(InputError, match="do not fit each other"):
            HadamardBlocks(**{**parts, **change})


def test_inputs_with_an_infinite_bandwidth_are_ignored() -> None:
    X = some_rows(10)
    features = RandomFourier(bandwidth=BANDWIDTH, n_components=100, random_state=0).fit(X)
    other = X.copy()
    other[:, 2] = 1e6 * np.arange(10)
    np.testing.assert_array_equal(features.transform(other), features.transform(X))
    assert not features.frequencies_[:, 2].any()


# Rows.


@pytest.mark.parametrize(
    ("sampling", "map_", "given_as"),
    [
        *each_value(SAMPLINGS, ["paired", "shifted"], [np.float32, np.float64, "csr"]),
        ("iid", "shifted", "csr"),
        ("structured", "paired", np.float64),
    ],
)
def test_features_of_parts_equal_those_of_the_whole(
    sampling: str, map_: str, given_as: Any
) -> None:
    X = some_rows(2100, 5)
    rows = sp.csr_array(np.maximum(X, 0.0)) if given_as == "csr" else X.astype(given_as)
    features = RandomFourier(n_components=44, sampling=sampling, map=map_, random_state=0, n_jobs=1)
    whole = features.fit(rows).transform(rows)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(features.set_params(n_jobs=n_jobs).transform(rows), whole)
    for a, b in ((0, 1), (1, 7), (95, 1130), (2099, 2100)):
        np.testing.assert_array_equal(features.transform(rows[a:b]), whole[a:b])


@any_sampling
def test_layout_of_rows_does_not_change_features(sampling: str) -> None:
    X = np.random.default_rng(0).integers(-3, 4, (60, 6))
    features = RandomFourier(n_components=20, bandwidth=2.0, sampling=sampling, random_state=0)
    whole = features.fit(X).transform(X)
    assert whole.dtype == np.float64
    wide = np.zeros((120, 12))
    wide[::2, 1::2] = X
    frozen = X.astype(np.float64)
    frozen.flags.writeable = False
    large = sp.csr_array(X)
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    for rows in (np.asfortranarray(X), wide[::2, 1::2], frozen, X.astype(np.int8), X.tolist()):
        np.testing.assert_array_equal(features.transform(rows), whole)
        np.testing.assert_array_equal(clone(features).fit(rows).transform(rows), whole)
    for rows in (large, sp.csc_array(X), sp.coo_array(X.astype(np.float64))):
        np.testing.assert_allclose(features.transform(rows), whole, atol=1e-14)
    single = features.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, whole, atol=2e-6)


@any_sampling
def test_sparse_rows_have_the_features_of_dense_ones(sampling: str) -> None:
    X = some_rows(100, 30) * (np.random.default_rng(1).random((100, 30)) < 0.2)
    features = RandomFourier(n_components=60, bandwidth=3.0, sampling=sampling, random_state=0)
    sparse = features.fit_transform(sp.csr_array(X))
    assert not features.center_.any()
    np.testing.assert_allclose(sparse, features.transform(X), atol=1e-14)
    single = features.transform(sp.csr_array(X.astype(np.float32)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, sparse, atol=1e-6)


@any_sampling
def test_huge_offsets_keep_precision(sampling: str) -> None:
    X = np.round(some_rows(40) * 1024) / 1024
    features = RandomFourier(n_components=200, bandwidth=1.0, sampling=sampling, random_state=0)
    near = clone(features).fit(X).feature_matrix(X)
    far = clone(features).fit(X + 1e9).feature_matrix(X + 1e9)
    np.testing.assert_array_equal(far.row_gram(), near.row_gram())
    np.testing.assert_array_equal(
        clone(features).fit_transform(X + 1e9), clone(features).fit_transform(X)
    )


@pytest.mark.parametrize(("sampling", "kernel"), each_value(SAMPLINGS, ["gaussian", Matern(0.5)]))
def test_largest_floats_give_finite_features(sampling: str, kernel: Any) -> None:
    X = np.array([[0.0, 1.0], [1.7e308, 1.0], [-1.7e308, 0.0], [1e20, 1e-300]])
    for bandwidth in (1e-320, 1.0, 1e300):
        features = RandomFourier(
            kernel, bandwidth=bandwidth, n_components=100, sampling=sampling, random_state=0
        ).fit(X)
        assert np.isfinite(features.transform(X)).all()
        assert np.isfinite(features.feature_matrix(X).row_gram()).all()


@any_sampling
def test_degenerate_tables_give_finite_features(sampling: str) -> None:
    for X in (np.array([[3.0]]), np.ones((4, 2)), np.zeros((1, 3), np.float32)):
        Z = RandomFourier(n_components=8, sampling=sampling, random_state=0).fit_transform(X)
        np.testing.assert_allclose(Z @ Z.T, np.ones((len(X), len(X))), atol=1e-6)


def test_inconsistent_arrays_are_rejected() -> None:
    X = some_rows(5, 20)
    for sampling, changes in {
        "iid": {"center_": np.zeros(19), "unit_frequencies_": np.ones((9, 21))},
        "structured": {"blocks_": HadamardBlocks.draw(Gaussian(), 0, 9, 9), "spreads_": np.ones(3)},
        "qmc": {"phases_": np.ones(8), "bandwidth_": np.ones(21)},
    }.items():
        for name, value in changes.items():
            features = RandomFourier(n_components=9, map="shifted", sampling=sampling).fit(X)
            setattr(features, name, value)
            with pytest.raises(InputError, match="do not fit each other|20 inputs, not 21"):
                features.compute(X, np.empty((5, 9)))


# Categories.


def mixed_rows(n_rows: int = 6) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    numbers = 0.5 * rng.normal(size=(n_rows, 2))
    return np.column_stack([numbers, np.arange(n_rows) % 3, -np.arange(n_rows) // 2])


@pytest.mark.parametrize(
    ("sampling", "kernel"),
    [
        ("iid", Scaled(Cauchy(), 0.7)),
        ("orthogonal", Laplacian()),
        ("qmc", Gaussian()),
        ("structured", Matern(0.5)),
    ],
)
def test_categories_average_to_the_kernel(sampling: str, kernel: Kernel) -> None:
    X, mask = mixed_rows(), np.array([False, False, True, True])
    bandwidth = np.array([1.0, 2.0, 1.2, 2.5])
    exact = kernel.gram(X, bandwidth=bandwidth, categorical=mask)
    template = RandomFourier(
        kernel, bandwidth=bandwidth, categorical=mask, n_components=1200, sampling=sampling
    )
    assert largest_z(template, X, exact) < 4.0
    assert largest_z(template, X, kernel.gram(X, bandwidth=bandwidth)) > 5.0


@any_sampling
def test_type_of_categories_does_not_change_features(sampling: str) -> None:
    X = mixed_rows(40)
    features = RandomFourier(
        bandwidth=2.0, categorical=[2, 3], n_components=80, sampling=sampling, random_state=0
    )
    whole = features.fit(X).transform(X)
    np.testing.assert_allclose(features.transform(sp.csr_array(X)), whole, atol=1e-14)
    np.testing.assert_allclose(features.transform(X.astype(np.float32)), whole, atol=1e-6)
    np.testing.assert_array_equal(features.transform(X[5:9]), whole[5:9])
    assert features.spreads_[:2].tolist() == [0.0, 0.0]
    assert not features.frequencies_[:, 2:].any()


def test_sums_of_kernels_reject_categories() -> None:
    kernel = Product([Laplacian(), Sum([Gaussian(), Laplacian()], [1.0, 1.0])])
    with pytest.raises(KernelError, match="Sum.*'categorical'"):
        RandomFourier(kernel, categorical=[0]).fit(np.ones((3, 2)))


# What is drawn by default.


def test_many_inputs_get_structured_frequencies() -> None:
    few, many = (np.random.default_rng(0).normal(size=(20, d)) for d in (255, 256))
    template = RandomFourier(n_components=8, random_state=0)
    chosen = {
        "few": template.fit(few).sampling_,
        "many": template.fit(many).sampling_,
        "sparse": template.fit(sp.csr_array(many)).sampling_,
        "shifted": clone(template).set_params(map="shifted").fit(many).sampling_,
        "coordinates": clone(template).set_params(kernel="laplacian").fit(many).sampling_,
        "named": clone(template).set_params(sampling="orthogonal").fit(many).sampling_,
    }
    assert chosen == {
        "few": "iid",
        "many": "structured",
        "sparse": "iid",
        "shifted": "structured",
        "coordinates": "iid",
        "named": "orthogonal",
    }


# Parameters.


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"n_components": 0}, InputError, "n_components must be an integer, at least 1.*got 0"),
    ({"n_components": 2.0}, InputError, "n_components must be an integer"),
    ({"n_components": True}, InputError, "n_components must be an integer"),
    ({"map": "cosine"}, InputError, "map must be one of 'paired', 'shifted'; got 'cosine'"),
    ({"sampling": "sobol"}, InputError, "sampling must be one of 'auto', 'iid'.*got 'sobol'"),
    ({"kernel": "hat"}, KernelError, "hat|Hat"),
    (
        {"kernel": "laplacian", "sampling": "structured"},
        KernelError,
        "Laplacian.*sampling='orthogonal'",
    ),
    ({"bandwidth": "mean"}, InputError, "RandomFourier: bandwidth must be"),
    ({"bandwidth": -1.0}, InputError, "bandwidth must be positive"),
    ({"bandwidth": [1.0, 2.0, 3.0]}, InputError, "one per input"),
    ({"categorical": [5]}, InputError, "no input 5"),
    ({"n_jobs": 0}, InputError, "n_jobs"),
]


def test_invalid_parameters_are_rejected() -> None:
    for parameters, error, message in REFUSED:
        with pytest.raises(error, match=message):
            RandomFourier(**parameters).fit(np.ones((3, 2))).transform(np.ones((3, 2)))


def test_too_many_inputs_for_sobol_are_rejected() -> None:
    X = sp.csr_array((3, 21_202))
    with pytest.raises(InputError, match="21202 dimensions.*21201.*'orthogonal'"):
        RandomFourier(bandwidth=1.0, sampling="qmc", n_components=2).fit(X)


def test_invalid_rows_are_rejected() -> None:
    features = RandomFourier(n_components=2)
    with pytest.raises(NotFittedError):
        features.transform(np.ones((3, 2)))
    with pytest.raises(ValueError, match="NaN"):
        features.fit(np.array([[np.nan]]))
    with pytest.raises(ValueError, match="2 features"):
        features.fit(np.ones((3, 2))).transform(np.ones((3, 3)))
    with pytest.raises(InputError, match="category"):
        RandomFourier(categorical=[0]).fit(np.array([[0.5]]))


def test_bandwidth_uses_the_metric_of_the_kernel() -> None:
    assert RandomFourier("matern").metric == "euclidean"
    assert RandomFourier("laplacian").metric == "cityblock"


# Gradients of predictions.


@pytest.mark.parametrize(
    ("outputs", "n", "kind", "sampling"),
    [
        (*size, *how)
        for size, how in each_value(
            [(None, 64), (1, 64), (3, 64), (1, 1), (3, 65)],
            [
                ("paired", "iid"),
                ("shifted", "structured"),
                ("shifted", "iid"),
                ("paired", "structured"),
            ],
        )
    ],
)
def test_gradients_match_finite_differences(outputs, n, kind, sampling):
    rng = np.random.default_rng(5)
    X = rng.normal(loc=[0.0, 100.0, -3.0], size=(20, 3))
    waves = RandomFourier(
        bandwidth=[0.5, 2.0, np.inf], n_components=n, map=kind, sampling=sampling, random_state=0
    ).fit(X)
    weights = rng.normal(size=n if outputs is None else (n, outputs))
    result = waves.gradients(X, weights)
    assert result.shape == (20, 3, *weights.shape[1:])
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-5
        up, down = waves.transform(X + step) @ weights, waves.transform(X - step) @ weights
        np.testing.assert_allclose(result[:, j], (up - down) / 2e-5, rtol=1e-6, atol=1e-7)
