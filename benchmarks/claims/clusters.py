"""Fits on a Dask cluster of this machine compared with the same fit in one process.

Workers generate the rows, one partition at a time. Kernel, penalty and number of grids are fixed,
so that all fits solve the same problem. Every fit runs in new processes, after a small fit that
loads the compiled loops. Memory is the sum over processes of the peak minus the memory before the
fit. Bytes are the traffic that the fit reports, and the traffic on the loopback device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelRegressor
from gramless.base.progress import Progress
from gramless.distributed import DaskKernelRegressor
from harness.memory import peak_memory, reset_and_read_peak

N_INPUTS, PART_ROWS = 20, 50_000
ROWS, GRIDS = 2_000_000, 128
QUICK_ROWS, QUICK_GRIDS = 200_000, 32
FEWER_GRIDS = 64
BANDWIDTH, ALPHA = 12.0, 1e-6
SMALL_ROWS = 4 * PART_ROWS
WORKERS = (1, 2, 4)
MACHINES, GBITS = (1, 2, 4, 10, 30, 100), (1.0, 10.0)
HUGE = 10**9


def make_partition(number: int, n_rows: int) -> np.ndarray:
    """Return a generated partition: inputs, and targets in the last column."""
    generator = np.random.default_rng(number)
    X = generator.normal(size=(n_rows, N_INPUTS)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * generator.normal(size=n_rows)
    return np.column_stack([X, y.astype(np.float32)])


def collection(n_rows: int) -> tuple[da.Array, da.Array]:
    numbers = range(-(-n_rows // PART_ROWS))
    sizes = [min(PART_ROWS, n_rows - k * PART_ROWS) for k in numbers]
    parts = [
        da.from_delayed(dask.delayed(make_partition)(k, size), (size, N_INPUTS + 1), np.float32)
        for k, size in zip(numbers, sizes, strict=True)
    ]
    table = da.concatenate(parts)
    return table[:, :-1], table[:, -1]


def loopback_bytes() -> int:
    """Return the bytes sent over the loopback device since the machine was started."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def parameters(n_grids: int) -> dict[str, Any]:
    return {
        "bandwidth": BANDWIDTH,
        "alpha": ALPHA,
        "n_grids": n_grids,
        "scaling": "none",
        "random_state": 0,
    }


