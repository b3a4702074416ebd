"""Run every benchmark on tiny generated data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
N_TRAINING, N_TEST = 300, 150

pytestmark = pytest.mark.slow


def made_up_split(n_columns: int, n_classes: int) -> dict[str, Any]:
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(N_TRAINING + N_TEST, n_columns)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, np.linspace(-1, 2, n_classes + 1)[1:-1])
    return {
        "X_train": X[:N_TRAINING],
        "y_train": y[:N_TRAINING],
        "X_test": X[N_TRAINING:],
        "y_test": y[N_TRAINING:],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of small tables with the names of known ones."""
    where = tmp_path_factory.mktemp("tables")
    split = made_up_split(5, 2)
    np.savez(where / "ijcnn1.npz", **split)
    np.savez(where / "letter.npz", **made_up_split(4, 3))
    X = np.concatenate([split["X_train"], split["X_test"]])
    np.savez(where / "covtype_1vs2_169k.npz", X=X, y=X[:, 0] * X[:, 2] > 0)
    np.savez(where / "cadata.npz", X=X, y=np.sin(X[:, 0]) + X[:, 1])
    bytes_ = {k: (np.abs(v) * 50).astype(np.uint8) for k, v in split.items() if k[0] == "X"}
    np.savez(where / "wide.npz", X=np.repeat(X, 27, axis=1), y=X[:, 0])
    np.savez(where / "mnist.npz", **{**split, **bytes_})
    sparse: dict[str, Any] = {k: v for k, v in split.items() if k[0] == "y"}
    for role in ("X_train", "X_test"):
        rows = sp.csr_array(np.maximum(split[role], 0.0))
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        sparse |= {f"{role}_{part}": values for part, values in parts.items()}
        sparse[f"{role}_shape"] = np.array(rows.shape)
    np.savez(where / "w8a.npz", **sparse)
    return where


# These scripts use one thread and have no option --jobs.
SERIAL = ("micro/trig.py", "micro/hadamard.py", "micro/normals.py", "micro/warp.py")


def run(script: str, *arguments: str) -> str:
    jobs = () if script in SERIAL else ("--jobs", "1")
    command = [sys.executable, str(BENCHMARKS / script), "--quick", *jobs, *arguments]
    # A shared machine has few processors, so that libraries with threads use one.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(script: str, folder: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    report = json.loads(run(script, "--data", str(folder), "--json", *arguments))
    assert report["machine"]["cores"]
    return report["tables"]


@pytest.mark.parametrize(
    ("script", "n_cases"),
    [
        ("gather.py", 10),
        ("conjugate.py", 20),
        ("scoring.py", 9),
        ("backfitting.py", 2),
        ("chunked.py", 24),
        ("trig.py", 20),
        ("hadamard.py", 8),
        ("normals.py", 5),
        ("blocks.py", 16),
        ("warp.py", 4),
        ("direct.py", 10),
    ],
)
def test_micro_benchmarks_time_every_loop(script: str, n_cases: int) -> None:
    report = json.loads(run(f"micro/{script}", "--json"))
    assert report["machine"]["cores"]
    rows = report["tables"]["Loops"]
    assert len({row["loop"] for row in rows}) == len(rows) >= n_cases
    assert all(row["ns/unit"] > 0 for row in rows)


def test_bins_match_references_bit_for_bit(folder: Path) -> None:
    bins, kernels, summary = tables("claims/bins.py", folder).values()
    assert {row["given as"] for row in bins} >= {"float32", "uint8", "CSR", "dense"}
    assert all(row["identical"] for row in bins)
    assert len(kernels) >= 5
    assert summary[0]["worst |z|"] < 5.0


def test_generator_skips_without_its_library(folder: Path, tmp_path: Path) -> None:
    assert tables("claims/generator.py", folder, "--library", str(tmp_path / "none.so")) == {}


def test_fit_on_disk_matches_fit_in_memory_within_its_limit(folder: Path) -> None:
    compared, (verdict,), (plain,) = tables("claims/disk.py", folder).values()
    assert [row["fit"] for row in compared] == ["in memory", "on the disk"]
    assert verdict["same bits"]
    assert "on the disk" in compared[1]["limits"]
    assert plain["within"]


def test_fits_stay_within_predicted_memory(folder: Path) -> None:
    fits, nonzeros = tables("claims/memory.py", folder).values()
    assert [row["data set"] for row in fits] == ["covtype_1vs2_169k", "made up"]
    assert all(row["within"] for row in fits)
    assert all(row["bytes a non-zero"] < row["SciPy CSR"] for row in nonzeros)


