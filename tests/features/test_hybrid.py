"""Hybrids: the sum of kernels, seeds, bandwidths, parameters of parts, layouts of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge

from gramless import RandomBinning
from gramless.base.errors import InputError, KernelError
from gramless.features.fourier import RandomFourier
from gramless.features.hybrid import Hybrid
from gramless.kernels import Gaussian, Hat, Laplacian, Scaled, Sum
from gramless.matrices.stacked import HStack
from gramless.preprocessing.median import median_distance

X = np.random.default_rng(0).normal(size=(300, 3))


def bins(**options: Any) -> RandomBinning:
    return RandomBinning(**{"n_grids": 32, **options})


def waves(**options: Any) -> RandomFourier:
    return RandomFourier(**{"n_components": 40, **options})


def same(a: Any, b: Any) -> bool:
    return np.array_equal(a.tocsr().toarray(), b.tocsr().toarray())


def test_kernel_is_the_weighted_mean_of_the_parts():
    few = X[:12]
    exact = [Laplacian().gram(few, bandwidth=4.0), Gaussian().gram(few, bandwidth=0.8)]
    grams = []
    for seed in range(30):
        parts = [bins(bandwidth=4.0, n_grids=128), waves(bandwidth=0.8, n_components=256)]
        matrix = Hybrid(parts, weights=[3, 1], random_state=seed).fit_matrix(few)
        grams.append(matrix.row_gram())
    expected = 0.75 * exact[0] + 0.25 * exact[1]
    spread = np.std(grams, axis=0) / np.sqrt(len(grams))
    assert (np.abs(np.mean(grams, axis=0) - expected) <= 4 * spread + 1e-6).all()
    # A wrong weight would be seen: the kernels are further apart than these errors.
    assert np.abs(exact[0] - exact[1]).max() > 40 * spread.max()


def test_weights_are_proportions():
    for scale in (1e-3, 50.0):
        given = Hybrid([bins(), waves()], weights=[3 * scale, scale], random_state=0).fit(X)
        np.testing.assert_allclose(given.scales_, np.sqrt([0.75, 0.25]))
    np.testing.assert_allclose(Hybrid([bins(), waves()]).fit(X).scales_, np.sqrt([0.5, 0.5]))


def test_features_are_scaled_features_of_the_parts():
    hybrid = Hybrid([bins(random_state=5), waves(random_state=6)], weights=[4, 1])
    matrix = hybrid.fit_matrix(X)
    first, second = bins(random_state=5).fit_matrix(X), waves(random_state=6).fit_matrix(X)
    expected = HStack([first, second], np.sqrt([0.8, 0.2]))
    assert isinstance(matrix, HStack)
    assert same(matrix, expected)
    assert matrix.shape[1] == hybrid.n_features_out == len(hybrid.get_feature_names_out())
    new = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_allclose(
        hybrid.transform(new).toarray(), hybrid.feature_matrix(new).tocsr().toarray(), atol=1e-6
    )


def test_parts_have_different_seeds():
    same_kind = Hybrid([waves(), waves(), bins()], random_state=3).fit_matrix(X)
    assert not same(same_kind.parts[0], same_kind.parts[1])
    again = Hybrid([waves(), waves(), bins()], random_state=3).fit_matrix(X)
    assert same(same_kind, again)
    fewer = Hybrid([waves(), waves()], random_state=3).fit_matrix(X)
    assert all(same(a, b) for a, b in zip(fewer.parts, same_kind.parts[:2], strict=True))
    other = Hybrid([waves(), waves(), bins()], random_state=4).fit_matrix(X)
    assert not any(same(a, b) for a, b in zip(other.parts, same_kind.parts, strict=True))


def test_given_seed_of_a_part_is_kept():
    matrices = [
        Hybrid([waves(random_state=9), bins()], random_state=seed).fit_matrix(X) for seed in (0, 1)
    ]
    assert same(matrices[0].parts[0], matrices[1].parts[0])
    assert not same(matrices[0].parts[1], matrices[1].parts[1])


def test_given_bandwidths_of_parts_are_kept():
    hybrid = Hybrid([bins(bandwidth=0.5), waves(bandwidth=[1.0, 2.0, np.inf]), waves()])
    hybrid.set_params(random_state=0).fit(X)
    first, second, third = (part.bandwidth_ for part in hybrid.maps_)
    np.testing.assert_array_equal(first, 0.5)
    np.testing.assert_array_equal(second, [1.0, 2.0, np.inf])
    np.testing.assert_allclose(third, median_distance(X, 1, None, "euclidean"), rtol=0.1)
    np.testing.assert_array_equal(hybrid.bandwidth_, first)


def test_given_bandwidth_applies_to_all_parts():
    for given in (2.5, [1.0, 2.0, np.inf]):
        hybrid = Hybrid([bins(bandwidth=0.5), bins(kernel="hat")], bandwidth=given).fit(X)
        for part in hybrid.maps_:
            np.testing.assert_array_equal(part.bandwidth_, np.broadcast_to(given, 3))


@pytest.mark.parametrize("order", [1, -1])
def test_given_bandwidth_uses_the_metric_of_the_first_part(order):
    ratio = median_distance(X, 0, None, "euclidean") / median_distance(X, 0)
    hybrid = Hybrid([bins(), waves()][::order], bandwidth=2.0, random_state=0).fit(X)
    first, second = hybrid.maps_
    np.testing.assert_array_equal(first.bandwidth_, 2.0)
    np.testing.assert_allclose(second.bandwidth_, 2.0 * ratio**order)
    assert hybrid.metric == first.metric


def test_median_replaces_all_bandwidths():
    hybrid = Hybrid([bins(bandwidth=99.0), waves(bandwidth=99.0)], bandwidth="median").fit(X)
    for part, metric in zip(hybrid.maps_, ("cityblock", "euclidean"), strict=True):
        np.testing.assert_allclose(part.bandwidth_, median_distance(X, 0, None, metric), rtol=0.1)


def test_categories_come_from_the_parts_unless_given():
    rows = np.column_stack([X[:, :2], np.arange(300) % 4])
    automatic = Hybrid([bins(categorical=[2]), waves()])
    automatic.fit(rows)
    assert automatic.maps_[0].categorical == [2]
    assert automatic.maps_[1].categorical is None
    given = Hybrid([bins(), waves()], categorical=[2], bandwidth=3.0, random_state=0)
    matrix = given.fit_matrix(rows)
    assert all(part.categorical == [2] for part in given.maps_)
    relabelled = rows.copy()
    relabelled[:, 2] = np.array([3, 1, 0, 2])[rows[:, 2].astype(int)]
    reference = clone(given).fit_matrix(relabelled)
    np.testing.assert_allclose(
        matrix.parts[0].row_gram(), reference.parts[0].row_gram(), atol=1e-12
    )
    for hybrid in (automatic, given):
        with pytest.raises(InputError, match="input 2 is a category"):
            clone(hybrid).fit(rows + 0.5)


def test_parameters_of_named_parts_can_be_set():
    hybrid = Hybrid([("bins", bins()), ("waves", waves())], random_state=0)
    assert hybrid.get_params()["bins__n_grids"] == 32
    assert "bins__n_grids" not in hybrid.get_params(deep=False)
    hybrid.set_params(bins__n_grids=8, waves=waves(n_components=6))
    assert [part.size for _, part in hybrid.maps] == [8, 6]
    assert clone(hybrid).fit_matrix(X).shape[1] == hybrid.fit_matrix(X).shape[1]
    assert set(Hybrid([bins()]).get_params()) == set(Hybrid().get_params(deep=False))


@pytest.mark.parametrize("named", [False, True])
def test_resized_hybrid_keeps_proportions(named):
    parts = [bins(n_grids=30), waves(n_components=90)]
    maps = list(zip("ab", parts, strict=True)) if named else parts
    hybrid = Hybrid(maps, weights=[1, 2])
    assert hybrid.size == 120
    resized = hybrid.resized(40)
    assert [part.size for part in resized._parts()] == [10, 30]
    assert resized.weights == [1, 2]
    assert isinstance(resized.maps[0], tuple) == named
    assert [part.size for part in hybrid.resized(1)._parts()] == [1, 1]


def test_sketch_holds_what_each_part_needs():
    hybrid = Hybrid([bins(n_grids=500), waves(n_components=5000), bins(n_grids=20)])
    enough = hybrid.enough_to_search
    assert enough == 96 + 1024 + 96
    assert [part.size for part in hybrid.sketch(enough)._parts()] == [96, 1024, 20]
    assert [part.size for part in hybrid.sketch(enough // 2)._parts()] == [48, 512, 20]


def test_kernel_at_a_bandwidth_is_a_sum():
    parts = [bins(kernel=Scaled(Hat(), 3.0)), bins()]
    kernel = Hybrid(parts, weights=[1, 3], bandwidth=2.0).check_parameters()
    assert kernel == Sum((Scaled(Hat(), 3.0), Laplacian()), (0.25, 0.75))


def test_hybrids_can_be_nested():
    inner = Hybrid([bins(), waves()], weights=[1, 3])
    outer = Hybrid([inner, bins()], random_state=0, bandwidth=3.0)
    matrix = outer.fit_matrix(X)
    assert len(matrix.parts) == 3
    np.testing.assert_allclose(np.square(matrix.scales), [0.125, 0.375, 0.5])
    assert outer.metric == "cityblock"
    np.testing.assert_array_equal(outer.maps_[0].maps_[0].bandwidth_, 3.0)


def test_layout_of_rows_does_not_change_features():
    rows = np.round(X, 1)
    hybrid = Hybrid([bins(), waves()], random_state=0, bandwidth=3.0).fit(rows)
    expected = hybrid.transform(rows).toarray()
    gram = clone(hybrid).fit_matrix(rows[:50]).row_gram()
    for layout in (np.asfortranarray, sp.csr_array, sp.csc_matrix, np.ndarray.tolist):
        np.testing.assert_allclose(hybrid.transform(layout(rows)).toarray(), expected, atol=1e-12)
        # Rows that are sparse are not centred, which turns Fourier features.
        result = clone(hybrid).fit_matrix(layout(rows[:50])).row_gram()
        np.testing.assert_allclose(result, gram, atol=1e-5)


REFUSED = [
    (Hybrid(), "at least one"),
    (Hybrid([]), "at least one"),
    (Hybrid([bins(), Ridge()]), r"feature maps such as RandomBinning.*got Ridge\(\)"),
    (Hybrid([bins(), ("waves", waves())]), "all with names or none"),
    (Hybrid([("a", bins()), ("a", waves())]), "names of maps"),
    (Hybrid([("a__b", bins())]), "names of maps"),
    (Hybrid([("weights", bins())]), "names of maps"),
    (Hybrid([bins()], weights=[1, 2]), "weights must be 1 numbers above 0"),
    (Hybrid([bins()], weights=[0]), "weights"),
    (Hybrid([bins(), waves()], weights=[1, np.inf]), "weights"),
    (Hybrid([bins(), waves()], weights=[1, -1]), "weights"),
    (Hybrid([bins()], bandwidth="auto"), "bandwidth must be 'own', 'median'"),
    (Hybrid([bins()], bandwidth=-1.0), "bandwidth"),
    (Hybrid([bins()], bandwidth=[1.0, 2.0]), "bandwidth"),
    (Hybrid([bins(n_grids=0)]), "n_grids"),
]


def test_invalid_parts_and_weights_are_rejected():
    for hybrid, words in REFUSED:
        with pytest.raises(InputError, match=words):
            hybrid.fit(X)
    with pytest.raises(KernelError, match="binning"):
        Hybrid([bins(kernel="gaussian")]).fit(X)
