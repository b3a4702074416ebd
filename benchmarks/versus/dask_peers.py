"""Boosted trees on Dask compared with ours: a cluster on this machine, one table, a killed worker.

XGBoost and LightGBM have their Dask estimators' default parameters, except for 300 rounds. Ours has
the defaults, and also ``effort=1``. Each fit is repeated while a worker is killed in the middle of
it, and the table shows the result. A fit that takes ten times longer than the undisturbed one
counts as hanging. Peers that are not installed fail.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks.common import Report, Row, made_up, options, parse, print_progress, rmse
from gramless.distributed import DaskKernelRegressor
from harness.memory import peak_memory, reset_and_read_peak

N_ROWS, N_TEST, N_INPUTS, PART_ROWS = 300_000, 20_000, 10, 15_000
ROUNDS, MIN_SECONDS = 300, 30.0
NAMES = ("ours", "ours, effort 1", "xgboost", "lightgbm")


def make_estimator(name: str, client: Client) -> Any:
    if name == "xgboost":
        from xgboost.dask import DaskXGBRegressor

        model = DaskXGBRegressor(n_estimators=ROUNDS, tree_method="hist")
        model.client = client
        return model
    if name == "lightgbm":
        from lightgbm import DaskLGBMRegressor

        return DaskLGBMRegressor(n_estimators=ROUNDS, client=client, verbose=-1)
    effort = 1 if "effort" in name else 3
    return DaskKernelRegressor(effort=effort, random_state=0, client=client)


def kill_worker_later(client: Client, delay: float) -> Callable[[], None]:
    """Kill a worker after a delay in seconds; return a function that cancels this."""

    def kill() -> None:
        pids = client.run(os.getpid, on_error="ignore")
        os.kill(min(pids.values()), signal.SIGKILL)

    timer = threading.Timer(delay, kill)
    timer.start()
    return timer.cancel


def fit(name: str, n_rows: int, kill_after: float) -> Row:
    """Fit once in this process, and kill a worker after ``kill_after`` seconds if not 0."""
    X, y = made_up(n_rows + N_TEST, N_INPUTS)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        rows = da.from_array(X[:n_rows], chunks=(PART_ROWS, N_INPUTS))
        targets = da.from_array(y[:n_rows], chunks=PART_ROWS)
        few = slice(4 * PART_ROWS)
        make_estimator(name, client).fit(rows[few], targets[few])
        before = [reset_and_read_peak(), *client.run(reset_and_read_peak).values()]
        stop = kill_worker_later(client, kill_after) if kill_after else lambda: None
        started = perf_counter()
        try:
            model = make_estimator(name, client).fit(rows, targets)
        finally:
            stop()
        seconds = perf_counter() - started
        after = [] if kill_after else [peak_memory(), *client.run(peak_memory).values()]
        test = da.from_array(X[n_rows:], chunks=(PART_ROWS, N_INPUTS))
        predicted = np.asarray(model.predict(test).compute())
        error = rmse(predicted, y[n_rows:]) / float(y[n_rows:].std())
        memory = 0 if kill_after else sum(after) - sum(before)
        return {"error": error, "s": seconds, "MB": memory / 1e6}


def run_case(name: str, n_rows: int, kill_after: float, limit: float) -> Row:
    """Run a fit in a new process and return its result, or how it failed."""
    print_progress(
        f"{name}, {n_rows:,} rows"
        + (f", a worker killed after {kill_after:.1f} s" * (kill_after > 0))
    )
    command = [sys.executable, __file__, "--case", name, str(n_rows), str(kill_after)]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"fate": f"hangs: no end after {limit:.0f} s"}
    if process.returncode:
        last = process.stderr.strip().splitlines()[-1][:90]
        return {"fate": f"fails: {last}"}
    return {"fate": "ends", **json.loads(process.stdout.splitlines()[-1])}


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    args = parse(parser)
    if args.case:
        print(json.dumps(fit(args.case[0], int(args.case[1]), float(args.case[2]))))
        return
    report, rows = Report(args), []
    n_rows = 60_000 if args.quick else N_ROWS
    for name in args.only:
        row = run_case(name, n_rows, 0.0, 900.0)
        if row["fate"] == "ends":
            limit = max(10 * row["s"], MIN_SECONDS) + 60
            killed = run_case(name, n_rows, 0.5 * row["s"], limit)
            row |= {"a worker killed": killed["fate"], "s then": killed.get("s")}
            row["same error"] = killed.get("error") == row["error"]
        rows.append({"fit": name, **row})
    report.add(f"{n_rows:,} x {N_INPUTS}, 2 workers of one thread", rows)
    report.close()


if __name__ == "__main__":
    main()
