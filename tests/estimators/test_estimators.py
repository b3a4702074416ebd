"""KernelRegressor and KernelClassifier: exact solutions, weights, labels, frames, scikit-learn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
)
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.preprocessing import KernelCenterer

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.errors import InputError
from gramless.kernels import Laplacian
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.choose import SOLVERS

FIXED: dict[str, Any] = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
PRECISE: dict[str, Any] = {**FIXED, "tol": 1e-11, "max_iter": 2000}


def regressor(n_grids: int = 32, **options: Any) -> KernelRegressor:
    return KernelRegressor(RandomBinning(n_grids=n_grids), **{**FIXED, **options})


def classifier(n_grids: int = 32, **options: Any) -> KernelClassifier:
    return KernelClassifier(RandomBinning(n_grids=n_grids), **{**FIXED, **options})


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(-2, 2, size=(150, 3))


@pytest.fixture(scope="module")
def y(X: NDArray) -> NDArray[np.float64]:
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]


# Accuracy on small tables, with no argument.


@pytest.mark.parametrize(
    ("load", "floor"),
    [
        pytest.param(load_breast_cancer, 0.93, marks=pytest.mark.slow),
        (load_digits, 0.95),
        pytest.param(load_iris, 0.9, marks=pytest.mark.slow),
        pytest.param(load_wine, 0.95, marks=pytest.mark.slow),
    ],
)
def test_default_classifier_scores_on_toy_data(load: Any, floor: float) -> None:
    X, y = load(return_X_y=True)
    a, b, c, d = train_test_split(X[:900], y[:900], random_state=1, test_size=0.4)
    assert KernelClassifier(random_state=0).fit(a, c).score(b, d) > floor


def test_default_regressor_scores_nearly_as_well_as_linear_regression() -> None:
    X, y = load_diabetes(return_X_y=True)
    a, b, c, d = train_test_split(X, y, random_state=1, test_size=0.4)
    linear = RidgeCV(np.logspace(-3, 3, 13)).fit(a, c).score(b, d)
    assert KernelRegressor(random_state=0).fit(a, c).score(b, d) > linear - 0.06


# The exact reference, kernel ridge: a free intercept centres the kernel, a classifier has none.


def exact_ridge(
    X: NDArray, y: NDArray, new: NDArray, bandwidth: float, alpha: float, *, centred: bool
) -> NDArray[np.float64]:
    """Return predictions of kernel ridge; scikit-learn's alpha is ``n_samples`` times ours."""
    kernel, centerer = Laplacian(), KernelCenterer()
    gram, cross = kernel.gram(X, bandwidth=bandwidth), kernel.gram(new, X, bandwidth=bandwidth)
    middle = np.zeros(y.shape[1:])
    if centred:
        gram, middle = centerer.fit_transform(gram), y.mean(axis=0)
        cross = centerer.transform(cross)
    ridge = KernelRidge(alpha=len(X) * alpha, kernel="precomputed").fit(gram, y - middle)
    return ridge.predict(cross) + middle


@pytest.mark.parametrize(("n_outputs", "alpha"), [(None, 1e-1), (2, 1e-3)])
def test_regressor_converges_to_exact_kernel_ridge(
    X: NDArray, y: NDArray, n_outputs: int | None, alpha: float
) -> None:
    targets = 5.0 + (y if n_outputs is None else np.column_stack([y, y**2]))
    old, new, known = X[:80], X[80:], targets[:80]
    exact = exact_ridge(old, known, new, 3.0, alpha, centred=True)
    gaps = []
    for n_grids in (64, 4096):
        options = {**PRECISE, "bandwidth": 3.0, "alpha": alpha, "scaling": "none"}
        model = regressor(n_grids, **options).fit(old, known)
        gaps.append(np.abs(model.predict(new) - exact).max() / np.ptp(known))
    assert gaps[1] < 0.03
    assert gaps[1] < gaps[0] / 3


