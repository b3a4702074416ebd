"""Tables read from files: their columns are found by name, and each row gets a prediction."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score, train_test_split

from gramless import KernelRegressor
from gramless.datasets import read_table, store_table

A, B = np.random.default_rng(0).normal(size=(2, 80)).round(3)
Y = 5 * A - B


def model() -> KernelRegressor:
    return KernelRegressor(effort=1, random_state=0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    np.savetxt(path, np.c_[A, B, Y], delimiter=",", header="a,b,y", comments="")
    return path


def named(path: Path) -> tuple:
    return read_table(path).split_target("y")


def stored(path: Path) -> tuple:
    return store_table(path).split_target("y")


def test_predict_matches_columns_by_name(file: Path, tmp_path: Path) -> None:
    for read in [named, stored]:
        X, y, _ = read(file)
        fitted = model().fit(X, y)
        other = tmp_path / "new.csv"
        np.savetxt(other, np.c_[B, Y, A], delimiter=",", header="b,y,a", comments="")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_array_equal(fitted.predict(named(other)[0]), fitted.predict(named(file)[0]))


def test_model_fitted_on_an_array_predicts_a_table(file: Path) -> None:
    X = named(file)[0]
    fitted = model().fit(np.asarray(X), Y)
    assert_array_equal(fitted.predict(X), fitted.predict(np.asarray(X)))


def test_scikit_learn_splits_tables(file: Path) -> None:
    X, y, _ = named(file)
    X_train, X_new, y_train, y_new = train_test_split(X, y, random_state=0)
    assert model().fit(X_train, y_train).score(X_new, y_new) > 0.9
    scores = cross_val_score(model(), X, y, cv=2)
    assert_allclose(scores, cross_val_score(model(), np.asarray(X), y, cv=2))


def test_words_for_missing_values_are_predicted_as_missing(file: Path, tmp_path: Path) -> None:
    for word in ["None", "n/a", "NULL", "#N/A", ""]:
        X, y, _ = named(file)
        fitted = model().fit(X, y)
        new = tmp_path / "new.csv"
        new.write_text(f"a,b\n{word},0.5\n{word},1\n")
        expected = fitted.predict(read_table(new))
        new.write_text("a,b\n,0.5\n,1\n")
        assert_allclose(expected, fitted.predict(read_table(new)))


def test_category_called_na_is_not_missing(tmp_path: Path) -> None:
    country = np.array(["NA", "DE", ""] * 30)
    path = tmp_path / "train.csv"
    rows = [f"{c},{5.0 * (c == 'NA')}" for c in country]
    path.write_text("country,y\n" + "\n".join(rows))
    X, y, _ = read_table(path).split_target("y")
    fitted = model().fit(X, y)
    path.write_text("country,n\nNA,1\nNA,2\n")
    assert_allclose(fitted.predict(read_table(path)), 5, atol=0.5)
