"""Standard deviations of KernelRegressor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from gramless import KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.datasets import Table

GIVEN = {"bandwidth": 3.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}


def data(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n_rows)


def small(n_posterior=50, **options):
    features = RandomBinning(n_grids=32)
    return KernelRegressor(features, n_posterior=n_posterior, **{**GIVEN, **options})


def dense_deviations(model, X, weight, new):
    """Return the deviations of the function by the normal equations."""
    together = clone(model.features_).fit_rows(np.vstack([X, new])).tocsr().toarray()
    Z = np.column_stack([together, np.ones(len(together))])
    shares = weight / weight.sum()
    H = (Z[: len(X)].T * shares) @ Z[: len(X)] + model.alpha_ * np.eye(Z.shape[1])
    H[-1, -1] -= model.alpha_
    F = Z[len(X) :]
    variances = np.einsum("nd,dn->n", F, np.linalg.lstsq(H, F.T, rcond=1e-12)[0]) / len(X)
    return model.posterior_.noise * np.sqrt(variances)


def test_deviations_match_the_dense_formula():
    for weighted in [False, True]:
        X, y = data(60)
        weight = np.random.default_rng(1).uniform(0.2, 2.0, 60) if weighted else np.ones(60)
        new = np.random.default_rng(2).uniform(-6, 6, (30, 2))
        model = small(3000).fit(X, y, weight)
        _, result = model.predict(new, return_std=True)
        ratio = result / dense_deviations(model, X, weight, new)
        assert np.abs(ratio - 1.0).max() < 5 / np.sqrt(2 * 3000)
        assert abs(ratio.mean() - 1.0) < 0.015


def test_return_std_does_not_change_predictions():
    X, y = data()
    model = small().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    np.testing.assert_array_equal(mean, small(0).fit(X, y).predict(X))
    assert std.shape == mean.shape
    assert model.score(X, y) > 0.8


def test_deviations_and_noise_scale_with_the_targets():
    X, y = data()
    model, larger = small().fit(X, y), small().fit(X, 1024.0 * y + 1e4)
    for new in (X, X + 100.0):
        expected = 1024.0 * model.predict(new, return_std=True)[1]
        np.testing.assert_allclose(larger.predict(new, return_std=True)[1], expected, rtol=1e-5)
    assert larger.posterior_.noise == pytest.approx(1024.0 * model.posterior_.noise, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"effort": 1}, {"grids": "random"}, {}], ids=str)
def test_noise_is_estimated_and_intervals_cover(options):
    X, y = data(3000)
    model = KernelRegressor(n_posterior=60, random_state=0, **options).fit(X[:1500], y[:1500])
    assert model.posterior_.noise == pytest.approx(0.3, rel=0.05)
    mean, std = model.predict(X[1500:], return_std=True)
    margin = 1.645 * np.hypot(std, model.posterior_.noise)
    assert abs((np.abs(y[1500:] - mean) < margin).mean() - 0.9) < 0.03
    truth = np.sin(2 * X[1500:, 0]) + X[1500:, 1]
    assert (np.abs(truth - mean) < 1.645 * std).mean() > 0.8


def test_deviations_grow_where_rows_are_missing():
    X, y = data(400)
    X = X[np.abs(X[:, 0]) > 0.7]
    model = small().fit(X, y[: len(X)])
    std = [model.predict([[x, 0.0]], return_std=True)[1][0] for x in (1.3, 0.0, 30.0)]
    assert std == sorted(std)
    assert std[2] > 3 * std[0]


def test_deviations_of_outputs_equal_those_of_separate_fits():
    X, y = data()
    both = np.column_stack([y, 10.0 * np.random.default_rng(5).normal(size=len(y))])
    model = small().fit(X, both)
    mean, std = model.predict(X[:7], return_std=True)
    assert mean.shape == std.shape == (7, 2)
    assert model.posterior_.noise.shape == (2,)
    for k in range(2):
        alone = small().fit(X, both[:, k]).predict(X[:7], return_std=True)[1]
        np.testing.assert_allclose(std[:, k], alone, rtol=1e-4)


def test_saved_models_have_the_same_deviations(tmp_path):
    for kind in ["one", "two", "column"]:
        X, y = data()
        targets = {"one": y, "two": np.column_stack([y, -y]), "column": y[:, None]}[kind]
        model = small().fit(X, targets)
        save(model, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.n_posterior == 50
        for new in (X, X + 100.0):
            for result, expected in zip(
                loaded.predict(new, return_std=True),
                model.predict(new, return_std=True),
                strict=True,
            ):
                np.testing.assert_array_equal(result, expected)
                assert result.shape == expected.shape
        np.testing.assert_array_equal(loaded.posterior_.noise, model.posterior_.noise)


def test_inconsistent_posteriors_are_not_loaded(tmp_path):
    for changes in [
        {"draws": np.ones((3, 2))},
        {"draws": np.ones(4)},
        {"noise": "1"},
        {"prior": None},
    ]:
        X, y = data()
        model = small(4).fit(X, y)
        model.posterior_ = replace(model.posterior_, **changes)
        save(model, tmp_path / "model")
        with pytest.raises(ModelFileError, match="posterior_|draws|noise|prior"):
            load(tmp_path / "model")


def test_number_of_threads_does_not_change_deviations():
    X, y = data(2500)
    (first, std), *others = (
        small(n_jobs=n).fit(X, y).predict(X + 0.1, return_std=True) for n in (1, 2, 3)
    )
    for mean, other in others:
        np.testing.assert_array_equal(mean, first)
        np.testing.assert_array_equal(other, std)


def test_sparse_rows_and_tables_have_the_same_deviations():
    for kind in ["sparse", "table"]:
        X, y = data()
        rows = {"sparse": sp.csr_array(X), "table": Table({"a": X[:, 0], "b": X[:, 1]})}[kind]
        _, std = small().fit(rows, y).predict(rows, return_std=True)
        _, plain = small().fit(X, y).predict(X, return_std=True)
        np.testing.assert_allclose(std, plain, rtol=1e-6)


def test_grown_grids_have_deviations_below_the_noise():
    X, y = data(1200)
    model = KernelRegressor(grids="grown", n_posterior=20, random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert ((std > 0) & (std < model.posterior_.noise)).all()
    np.testing.assert_array_equal(mean, model.predict(X))


def test_return_std_needs_posterior_draws():
    X, y = data()
    model = small(0).fit(X, y)
    assert model.posterior_ is None
    with pytest.raises(InputError, match="n_posterior"):
        model.predict(X, return_std=True)


def test_n_posterior_needs_squared_loss_and_l2_penalty():
    for options in [{"loss": "huber"}, {"loss": "median"}, {"l1_ratio": 0.5}]:
        X, y = data()
        with pytest.raises(InputError, match="n_posterior needs"):
            small(10, **options).fit(X, y)
        small(0, **options).fit(X, y)


def test_n_posterior_must_be_a_nonnegative_integer():
    for value in [-1, 1.5, "many", True, None]:
        X, y = data()
        with pytest.raises(InputError, match="n_posterior must be an integer, at least 0"):
            small(value).fit(X, y)


def test_n_posterior_needs_a_positive_alpha():
    X, y = data()
    with pytest.raises(InputError, match="alpha above 0"):
        small(alpha=0.0).fit(X, y)
