"""A whole default fit, the search included, against an SVM with its settings given.

scikit-learn's ``SVC(C=10, cache_size=1000)`` on standardised inputs. Both are judged on the
whole test set.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import Report, Row, load_sets, options, parse
from versus.gramless_ import Gramless
from versus.methods import take_turns
from versus.svc import SupportVectors

SETS = ("ijcnn1", "cod-rna", "a9a")


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--only", nargs="+", default=SETS, help="these data sets and no others")
    chosen = parse(parser)
    report = Report(chosen)
    rows: list[Row] = []
    for data in load_sets(chosen.only, chosen):
        outcomes = take_turns((Gramless, SupportVectors), data, chosen.repeats, chosen.jobs)
        ours, peer = outcomes[Gramless.name], outcomes[SupportVectors.name]
        seconds = [median(one.fit_seconds for one in own) for own in (ours, peer)]
        rows.append(
            {
                "data set": data.name,
                "rows": len(data.y_train),
                "test rows": len(data.y_test),
                "ours s": seconds[0],
                "SVC s": seconds[1],
                "ratio": seconds[1] / seconds[0],
                "our error": median(one.error for one in ours),
                "SVC's error": median(one.error for one in peer),
            }
        )
    report.add("Default fit against SVC", rows)
    report.close()


if __name__ == "__main__":
    main()
