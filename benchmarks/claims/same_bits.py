"""Check whether default fits predict the same, to the bit, as before a change.

``--write FILE`` fits every table with default parameters and a fixed seed, and writes hashes of all
predictions; ``--compare FILE`` fits again and shows which hashes are the same. Only files of the
same machine and the same versions of all packages are comparable. ``--quick`` uses a few hundred
rows of each table.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, load_sets, options, parse, print_progress
from gramless import KernelClassifier, KernelRegressor
from harness.data_sets import Dataset, available


def fingerprint(data: Dataset) -> str:
    """Fit the default and return a hash of all predictions for the test rows."""
    if data.task == "regression":
        model: Any = KernelRegressor(random_state=0).fit(data.X_train, data.y_train)
        predictions = [model.predict(data.X_test), *model.predict_interval(data.X_test)]
    else:
        model = KernelClassifier(random_state=0).fit(data.X_train, data.y_train)
        predictions = [model.decision_function(data.X_test), model.predict_proba(data.X_test)]
    digest = hashlib.sha256()
    for array in predictions:
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())
    return digest.hexdigest()


def main() -> int:
    parser = options(__doc__, repeats=1)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", type=Path, help="file to keep the fingerprints in")
    choice.add_argument("--compare", type=Path, help="file of fingerprints to compare with")
    parser.add_argument("--sets", nargs="+", help="names of tables; by default every one")
    args = parse(parser)
    names = args.sets or [info.name for info in available(args.data) if info.present]
    hashes = {}
    for data in load_sets(names, args):
        hashes[data.name] = fingerprint(data)
        print_progress(f"{data.name}: {hashes[data.name][:16]}")
    if args.write:
        args.write.write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")
        return 0
    before = json.loads(args.compare.read_text())
    report = Report(args)
    same = {name: before.get(name) == hashes[name] for name in hashes}
    report.add("default fits", [{"table": k, "same bits": v} for k, v in same.items()])
    report.close()
    return 0 if all(same.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
