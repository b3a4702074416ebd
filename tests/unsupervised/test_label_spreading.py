"""Labels that spread: by their definition, new rows, files, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramless import LabelSpreading, RandomFourier, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import pack, write


def rings(n_rows: int = 300, n_labels: int = 4, seed: int = 0):
    """Return rows of two rings, their classes, and labels of a few."""
    rng = np.random.default_rng(seed)
    own = np.arange(n_rows) % 2
    angle = rng.uniform(0, 2 * np.pi, n_rows)
    X = (1.0 + 2.0 * own)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    labels = np.where(np.arange(n_rows) < n_labels, own, -1)
    return X, own, labels


@parametrize_with_checks([LabelSpreading(estimator=None, n_grids=16, random_state=0)])
def test_scikit_learns_checks(estimator, check) -> None:
    check(estimator)


def slow_scores(model, X, given):
    """Return the scores by the whole graph."""
    Z = model.features_.transform(model.space_.rows(X)).toarray()
    graph = Z @ Z.T - np.eye(len(X))
    degrees = np.where(graph.sum(axis=1) > 1e-9, graph.sum(axis=1), np.inf)
    normal = graph / np.sqrt(np.multiply.outer(degrees, degrees))
    return np.linalg.solve(np.eye(len(X)) - model.alpha * normal, given)


def distributions(model, scores):
    scores = scores * model.class_factors_
    sums = scores.sum(axis=1, keepdims=True)
    return np.where(sums > 1e-9, scores / np.where(sums > 1e-9, sums, 1.0), model.prior_)


@pytest.mark.parametrize(
    "graph", [{"bandwidth": 0.2, "n_grids": 30}, {"features": "neighbors"}], ids=["bins", "nearest"]
)
def test_scores_follow_the_definition(graph) -> None:
    X, _, labels = rings(120)
    model = LabelSpreading(0.9, estimator=None, tol=1e-10, random_state=0, **graph).fit(X, labels)
    given = (labels[:, None] == [0, 1]).astype(float)
    wanted = distributions(model, slow_scores(model, X, given))
    np.testing.assert_allclose(model.label_distributions_, wanted, atol=1e-6)


def test_rows_without_labels_have_the_classifiers_probabilities() -> None:
    X, _, labels = rings(120, 30)
    base = LogisticRegression()
    model = LabelSpreading(0.6, estimator=base, bandwidth=0.3, n_grids=30, tol=1e-10)
    model.set_params(random_state=0).fit(X, labels)
    given = base.fit(X[:30], labels[:30]).predict_proba(X)
    given[:30] = labels[:30, None] == [0, 1]
    wanted = distributions(model, slow_scores(model, X, given))
    np.testing.assert_allclose(model.label_distributions_, wanted, atol=1e-6)


def few_of_many(n_rows: int = 400, n_labels: int = 60):
    """Return rows whose class follows from one of six inputs, and labels of a few."""
    X = np.random.default_rng(0).normal(size=(n_rows, 6)) * [1.0, 50.0, 1.0, 1.0, 1.0, 1.0]
    own = (X[:, 0] > 0.9).astype(int)
    return X, own, np.where(np.arange(n_rows) < n_labels, own, -1)


def test_inputs_count_as_much_as_the_classifiers_probabilities_change_with_them() -> None:
    X, _, labels = few_of_many()
    base = LogisticRegression().fit(X[:60], labels[:60])
    for space, power in (("inputs", 2.0), ("axes", 1.0)):
        model = LabelSpreading(estimator=base, space=space, n_grids=8, random_state=0)
        model.fit(X, labels)
        assert model.relevance_[0] == 1.0
        assert model.relevance_[1:].max() < 0.5
        equal = LabelSpreading(estimator=base, space=space, n_grids=8, random_state=0)
        equal.set_params(relevance="equal").fit(X, labels)
        assert (equal.relevance_ == 1.0).all()
        ratios = equal.space_.axes.unit / model.space_.axes.unit
        np.testing.assert_allclose(ratios, model.relevance_**power)


def test_as_many_rows_are_told_to_be_of_a_rare_class_as_by_the_classifier() -> None:
    X, _, labels = few_of_many()
    base = LogisticRegression().fit(X[:60], labels[:60])
    model = LabelSpreading(estimator=base, n_grids=16, random_state=0).fit(X, labels)
    told, spread = base.predict(X[60:]).sum(), model.transduction_[60:].sum()
    assert abs(told - spread) <= 1
    assert abs(spread - model.predict(X[60:]).sum()) <= 3


def test_rings_are_told_apart_by_few_labels_for_new_rows_too() -> None:
    X, own, labels = rings(600)
    model = LabelSpreading(0.99, estimator=None, bandwidth=0.1, random_state=0).fit(X, labels)
    assert np.mean(model.transduction_ == own) > 0.95
    new, classes, _ = rings(200, seed=1)
    assert model.score(new, classes) > 0.95
    # A row of the fit without a label has its scores as a new row.
    np.testing.assert_allclose(
        model.predict_proba(X[4:]), model.label_distributions_[4:], atol=2e-3
    )


def test_the_default_spreads_a_classifiers_probabilities() -> None:
    X, own, labels = rings(400, 60)
    model = LabelSpreading(n_grids=64, random_state=0).fit(X, labels)
    assert np.mean(model.transduction_ == own) > 0.97
    assert model.estimator_.n_features_in_ == 2


def test_results_do_not_depend_on_threads() -> None:
    X, _, labels = rings(400)
    one, two = (
        LabelSpreading(estimator=None, random_state=0, n_jobs=n).fit(X, labels) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.label_distributions_, two.label_distributions_)


def test_principal_axes_of_many_inputs_and_sparse_rows() -> None:
    X, _, labels = rings(300)
    rng = np.random.default_rng(0)
    wide = np.column_stack([X @ rng.normal(size=(2, 30)), 0.05 * rng.normal(size=(300, 4))])
    model = LabelSpreading(0.9, estimator=None, random_state=0).fit(wide, labels)
    assert 2 <= model.space_.axes.n_axes <= 10
    other = LabelSpreading(0.9, estimator=None, random_state=0).fit(sp.csr_array(wide), labels)
    np.testing.assert_allclose(other.predict_proba(wide), model.predict_proba(wide), atol=1e-6)


def test_text_labels_categories_and_lonely_rows() -> None:
    X, own, labels = rings(200, 20)
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "colour": np.where(own, "red", "blue")})
    names = np.where(labels < 0, -1, np.array(["in", "out"], object)[own])
    model = LabelSpreading(0.9, estimator=None, bandwidth=0.3, random_state=0).fit(table, names)
    assert list(model.classes_) == ["in", "out"]
    assert np.mean(model.transduction_ == np.array(["in", "out"])[own]) > 0.9
    far = pd.DataFrame({"x": [1e6], "y": [0.0], "colour": ["red"]})
    np.testing.assert_allclose(model.predict_proba(far), [model.prior_])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"alpha": 1.0}, "alpha"),
        ({"space": "all"}, "space"),
        ({"relevance": "auto"}, "relevance"),
        ({"n_grids": 0}, "n_grids"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"features": "neighbors", "n_grids": 8}, "n_grids is for features of a kernel"),
        ({"features": RandomFourier(n_components=8)}, "negative degree"),
    ],
)
def test_bad_parameters_are_refused(given, told) -> None:
    X, _, labels = rings(100)
    model = LabelSpreading(estimator=None, random_state=0).set_params(**given)
    with pytest.raises(InputError, match=told):
        model.fit(X, labels)


def test_a_label_must_be_there() -> None:
    with pytest.raises(InputError, match="give some rows a label"):
        LabelSpreading().fit(np.eye(3), [-1, -1, -1])


def test_files_hold_the_model(tmp_path) -> None:
    X, _, labels = rings(200, 20)
    model = LabelSpreading(n_grids=16, random_state=0).fit(X, labels)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    content, tensors = pack(model)
    tensors["coef_"] = tensors["coef_"][:-1]
    write(tmp_path / "foreign", content, tensors)
    with pytest.raises(ModelFileError):
        load(tmp_path / "foreign")
