"""Doubly stochastic gradients with three strategies, SVRG and SGD on 4F features, over time.

This follows Figure 1 of Li & Póczos 2016: the training objective of multinomial logistic regression
with a Gaussian kernel of the median distance and alpha 1e-5, on images reduced to at most 100
components. Runs take steps in turns, each on its own clock, which stops during measurements. The
objective is the mean loss over 10,000 training rows plus alpha / 2 times the squared norm of the
weights of ordinary features. Objective, loss and error are those of the averaged function.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import _repository  # noqa: F401
import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks.common import Report, Row, load_sets, options, parse, print_progress
from benchmarks.doubly_runs import Run, Task, race
from gramless import RandomFourier
from gramless.losses import Multinomial
from gramless.penalties import L2
from gramless.solvers.objective import Problem
from gramless.streaming.principal_components import Projection
from gramless.streaming.strategies import Checking, Grow, Uniform
from gramless.streaming.summary_statistics import summarise
from studies.svrg import SVRG

SETS = ("cifar10_pca100", "mnist")
STRATEGIES = {
    "DSG": Grow(),
    "UDSG": Uniform(),
    "CDSG": Checking(),
    "CDSG, as printed": Checking(longest=np.inf),
}
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COMPONENTS = 100
ALPHA = 1e-5
BATCH_ROWS, BLOCK_SIZE = 4096, 256
N_EVALUATED = 10_000


def task_of(data: object, args: argparse.Namespace) -> Task:
    X, y = np.asarray(data.X_train, np.float32), data.y_train  # type: ignore[attr-defined]
    if X.shape[1] > COMPONENTS:
        summary = summarise([(X, y)], seed=0, covariance=True)
        X = Projection.from_summary(summary, COMPONENTS).apply(X)
    targets = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    evaluated = np.random.default_rng(0).permutation(len(X))[:N_EVALUATED]
    batch, size = (64, 8) if args.quick else (BATCH_ROWS, BLOCK_SIZE)
    return Task(X, targets, Multinomial(), ALPHA, size, batch, evaluated, args.jobs)


def svrg(task: Task, seconds: float) -> Row:
    """Run SVRG on four precomputed blocks of features."""
    started = perf_counter()
    Z = features_of(task).feature_matrix(task.X)
    problem = Problem(Z, task.targets, L2(ALPHA), Multinomial())
    solution = SVRG(tol=1e-6, max_iter=10_000, n_jobs=task.jobs).solve(
        problem, callback=lambda k, w: perf_counter() - started > seconds
    )
    spent = perf_counter() - started
    responses = Z.matvec(solution.weights)[task.evaluated]
    targets = task.targets[task.evaluated]
    loss = float(Multinomial().value(responses, targets).mean())
    return {
        "run": "SVRG, 4F features",
        "s": spent,
        "loss": loss,
        "objective": loss + L2(ALPHA).value(solution.weights),
        "error": float((responses.argmax(axis=1) != targets.argmax(axis=1)).mean()),
        "epochs": solution.n_iter,
    }


def sgd(task: Task, seconds: float) -> Row:
    """Run scikit-learn's SGD, one class against the rest, on the same features."""
    started = perf_counter()
    fourier = features_of(task)
    classes = np.arange(task.targets.shape[1])
    model = SGDClassifier(loss="log_loss", alpha=ALPHA, average=True, random_state=0)
    rng, n_batches = np.random.default_rng(0), 0
    labels = task.targets.argmax(axis=1)
    while perf_counter() - started < seconds:
        rows = rng.choice(len(task.X), min(BATCH_ROWS, len(task.X)), replace=False)
        model.partial_fit(fourier.transform(task.X[rows]), labels[rows], classes)
        n_batches += 1
    spent = perf_counter() - started
    wrong = model.predict(fourier.transform(task.X[task.evaluated])) != labels[task.evaluated]
    return {
        "run": "SGD, 4F features",
        "s": spent,
        "loss": None,
        "objective": None,
        "error": float(wrong.mean()),
        "epochs": n_batches * BATCH_ROWS / len(task.X),
    }


def features_of(task: Task) -> RandomFourier:
    """Return four blocks of random features."""
    fourier = RandomFourier(
        bandwidth=task.bandwidth, n_components=8 * task.block_size, random_state=0, n_jobs=task.jobs
    )
    return fourier.fit(task.X)


def curves(runs: dict[str, Run], what: str) -> list[Row]:
    return [
        {"s": points[0]["s"], **{name: p[what] for name, p in zip(runs, points, strict=True)}}
        for points in zip(*(run.points for run in runs.values()), strict=True)
    ]


def ends(runs: dict[str, Run], task: Task) -> list[Row]:
    goal = runs["DSG"].points[-1]["objective"]
    rows = []
    for name, run in runs.items():
        first = next((p for p in run.points if p["objective"] <= goal), None)
        rows.append(
            {
                "run": name,
                **{k: v for k, v in run.points[-1].items()},
                "blocks to DSG's end": None if first is None else first["blocks"],
                "s to DSG's end": None if first is None else first["s"],
            }
        )
    return rows


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--seconds", type=float, default=100.0, help="of each run, default 100")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="data sets")
    parser.add_argument(
        "--update",
        default="gradient",
        choices=("papers", "gradient", "newton"),
        help="steps of the papers, with a free intercept (default), or by Newton's method",
    )
    args = parse(parser)
    seconds = 0.2 if args.quick else args.seconds
    report = Report(args)
    for data in load_sets(args.sets, args):
        task = task_of(data, args)
        runs = {name: Run(task, how, args.update) for name, how in STRATEGIES.items()}
        print_progress(f"{data.name}: {len(runs)} runs of {seconds:g} s, {args.update}")
        race(runs, [seconds * share for share in SHARES])
        about = f"{data.name}, {task.X.shape[0]:,} x {task.X.shape[1]}"
        for what in ("objective", "loss", "error"):
            report.add(f"{about}, {what} along the clock", curves(runs, what))
        report.add(f"{about}, objective of the last function", curves(runs, "last objective"))
        report.add(f"{about}, in the end", ends(runs, task))
        report.add(f"{about}, stored features", [svrg(task, seconds), sgd(task, seconds)])
    report.close()


if __name__ == "__main__":
    main()
