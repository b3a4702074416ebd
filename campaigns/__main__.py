"""Run a campaign: ``python -m campaigns NAME [--short | --cases N | --case K] [--seed S]``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from campaigns.harness import Outcome, load, run

_SUPPORT = (
    *("__init__", "__main__", "harness", "worker"),
    *("file_edits", "fitted", "processors", "release", "smoke", "virtual"),
)
NAMES = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _SUPPORT
)
_MAX_SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("names", nargs="+", choices=[*NAMES, "all"], metavar="NAME")
    parser.add_argument("--short", action="store_true", help="as few cases as the tests run")
    parser.add_argument("--cases", type=int, help="how many cases")
    parser.add_argument("--case", type=int, help="the number of a single case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes at once")
    args = parser.parse_args()
    names = NAMES if "all" in args.names else args.names
    return max(run_campaign(name, args) for name in names)


def run_campaign(name: str, args: argparse.Namespace) -> int:
    """Run one campaign and print its counts; return 1 if a promise was broken."""
    module = load(name)
    cases = args.cases or (module.SHORT if args.short else module.FULL)
    numbers = range(cases) if args.case is None else [args.case]
    print(f"{name}: {module.PROMISE}", flush=True)
    outcomes: list[Outcome] = []
    start = time.monotonic()
    for outcome in run(name, numbers, args.seed, min(args.workers, len(numbers))):
        outcomes.append(outcome)
        if not outcome.held and sum(not other.held for other in outcomes) <= _MAX_SHOWN:
            print(f"  case {outcome.number} ({outcome.environment}): {outcome.kind}", flush=True)
            print("    " + outcome.detail.replace("\n", "\n    "), flush=True)
    report(outcomes, time.monotonic() - start)
    return int(any(not outcome.held for outcome in outcomes))


def report(outcomes: list[Outcome], seconds: float) -> None:
    counts = Counter(
        (outcome.environment, "held" if outcome.held else "BROKEN", outcome.kind)
        for outcome in outcomes
    )
    for (environment, verdict, kind), count in sorted(counts.items()):
        print(f"  {count:7d}  {verdict:6}  {environment:12}  {kind}")
    longest = max((outcome.seconds for outcome in outcomes), default=0.0)
    largest = max((outcome.memory for outcome in outcomes), default=0)
    broken = sum(not outcome.held for outcome in outcomes)
    print(
        f"  {len(outcomes)} cases in {seconds:.0f} s, {broken} broken; longest {longest:.2f} s, "
        f"most memory {largest >> 20} MB",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
