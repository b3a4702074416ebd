"""Cox's proportional hazards: concordance, time and memory.

First, generated rows of 20 inputs, with the concordance of the true risks. Then the tables of
scikit-survival and lifelines, compared with scikit-survival's gradient boosting and linear Cox
model by the mean concordance index in cross-validation. Tables are skipped if a package is missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from statistics import mean
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelSurvival
from gramless.estimators.survival import concordance_index, event_times
from harness.memory import PeakMemory

Array = NDArray[Any]
N_TEST = 20_000
SETS = "load_gbsg2", "load_whas500", "load_veterans_lung_cancer", "load_flchain", "load_aids"
LIFELINES = ("load_rossi", "week", "arrest"), ("load_dd", "duration", "observed")
MAX_ROWS, MAX_ROWS_QUICKLY = 4000, 200


def made_up(n_rows: int) -> tuple[Array, Array, Array]:
    """Return rows, log risks and targets, half of which are censored."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, 20))
    risk = 1.5 * np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] + (X[:, 3] > 0) * X[:, 4] - X[:, 5] ** 2
    times, ends = rng.weibull(1.5, n_rows) * np.exp(-risk / 1.5), rng.exponential(1.5, n_rows)
    y = np.empty(n_rows, [("event", bool), ("time", float)])
    y["event"], y["time"] = times <= ends, np.minimum(times, ends)
    return X, risk, y


def at_scale(n_rows: int, n_jobs: int | None) -> Row:
    X, risk, y = made_up(n_rows + N_TEST)
    model = KernelSurvival(random_state=0, n_jobs=n_jobs)
    KernelSurvival(n_jobs=n_jobs).fit(X[:500], y[:500])
    peak, started = PeakMemory(), perf_counter()
    model.fit(X[:n_rows], y[:n_rows])
    seconds, memory, new, truth = perf_counter() - started, peak.bytes(), X[n_rows:], y[n_rows:]
    return {
        "rows": n_rows,
        "events": int(y["event"][:n_rows].sum()),
        "s": seconds,
        "MB": memory / 1e6,
        "turns": model.n_updates_,
        "concordance": model.score(new, truth),
        "true": concordance_index(truth["event"], truth["time"], risk[n_rows:]),
    }


def real_tables() -> Iterator[tuple[str, Any, Array]]:
    try:
        from sksurv import datasets
    except ImportError:
        print_progress("scikit-survival is not installed: its tables are skipped")
    else:
        for name in SETS:
            X, y = getattr(datasets, name)()
            # A column of flchain is the cause of death, which reveals the event.
            X = X.drop(columns="chapter", errors="ignore")
            yield name.removeprefix("load_"), X, event_times(y, name)
    try:
        from lifelines import datasets as lifelines_datasets
    except ImportError:
        print_progress("lifelines is not installed: its tables are skipped")
        return
    for name, time, event in LIFELINES:
        frame = getattr(lifelines_datasets, name)()
        y = np.empty(len(frame), [("event", bool), ("time", float)])
        y["event"], y["time"] = frame[event].astype(bool), frame[time]
        yield name.removeprefix("load_"), frame.drop(columns=[time, event]), y


def peers() -> dict[str, Any]:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    numbers = make_column_selector(dtype_include="number")
    words = make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", max_categories=30, sparse_output=False), words),
    )
    return {
        "gradient boosting": make_pipeline(columns, GradientBoostingSurvivalAnalysis()),
        "linear": make_pipeline(columns, CoxPHSurvivalAnalysis(alpha=1e-2)),
    }


def compare(name: str, X: Any, y: Array, args: Any, most_rows: int) -> Row:
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    models: dict[str, Any] = {"gramless": KernelSurvival(random_state=0, n_jobs=args.jobs)}
    try:
        models |= peers()
    except ImportError:
        print_progress("scikit-survival is not installed: no peers")
    kept = np.random.default_rng(0).permutation(len(y))[:most_rows]
    X, y = X.iloc[kept].reset_index(drop=True), y[kept]
    scores: dict[str, list[float]] = {key: [] for key in models}
    for repeat in range(args.repeats):
        folds = StratifiedKFold(5, shuffle=True, random_state=repeat)
        for training, test in folds.split(X, y["event"]):
            for key, model in models.items():
                fitted = clone(model).fit(X.iloc[training], y[training])
                risk, y_test = fitted.predict(X.iloc[test]), y[test]
                scores[key].append(concordance_index(y_test["event"], y_test["time"], risk))
    return {"table": name, "rows": len(y), **{key: mean(values) for key, values in scores.items()}}


def main() -> None:
    args = parse(options(__doc__, repeats=2))
    warnings.filterwarnings("ignore", category=FutureWarning)
    report, rows = Report(args), []
    sizes = (1000,) if args.quick else (10_000, 100_000)
    report.add("Made-up rows of 20 inputs", [at_scale(n, args.jobs) for n in sizes])
    most_rows, n_tables = (MAX_ROWS_QUICKLY, 1) if args.quick else (MAX_ROWS, None)
    for name, X, y in islice(real_tables(), n_tables):
        rows.append(compare(name, X, y, args, most_rows))
        report.add(name, rows[-1:])
    report.add("Concordance of rows held back", rows)
    known = [row for row in rows if "gradient boosting" in row]
    if known:
        good = [row["gramless"] >= row["gradient boosting"] for row in known]
        report.add("No worse than gradient boosting", [{"of": len(good), "tables": sum(good)}])
    report.close()


if __name__ == "__main__":
    main()
