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
MODELS = [
    pytest.param(KernelRegressor(**SMALL), Y, id="regressor"),
    pytest.param(KernelClassifier(**SMALL), np.digitize(Y, [-1.5, 1.5]), id="classifier"),
]
TABLES = [
    pytest.param(X, id="array"),
    pytest.param(pd.DataFrame(X, columns=list("abcde")), id="frame"),
]


@pytest.mark.parametrize(("model", "y"), MODELS)
@pytest.mark.parametrize("table", TABLES)
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
    selector: Any, table: Any, model: Any, y: Any
) -> None:
    mask = selector(model).fit(table, y).get_support()
    assert len(mask) == 5
    assert mask[3]


@pytest.mark.parametrize(("model", "y"), MODELS)
@pytest.mark.parametrize("table", TABLES)
def test_permutation_importance_finds_the_column_that_matters(
    table: Any, model: Any, y: Any
) -> None:
    result = permutation_importance(model.fit(table, y), table, y, n_repeats=1, random_state=0)
    assert result.importances_mean.argmax() == 3


@pytest.mark.parametrize(("model", "y"), MODELS)
@pytest.mark.parametrize("table", TABLES)
def test_shap_explains_a_model(table: Any, model: Any, y: Any) -> None:
    shap = pytest.importorskip("shap")
    values = shap.Explainer(model.fit(table, y), table)(table[:5]).values
    sizes = np.abs(values).reshape(5, 5, -1).sum(axis=(0, 2))
    assert sizes.argmax() == 3


def test_a_fit_to_sparse_rows_says_why_it_has_no_importances() -> None:
    model = KernelRegressor(n_grids=8, bandwidth=1.0, alpha=0.1)
    model.fit(sp.csr_array(np.hstack([X, np.zeros((len(X), 5000))])), Y)
    with pytest.raises(AttributeError, match="sparse"):
        _ = model.feature_importances_


@pytest.mark.parametrize("model", [KernelRegressor(), KernelClassifier(), AnomalyDetector()])
def test_tags_say_that_tables_may_hold_categories(model: Any) -> None:
    tags = get_tags(model).input_tags
    assert tags.categorical
    assert tags.allow_nan
