"""Sums over blocks of rows that do not depend on the workers: fixed point or a fixed tree.

With a tree over the blocks, a worker sends one vector for each subtree that is within its range of
blocks; in fixed point it sends one vector. Seconds are those of a worker that sums its own blocks.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from time import perf_counter

import _timing  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, options, parse
from gramless.distributed.sums import exponent_of, fixed_sum

COLUMNS = (10_000, 100_000, 1_000_000)
BLOCKS, WORKERS = 64, (2, 3, 4, 7, 10, 30)


def subtrees(first: int, last: int, n_leaves: int) -> int:
    """Return the smallest number of subtrees of a binary tree that cover a range of its leaves."""
    if first >= last:
        return 0
    if first == 0 and last == n_leaves:
        return 1
    middle = n_leaves // 2
    left = subtrees(min(first, middle), min(last, middle), middle)
    right = subtrees(max(first - middle, 0), max(last - middle, 0), n_leaves - middle)
    return left + right


def time_sums(n_columns: int, args: argparse.Namespace) -> Row:
    n_blocks = 4 if args.quick else BLOCKS // 2
    generator = np.random.default_rng(0)
    parts = [generator.normal(size=n_columns) for _ in range(4)]
    exponent = exponent_of(100.0 * n_blocks)
    seconds: dict[str, list[float]] = {"a tree": [], "fixed point": []}
    for _ in range(args.repeats):
        started = perf_counter()
        total = parts[0].copy()
        for k in range(1, n_blocks):
            total += parts[k % 4]
        seconds["a tree"].append(perf_counter() - started)
        started = perf_counter()
        fixed_sum((parts[k % 4] for k in range(n_blocks)), exponent)
        seconds["fixed point"].append(perf_counter() - started)
    nanoseconds = {k: min(v) / n_columns / n_blocks * 1e9 for k, v in seconds.items()}
    return {
        "columns": n_columns,
        "blocks": n_blocks,
        **{f"ns: {k}": v for k, v in nanoseconds.items()},
    }


def count_vectors(n_workers: int) -> Row:
    bounds = np.linspace(0, BLOCKS, n_workers + 1).round().astype(int)
    counts = [subtrees(a, b, BLOCKS) for a, b in pairwise(bounds)]
    return {
        "workers": n_workers,
        "vectors a worker, a tree": float(np.mean(counts)),
        "largest number, a tree": max(counts),
        "fixed point": 1,
    }


def main() -> None:
    args = parse(options(__doc__, repeats=5))
    report = Report(args)
    sizes = COLUMNS[:1] if args.quick else COLUMNS
    report.add("nanoseconds a column and block", [time_sums(n, args) for n in sizes])
    report.add(f"vectors sent, {BLOCKS} blocks", [count_vectors(k) for k in WORKERS])
    report.close()


if __name__ == "__main__":
    main()