def test_classifier_converges_to_exact_kernel_ridge(X: NDArray, y: NDArray) -> None:
    labels, signs = np.where(y > 0, "yes", "no"), np.where(y > 0, 1.0, -1.0)
    exact = exact_ridge(X[:80], signs[:80], X[80:], 3.0, 1e-2, centred=False)
    options = {**PRECISE, "bandwidth": 3.0, "alpha": 1e-2, "scaling": "none"}
    model = classifier(4096, **options).fit(X[:80], labels[:80])
    np.testing.assert_allclose(model.decision_function(X[80:]), exact, atol=0.06)


def test_gradient_vanishes_at_the_solution(X: NDArray, y: NDArray) -> None:
    """The gradient of mean loss plus penalty vanishes, written out in the fitted attributes."""
    model = regressor(**PRECISE).fit(X, y)
    Z = model.features_.transform(X)
    slopes = (Z @ model.weights_ + model.intercept_ - y) / len(y)
    gradient = Z.T @ slopes + model.alpha_ * model.weights_
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
    assert slopes.sum() == pytest.approx(0.0, abs=1e-10)


OF_BINS = [name for name in SOLVERS if name != "falkon"]


def test_falkon_rejects_bins(X: NDArray, y: NDArray) -> None:
    with pytest.raises(InputError, match=r"Falkon needs Nyström features.*BinnedMatrix.*'pcg'"):
        regressor(solver="falkon").fit(X, y)


def test_all_solvers_find_the_same_solution(X: NDArray, y: NDArray) -> None:
    for solver in ["auto", *OF_BINS, ConjugateGradient(tol=1e-11)]:
        expected = regressor(**PRECISE).fit(X, y).predict(X)
        # Descent is judged by its largest gradient, and comes to the end slowly.
        descent = {"tol": 1e-6, "max_iter": 20_000} if solver in ("grid", "random") else {}
        model = regressor(**{**PRECISE, **descent, "solver": solver}).fit(X, y)
        near = {"rtol": 1e-3, "atol": 1e-3} if descent else {"rtol": 1e-6, "atol": 1e-7}
        np.testing.assert_allclose(model.predict(X), expected, **near)
        assert model.status_ == "converged"


@given(scale=st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6), shift=st.floats(-1e3, 1e3))
@settings(max_examples=10)
def test_predictions_scale_with_the_targets(scale: float, shift: float) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    plain = regressor(8, **PRECISE).fit(X, y).predict(X)
    moved = regressor(8, **PRECISE).fit(X, scale * y + shift).predict(X)
    tolerance = 1e-7 * abs(scale) + 1e-9 * abs(shift)
    np.testing.assert_allclose(moved, scale * plain + shift, atol=tolerance)


# Sample weights.


@pytest.mark.parametrize(
    ("make", "scaling"), [(regressor, "none"), (classifier, "standard"), (regressor, "quantile")]
)
def test_weights_equal_repeated_rows(X: NDArray, y: NDArray, make: Any, scaling: str) -> None:
    times = np.random.default_rng(2).integers(0, 4, size=len(y))
    targets = np.digitize(y, [-0.5, 0.5]) if make is classifier else y
    options = {**PRECISE, "scaling": scaling}
    weighted = make(**options).fit(X, targets, sample_weight=times)
    repeated = make(**options).fit(np.repeat(X, times, axis=0), np.repeat(targets, times))
    output = "decision_function" if make is classifier else "predict"
    np.testing.assert_allclose(
        getattr(weighted, output)(X), getattr(repeated, output)(X), rtol=1e-6, atol=1e-7
    )


def test_weights_equal_repeated_rows_with_defaults(X: NDArray, y: NDArray) -> None:
    for kind in [KernelRegressor, KernelClassifier]:
        times = np.array([1, 2, 3] * 5)
        targets = (y[:15] > 0).astype(int) if kind is KernelClassifier else y[:15]
        models = [kind(RandomBinning(n_grids=32), random_state=0) for _ in range(2)]
        models[0].fit(X[:15], targets, sample_weight=times)
        models[1].fit(np.repeat(X[:15], times, axis=0), np.repeat(targets, times))
        np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), rtol=1e-6)


