"""Errors on small tables whose targets do not depend on the inputs, over those of the mean.

Tables have 5 to 60 rows and four inputs: normal, with heavy tails (Student's t with 1.5 degrees of
freedom), categorical, or mixed. Rows have no weights, ten rows have all the weight, or ten rows
have a thousand times the weight of the others. Ratios compare the root mean squared error on 500
new rows with that of the weighted mean of the training targets.
"""

from __future__ import annotations

import warnings

import _repository  # noqa: F401
import numpy as np
import pandas as pd

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelRegressor

ROWS = (5, 8, 10, 15, 20, 30, 45, 60)
INPUTS = ("normal", "heavy-tailed", "categorical", "mixed")
# The weight of all rows except ten, whose weight is 1.
WEIGHTS = {"none": 1.0, "ten rows": 0.0, "mostly ten rows": 1e-3}
N_WEIGHTED, N_NEW, N_COLUMNS = 10, 500, 4


def table(kind: str, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    if kind == "normal":
        return pd.DataFrame(rng.normal(size=(n_rows, N_COLUMNS))).rename(columns=str)
    frame = pd.DataFrame(rng.standard_t(1.5, size=(n_rows, N_COLUMNS))).rename(columns=str)
    n_categorical = {"heavy-tailed": 0, "mixed": 2, "categorical": N_COLUMNS}[kind]
    for name in frame.columns[:n_categorical]:
        frame[name] = pd.Categorical(rng.choice(list("abcde"), n_rows))
    return frame


def ratio(kind: str, n_rows: int, other_weight: float, seed: int, jobs: int | None) -> float:
    rng = np.random.default_rng([seed, n_rows])
    X, y = table(kind, n_rows, rng), rng.normal(size=n_rows)
    new_rows, new_targets = table(kind, N_NEW, rng), rng.normal(size=N_NEW)
    weights = np.full(n_rows, other_weight)
    weights[rng.permutation(n_rows)[:N_WEIGHTED]] = 1.0
    sample_weight = None if other_weight == 1.0 else weights
    model = KernelRegressor(random_state=seed, n_jobs=jobs).fit(X, y, sample_weight=sample_weight)
    errors = model.predict(new_rows) - new_targets
    errors_of_mean = np.average(y, weights=sample_weight) - new_targets
    return float(np.sqrt(np.mean(errors**2) / np.mean(errors_of_mean**2)))


def main() -> None:
    parser = options(__doc__, repeats=40, quick_repeats=2)
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    args = parse(parser)
    warnings.simplefilter("ignore")
    report = Report(args)
    sizes = (15,) if args.quick else args.rows
    for kind in INPUTS:
        rows: list[Row] = []
        for name, other_weight in WEIGHTS.items():
            for n_rows in sizes:
                if other_weight < 1.0 and n_rows <= N_WEIGHTED:
                    continue
                ratios = [
                    ratio(kind, n_rows, other_weight, seed, args.jobs)
                    for seed in range(args.repeats)
                ]
                mean = float(np.exp(np.mean(np.log(ratios))))
                rows.append(
                    {"weights": name, "rows": n_rows, "mean ratio": mean, "worst": max(ratios)}
                )
            print_progress(f"{kind} inputs, weights: {name}")
        report.add(f"{kind} inputs", rows)
    report.close()


if __name__ == "__main__":
    main()