def test_time_budget_reports_worst_ratio(folder: Path) -> None:
    rows, worst = tables("claims/time_budget.py", folder).values()
    assert [row["classes"] for row in rows] == ["numbers", 2, 10]
    assert worst[0]["wall / budget"] == max(row["wall / budget"] for row in rows)


# The test takes long because six processes load the library.
@pytest.mark.timeout(300)
def test_fits_on_workers_match_local_fit(folder: Path) -> None:
    fits, model = tables("claims/clusters.py", folder).values()
    assert [row["fit"] for row in fits] == ["local", "1 worker", "2 workers"]
    assert all(row["same bits"] and row["off"] < 1e-8 for row in fits[1:])
    assert all(row["tasks a round"] <= 4 * int(row["fit"][0]) for row in fits[1:])
    assert model[-1]["machines"] == 100


# The test takes long because three processes load the library.
@pytest.mark.timeout(300)
def test_cores_compares_speed_up_with_limit(folder: Path) -> None:
    (rows,) = tables("claims/cores.py", folder).values()
    assert [row["table"] for row in rows] == ["numbers", "two classes", "five classes"]
    for row in rows:
        assert row["limit"] == pytest.approx(2 * row["1 thread s"] / row["2 processes s"])
        assert row["share of the limit"] == pytest.approx(row["speed-up"] / row["limit"])


def test_products_agree_to_rounding(folder: Path) -> None:
    (rows,) = tables("claims/products.py", folder).values()
    assert len(rows) == 12
    assert all(row["largest difference"] < 1e-9 for row in rows)


def test_ridge_reaches_its_tolerance(folder: Path) -> None:
    (rows,) = tables("claims/ridge.py", folder).values()
    assert len(rows) == 12
    assert all(row["gap"] <= 1e-4 * (1 + 1e-6) for row in rows)


def test_smooth_losses_reach_their_tolerance(folder: Path) -> None:
    (rows,) = tables("claims/smooth.py", folder, "--only", "ijcnn1").values()
    assert len(rows) == 12
    assert all(row["gap"] <= 1e-4 for row in rows if row["outcome"] == "reached")
    ours = [row for row in rows if row["solver"] == "ours"]
    assert len(ours) == 4
    assert all(row["outcome"] == "reached" and row["seconds"] for row in ours)


@pytest.fixture
def l1_peers() -> None:
    for package in ("celer", "skglm", "liblinear"):
        pytest.importorskip(package)


@pytest.mark.usefixtures("l1_peers")
def test_lasso_solvers_all_reach_their_tolerance(folder: Path) -> None:
    arguments = ("--only", "ijcnn1", "--depths", "10", "30")
    for rows in tables("claims/lasso.py", folder, *arguments).values():
        assert [row["solver"] for row in rows] == ["ours", "celer", "skglm", "scikit-learn"]
        assert all(row["outcome"] == "reached" and row["gap"] <= 1e-6 for row in rows)
        assert all(row["seconds"] for row in rows)


@pytest.mark.usefixtures("l1_peers")
def test_lasso_reports_solvers_that_time_out(folder: Path) -> None:
    arguments = ("--only", "ijcnn1", "--depths", "10", "--seconds", "1e-6")
    (rows,) = tables("claims/lasso.py", folder, *arguments).values()
    cut_off = [row for row in rows if row["solver"] != "ours"]
    assert {row["outcome"] for row in cut_off} == {"not reached in 1e-06 s"}
    assert not any(row["seconds"] for row in cut_off)


@pytest.mark.usefixtures("l1_peers")
def test_l1_solvers_all_reach_their_tolerance(folder: Path) -> None:
    arguments = ("--only", "ijcnn1", "--depths", "10", "30")
    (rows,) = tables("claims/l1.py", folder, *arguments).values()
    assert len(rows) == 2 * (4 + 3)
    assert all(row["outcome"] == "reached" and row["seconds"] for row in rows)
    assert all(-1e-5 <= row["gap"] <= 1e-4 for row in rows)
    assert all(row["F* surely within"] < 1e-4 for row in rows)


def test_multinomial_reaches_its_tolerance(folder: Path) -> None:
    times, errors = tables("claims/multinomial.py", folder, "--only", "letter").values()
    assert len(times) == 4
    assert all(row["outcome"] == "reached" and row["seconds"] for row in times)
    assert [row["loss"] for row in errors] == ["multinomial", "squared"]
    assert all(0.0 <= row["test error"] < 0.5 for row in errors)