def test_zero_weights_equal_removed_rows(X: NDArray, y: NDArray) -> None:
    for kind in [KernelRegressor, KernelClassifier]:
        targets = np.digitize(y, [-0.5, 0.5]) if kind is KernelClassifier else y
        kept = np.arange(len(y)) % 3 > 0
        wild, labels = X.copy(), targets.copy()
        wild[~kept] = 1e9
        labels[~kept] = 7
        models = [kind(RandomBinning(n_grids=8), random_state=0) for _ in range(2)]
        models[0].fit(wild, labels, sample_weight=2.5 * kept)
        models[1].fit(X[kept], targets[kept], sample_weight=np.full(kept.sum(), 2.5))
        np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_equal_weights_change_nothing(X: NDArray, y: NDArray) -> None:
    for weight in [None, 3.0, "equal"]:
        given_weight = np.full(len(y), 0.25) if weight == "equal" else weight
        model = regressor(**PRECISE).fit(X, y, sample_weight=given_weight)
        expected = regressor(**PRECISE).fit(X, y).predict(X)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8, atol=1e-9)


def test_heavy_rows_are_fitted_better(X: NDArray, y: NDArray) -> None:
    noisy = y + np.random.default_rng(3).normal(size=len(y))
    weight = np.where(np.arange(len(y)) < 30, 100.0, 1.0)
    model = regressor(alpha=0.01).fit(X, noisy, sample_weight=weight)
    error = np.abs(model.predict(X) - noisy)
    assert error[:30].mean() < 0.5 * error[30:].mean()


# Targets.


