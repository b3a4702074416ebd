"""Selectors and explainers, which look for ``coef_``, ``feature_importances_`` or ``predict``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.utils import get_tags

from gramless import AnomalyDetector, KernelClassifier, KernelRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
Y = 3 * X[:, 3] + 0.1 * RNG.normal(size=300)
SMALL: dict[str, Any] = {"n_grids": 16, "bandwidth": 2.0, "alpha": 1e-2, "random_state": 0}
TABLES = [X, pd.DataFrame(X, columns=list("abcde"))]
CASES = [
    (KernelRegressor(**SMALL), TABLES[0], Y),
    (KernelClassifier(**SMALL), TABLES[1], np.digitize(Y, [-1.5, 1.5])),
]


@pytest.mark.parametrize(("model", "table", "y"), CASES, ids=["regressor", "classifier"])
@pytest.mark.parametrize(
    "selector",
    [
        lambda model: RFE(model, n_features_to_select=1, step=2),
        lambda model: RFECV(model, step=2, cv=2),
        SelectFromModel,
    ],
    ids=["rfe", "rfecv", "select_from_model"],
)
def test_selectors_keep_the_column_that_matters(
    selector: Any, model: Any, table: Any, y: Any
) -> None:
    mask = selector(model).fit(table, y).get_support()
    assert len(mask) == 5
    assert mask[3]


def test_permutation_importance_finds_the_column_that_matters() -> None:
    for model, table, y in CASES:
        result = permutation_importance(model.fit(table, y), table, y, n_repeats=1, random_state=0)
        assert result.importances_mean.argmax() == 3


def test_shap_ranks_the_column_that_matters_first() -> None:
    shap = pytest.importorskip("shap")
    for model, table, y in CASES:
        values = shap.Explainer(model.fit(table, y), table)(table[:5]).values
        sizes = np.abs(values).reshape(5, 5, -1).sum(axis=(0, 2))
        assert sizes.argmax() == 3


def test_attribute_error_says_why_sparse_fits_have_no_importances() -> None:
    model = KernelRegressor(n_grids=8, bandwidth=1.0, alpha=0.1)
    model.fit(sp.csr_array(np.hstack([X, np.zeros((len(X), 5000))])), Y)
    with pytest.raises(AttributeError, match="sparse"):
        _ = model.feature_importances_


def test_tags_allow_categories_and_missing_values() -> None:
    for model in [KernelRegressor(), KernelClassifier(), AnomalyDetector()]:
        tags = get_tags(model).input_tags
        assert tags.categorical
        assert tags.allow_nan