def test_l1_keeps_fewer_weights_than_l2_at_similar_error(folder: Path) -> None:
    rows, counts = tables("claims/sparsity.py", folder, "--only", "ijcnn1").values()
    assert len(rows) == len(counts) == 4
    for row in rows:
        more = 0.01 * (row["L2 error"] if row["allowed increase"].endswith("error") else 1.0)
        if row["L1 weights"] is not None:
            assert row["L1 error"] <= row["L2 error"] + more + 1e-12
            assert 0 < row["L1 weights"] < row["L2 weights"]


def test_versus_compares_errors_with_known_bounds(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sets = ("--sets", "cadata", "w8a", "absent", "--picture", str(tmp_path / "versus.png"))
    result = tables("versus/run.py", folder, *sets, "--methods", "gramless", "svc", "nystroem")
    cadata, w8a = result["Default fits and the bounds of their errors"]
    assert 0.0 <= cadata["error"] < 0.8
    assert 0.0 <= w8a["error"] < 0.8
    assert cadata["within"] == (cadata["error"] <= cadata["bound"])
    assert w8a["bound"] is None


def test_tables_summary_agrees_with_its_rows(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    names, picture = ("cadata", "letter", "wide", "w8a", "absent"), tmp_path / "tables.svg"
    result = tables("claims/tables.py", folder, "--picture", str(picture), "--only", *names)
    text = picture.read_text()
    assert all(name in text for name in ("cadata", "letter", "w8a"))
    assert "wide" not in text
    *each, whole, (summary,) = result.values()
    assert [rows[0]["data set"] for rows in each] == ["cadata", "letter", "w8a"]
    assert whole == [rows[0] for rows in each]
    for row in whole:
        assert row["ratio"] == pytest.approx(row["error"] / row["its error"])
        assert row["time ratio"] == pytest.approx(row["fit s"] / row["its fit s"])
        assert 0.6 < row["covered"] <= 1.0
        assert row["size"] > 0.0
        losses = row["log loss"], row["its log loss"]
        assert losses == (None, None) or all(0.0 < loss < 1.5 for loss in losses)
    assert (summary["tables"], summary["tables with log loss"]) == (3, 2)
    ratios = [row["ratio"] for row in whole]
    assert min(ratios) <= summary["mean ratio"] <= summary["worst ratio"] == max(ratios)
    assert 0.0 <= summary["share no worse"] <= 1.0


def test_inputs_summary_agrees_with_its_rows(folder: Path) -> None:
    first, *results, (summary,) = tables("claims/inputs.py", folder).values()
    assert first[0]["five on top"] <= first[0]["tables"] == 1
    assert len(first[0]["worst ranks"].split()) == 5
    assert 0.0 < first[0]["five alone"] < 2.0
    assert first[0]["ratio"] == pytest.approx(first[0]["RMSE"] / first[0]["five alone"])
    rows = [row for result in results for row in result]
    assert len({row["truth"] for row in rows}) == len(rows) == 3
    assert all(0.0 < row["error"] < 0.8 for row in rows)
    assert all(row["ratio"] == pytest.approx(row["error"] / row["random grids"]) for row in rows)
    assert summary["worst ratio"] == max(row["ratio"] for row in rows)


def test_svc_reports_each_data_set(folder: Path) -> None:
    (rows,) = tables("claims/svc.py", folder).values()
    assert [row["data set"] for row in rows] == ["ijcnn1"]


def test_scaling_reports_exponents_and_saves_picture(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "new" / "scaling.png"
    result = tables("claims/scaling.py", folder, "--picture", str(picture))
    assert len(result["Exponents"]) == 2
    assert picture.stat().st_size > 1000


def test_fits_stay_within_memory_budgets(folder: Path) -> None:
    kinds = ("--kinds", "regressor, effort 1", "kernel PCA", "--budgets", "30")
    fits, beyond = tables("claims/memory_budgets.py", folder, *kinds).values()
    assert [row["kind"] for row in fits] == ["regressor, effort 1", "kernel PCA"]
    assert all("/75" in row["30 MB"] for row in fits)
    assert beyond == [{"fits": 0}]


def test_rows_reports_both_methods_at_each_size(folder: Path) -> None:
    pytest.importorskip("lightgbm")
    (rows,) = tables("claims/rows.py", folder).values()
    assert [row["method"] for row in rows] == ["gramless", "lightgbm"] * 2
    assert all(0.0 < row["error"] < 1.0 for row in rows)
    assert all(row["error over ours"] == 1.0 for row in rows[::2])


def test_latency_reports_single_rows_and_batches(folder: Path) -> None:
    one, batch = tables("claims/latency.py", folder).values()
    assert 0 < one[0]["median ms"] <= one[0]["p99 ms"]
    assert batch[0]["rows a second"] > 0


def test_polynomial_targets_reports_every_number_of_inputs(folder: Path) -> None:
    result = tables("claims/polynomial_targets.py", folder, "--repeats", "1")
    for rows in (result["Linear functions"], result["Quadratic functions"]):
        assert [row["inputs"] for row in rows] == [5, 12, 12, 40, 40]
        assert all(0.0 < row["gramless"] < 1.0 for row in rows)


def test_pareto_reports_log_loss_for_classes_only(folder: Path, tmp_path: Path) -> None:
    picture = ("--picture", str(tmp_path / "pareto.png"))
    methods = ("--methods", "extra_trees", "effort_1")
    result = tables("pareto.py", folder, "--sets", "ijcnn1", "cadata", *methods, *picture)
    classes, numbers, summary = result.values()
    assert all(row["Brier"] > 0 and row["log loss"] > 0 for row in classes)
    assert {row["log loss"] for row in numbers} == {None}
    assert [row["tables"] for row in summary] == [1, 1]


def test_positive_targets_are_predicted_as_positive(folder: Path) -> None:
    *_, rows, summary = tables("claims/positive_targets.py", folder).values()
    assert all(row["gramless"] >= 0 and row["s"] > 0 for row in rows)
    assert len(summary) == 1


def test_quantiles_never_cross(folder: Path) -> None:
    *_, rows, widths, _ = tables("claims/quantiles.py", folder).values()
    assert {row["crossing rows"] for row in rows} == {0}
    assert all(row["width ratio"] > 0 for row in widths)


def test_survival_concordance_is_near_truth(folder: Path) -> None:
    made_up, *_ = tables("claims/survival.py", folder).values()
    assert all(0.5 < row["concordance"] < row["true"] + 0.05 for row in made_up)


def test_clustering_reports_every_method(folder: Path) -> None:
    only = ("--sets", "letter", "--no-count", "--repeats", "1")
    noisy, rows, shares, seconds = tables("claims/clustering.py", folder, *only).values()
    assert all(row["spectral"] > row["spectral, min_correlation=0"] for row in noisy)
    assert {row["table"] for row in rows} == {"letter"}
    assert all(0.0 <= row["accuracy"] <= 1.0 for row in rows if row["accuracy"] is not None)
    assert [row["method"] for row in shares][:2] == ["spectral", "spectral bins"]
    assert len(shares) == 7
    assert seconds[-1]["rows"] == "slope"


def test_decomposition_residuals_are_small(folder: Path) -> None:
    (rows,) = tables("claims/decomposition.py", folder).values()
    assert len(rows) == 4
    assert all(row["residual"] <= 1e-4 for row in rows)


def test_startup_times_every_kind_of_process(folder: Path) -> None:
    imports, fits, predictions = tables("claims/startup.py", folder).values()
    assert len(imports) == 2
    assert [row["process"] for row in fits] == ["fresh installation", "second process"]
    assert [row["process"] for row in predictions] == ["no loops yet", "loops kept", "portable"]


def test_versus_lists_each_method_once_and_saves_picture(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "versus.png"
    arguments = ("--sets", "letter", "--picture", str(picture))
    text = run("versus/run.py", "--data", str(folder), *arguments)
    for method in ("gramless", "svc", "kernel ridge", "rbf sampler", "nystroem"):
        assert text.count(f"  {method} ") == 1, text
    assert picture.stat().st_size > 1000


def test_approximations_compare_size_at_fourier_error(folder: Path) -> None:
    only = ("--only", "ijcnn1", "--methods", "binning", "nystrom")
    rows, means = tables("claims/approximations.py", folder, *only).values()
    assert [row["method"] for row in rows] == ["fourier", "binning", "nystrom"]
    for row in rows:
        assert row["reached"] == (row["error"] <= rows[0]["error"])
        saved = row["times less bytes"]
        assert saved == (pytest.approx(rows[0]["MB"] / row["MB"]) if row["reached"] else None)
    assert [row["method"] for row in means] == ["binning", "nystrom"]


def test_falkon_compares_binning_with_nystrom_error(folder: Path) -> None:
    (rows,) = tables("claims/falkon.py", folder, "--only", "ijcnn1").values()
    assert [row["method"] for row in rows] == ["nystrom", "binning"]
    assert rows[1]["reached"] == (rows[1]["error"] <= rows[0]["error"])


def test_sizes_reports_each_data_set(folder: Path) -> None:
    (rows,) = tables("claims/size.py", folder, "--only", "ijcnn1", "cadata").values()
    assert [row["data set"] for row in rows] == ["ijcnn1", "cadata"]
    assert all(row["ratio"] > 0 and row["time ratio"] > 0 for row in rows)


def test_sizes_reports_generated_tables(folder: Path) -> None:
    (rows,) = tables("claims/size.py", folder, "--made-up", "400").values()
    assert [row["data set"] for row in rows] == ["waves, 400 rows", "jumps, 400 rows"]
    assert all(row["rows"] == 400 and row["ratio"] > 0 for row in rows)


def test_wide_tables_reports_noise_and_mixed_inputs(folder: Path) -> None:
    methods = "--methods", "gramless_random", "gramless"
    rows, over = tables(
        "claims/wide.py", folder, *methods, "--noise", "30", "--mixed", "40"
    ).values()
    assert [row["inputs"] for row in rows][1] == 40
    assert [(row["tables"], row["method"]) for row in over] == [
        ("noise", "gramless"),
        ("mixed", "gramless"),
    ]


OTHERS = [
    "fourier.py",
    "nystrom.py",
    "smooth_bins.py",
    "preconditioner.py",
    "budget.py",
    "small_tables.py",
    "noise.py",
    "digits.py",
]


@pytest.mark.parametrize("script", OTHERS)
def test_other_benchmarks_fill_their_tables(script: str, folder: Path) -> None:
    assert all(len(rows) > 0 for rows in tables(f"claims/{script}", folder).values())


def test_doubly_stochastic_objective_decreases_at_a_rate(folder: Path) -> None:
    (rows,) = tables("claims/doubly_rate.py", folder).values()
    assert len({(row["strategy"], row["batch"]) for row in rows}) == len(rows) == 24
    for row in rows:
        assert 0 < row["blocks"] <= 200
        assert (row["slope"] is None) == (row["diverged"] > 0)
    assert all(row["slope"] < -0.3 for row in rows if row["strategy"] in ("DSG", "UDSG"))


@pytest.mark.parametrize("update", ["papers", "newton"])
def test_doubly_stochastic_runs_report_curves_and_storage(update: str, folder: Path) -> None:
    result = tables("claims/doubly.py", folder, "--sets", "letter", "--update", update)
    *curves, ends, stored = result.values()
    assert [len(rows) for rows in curves] == [12, 12, 12, 12]
    assert [row["run"] for row in ends] == ["DSG", "UDSG", "CDSG", "CDSG, as printed"]
    assert all(row["steps"] >= row["blocks"] > 0 for row in ends)
    assert [row["run"].split(",")[0] for row in stored] == ["SVRG", "SGD"]


def test_doubly_stochastic_is_compared_with_svc(folder: Path) -> None:
    (rows,) = tables("claims/doubly_svc.py", folder, "--sets", "letter").values()
    assert [row["method"] for row in rows] == ["SVC", "CDSG", "ours, binning", "ours, fourier"]
    assert all(0 <= row["training error"] <= 1 for row in rows)


def test_doubly_stochastic_digits_runs_one_pass_and_plans(folder: Path) -> None:
    run, curve, plan = tables("claims/doubly_digits.py", folder).values()
    assert run[0]["steps"] == curve[-1]["rows"] // 200 == 9
    assert run[0]["peak MB"] > 0
    assert plan[0]["plan s"] > run[0]["s of steps"]


def test_anomalies_reports_every_data_set(folder: Path) -> None:
    made_up_areas, real, ranks, alarms, (time,) = tables("claims/anomalies.py", folder).values()
    assert {row["rows"] for row in real} == {"mnist", "letter", "ijcnn1"}
    assert all(0.0 <= row["ECOD"] <= 1.0 for row in made_up_areas + real)
    assert sum(ranks[0][name] for name in list(ranks[0])[2:]) == pytest.approx(15.0)
    assert {row["table"] for row in alarms} == {"skewed", "heavy_tails"}
    assert time["fit s"] > 0.0
