"""Timing of micro-benchmarks: interleaved repeats, and limits of the machine.

Speed varies from second to second on a shared machine. Cases take turns within each repeat, so that
a slow second affects all of them, and the median over the repeats is reported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import Report, Row
from gramless.base.threads import map_blocks, row_blocks
from harness.timing import SETTLING_SECONDS, interleaved, settle

_SAMPLE_SECONDS = 0.02
_QUICK_SAMPLE_SECONDS = 0.001
_BANDWIDTH_BYTES = 1 << 29
_QUICK_BANDWIDTH_BYTES = 1 << 24


@dataclass(frozen=True)
class Case:
    """A function to time.

    Attributes
    ----------
    loop : str
        Name in the table.
    run : callable
    unit : str
        The unit of work by which the time is divided, such as ``"cell"``.
    units : float
        Number of units per call of ``run``.
    bytes_moved : float
        Bytes that one call must read and write at least.
    limit : str
        The limit of the machine to compare with: ``"memory"`` or one that the script defines.
    work : float
        Work of one call in the unit of the limit; bytes if the limit is memory.
    peer : str or None
        ``loop`` of the case to compare with.
    """

    loop: str
    run: Callable[[], object]
    unit: str
    units: float
    bytes_moved: float
    limit: str = "memory"
    work: float | None = None
    peer: str | None = None


def options(about: str | None, quick: dict[str, int], **sizes: int) -> argparse.Namespace:
    """Parse the command line: the sizes with their defaults, and the options of every script.

    Parameters
    ----------
    about : str
        The script's docstring.
    quick : dict
        The sizes with ``--quick``.
    **sizes : int
        The sizes and their defaults.

    Returns
    -------
    argparse.Namespace
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, help=f"default {default:,}")
    parser.add_argument("--repeats", type=int, help="default 15")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to check that the script runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    defaults = {**sizes, "repeats": 15, **({**quick, "repeats": 2} if args.quick else {})}
    for name, default in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    return args


def seconds(
    cases: list[Case],
    repeats: int,
    sample: float,
    between: float,
) -> list[float]:
    """Return the median time of one call of each case; the cases take turns."""
    calls = {case.loop: _calls_per_sample(case.run, sample) for case in cases}
    runs = {case.loop: partial(_call, case.run, calls[case.loop]) for case in cases}
    times = interleaved(runs, repeats, warm_up=False, before=lambda run: settle(between))
    return [times[loop] / n_calls for loop, n_calls in calls.items()]


def memory_bandwidth(n_threads: int, quick: bool = False) -> float:
    """Return the memory bandwidth of ``n_threads`` in bytes per second.

    This is the larger of the rates of NumPy's sum and copy over arrays far larger than the caches.
    """
    n_bytes = _QUICK_BANDWIDTH_BYTES if quick else _BANDWIDTH_BYTES
    source = np.ones(n_bytes // 8)
    target = np.zeros_like(source)
    parts = row_blocks(len(source), -(-len(source) // n_threads))

    def read() -> None:
        map_blocks(lambda a, b: source[a:b].sum(), parts, n_threads)

    def copy() -> None:
        map_blocks(lambda a, b: np.copyto(target[a:b], source[a:b]), parts, n_threads)

    rates = []
    for run, moved in ((read, n_bytes), (copy, 2 * n_bytes)):
        run()
        rates.append(moved / min(_time(run, 1) for _ in range(5)))
    return max(rates)


def product_rate(dtype: DTypeLike, size: int, n_threads: int = 1) -> float:
    """Return the multiplications per second of a large matrix product by BLAS."""
    left, right = np.random.default_rng(0).random((2, size, size)).astype(dtype)
    with threadpool_limits(n_threads, user_api="blas"):
        return size**3 / min(_time(lambda: left @ right, 1) for _ in range(6))


def draw_codes(args: argparse.Namespace) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Return uniformly distributed codes, the worst case for the caches, and offsets."""
    rng = np.random.default_rng(0)
    dtype = np.uint8 if args.bins < 2**8 else np.uint16 if args.bins < 2**16 else np.uint32
    codes = rng.integers(1, args.bins, (args.grids, args.rows), dtype, endpoint=True)
    return codes, np.arange(args.grids + 1) * args.bins


def rows_of(cases: list[Case], times: list[float], limits: dict[str, float]) -> list[Row]:
    """Return the rows of the table: times relative to the limits and to the peers.

    ``limits`` are rates: bytes per second for ``"memory"``, units of work per second for others.
    """
    per_unit = {c.loop: 1e9 * t / c.units for c, t in zip(cases, times, strict=True)}
    rows = []
    for case, time in zip(cases, times, strict=True):
        work = case.bytes_moved if case.work is None else case.work
        rows.append(
            {
                "loop": case.loop,
                "ns/unit": per_unit[case.loop],
                "unit": case.unit,
                "bytes/unit": case.bytes_moved / case.units,
                "of limit": work / limits[case.limit] / time,
                "limit": case.limit,
                "speed-up": per_unit[case.peer] / per_unit[case.loop] if case.peer else None,
                "over": case.peer,
            }
        )
    return rows


def run(cases: list[Case], args: argparse.Namespace, limits: dict[str, float]) -> None:
    """Time the cases and print the tables."""
    sample = _QUICK_SAMPLE_SECONDS if args.quick else _SAMPLE_SECONDS
    between = 0.0 if args.quick else SETTLING_SECONDS
    times = seconds(cases, args.repeats, sample, between)
    sizes = {k: v for k, v in vars(args).items() if k not in ("json", "quick", "repeats")}
    rates = {f"{name}, G/s": rate / 1e9 for name, rate in limits.items()}
    report = Report(args)
    report.add("Sizes and limits", [sizes | rates])
    report.add("Loops", rows_of(cases, times, limits))
    report.close()


def _calls_per_sample(function: Callable[[], object], sample: float) -> int:
    """Warm up, including compilation, and return the number of calls that fill a sample."""
    function()
    return max(1, round(sample / max(_time(function, 1), 1e-9)))


def _time(function: Callable[[], object], n_calls: int) -> float:
    start = perf_counter()
    _call(function, n_calls)
    return perf_counter() - start


def _call(function: Callable[[], object], n_calls: int) -> None:
    for _ in range(n_calls):
        function()
