"""A million deformed digits, streamed through doubly stochastic gradients in little memory.

Each row is a digit of MNIST's training set, randomly rotated, shifted and bent; it is generated
when it is read and never stored. A first pass computes principal components. Peak memory is that of
a new process. Seconds and errors during the run show the cost of more rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from time import perf_counter

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, load_sets, log_slope, options, parse
from gramless import DoublyStochasticClassifier
from gramless.streaming.sources import IteratorSource
from harness.memory import peak_memory
from studies.deformed import DeformedDigits

PAPER_ROWS = 8_100_000


def run(args: argparse.Namespace) -> dict[str, object]:
    """Train in this process and return the results."""
    data = next(iter(load_sets(["mnist"], args)))
    side = int(np.sqrt(data.X_train.shape[1]))
    rows, batch, size = (2000, 200, 16) if args.quick else (args.rows, args.batch, args.block)
    images = np.asarray(data.X_train[:, : side * side], np.uint8).reshape(-1, side, side)
    digits = DeformedDigits(images, data.y_train, seed=0, n_jobs=args.jobs)
    test = np.asarray(data.X_test[:, : side * side], np.float32) / 255.0
    source = IteratorSource(digits.chunks(rows, chunk_rows=batch), n_held_out=rows // 100)
    model = DoublyStochasticClassifier(
        strategy=args.strategy,
        n_components=min(100, side * side),
        block_size=size,
        batch_size=batch,
        max_steps=source.n_rows // batch,
        patience=None if args.quick else 1000,
        random_state=0,
        n_jobs=args.jobs,
    )
    started = perf_counter()
    model.fit_stream(source)
    seconds = perf_counter() - started
    steps = model.history_
    measured_steps = np.unique(np.linspace(0, len(steps["seconds"]) - 1, 6).astype(int))
    return {
        "strategy": args.strategy,
        "rows": rows,
        "steps": int(model.n_iter_),
        "features": len(model.weights_),
        "test error": float(np.mean(model.predict(test) != data.y_test)),
        "s": seconds,
        "s of steps": float(steps["seconds"][-1]),
        "peak MB": peak_memory() / 1024**2,
        "curve": [
            {
                "rows": int((k + 1) * batch),
                "blocks": int(steps["n_blocks"][k]),
                "batch loss": float(steps["loss"][k]),
                "s": float(steps["seconds"][k]),
            }
            for k in measured_steps
        ],
    }


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--rows", type=int, default=1_000_000, help="default 1,000,000")
    parser.add_argument("--batch", type=int, default=2048, help="rows a step: 2048")
    parser.add_argument("--block", type=int, default=512, help="frequencies a block: 512")
    parser.add_argument("--strategy", default="checking", help="checking, uniform or grow")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parse(parser)
    if args.alone:
        print(json.dumps(run(args)))
        return
    report = Report(args)
    command = [sys.executable, __file__, *sys.argv[1:], "--alone"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    curve = result.pop("curve")
    half = curve[len(curve) // 2 :]
    power = log_slope([point["rows"] for point in half], [point["s"] for point in half])
    plan = result["s of steps"] * (PAPER_ROWS / result["rows"]) ** power
    report.add("deformed digits, one epoch", [result])
    report.add("along the run", curve)
    report.add("8.1 million rows", [{"seconds grow by rows to the power": power, "plan s": plan}])
    report.close()


if __name__ == "__main__":
    main()