def test_outputs_are_fitted_as_if_separately(X: NDArray, y: NDArray) -> None:
    targets = np.column_stack([y, 100 * y**2, np.full(len(y), 3.0)])
    model = regressor(**PRECISE).fit(X, targets)
    assert model.predict(X).shape == (len(X), 3)
    assert model.weights_.shape == (model.features_.offsets_[-1], 3)
    assert np.shape(model.intercept_) == (3,)
    for k, target in enumerate(targets.T):
        alone = regressor(**PRECISE).fit(X, target)
        np.testing.assert_allclose(model.predict(X)[:, k], alone.predict(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.predict(X)[:, 2], 3.0)


def test_one_column_of_targets_stays_a_column(X: NDArray, y: NDArray) -> None:
    model = regressor(**PRECISE).fit(X, y[:, None])
    flat = regressor(**PRECISE).fit(X, y)
    np.testing.assert_allclose(model.predict(X), flat.predict(X)[:, None], rtol=1e-9)


def test_constant_targets_are_predicted_exactly(X: NDArray) -> None:
    for value in [0.0, 0.1, -7.0, 1e300]:
        model = regressor().fit(X, np.full(len(X), value))
        np.testing.assert_allclose(model.predict(X), value, rtol=1e-12)


def test_type_of_targets_does_not_change_predictions(X: NDArray) -> None:
    for dtype in [np.float32, np.int8, np.int64, np.uint16, bool, object]:
        values = np.arange(len(X)) % 2
        expected = regressor().fit(X, values.astype(float)).predict(X)
        predicted = regressor().fit(X, values.astype(dtype)).predict(X)
        assert predicted.dtype == np.float64
        np.testing.assert_array_equal(predicted, expected)


LABELS: dict[str, list[Any]] = {
    "bool": [False, True],
    "int": [-5, 7],
    "three ints": [10, 2, -1],
    "uint8": list(np.array([200, 3, 7], np.uint8)),
    "float": [0.0, 1.0, 2.0],
    "str": ["no", "yes"],
    "long str": ["a", "a much longer name", "β", ""],
    "objects": ["red", "green", "blue"],
}


def test_predict_returns_labels_of_the_given_type() -> None:
    for labels in LABELS.values():
        X, number = make_blobs(90, centers=len(labels), cluster_std=0.3, random_state=0)
        dtype = object if isinstance(labels[0], str) and len(labels) == 3 else None
        targets = np.array(labels, dtype=dtype)[number]
        model = classifier().fit(X, targets)
        assert model.classes_.tolist() == sorted(labels)
        assert model.classes_.dtype == targets.dtype
        predicted = model.predict(X)
        assert predicted.dtype == targets.dtype
        assert (predicted == targets).all()
        assert model.decision_function(X).shape == (
            (90,) if len(labels) == 2 else (90, len(labels))
        )


def test_rare_class_is_predicted() -> None:
    for options in [FIXED, {"random_state": 0}]:
        X, y = make_blobs([400, 8], centers=[[0, 0], [9, 9]], random_state=0)
        model = KernelClassifier(RandomBinning(n_grids=32), **options).fit(X, y)
        assert (model.predict(X) == y).all()


def test_predict_takes_the_sign_or_the_largest_response(X: NDArray, y: NDArray) -> None:
    rows = np.random.default_rng(6).uniform(-2, 2, size=(500, 3))
    two = classifier().fit(X, np.where(y > 0, "b", "a"))
    responses = two.decision_function(rows)
    assert np.abs(responses).min() < 0.05
    np.testing.assert_array_equal(two.predict(rows) == "b", responses > 0)
    three = classifier().fit(X, np.digitize(y, [-0.5, 0.5]))
    np.testing.assert_array_equal(three.predict(rows), three.decision_function(rows).argmax(axis=1))


# Predictions.


@pytest.mark.parametrize(("scaling", "dtype"), [("standard", np.float64), ("quantile", np.float32)])
def test_prediction_does_not_depend_on_the_other_rows(
    X: NDArray, y: NDArray, scaling: str, dtype: type
) -> None:
    rows = np.random.default_rng(4).uniform(-2.2, 2.2, size=(200, 3)).astype(dtype)
    for targets in (y, np.column_stack([y, -y, y**2])):
        model = regressor(37, scaling=scaling).fit(X.astype(dtype), targets)
        whole = model.predict(rows)
        assert all((model.predict(rows[i : i + 1])[0] == whole[i]).all() for i in range(200))
        np.testing.assert_array_equal(model.predict(rows[::-1])[::-1], whole)


def test_long_tables_are_predicted_in_blocks(X: NDArray, y: NDArray) -> None:
    rows = np.random.default_rng(5).uniform(-2.2, 2.2, size=(66_000, 3))
    model = regressor(4).fit(X, y)
    whole = model.predict(rows)
    np.testing.assert_array_equal(model.predict(rows[65_000:]), whole[65_000:])
    np.testing.assert_array_equal(model.predict(sp.csr_array(rows[65_000:])), whole[65_000:])


def test_sparse_rows_are_predicted_as_dense_ones(X: NDArray, y: NDArray) -> None:
    rows = np.where(X > 0.5, X, 0.0)
    dense = regressor(**PRECISE).fit(rows, y)
    sparse = regressor(**PRECISE).fit(sp.csr_array(rows), y)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(rows)), dense.predict(rows), rtol=1e-6)
    np.testing.assert_array_equal(dense.predict(sp.csr_array(rows)), dense.predict(rows))


def test_predictions_far_from_all_rows_are_the_intercept(X: NDArray, y: NDArray) -> None:
    model, nowhere = regressor().fit(X, y), np.full((1, 3), 1e12)
    assert model.predict(nowhere)[0] == model.intercept_
    assert classifier().fit(X, y > -0.5).decision_function(nowhere)[0] == 0.0


# Fitted attributes, parameters, repetition.


def test_fitted_attributes_have_their_documented_shapes(X: NDArray, y: NDArray) -> None:
    model = KernelRegressor(RandomBinning(n_grids=16), random_state=0).fit(X, y)
    n_columns = model.features_.offsets_[-1]
    assert model.weights_.shape == (n_columns,)
    assert isinstance(model.intercept_, float)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert model.encoder_ is None
    assert model.relevance_.shape == (3,)
    assert model.alpha_ == model.settings_.alpha > 0
    assert model.bandwidth_ > 0
    assert model.status_ in ("converged", "max_iter")
    assert len(model.history_) == model.n_iter_ + 1
    assert "pcg" in model.solver_reason_
    assert json.loads(json.dumps(model.search_)) == model.search_
    grid_bandwidth = model.features_.bandwidth_
    np.testing.assert_allclose(grid_bandwidth, model.bandwidth_ * model.scaler_.unit)
    assert is_regressor(model)
    assert is_classifier(KernelClassifier())


