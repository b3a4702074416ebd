"""The time before anything is computed: imports and compilation.

Imports are timed in new processes that have loaded NumPy and scikit-learn. The first fit and
prediction are timed after a fresh installation (an empty folder of compiled loops) and in a second
process, each minus the time of the third one in the same process. The last table shows a service
that starts, loads a saved model and predicts one row: with compiled loops on the disk, without, and
with ``gramless.portable``, which compiles nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import _repository  # noqa: F401

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelRegressor, save
from gramless.datasets import friedman1
from harness.process import run_script

FIRST_FIT = Path(__file__).with_name("_first_fit.py")
FIRST_PREDICTION = Path(__file__).with_name("_first_prediction.py")
IMPORTS = {
    "import gramless": "import gramless",
    "from gramless import KernelClassifier": "from gramless import KernelClassifier",
}
IMPORT_REPEATS = 7
FIXED = {"bandwidth": 2.0, "alpha": 1e-4, "scaling": "standard"}


def import_seconds(statement: str) -> float:
    """Time an import in a new process that has loaded NumPy and scikit-learn's estimators."""
    script = (
        "from time import perf_counter; import numpy, sklearn, sklearn.svm; "
        f"started = perf_counter(); {statement}; print(perf_counter() - started)"
    )
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def imports(repeats: int) -> list[Row]:
    """Time the imports in turns, after one that fills the disk cache."""
    import_seconds("; ".join(IMPORTS.values()))
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(repeats):
        for name, statement in IMPORTS.items():
            seconds[name].append(import_seconds(statement))
    return [
        {"statement": name, "processes": repeats, "seconds": median(values), "largest": max(values)}
        for name, values in seconds.items()
    ]


def first_fits(job: Row, repeats: int) -> list[Row]:
    """Fit in a first and a second process, with a new folder of compiled loops in each repeat."""
    runs: dict[str, list[Row]] = {"fresh installation": [], "second process": []}
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for results in runs.values():
                results.append(run_script(FIRST_FIT, job, {"NUMBA_CACHE_DIR": folder}))
            n_files = sum(len(files) for _, _, files in os.walk(folder))
            print_progress(f"repeat {repeat + 1}: {n_files} files of compiled loops")
    return [
        {
            "process": name,
            "import s": median(run["import"] for run in results),
            "first fit s": median(run["first"] for run in results),
            "third fit s": median(run["third"] for run in results),
            "first - third s": median(run["first"] - run["third"] for run in results),
            "with the import s": median(
                run["import"] + run["first"] - run["third"] for run in results
            ),
        }
        for name, results in runs.items()
    ]


def first_predictions(n_rows: int, repeats: int) -> list[Row]:
    """Load a default model and predict one row, in new processes."""
    runs: dict[str, list[Row]] = {name: [] for name in ("no loops yet", "loops kept", "portable")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.gramless")
        X, y = friedman1(n_rows, seed=0)
        save(KernelRegressor(random_state=0).fit(X, y), path)
        for repeat in range(repeats):
            variables = {"NUMBA_CACHE_DIR": str(Path(folder, f"loops-{repeat}"))}
            for name, results in runs.items():
                job = {"path": str(path), "portable": name == "portable", "inputs": X.shape[1]}
                results.append(run_script(FIRST_PREDICTION, job, variables))
        megabytes = path.stat().st_size / 1e6
    parts = ("import", "load", "first")
    return [
        {
            "process": name,
            "model MB": megabytes,
            **{f"{part} s": median(run[part] for run in results) for part in parts},
            "in all s": median(sum(run[part] for part in parts) for run in results),
            "a later row ms": 1e3 * median(run["later"] for run in results),
        }
        for name, results in runs.items()
    ]


def main() -> None:
    args = parse(options(__doc__, repeats=3))
    report = Report(args)
    rows = imports(1 if args.quick else IMPORT_REPEATS)
    report.add("Imports beyond NumPy and scikit-learn", rows)
    # A default fit with its search compiles more than a fit with fixed parameters.
    job = {"rows": 200, "parameters": FIXED} if args.quick else {"rows": 2000, "parameters": {}}
    report.add("First fit and prediction", first_fits(job, args.repeats))
    rows = first_predictions(300 if args.quick else 10_000, args.repeats)
    report.add("First prediction of a saved model", rows)
    report.close()


if __name__ == "__main__":
    main()
