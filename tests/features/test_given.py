"""Given grids produce the same features as drawn ones."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import RandomBinning
from gramless.base.random import stream
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.kernels import Laplacian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
NEW = np.concatenate([X[:40], RNG.normal(scale=3.0, size=(100, 3)), [[1e300] * 3]])
BANDWIDTH = np.array([1.0, np.inf, 3.0])
GRIDS = Grids.draw(Laplacian(), BANDWIDTH, 21, seed=4)


def given(**options: Any) -> GivenBinning:
    binning = GivenBinning(**options)
    binning.fit_grids(X, GRIDS)
    return binning


def random() -> RandomBinning:
    return RandomBinning(n_grids=21, bandwidth=BANDWIDTH, random_state=4).fit(X)


def same(actual: sp.csr_array, expected: sp.csr_array) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.toarray(), expected.toarray())


def test_drawn_grids_match_random_binning() -> None:
    matrix = GivenBinning().fit_grids(X, GRIDS)
    same(matrix.tocsr(), RandomBinning(**random().get_params()).fit_transform(X))
    same(given().transform(NEW), random().transform(NEW))
    assert given().transform(NEW).nnz < 21 * len(NEW)


def test_attributes_match_random_binning() -> None:
    result, expected = given(), random()
    for name in ("widths_", "shifts_", "n_bins_", "offsets_", "nu_"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    for name in ("scale_", "kappa_", "kappa_bar_", "n_features_in_"):
        assert getattr(result, name) == getattr(expected, name)
    names = result.get_feature_names_out()
    assert len(names) == result.offsets_[-1]
    assert names[0] == "givenbinning0"


def test_form_of_rows_does_not_change_features() -> None:
    rows, new = (array.astype(np.float32).astype(np.float64) for array in (X, NEW[:-1]))
    plain = GivenBinning()
    plain.fit_grids(rows, GRIDS)
    for form in (
        lambda array: array.astype(np.float32),
        np.asfortranarray,
        sp.csr_array,
        np.ndarray.tolist,
    ):
        binning = GivenBinning()
        binning.fit_grids(form(rows), GRIDS)
        same(binning.transform(form(new)), plain.transform(new))


def test_threads_and_copies_do_not_change_features() -> None:
    expected = given(n_jobs=1).transform(NEW)
    for n_jobs in (2, 3):
        same(given(n_jobs=n_jobs).transform(NEW), expected)
    for copied in (copy.deepcopy(given()), pickle.loads(pickle.dumps(given()))):
        same(copied.transform(NEW), expected)


def test_grids_of_other_inputs_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"features|inputs|columns"):
        GivenBinning().fit_grids(X[:, :2], GRIDS)
    with pytest.raises(ValueError, match="features"):
        given().transform(X[:, :2])


def test_hashes_match_their_streams() -> None:
    for r, (multipliers, offset) in enumerate(zip(GRIDS.multipliers, GRIDS.offsets, strict=True)):
        whole = stream(4, "cells", r).integers(-(2**63), 2**63, len(BANDWIDTH) + 1)
        assert multipliers.tolist() == (whole[1:] | 1).tolist()
        assert offset == whole[0]
