"""Bytes per non-zero, and the peak memory of a fit with fixed parameters.

The peak is measured in a new process, from when everything is imported and compiled and before the
data are loaded. It is compared with 1.5 times the size of what a fit must hold (the input, the
codes and the weights) plus 100 MB.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    made_up,
    numeric_targets,
    options,
    parse,
    print_progress,
    rows_to_time,
    scalar_bandwidth,
    scipy_csr,
)
from harness.process import run_script

SETS = ("covtype_1vs2_169k", "ijcnn1")
ALPHA = 1e-5
FACTOR, ALLOWANCE = 1.5, 100e6
FIT_ONCE = Path(__file__).with_name("_fit_once.py")
COLUMNS = 20


def bytes_per_nonzero(name: str, X: np.ndarray, n_grids: int, args: argparse.Namespace) -> Row:
    """Compare the size of the matrix with that of SciPy's CSR."""
    feature_map = binned_map(X, n_grids, args.jobs)
    matrix = feature_map.fit_matrix(X)
    csr = scipy_csr(matrix)
    csr_bytes = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes
    return {
        "data set": name,
        "rows": len(X),
        "grids": n_grids,
        "largest grid": int(feature_map.n_bins_.max()),
        "bytes a non-zero": matrix.nbytes / csr.nnz,
        "SciPy CSR": csr_bytes / csr.nnz,
    }


def job(X: np.ndarray, n_grids: int, args: argparse.Namespace) -> Row:
    return {
        "task": "binary",
        "grids": n_grids,
        "bandwidth": scalar_bandwidth(X),
        "alpha": ALPHA,
        "tol": 3e-3,
        "max_iter": 100,
        "jobs": args.jobs,
    }


def jobs(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, int, Row]]:
    """Yield the name, the number of rows and the job of each fit."""
    grids = (8,) if args.quick else (64, 256)
    for data in load_sets(["covtype_1vs2_169k"], args):
        X, y = rows_to_time(data)
        files = {"inputs": str(folder / "X.npy"), "targets": str(folder / "y.npy")}
        # The process reads plain arrays, because memory for reading a file must not count.
        np.save(files["inputs"], X)
        np.save(files["targets"], numeric_targets(y))
        yield data.name, len(X), {**job(X, grids[-1], args), **files}
    n_rows = 3000 if args.quick else 1_000_000
    X = made_up(min(n_rows, 100_000), COLUMNS)[0]
    for n_grids in grids:
        yield "made up", n_rows, {**job(X, n_grids, args), "made_up": [n_rows, COLUMNS]}


def measure_peak(name: str, n_rows: int, fit_job: Row, repeats: int) -> Row:
    """Fit in new processes and compare the largest peak with the bound."""
    runs = [run_script(FIT_ONCE, fit_job) for _ in range(repeats)]
    worst = max(runs, key=lambda run: run["peak"])
    required = worst["inputs"] + worst["codes"] + worst["weights"]
    bound = FACTOR * required + ALLOWANCE
    megabytes = {key: worst[key] / 1e6 for key in ("inputs", "codes", "weights", "peak")}
    return {
        "data set": name,
        "rows": n_rows,
        "grids": fit_job["grids"],
        "bytes a code": worst["code bytes"],
        **{f"{key} MB": value for key, value in megabytes.items()},
        "bound MB": bound / 1e6,
        "peak / bound": worst["peak"] / bound,
        "within": worst["peak"] <= bound,
    }


def main() -> None:
    args = parse(options(__doc__, repeats=3))
    report = Report(args)
    with tempfile.TemporaryDirectory() as folder:
        fits = []
        for name, n_rows, work in jobs(args, Path(folder)):
            print_progress(f"{name}, {work['grids']} grids")
            fits.append(measure_peak(name, n_rows, work, args.repeats))
    report.add("Peak memory of a fit above the baseline", fits)
    n_rows, n_grids = (3000, 8) if args.quick else (1_000_000, 64)
    tables = [(data.name, rows_to_time(data)[0]) for data in load_sets(SETS, args)]
    tables.append(("made up", made_up(n_rows, COLUMNS)[0]))
    report.add(
        "Bytes a non-zero", [bytes_per_nonzero(name, X, n_grids, args) for name, X in tables]
    )
    report.close()


if __name__ == "__main__":
    main()
