"""The bandwidths of ``studies.rb16``: what rows held back from training say of each.

A tenth or a fifth of the training rows, at most ``--rows`` of them, judges machines of one size
fitted to the others, at each bandwidth of RB16's own list, ``1 / gamma`` for gamma in 0.01 ... 100.
Test rows are never looked at. Machines of random bins have plain conjugate gradients, as the
paper; all others are solved at once.
"""

from __future__ import annotations

import argparse

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, load_sets, options, parse, say
from gramless.model_selection.splits import held_back_splits
from harness.data_sets import Dataset
from harness.timing import StopWatch
from studies.methods import TRAINERS
from studies.rb16.sets import GAMMAS, SETS
from studies.scores import Judge
from studies.scores import Rows as Judging
from studies.study import Training

METHODS = {"binning": 256, "fourier": 512, "nystrom": 512, "blocks": 512}
ROWS = 50_000
BELOW, ABOVE = 9, 3
"""How many gammas on either side of the one best for random bins are tried for the others."""


def validation_errors(
    data: Dataset, method: str, size: int, gammas: list[float], n_rows: int
) -> dict[float, float]:
    """Return the error of a machine on rows held back, by gamma."""
    few = np.sort(np.random.default_rng(0).permutation(len(data.y_train))[:n_rows])
    fitted, held = held_back_splits(len(few), seed=0)[0]
    fitted, held = few[fitted], few[held]
    own = SETS[data.name]
    given = {
        "size": size,
        "bandwidth": " ".join(f"{1.0 / gamma:g}" for gamma in gammas),
        "units": own.units,
        "solver": "cg" if method == "binning" else "auto",
    }
    training = Training(data.X_train[fitted], data.y_train[fitted], data.task, 0)
    rows = Judging(data.X_train[held], data.y_train[held])
    judge = Judge(data.task, np.unique(training.y), rows, rows, ["relative_error"])
    snapshots = TRAINERS[method](training, given, StopWatch())
    errors = [judge.scores(snapshot)["relative_error"] for snapshot in snapshots]
    return dict(zip(gammas, errors, strict=True))


def rows_of(data: Dataset, chosen: argparse.Namespace) -> list[Row]:
    """Return a row for each method, the best gamma and the errors at all that were tried."""
    rows = []
    gammas = list(GAMMAS)
    for method, size in METHODS.items():
        say(f"{data.name}, {method}")
        tried = gammas[6:9] if chosen.quick else gammas
        errors = validation_errors(data, method, 8 if chosen.quick else size, tried, chosen.rows)
        best = min(errors, key=lambda gamma: errors[gamma])
        if method == "binning":
            at = GAMMAS.index(best)
            gammas = list(GAMMAS[max(0, at - BELOW) : at + ABOVE])
        rows.append(
            {
                "data set": data.name,
                "method": method,
                "gamma": best,
                "error": errors[best],
                "tried": ", ".join(f"{gamma:g}: {errors[gamma]:.4f}" for gamma in errors),
            }
        )
    return rows


def main() -> None:
    parser = options(__doc__, repeats=1, sets=SETS)
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows used at most")
    chosen = parse(parser)
    report = Report(chosen)
    found = [row for data in load_sets(chosen.only, chosen) for row in rows_of(data, chosen)]
    report.add("Bandwidths by rows held back", found)
    report.close()


if __name__ == "__main__":
    main()