def fit_here(n_rows: int, n_grids: int) -> Row:
    X, y = (part.compute() for part in collection(min(SMALL_ROWS, n_rows)))
    KernelRegressor(**parameters(n_grids)).fit(X, y)
    numbers = range(-(-n_rows // PART_ROWS))
    table = np.empty((n_rows, N_INPUTS + 1), np.float32)
    for k in numbers:
        stop = min((k + 1) * PART_ROWS, n_rows)
        table[k * PART_ROWS : stop] = make_partition(k, stop - k * PART_ROWS)
    X, y, before = table[:, :-1], table[:, -1], reset_and_read_peak() - table.nbytes
    started = perf_counter()
    model = KernelRegressor(**parameters(n_grids)).fit(X, y)
    return {**summarise(model, perf_counter() - started), "memory": peak_memory() - before}


def fit_there(n_rows: int, n_grids: int, n_workers: int, is_persisted: bool) -> Row:
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        small_table = collection(min(SMALL_ROWS * n_workers, n_rows))
        DaskKernelRegressor(**parameters(n_grids)).fit(*small_table)
        before = [reset_and_read_peak(), *client.run(reset_and_read_peak).values()]
        X, y = collection(n_rows)
        if is_persisted:
            # For comparison with one process, which has the rows before the clock starts.
            X, y = client.persist([X, y])
            client.gather(client.compute([X.sum(), y.sum()]))
        seen: dict[str, Any] = {}

        def watch(progress: Progress) -> None:
            seen[progress.stage] = perf_counter() - started, loopback_bytes(), progress.details

        started = perf_counter()
        model = DaskKernelRegressor(**parameters(n_grids)).fit(X, y, callbacks=watch)
        row = summarise(model, perf_counter() - started)
        after = [peak_memory(), *client.run(peak_memory).values()]
        solve = seen["solve"][2]
        rounds = solve["n_rounds"]
        min_bytes = 2 * 4 * n_workers * row["columns"]
        return {
            **row,
            "memory": sum(after) - sum(before),
            "client MB": (after[0] - before[0]) / 1e6,
            "sample s": seen["sample"][0],
            "bins s": seen["bins"][0] - seen["sample"][0],
            "tasks a round": solve["n_tasks"] / rounds,
            "bytes": solve["n_bytes"] / rounds / min_bytes,
            "lo bytes": (seen["solve"][1] - seen["bins"][1]) / rounds / min_bytes,
        }


def summarise(model: Any, seconds: float) -> Row:
    return {
        "s": seconds,
        "iterations": model.n_iter_,
        "columns": len(model.weights_),
        "bits": hash((model.weights_.tobytes(), model.intercept_)),
        "predictions": model.predict(make_partition(10**6, 1000)[:, :-1]).tolist(),
    }


def run_case(name: str, n_rows: int, n_grids: int) -> Row:
    """Run a fit in a new process, in which hashes are the same as in the others."""
    print_progress(f"{name}: {n_rows:,} rows, {n_grids} grids")
    command = [sys.executable, __file__, "--case", name, str(n_rows), str(n_grids)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr)
    return {"fit": name, **json.loads(process.stdout.splitlines()[-1])}


def compare_with_first(rows: list[Row]) -> list[Row]:
    """Return each fit relative to the first, and whether the weights have the same bits."""
    first, entries = rows[0], []
    for row in rows:
        off = np.abs(np.subtract(row["predictions"], first["predictions"])).max()
        entry = {"fit": row["fit"], "s": row["s"], "x local": row["s"] / first["s"]}
        entry |= {"MB": row["memory"] / 1e6, "x memory": row["memory"] / first["memory"]}
        entry |= {"iterations": row["iterations"], "columns": row["columns"]}
        entry |= {"off": float(off), "same bits": row["bits"] == rows[-1]["bits"]}
        keys = "client MB", "sample s", "bins s", "tasks a round", "bytes", "lo bytes"
        entries.append(entry | {key: row.get(key) for key in keys})
    return entries


def model_iteration(row: Row, n_rows: int) -> list[Row]:
    """Return the modelled seconds of an iteration over a billion rows, on machines with two cores.

    The products are divided among the machines. A vector of 8 bytes per column is broadcast, and
    sums of 8 bytes per column are reduced along a tree with eight children per node. A round takes
    20 ms more.
    """
    product = (row["s"] - row["sample s"] - row["bins s"]) / row["iterations"] / n_rows * HUGE
    entries = []
    for n_machines in MACHINES:
        entry: Row = {"machines": n_machines, "products s": product / n_machines}
        for gbit in GBITS:
            columns_per_second = gbit * 1e9 / 8 / row["columns"]
            broadcast_seconds = 8 * n_machines / columns_per_second
            reduce_seconds = (
                8
                * min(n_machines, 8)
                * max(1, np.ceil(np.log(n_machines) / np.log(8)))
                / columns_per_second
            )
            entry[f"{gbit:g} Gbit/s"] = (
                entry["products s"] + broadcast_seconds + reduce_seconds + 0.02
            )
        entries.append(entry)
    return entries


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--many", action="store_true", help="20 million rows instead")
    args = parse(parser)
    if args.case:
        name, n_rows, n_grids = args.case[0], int(args.case[1]), int(args.case[2])
        if name == "local":
            row = fit_here(n_rows, n_grids)
        else:
            row = fit_there(n_rows, n_grids, int(name.split()[0]), "generated again" not in name)
        print(json.dumps(row))
        return
    report = Report(args)
    n_rows, n_grids, workers = ROWS, GRIDS, WORKERS
    if args.quick:
        n_rows, n_grids, workers = QUICK_ROWS, QUICK_GRIDS, WORKERS[:2]
    if not args.many:
        rows = [run_case("local", n_rows, n_grids)]
        rows += [run_case(f"{k} worker{'s' * (k > 1)}", n_rows, n_grids) for k in workers]
        report.add(f"{n_rows:,} x {N_INPUTS}, {n_grids} grids", compare_with_first(rows))
        report.add("modelled: an iteration of a billion rows", model_iteration(rows[2], n_rows))
    else:
        few, many = (
            run_case("2 workers, rows generated again", size, FEWER_GRIDS)
            for size in (n_rows, 10 * n_rows)
        )
        rows_of_sizes = [
            {
                "rows": size,
                "s": row["s"],
                "us a row": row["s"] / size * 1e6,
                "iterations": row["iterations"],
                "MB": row["memory"] / 1e6,
            }
            for size, row in ((n_rows, few), (10 * n_rows, many))
        ]
        report.add(f"{FEWER_GRIDS} grids, 2 workers", rows_of_sizes)
    report.close()


if __name__ == "__main__":
    main()
