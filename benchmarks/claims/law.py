"""Coordinate descent with simultaneous steps: measured speed-ups and the law, RB16's eq. 29.

The objective is ``mean(loss) + alpha |w|_1`` with the squared or the squared hinge loss, over
random bins of at most 10,000 rows, and over random Fourier features ``sqrt(2/m) cos(Xw + b)`` of at
most 2,000 of them. ``RandomDescent`` takes tau simultaneous steps until the gap ``(F - F*) / F*``
is 1e-3, with F* from a long run. An epoch has as many updates as there are columns. The gap is
computed ten times per epoch, and its logarithm is interpolated linearly. The speed-up counts steps:
``tau * epochs(1) / epochs(tau)``. With R non-zeros per row and D columns the law is ``tau / (1 + (R
- 1)(tau - 1) / (D - 1))``; Fourier features have R = D. Figures are medians over several seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import (
    Report,
    Row,
    bandwidths,
    binned_map,
    load_sets,
    numeric_targets,
    options,
    parse,
    part_of,
    print_progress,
    save_picture,
)
from gramless.base.random import stream
from gramless.base.threads import map_blocks
from gramless.inspection.diagnostics import law_of_speedup
from gramless.losses import Squared, SquaredHinge
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.penalties import L1
from gramless.solvers.objective import Problem
from gramless.solvers.random_descent import StoredColumns
from harness.data_sets import Dataset
from studies.descent import LONG_RUN, epochs_to_gap

SETS = ("ijcnn1", "cod-rna", "covtype_1vs2_169k")
LOSSES = (Squared(), SquaredHinge())
ALPHA = 1e-4
ROWS, GRIDS = 10_000, 64
FOURIER_ROWS, FOURIER_FEATURES = 2000, 64
MAX_SIMULTANEOUS = 1024
GAP = 1e-3
# The epochs of L1 problems vary by a fifth from seed to seed.
SEEDS = {"bins": 9, "fourier": 3}
CLAIMED_RATIO = 0.7


@dataclass(frozen=True)
class Setting:
    """A problem, the names of its data set and features, and its stored columns."""

    data_set: str
    features: str
    problem: Problem
    stored: StoredColumns

    @property
    def labels(self) -> Row:
        rows, columns = self.problem.matrix.shape
        return {
            "data set": self.data_set,
            "features": self.features,
            "loss": self.problem.loss.name,
            "rows": rows,
            "columns": columns,
        }

    def law(self, tau: int) -> float:
        """Return the speed-up of simultaneous steps by RB16's equation 29."""
        n_columns = self.problem.matrix.shape[1]
        return law_of_speedup(tau, self.stored.max_nonzeros, n_columns)

    def epochs(self, best: float, tau: int, seed: int) -> float:
        """Return the number of epochs to the gap, or NaN if there are too many."""
        return epochs_to_gap(self.problem, self.stored, best, GAP, tau, seed)[0]


def binned(data: Dataset, args: argparse.Namespace) -> BinnedMatrix:
    n_grids = 8 if args.quick else GRIDS
    return binned_map(data.X_train, n_grids, args.jobs).fit_matrix(data.X_train)


def fourier(data: Dataset, args: argparse.Namespace) -> DenseMatrix:
    """Draw features of a Gaussian kernel with the same bandwidth as the bins."""
    X, rng = data.X_train[:FOURIER_ROWS], stream(0, "fourier")
    n_features = 8 if args.quick else FOURIER_FEATURES
    bandwidth = np.broadcast_to(bandwidths(data.X_train), X.shape[1])
    frequencies = rng.normal(size=(X.shape[1], n_features)) / bandwidth[:, None]
    phases = rng.uniform(0.0, 2.0 * np.pi, n_features)
    return DenseMatrix(np.sqrt(2.0 / n_features) * np.cos(np.asarray(X @ frequencies) + phases))


def settings(data: Dataset, args: argparse.Namespace) -> Iterator[Setting]:
    targets = numeric_targets(data.y_train)
    made: dict[str, FeatureMatrix] = {
        "bins": binned(data, args),
        "fourier": fourier(data, args),
    }
    for features, matrix in made.items():
        for loss in LOSSES:
            problem = Problem(matrix, targets[: matrix.shape[0]], L1(ALPHA), loss)
            yield Setting(data.name, features, problem, StoredColumns.of(problem))


