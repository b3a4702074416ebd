"""A default fit, including its search, compared with an SVM with fixed parameters.

The SVM is scikit-learn's ``SVC(C=10, cache_size=1000)`` on standardised inputs. A faster fit with
``grids="random", n_grids=512`` is shown too. Errors are those of the whole test set.
"""

from __future__ import annotations

from statistics import median

import _repository  # noqa: F401

from benchmarks.common import Report, Row, load_sets, options, parse
from benchmarks.versus.turns import take_turns
from harness.peers.gramless import Gramless, RandomGrids
from harness.peers.svc import SupportVectors

METHODS = (Gramless, RandomGrids, SupportVectors)
SETS = ("ijcnn1", "cod-rna", "a9a")


def main() -> None:
    args = parse(options(__doc__, repeats=3, sets=SETS))
    report = Report(args)
    rows: list[Row] = []
    for data in load_sets(args.only, args):
        outcomes = take_turns(METHODS, data, args.repeats, args.jobs)
        seconds = {
            name: median(outcome.fit_seconds for outcome in runs) for name, runs in outcomes.items()
        }
        errors = {
            name: median(outcome.error for outcome in runs) for name, runs in outcomes.items()
        }
        svc_seconds = seconds[SupportVectors.name]
        ours = (Gramless.name, RandomGrids.name)
        rows.append(
            {
                "data set": data.name,
                "rows": len(data.y_train),
                "test rows": len(data.y_test),
                **{f"{name}, s": value for name, value in seconds.items()},
                **{f"SVC / {name}": svc_seconds / seconds[name] for name in ours},
                **{f"{name}, error": value for name, value in errors.items()},
            }
        )
    report.add("Default fit against SVC", rows)
    report.close()


if __name__ == "__main__":
    main()