def test_set_params_reaches_the_features(X: NDArray, y: NDArray) -> None:
    model = regressor().set_params(features__n_grids=5, alpha=0.5)
    assert model.get_params()["features__n_grids"] == 5
    model.fit(X, y)
    assert (model.features_.n_grids, model.alpha_) == (5, 0.5)
    copy = clone(model)
    assert repr(copy.get_params()) == repr(model.get_params())
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_second_fit_forgets_the_first(X: NDArray, y: NDArray) -> None:
    pandas = pytest.importorskip("pandas")
    model = regressor()
    model.fit(pandas.DataFrame(X[:, :2], columns=["a", "b"]), np.column_stack([y, y]))
    model.fit(X, y)
    fresh = regressor().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), fresh.predict(X))
    assert set(vars(model)) == set(vars(fresh))
    assert model.n_features_in_ == 3
    sorter = classifier().fit(X, y > 0).fit(X, np.digitize(y, [-1, 0, 1]))
    assert sorter.classes_.tolist() == [0, 1, 2, 3]


def test_random_state_decides_the_fit(X: NDArray, y: NDArray) -> None:
    for kind in [KernelRegressor, KernelClassifier]:
        targets = y > 0 if kind is KernelClassifier else y
        fixed = {**FIXED, "alpha": "auto"}
        first, again, other = (
            kind(RandomBinning(n_grids=8), **{**fixed, "random_state": seed}).fit(X, targets)
            for seed in (3, 3, 4)
        )
        np.testing.assert_array_equal(first.weights_, again.weights_)
        assert not np.array_equal(first.weights_, other.weights_)
        states = [np.random.RandomState(5) for _ in range(2)]
        a, b = (
            kind(RandomBinning(n_grids=8), **{**fixed, "random_state": s}).fit(X, targets)
            for s in states
        )
        np.testing.assert_array_equal(a.weights_, b.weights_)


def test_seed_of_the_features_takes_precedence(X: NDArray, y: NDArray) -> None:
    features = RandomBinning(n_grids=8, random_state=11)
    models = [KernelRegressor(features, **{**FIXED, "random_state": s}).fit(X, y) for s in (0, 1)]
    assert models[0].features_.seed_ == 11
    np.testing.assert_array_equal(models[0].weights_, models[1].weights_)


def test_verbose_fit_prints_to_stderr(
    X: NDArray, y: NDArray, capsys: pytest.CaptureFixture[str]
) -> None:
    regressor(alpha="auto", verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("[KernelRegressor] ") for line in lines)
    assert "final fit: 150 rows" in lines[-1]
    regressor(alpha="auto").fit(X, y).predict(X)
    assert capsys.readouterr() == ("", "")


# Among the tools of scikit-learn.