def speed_ups(setting: Setting, args: argparse.Namespace) -> list[Row]:
    """Measure the epochs for 1, 2, 4, ... simultaneous steps; runs are distributed over threads."""
    best = LONG_RUN.solve(setting.problem).history[-1]["objective"]
    max_simultaneous = min(MAX_SIMULTANEOUS, setting.problem.matrix.shape[1])
    all_tau = [2**k for k in range(max_simultaneous.bit_length())]
    seeds = range(1 if args.quick else SEEDS[setting.features])
    # The slowest runs first, so that the threads end at about the same time.
    runs = [(tau, seed) for tau in all_tau[::-1] for seed in seeds]
    epochs_of = map_blocks(partial(setting.epochs, best), runs, args.jobs)
    epochs_by_seed = np.reshape(epochs_of, (len(all_tau), len(seeds)))[::-1]
    medians = [
        None if np.isnan(values).any() else float(np.median(values)) for values in epochs_by_seed
    ]
    rows = []
    for tau, epochs in zip(all_tau, medians, strict=True):
        speed_up = tau * medians[0] / epochs if medians[0] and epochs else None
        rows.append(
            {
                **setting.labels,
                "non-zeros a row": setting.stored.max_nonzeros,
                "tau": tau,
                "epochs": epochs,
                "speed-up": speed_up,
                "law": setting.law(tau),
                "speed-up / law": speed_up / setting.law(tau) if speed_up else None,
            }
        )
    return rows


def extremes(rows: list[Row]) -> list[Row]:
    """Return each setting's lowest share of the law and largest speed-up; the claim is for bins."""
    names = ("data set", "features", "loss")
    summary = []
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        reached = [r for r in rows if tuple(r[name] for name in names) == key and r["speed-up"]]
        lowest = min(reached, key=lambda row: row["speed-up / law"], default=None)
        share = lowest["speed-up / law"] if lowest else None
        summary.append(
            {
                **dict(zip(names, key, strict=True)),
                "lowest speed-up / law": share,
                "at tau": lowest["tau"] if lowest else None,
                "largest speed-up": max((row["speed-up"] for row in reached), default=None),
                "claim met": share >= CLAIMED_RATIO if share and "bins" in key else None,
            }
        )
    return summary


def draw(rows: list[Row], path: Path) -> None:
    """Draw the speed-ups of the squared loss against tau, with the law."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["loss"] == LOSSES[0].name]
    sets = list(dict.fromkeys(row["data set"] for row in rows))
    figure = Figure(figsize=(3.6 * len(sets), 3.4), layout="constrained")
    panels = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
    for name, ax in zip(sets, panels, strict=True):
        for features, colour in (("bins", "#1b6ca8"), ("fourier", "#d1495b")):
            points = [r for r in rows if r["data set"] == name and r["features"] == features]
            tau = [row["tau"] for row in points]
            ax.loglog(
                tau, [row["law"] for row in points], "-", color=colour, label=f"{features}, law"
            )
            measured = [row["speed-up"] or np.nan for row in points]
            ax.loglog(tau, measured, "o", color=colour, ms=4, label=f"{features}, measured")
        ax.set(xlabel="steps at once", title=name)
        ax.grid(alpha=0.3, which="major")
    panels[0].set_ylabel("speed-up")
    panels[0].legend(fontsize=8)
    save_picture(figure, path)


def main() -> None:
    parser = options(__doc__, repeats=1, sets=SETS)
    parser.add_argument("--picture", type=Path, help="draw the curves into this file")
    args = parse(parser)
    report = Report(args)
    rows: list[Row] = []
    for data in load_sets(args.only, args):
        for setting in settings(part_of(data, ROWS, 1), args):
            print_progress(f"{data.name}, {setting.features}, {setting.problem.loss.name}")
            rows.extend(speed_ups(setting, args))
    report.add(f"Speed-up in steps to a gap of {GAP:g}, alpha {ALPHA:g}", rows)
    report.add(f"The claim for bins: never below {CLAIMED_RATIO} of the law", extremes(rows))
    report.close()
    if args.picture:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
