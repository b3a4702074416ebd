"""Anomalies: scores by their definition, false alarms, streams, files, and what was strange."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from gramless import AnomalyDetector, load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import pack, write
from gramless.unsupervised import anomalies, bin_counts


def clusters(n_rows: int, n_strange: int = 0, seed: int = 0):
    """Return rows of two clusters in five inputs, the last ones spread evenly."""
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=(n_rows, 5)) + 4.0 * rng.integers(0, 2, (n_rows, 1))
    return np.concatenate([reference, rng.uniform(-3, 7, (n_strange, 5))])


def cells_of(detector, X):
    """Return the cell of each row in each grid, as tuples of whole numbers."""
    bins = detector.bin_counts_.bins
    X = detector.axes_.append_to(detector.inputs_.transform(detector, X))
    for width, shift in zip(bins.widths_, bins.shifts_, strict=True):
        used = np.isfinite(width)
        inverse = 1.0 / width[used]
        yield [tuple(cell) for cell in np.floor((X[:, used] - shift[used]) * inverse)]


def slow_scores(detector, X, new, *, joined: int = 0):
    """Return the scores of new rows by counting: each as if it were ``joined`` rows of the fit."""
    total = np.zeros(len(new))
    for known, asked in zip(cells_of(detector, X), cells_of(detector, new), strict=True):
        counts = Counter(known)
        share = np.array([counts[cell] + joined for cell in asked]) / (len(X) + joined)
        total -= 1 / (1 + detector.resolution * share)
    return total / detector.n_grids


def test_scores_match_their_definition() -> None:
    X, new = clusters(200), clusters(20, 10, seed=1)
    detector = AnomalyDetector(n_grids=20, random_state=3).fit(X)
    np.testing.assert_allclose(detector.score_samples(new), slow_scores(detector, X, new))
    np.testing.assert_allclose(detector.score_samples(X), slow_scores(detector, X, X))


def test_p_values_match_their_definition() -> None:
    X, new = clusters(99), clusters(20, 10, seed=1)
    detector = AnomalyDetector(n_grids=20, random_state=3).fit(X)
    rarities = np.zeros(len(X))
    for known in cells_of(detector, X):
        counts = Counter(known)
        share = np.array([counts[cell] for cell in known]) / (len(X) + 1)
        rarities += 1 / (1 + detector.resolution * share) / detector.n_grids
    shaping = detector.bin_counts_.shaped_grids
    assert shaping.sum() == 49
    result = -slow_scores(detector, X, new, joined=1)
    expected = (1 + (rarities[~shaping] >= result[:, None] - 1e-9).sum(axis=1)) / 51
    np.testing.assert_allclose(detector.p_values(new), expected)


def usual_rows(kind: str, n_rows: int, n_inputs: int, rng: np.random.Generator):
    """Return rows that are all of one distribution."""
    X = rng.normal(size=(n_rows, n_inputs))
    if kind == "heavy tails":
        return rng.standard_t(1.5, size=X.shape)
    if kind == "uniform":
        return rng.uniform(size=X.shape)
    if kind == "categories":
        X[:, ::2] = rng.integers(0, 4, X[:, ::2].shape)
        names = [f"x{j}" for j in range(n_inputs)]
        return pd.DataFrame(X, columns=names).astype(dict.fromkeys(names[::2], "category"))
    return X


def share_of_new_rows(kind, n_rows, n_inputs, n_tables, **given) -> float:
    """Return the mean share of new rows that are outliers, over a few tables."""
    shares = []
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        detector = AnomalyDetector(random_state=seed, **given)
        detector.fit(usual_rows(kind, n_rows, n_inputs, rng))
        shares.append(np.mean(detector.predict(usual_rows(kind, 1000, n_inputs, rng)) == -1))
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("kind", "n_inputs"),
    [("normal", 2), ("uniform", 10), ("heavy tails", 30), ("categories", 10)],
)
def test_contamination_is_the_share_of_new_rows(kind, n_inputs) -> None:
    share = share_of_new_rows(kind, 200, n_inputs, 6, n_grids=64, contamination=0.05)
    assert 0.02 < share < 0.075


@pytest.mark.parametrize(("n_rows", "n_tables", "most"), [(200, 8, 0.02), (5000, 1, 0.015)])
def test_small_contamination_flags_few_new_rows(n_rows, n_tables, most) -> None:
    share = share_of_new_rows("normal", n_rows, 10, n_tables, n_grids=64, contamination=0.01)
    assert 0.002 < share < most


def test_automatic_offset_flags_few_new_rows() -> None:
    assert share_of_new_rows("normal", 200, 10, 6, n_grids=64) < 0.05


def test_weights_do_not_change_the_flagged_share() -> None:
    for size in [1e-3, 1.0, 1e3]:
        shares, false_alarms = [], []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X, weights = rng.normal(size=(300, 10)), size * rng.uniform(0.5, 2.0, 300)
            detector = AnomalyDetector(n_grids=64, contamination=0.05, random_state=seed)
            detector.fit(X[:150], sample_weight=weights[:150])
            detector.partial_fit(X[150:], sample_weight=weights[150:])
            new = rng.normal(size=(1000, 10))
            shares.append(np.mean(detector.predict(new) == -1))
            false_alarms.append(np.mean(detector.p_values(new) <= 0.05))
        assert 0.02 < np.mean(shares) < 0.08
        assert 0.02 < np.mean(false_alarms) < 0.08


def test_offset_matches_its_definition() -> None:
    X = clusters(200)
    detector = AnomalyDetector(n_grids=12, contamination=0.1, random_state=3).fit(X)
    scores = np.zeros(len(X))
    for known in cells_of(detector, X):
        counts = Counter(known)
        shares = np.array([counts[cell] - 1 for cell in known]) / (len(X) - 1)
        scores -= 1 / (1 + detector.resolution * shares) / detector.n_grids
    compared = scores[~detector.bin_counts_.shaped_grids]
    # The 20th lowest of 200 and the 10th of 100.
    offset = min(np.sort(scores)[19], np.sort(compared)[9])
    assert detector.offset_ == pytest.approx(offset, abs=1e-8)


def test_fit_predict_flags_the_contamination_exactly() -> None:
    X = clusters(300)
    detector = AnomalyDetector(n_grids=32, contamination=0.1, random_state=0)
    assert np.sum(detector.fit_predict(X) == -1) == 30
    assert np.sum(detector.predict(X) == -1) < 30
    weights = np.where(np.arange(300) < 100, 3.0, 1.0)
    flagged = detector.fit_predict(X, sample_weight=weights) == -1
    assert weights[flagged].sum() == pytest.approx(0.1 * weights.sum(), abs=3.0)


def test_grids_do_not_depend_on_compared_rows() -> None:
    X = clusters(60)
    one = AnomalyDetector(n_grids=8, random_state=0).fit(X)
    shaping = one.bin_counts_.shaped_grids
    # Grids follow the others alone: these rows may be moved.
    moved = X.copy()
    moved[~shaping] += 50.0
    other = AnomalyDetector(n_grids=8, random_state=0).fit(moved)
    np.testing.assert_array_equal(one.bin_counts_.bins.widths_, other.bin_counts_.bins.widths_)
    np.testing.assert_array_equal(one.axes_.directions, other.axes_.directions)


def test_false_alarm_rate_is_bounded() -> None:
    alarms = []
    for seed in range(40):
        X = clusters(190, seed=seed)
        detector = AnomalyDetector(n_grids=16, random_state=seed).fit(X[:150])
        alarms.append(np.mean(detector.p_values(X[150:]) <= 0.1))
    # Three standard errors of 40 means.
    assert 0.03 < np.mean(alarms) < 0.1 + 3 * np.std(alarms) / np.sqrt(40)


def test_anomalies_are_detected() -> None:
    X = clusters(2000, 40)
    detector = AnomalyDetector(contamination=40 / 2040, random_state=0).fit(X)
    assert roc_auc_score(np.arange(2040) < 2000, detector.score_samples(X)) > 0.98
    result = detector.fit_predict(X)
    assert np.sum(result == -1) == 40
    assert np.mean(result[2000:] == -1) > 0.7
    new = clusters(0, 200, seed=1)
    assert np.mean(detector.predict(new) == -1) > 0.7


def test_partial_fit_equals_one_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X = clusters(300)
    monkeypatch.setattr(anomalies, "_MAX_BLOCK_ROWS", 64)
    whole = AnomalyDetector(n_grids=16, random_state=0).fit(X[:200])
    parts = AnomalyDetector(n_grids=16, random_state=0).fit(X[:200])
    parts.partial_fit(X[200:230]).partial_fit(X[230:])
    np.testing.assert_allclose(parts.score_samples(X), slow_scores(whole, X, X))
    first = AnomalyDetector(n_grids=16, random_state=0).partial_fit(X[:200])
    np.testing.assert_array_equal(first.score_samples(X), whole.score_samples(X))


def test_sample_is_bounded_and_drawn_from_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bin_counts, "MAX_SAMPLED", 50)
    X = clusters(400)
    detector = AnomalyDetector(n_grids=16, random_state=0).fit(X[:300]).partial_fit(X[300:])
    codes = detector.bin_counts_.bins.rows_matrix(detector.axes_.append_to(X)).codes
    sampled = [np.flatnonzero((row == codes.T).all(axis=1)) for row in detector.bin_counts_.codes.T]
    assert len(sampled) == 50
    assert all(len(rows) >= 1 for rows in sampled)
    assert any(rows[0] >= 300 for rows in sampled)
    n_compared = np.sum(~detector.bin_counts_.shaped_grids)
    assert 10 < n_compared < 50
    assert detector.p_values(X[:5] + 1e3).max() == pytest.approx(1 / (1 + n_compared), abs=0.1)


def test_contributions_sum_to_the_score_and_name_the_input() -> None:
    X = clusters(500)
    detector = AnomalyDetector(random_state=0).fit(X)
    shares, scores = detector.contributions(X), detector.score_samples(X)
    np.testing.assert_allclose(shares.sum(axis=1), scores.mean() - scores, atol=1e-12)
    strange = X[:20].copy()
    strange[np.arange(20), np.arange(20) % 5] += 30.0
    assert (detector.contributions(strange).argmax(axis=1) == np.arange(20) % 5).mean() > 0.9


def test_integer_weights_equal_repeated_rows() -> None:
    X = clusters(120, 10)
    times = np.random.default_rng(0).integers(0, 4, len(X))
    detector = AnomalyDetector(n_grids=12, random_state=0).fit(X, sample_weight=times)
    detector.partial_fit(X[:30], sample_weight=np.full(30, 2.0))
    repeated = np.concatenate([np.repeat(X, times, axis=0), X[:30], X[:30]])
    np.testing.assert_allclose(detector.score_samples(X), slow_scores(detector, repeated, X))
    np.testing.assert_allclose(
        detector.contributions(X).sum(axis=1),
        detector.score_samples(repeated).mean() - detector.score_samples(X),
        atol=1e-12,
    )
    assert detector.p_values(X + 100.0).max() < 2 / times.sum() + 0.1
    with pytest.raises(InputError, match="every sample weight is zero"):
        AnomalyDetector().fit(X, sample_weight=np.zeros(len(X)))


def test_broken_correlations_are_detected_and_attributed() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 6))
    X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=1000)
    X[:10, 1] *= -1.0
    detector = AnomalyDetector(random_state=0).fit(X)
    scores = detector.score_samples(X)
    broken = np.abs(X[:10, 0]) > 0.3
    assert np.mean(scores[:10][broken, None] < scores[10:]) > 0.85
    shares = detector.contributions(X[:10][broken]).mean(axis=0)
    assert set(np.argsort(shares)[-2:]) == {0, 1}


def test_huge_values_are_the_most_anomalous() -> None:
    X = clusters(200)
    X[0, 0], X[1, 1] = 1e300, -1e25
    scores = AnomalyDetector(n_grids=32, random_state=0).fit(X).score_samples(X)
    assert set(np.argsort(scores)[:2]) == {0, 1}


def test_contributions_separate_two_inputs() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    detector = AnomalyDetector(random_state=0).fit(X)
    shares = detector.contributions([[8.0, 0.1], [0.1, 8.0]])
    assert (shares[[0, 1], [0, 1]] > 5 * shares[[0, 1], [1, 0]]).all()


def test_marginal_shares_match_their_definition() -> None:
    X, new = clusters(60), clusters(5, 5, seed=1)
    detector = AnomalyDetector(n_grids=6, random_state=0).fit(X)
    grids, marginals = detector.bin_counts_.bins.grids, detector.marginals_
    # All rows are sampled, in their order.
    shaping = detector.axes_.append_to(X)[detector.bin_counts_.shaped_grids]
    rows, at = detector.axes_.append_to(new), 0
    for r, width in enumerate(grids.widths):
        divided, shares = marginals.shares(rows, grids, r, at)
        expected = np.zeros(shares.shape)
        for k, j in enumerate(np.flatnonzero(np.isfinite(width))):
            cells, new_cells = (
                np.floor((x[:, j] - grids.shifts[r, j]) / width[j]) for x in (shaping, rows)
            )
            counts = (cells == new_cells[:, None]).sum(axis=1)
            expected[:, k] = np.maximum(-np.log((counts + 1) / 31), 1e-3)
        np.testing.assert_allclose(shares, expected / expected.sum(axis=1, keepdims=True))
        at += len(divided)


def test_rare_categories_of_frames_are_anomalous() -> None:
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], p=[0.5, 0.497, 0.003], size=1000)
    colours[:3] = "blue"
    size = rng.normal(size=1000)
    size[::50] = np.nan
    others = {name: rng.normal(size=1000) for name in "abcd"}
    table = pd.DataFrame({"colour": colours, "size": size, **others})
    detector = AnomalyDetector(n_grids=64, random_state=0).fit(table)
    scores, shares = detector.score_samples(table), detector.contributions(table)
    rare = colours == "blue"
    assert shares.shape == (1000, 6)
    assert scores[rare].max() < np.quantile(scores[~rare], 0.3)
    assert shares[rare].mean(axis=0).argmax() == 0
    assert detector.predict(table[:0]).shape == detector.p_values(table[:0]).shape == (0,)


def test_sparse_rows_have_the_scores_of_dense_ones() -> None:
    X = sp.csr_array(sp.random(300, 30, density=0.1, random_state=0))
    detector = AnomalyDetector(n_grids=32, random_state=0).fit(X)
    np.testing.assert_allclose(detector.score_samples(X), detector.score_samples(X.toarray()))
    assert detector.contributions(X).shape == (300, 30)


def test_constant_rows_are_not_anomalous() -> None:
    detector = AnomalyDetector(n_grids=8, random_state=0).fit(np.ones((20, 3)))
    np.testing.assert_allclose(detector.score_samples(np.zeros((2, 3))), -1 / 257)
    np.testing.assert_array_equal(detector.predict(np.ones((2, 3))), [1, 1])


def test_number_of_threads_does_not_change_scores() -> None:
    X = clusters(400)
    one, two = (AnomalyDetector(random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))


def test_invalid_parameters_are_rejected() -> None:
    for given in [
        {"contamination": 0.7},
        {"contamination": "many"},
        {"n_grids": 0},
        {"resolution": 1},
    ]:
        with pytest.raises(InputError, match=next(iter(given))):
            AnomalyDetector(**given).fit(clusters(10))


def test_saved_detector_scores_the_same_and_continues(tmp_path) -> None:
    X = clusters(200, 10)
    detector = AnomalyDetector(n_grids=16, random_state=0).fit(X)
    save(detector, tmp_path / "detector")
    loaded = load(tmp_path / "detector")
    np.testing.assert_array_equal(loaded.score_samples(X), detector.score_samples(X))
    np.testing.assert_array_equal(loaded.p_values(X), detector.p_values(X))
    loaded.partial_fit(X)
    detector.partial_fit(X)
    np.testing.assert_array_equal(loaded.score_samples(X), detector.score_samples(X))


def test_inconsistent_files_are_rejected(tmp_path) -> None:
    for part in ["codes", "counts", "draws"]:
        detector = AnomalyDetector(n_grids=8, random_state=0).fit(clusters(50))
        content, tensors = pack(detector)
        name = next(name for name in tensors if name.endswith(f"bin_counts_.{part}"))
        tensors[name] = tensors[name] * 0 + 60000 if part == "codes" else tensors[name][:-1]
        write(tmp_path / "foreign", content, tensors)
        with pytest.raises(ModelFileError):
            load(tmp_path / "foreign")
