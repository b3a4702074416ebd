"""What a user waits for before anything is computed: imports and compilation.

Imports beyond NumPy and scikit-learn, in new processes. Then the first fit and prediction after a
fresh installation (an empty folder of compiled loops), and the first in a second process, each
above what the third one in the same process takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import Report, Row, options, parse, say
from harness.process import run_script

FIRST_FIT = Path(__file__).with_name("_first_fit.py")
IMPORTS = {
    "import gramless": "import gramless",
    "from gramless import KernelClassifier": "from gramless import KernelClassifier",
}
IMPORT_REPEATS = 7
GIVEN = {"bandwidth": 2.0, "alpha": 1e-4, "scaling": "standard"}


def import_seconds(statement: str) -> float:
    """Import in a new process in which NumPy and scikit-learn's estimators are loaded already."""
    script = (
        "from time import perf_counter; import numpy, sklearn, sklearn.svm; "
        f"started = perf_counter(); {statement}; print(perf_counter() - started)"
    )
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def imports(repeats: int) -> list[Row]:
    """Time the imports in turns, after one that fills the disk's caches."""
    import_seconds("; ".join(IMPORTS.values()))
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(repeats):
        for name, statement in IMPORTS.items():
            seconds[name].append(import_seconds(statement))
    return [
        {"statement": name, "processes": repeats, "seconds": median(own), "largest": max(own)}
        for name, own in seconds.items()
    ]


def first_fits(job: Row, repeats: int) -> list[Row]:
    """Fit in a first and a second process of ever new folders of compiled loops."""
    runs: dict[str, list[Row]] = {"fresh installation": [], "second process": []}
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for own in runs.values():
                own.append(run_script(FIRST_FIT, job, {"NUMBA_CACHE_DIR": folder}))
            n_files = sum(len(files) for _, _, files in os.walk(folder))
            say(f"repeat {repeat + 1}: {n_files} files of compiled loops")
    return [
        {
            "process": name,
            "import s": median(run["import"] for run in own),
            "first fit s": median(run["first"] for run in own),
            "third fit s": median(run["third"] for run in own),
            "first - third s": median(run["first"] - run["third"] for run in own),
            "with the import s": median(run["import"] + run["first"] - run["third"] for run in own),
        }
        for name, own in runs.items()
    ]


def main() -> None:
    chosen = parse(options(__doc__, repeats=3))
    report = Report(chosen)
    rows = imports(1 if chosen.quick else IMPORT_REPEATS)
    report.add("Imports beyond NumPy and scikit-learn", rows)
    # A search compiles more than a fit with everything given: it is what a newcomer runs.
    job = {"rows": 200, "given": GIVEN} if chosen.quick else {"rows": 2000, "given": {}}
    report.add("First fit and prediction", first_fits(job, chosen.repeats))
    report.close()


if __name__ == "__main__":
    main()