@pytest.mark.slow
def test_cross_validation_in_two_processes_gives_the_same_scores(X: NDArray, y: NDArray) -> None:
    model = classifier(8, alpha="auto")
    one, two = (cross_val_score(model, X, y > 0, cv=3, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert one.min() > 0.6


# Data frames.


@pytest.fixture(params=["pandas", "polars"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def frame_of(library: Any, X: NDArray, names: str = "abc") -> Any:
    return library.DataFrame({name: X[:, "abc".index(name)] for name in names})


def test_frames_of_numbers_are_fitted_as_arrays(library: Any, X: NDArray, y: NDArray) -> None:
    model = regressor().fit(frame_of(library, X), library.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    expected = regressor().fit(X, y).predict(X)
    np.testing.assert_array_equal(model.predict(frame_of(library, X)), expected)


def test_predict_matches_columns_by_name(library: Any, X: NDArray, y: NDArray) -> None:
    model = regressor().fit(frame_of(library, X), y)
    np.testing.assert_array_equal(
        model.predict(frame_of(library, X, "cab")), model.predict(frame_of(library, X))
    )


def test_missing_columns_are_named_and_extra_ones_ignored(
    library: Any, X: NDArray, y: NDArray
) -> None:
    model = regressor().fit(frame_of(library, X, "ab"), y)
    with pytest.raises(InputError, match="missing now: 'b'"):
        model.predict(frame_of(library, X, "a"))
    expected = model.predict(frame_of(library, X, "ab"))
    np.testing.assert_array_equal(model.predict(frame_of(library, X)), expected)


def test_arrays_are_matched_by_position_after_a_frame(library: Any, X: NDArray, y: NDArray) -> None:
    frame = frame_of(library, X, "ab")
    model = regressor().fit(frame, y)
    message = "X does not have valid feature names, but KernelRegressor was fitted with"
    with pytest.warns(UserWarning, match=message):
        np.testing.assert_array_equal(model.predict(X[:, :2]), model.predict(frame))
    with pytest.raises(InputError, match="X has 3 features, but KernelRegressor is expecting 2"):
        model.predict(X)
    pets = library.DataFrame({"pet": ["cat", "dog"] * 30, "age": [1.0, 2.0, 3.0] * 20})
    model = regressor().fit(pets, np.arange(60.0))
    with pytest.warns(UserWarning, match=message):
        result = model.predict(np.array([["cat", 1.0], ["dog", 2.0]], dtype=object))
    np.testing.assert_array_equal(result, model.predict(pets[:2]))


def test_text_columns_predict_text_labels(library: Any) -> None:
    pets = np.array(["cat", "dog", "fish"] * 30)
    frame = library.DataFrame({"pet": pets.tolist(), "age": (np.arange(90) % 7.0).tolist()})
    model = KernelClassifier(RandomBinning(n_grids=16), random_state=0)
    model.fit(frame, library.Series(pets.tolist()))
    assert model.n_features_in_ == 2
    assert (model.predict(frame) == pets).all()


def test_frames_without_rows_give_empty_predictions(library: Any, X: NDArray, y: NDArray) -> None:
    for n_outputs in [1, 2]:
        frame, empty = frame_of(library, X), frame_of(library, X[:0])
        targets = np.column_stack([y] * n_outputs).squeeze()
        model = regressor(calibrate=True, n_posterior=5).fit(frame, targets)
        answers = [*model.predict(empty, return_std=True), *model.predict_interval(empty)]
        expected = (0, *targets.shape[1:]), np.dtype(np.float64)
        assert {(result.shape, result.dtype) for result in answers} == {expected}
        labels = np.array(["a", "b", "c"])[: n_outputs + 1][np.arange(len(y)) % (n_outputs + 1)]
        model = classifier(calibrate=True).fit(frame, labels)
        assert model.predict(empty).shape == (0,)
        assert model.predict(empty).dtype == labels.dtype
        assert model.predict_proba(empty).shape == (0, n_outputs + 1)
        assert model.predict_set(empty).shape == (0, n_outputs + 1)
        assert model.predict_set(empty).dtype == bool


def test_pyarrow_tables_are_fitted_like_arrays(X: NDArray, y: NDArray) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    expected = regressor().fit(X, y).predict(X)
    for make in (pyarrow.table, pyarrow.RecordBatch.from_pydict):
        model = regressor().fit(make(columns), pyarrow.array(y))
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(model.predict(make(columns)), expected)
    pets = pyarrow.table({"pet": ["cat", "dog", None] * 30, "age": [1, 2, 3] * 30})
    model = regressor().fit(pets, np.arange(90.0))
    assert model.encoder_.categorical == ("pet",)


def test_lazy_frames_and_dicts_are_rejected_with_advice(X: NDArray, y: NDArray) -> None:
    for make in [regressor, classifier]:
        polars = pytest.importorskip("polars")
        lazy = polars.DataFrame(X).lazy()
        with pytest.raises(
            InputError, match=r"Kernel\w+: X is a LazyFrame.*X\.collect\(\)"
        ) as caught:
            make().fit(lazy, y > 0)
        assert len(str(caught.value)) < 200
        with pytest.raises(InputError, match=r"X is a dict of columns; .*DataFrame\(X\)") as caught:
            make().fit({"a": X[:, 0]}, y > 0)
        assert len(str(caught.value)) < 200
