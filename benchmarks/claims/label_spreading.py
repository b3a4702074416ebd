"""Few labels: errors of labels that spread, beside the classifier that sees labelled rows alone.

At most 20,000 rows of each table, 1 % of them with a label; the share of wrong labels among the
others, several seeds. The rule was chosen on made-up tables, usps, mnist, covtype_1vs2_169k, a9a,
w8a and kddcup99_10pct (seeds 0 to 2); letter, cod-rna, ijcnn1, covtype_first20k and electricity
judge it. Beside it the graph of all inputs alike, that of nearest neighbours in common with alpha
0.7, and labels alone. Then the seconds of a fit to a million rows of 20 inputs with 1 % of the
labels.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, load_sets, means, options, parse, say
from gramless import KernelClassifier, LabelSpreading
from gramless.base.random import stream
from gramless.datasets.registry import Dataset

CHOOSING = ("usps", "mnist", "covtype_1vs2_169k")
JUDGING = ("letter", "cod-rna", "ijcnn1", "covtype_first20k", "electricity")
MOST_ROWS, SHARE, N_MANY = 20_000, 0.01, 1_000_000


def compared(data: Dataset, seed: int, jobs: int | None, share: float) -> dict[str, float]:
    """Return errors of rows without labels, and seconds."""
    rows = stream(seed, "few labels").permutation(len(data.y_train))[:MOST_ROWS]
    X, y = data.X_train[rows], np.unique(data.y_train[rows], return_inverse=True)[1]
    n_known = max(10, int(share * len(y)))
    labels = np.where(np.arange(len(y)) < n_known, y, -1)
    given = {"random_state": seed, "n_jobs": jobs}
    begun = perf_counter()
    supervised = KernelClassifier(**given).fit(X[:n_known], y[:n_known])
    told = supervised.predict(X[n_known:])
    ended = perf_counter()
    spread = LabelSpreading(**given).fit(X, labels)
    seconds = perf_counter() - ended
    equal = LabelSpreading(relevance="equal", **given).fit(X, labels)
    alone = LabelSpreading(0.9, estimator=None, **given).fit(X, labels)
    nearest = LabelSpreading(0.7, features="neighbors", **given).fit(X, labels)
    hidden = y[n_known:]
    return {
        "rows": len(y),
        "labels": n_known,
        "KernelClassifier": float(np.mean(told != hidden)),
        "LabelSpreading": float(np.mean(spread.transduction_[n_known:] != hidden)),
        "all inputs alike": float(np.mean(equal.transduction_[n_known:] != hidden)),
        "by neighbours": float(np.mean(nearest.transduction_[n_known:] != hidden)),
        "labels alone": float(np.mean(alone.transduction_[n_known:] != hidden)),
        "KernelClassifier s": ended - begun,
        "LabelSpreading s": seconds,
    }


def summary(name: str, found: list[dict[str, float]]) -> Row:
    row: Row = {"table": name} | means(found)
    ratios = [one["LabelSpreading"] / one["KernelClassifier"] for one in found]
    row |= {"ratio": float(np.mean(ratios)), "spread": float(np.std(ratios))}
    for key in ("all inputs alike", "by neighbours"):
        others = [one[key] / one["KernelClassifier"] for one in found]
        row[f"ratio {key}"] = float(np.mean(others))
    return row


def many_rows(n: int, jobs: int | None) -> Row:
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(6, 20))
    own = rng.integers(6, size=n)
    X, y = centres[own] + rng.normal(size=(n, 20)), own % 2
    labels = np.where(rng.random(n) < SHARE, y, -1)
    small = slice(0, 5000)
    LabelSpreading(random_state=0, n_jobs=jobs).fit(X[small], labels[small]).predict(X[:10])
    begun = perf_counter()
    model = LabelSpreading(random_state=0, n_jobs=jobs).fit(X, labels)
    fitted = perf_counter()
    hidden = labels < 0
    return {
        "rows": n,
        "fit s": fitted - begun,
        "iterations": model.n_iter_,
        "grids": model.features_.numbers_per_row,
        "error": float(np.mean(model.transduction_[hidden] != y[hidden])),
    }


def main() -> None:
    chosen = parse(options(__doc__, repeats=3))
    report = Report(chosen)
    for title, names in (("chosen on", CHOOSING), ("judging", JUDGING)):
        rows: list[Any] = []
        for data in load_sets(names, chosen):
            # Not the seed that the rule was chosen with.
            seeds = range(100, 100 + chosen.repeats)
            share = 0.1 if chosen.quick else SHARE
            rows.append(summary(data.name, [compared(data, s, chosen.jobs, share) for s in seeds]))
            say(f"{data.name}: {rows[-1]['LabelSpreading']:.4f}, ratio {rows[-1]['ratio']:.3f}")
        report.add(f"wrong labels, {title}", rows)
    report.add("many rows", [many_rows(5000 if chosen.quick else N_MANY, chosen.jobs)])
    report.close()


if __name__ == "__main__":
    main()
