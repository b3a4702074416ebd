"""Stability of clusterings between halves of the rows, and the choice that follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles

from gramless import KernelKMeans, SpectralClustering, choose_clustering, clustering_stability
from gramless.base.errors import InputError
from gramless.datasets.table import Table

QUICK = {"random_state": 0, "n_jobs": 1}
RINGS = make_circles(400, noise=0.05, factor=0.4, random_state=0)[0]
# A dense group within a wide one: neighbours of rows of the wide one are everywhere.
NESTED = np.random.default_rng(0).normal(size=(600, 8)) * np.repeat([1.0, 4.0], 300)[:, None]


class Thresholds(BaseEstimator):
    """Clusters by a threshold of the first column, which is learned or not."""

    def __init__(self, *, learned: bool = True) -> None:
        self.learned = learned

    def fit(self, X: Any) -> Thresholds:
        self.middle_ = np.median(X[:, 0]) if self.learned else X[0, 0]
        return self

    def predict(self, X: Any) -> Any:
        return (X[:, 0] > self.middle_).astype(int)


def test_equal_halves_agree_and_those_by_chance_do_not() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 2))
    surely = clustering_stability(Thresholds(), X, random_state=0)
    assert surely.shape == (3,)
    assert surely.min() > 0.8
    assert clustering_stability(Thresholds(learned=False), X, random_state=0).mean() < 0.7


def test_numbers_of_clusters_say_nothing() -> None:
    """Labels of two fits are compared however their clusters are numbered."""
    X = np.repeat(np.arange(4.0), 50)[:, None] + 0.01 * np.random.default_rng(0).normal(
        size=(200, 1)
    )
    np.testing.assert_array_equal(
        clustering_stability(KMeans(4, n_init=5), X, n_splits=2, random_state=0), [1.0, 1.0]
    )


def test_halves_are_disjoint_and_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    fit = Thresholds.fit
    monkeypatch.setattr(Thresholds, "fit", lambda own, X: (seen.append(X[:, 0]), fit(own, X))[1])
    X = np.arange(1000.0)[:, None]
    clustering_stability(Thresholds(), X, n_splits=2, max_rows=300, random_state=0)
    assert [len(part) for part in seen] == [150] * 4
    for one, other in (seen[:2], seen[2:]):
        assert not set(one) & set(other)
    assert set(seen[0]) != set(seen[2])


def two_kinds() -> list[Any]:
    spectral = SpectralClustering(2, n_base_clusterings=0, n_init=1, **QUICK)
    return [spectral, KernelKMeans(2, n_grids=64, n_init=1, **QUICK)]


def test_the_first_is_chosen_where_it_is_stable() -> None:
    candidates = two_kinds()
    choice = choose_clustering(candidates, RINGS, random_state=0)
    assert choice.best is candidates[0]
    assert not hasattr(choice.best, "labels_")
    assert choice.stability[0] > 0.95 > choice.stability[1]


def test_another_one_is_chosen_where_it_is_much_more_stable() -> None:
    candidates = two_kinds()
    choice = choose_clustering(candidates, NESTED, n_splits=2, random_state=0)
    assert choice.best is candidates[1]
    assert choice.stability[1] > choice.stability[0] + 0.2
    strict = choose_clustering(candidates, NESTED, margin=1.0, n_splits=2, random_state=0)
    assert strict.best is candidates[0]
    np.testing.assert_array_equal(strict.stability, choice.stability)


@pytest.mark.parametrize(
    "form",
    [
        lambda X: X.tolist(),
        lambda X: pd.DataFrame(X, columns=list("abcdefgh")),
        sp.csr_array,
        lambda X: Table(matrix=X),
    ],
    ids=["list", "frame", "sparse", "table"],
)
def test_any_table(form: Any) -> None:
    machine = KernelKMeans(2, n_grids=32, n_init=1, scaling="none", **QUICK)
    given = {"n_splits": 1, "random_state": 0}
    expected = clustering_stability(machine, NESTED, **given)
    np.testing.assert_allclose(clustering_stability(machine, form(NESTED), **given), expected)


def test_few_rows_take_the_first() -> None:
    choice = choose_clustering([KMeans(2), KMeans(3)], NESTED[:99], random_state=0)
    assert choice.best.n_clusters == 2
    assert np.isnan(choice.stability).all()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"X": NESTED[:99]}, "needs at least 100 rows to split, got n_samples=99"),
        ({"n_splits": 0}, "n_splits of at least 1"),
        ({"max_rows": 50}, "max_rows of at least 100"),
        ({"X": None}, "needs a table of rows, got NoneType"),
    ],
)
def test_faults(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        clustering_stability(KMeans(2), **{"X": NESTED, **arguments})


def test_nothing_to_choose() -> None:
    with pytest.raises(InputError, match="no clustering to choose"):
        choose_clustering([], NESTED)


def test_too_many_clusters_for_half_of_the_rows() -> None:
    with pytest.raises(InputError, match="needs at least a row a cluster"):
        clustering_stability(KernelKMeans(80, n_grids=8), NESTED[:120])
