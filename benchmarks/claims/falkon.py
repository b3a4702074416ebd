"""Random bins compared with Falkon: Nyström features by kernel values (Rudi et al. 2017).

Falkon has a Gaussian kernel, searches scaling, bandwidth and alpha, and has 2,000 landmarks. Its
equations are solved with ``solver="auto"``: directly or by its own iterations, whichever is
expected to be faster. The number of random bins, with settings from their own search, then doubles
until their test error is at most Falkon's, or until a fit takes four times as long. Seconds are
those of features and solve with fixed settings, medians over the seeds; errors are means.
"""

from __future__ import annotations

import _repository  # noqa: F401
import threadpoolctl
from approximations import grow_until_as_good, result_row, search_settings, split_of

from benchmarks.common import Report, Row, load_sets, options, parse, print_progress
from harness.approximations import measure

SETS = ("ijcnn1", "nyc_taxi_green_349k")
LANDMARKS, QUICK_LANDMARKS = 2000, 100


def main() -> None:
    parser = options(__doc__, repeats=1, sets=SETS)
    parser.add_argument("--landmarks", type=int, default=LANDMARKS)
    args = parse(parser)
    landmarks = QUICK_LANDMARKS if args.quick else args.landmarks
    report = Report(args)
    with threadpoolctl.threadpool_limits(args.jobs):
        for data in load_sets(args.only, args):
            print_progress(data.name)
            split = split_of(data)
            settings = search_settings("nystrom", split, args.jobs)
            reference = measure(settings, landmarks, split, args.repeats)
            rows: list[Row] = [result_row(data, settings, reference, reference)]
            settings = search_settings("binning", split, args.jobs)
            outcome = grow_until_as_good(settings, split, reference, args.repeats)
            rows.append(result_row(data, settings, outcome, reference))
            report.add(data.name, rows)
    report.close()


if __name__ == "__main__":
    main()
