"""RB16's data sets: how their inputs are scaled, and how many rows are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from studies.settings import Units

GAMMAS = (
    0.01,
    0.03,
    0.1,
    0.14,
    0.19,
    0.28,
    0.39,
    0.56,
    0.79,
    1.12,
    1.58,
    2.23,
    3.16,
    4.46,
    6.3,
    8.91,
    10.0,
    31.62,
    100.0,
)
"""What RB16's figures call sigma: 1 over the bandwidth of its equation 5."""


@dataclass(frozen=True)
class PaperSet:
    """One data set of the paper, and what stands in for it here.

    Parameters
    ----------
    name : str
        Here.
    paper_name : str
        In the paper and in its authors' files.
    rows_here : int
        Training rows here.
    units : str
        As :class:`studies.settings.Setting`. LIBSVM's scaled version where there is
        one. For cadata and cod-rna the scaling at which random bins are as many as
        the authors', see README.md.
    gammas : mapping of str to float
        1 over the bandwidth, by method: the best of :data:`GAMMAS` on training rows that were
        held back. ``benchmarks/claims/rb16_bandwidths.py`` finds them, with at most 50,000 rows;
        of cadata, letter, mnist and house_16H with 15,000.
    n_train : int, default=None
        Training rows in the paper, where there are more here.
    note : str, default=""
        What differs from the paper's rows.
    other_inputs : bool, default=False
        Whether the inputs are others, so that errors do not compare.
    other_rows : bool, default=False
        Whether the rows are so different a part that errors do not compare, only their course.
    exact_work : float, default=1.0
        Seconds of the exact kernel, relative to those of a few inputs.
    """

    name: str
    paper_name: str
    rows_here: int
    units: Units
    gammas: Mapping[str, float]
    n_train: int | None = None
    note: str = ""
    other_inputs: bool = False
    other_rows: bool = False
    exact_work: float = 1.0


def _gammas(binning: float, fourier: float, nystrom: float, blocks: float) -> Mapping[str, float]:
    """Return gammas by method; the exact kernel has that of its blocks."""
    return {
        "binning": binning,
        "fourier": fourier,
        "nystrom": nystrom,
        "blocks": blocks,
        "exact": blocks,
    }


SETS = {
    own.name: own
    for own in (
        PaperSet(
            "cadata",
            "cadata",
            16_512,
            "largest",
            _gammas(1.58, 1.58, 0.39, 0.28),
            note="another split of the same rows",
        ),
        PaperSet(
            "ijcnn1",
            "ijcnn1",
            49_990,
            "none",
            _gammas(1.12, 0.28, 0.14, 0.19),
            35_000,
            "35,000 of the 49,990 training rows",
        ),
        PaperSet(
            "covtype_1vs2_169k",
            "covtype",
            135_578,
            "range",
            _gammas(6.3, 0.39, 0.39, 1.58),
            note="169,472 rows of classes 1 and 2 stand in for 581,012 rows of all classes",
            other_rows=True,
        ),
        PaperSet(
            "letter",
            "letter",
            16_000,
            "half range",
            _gammas(1.12, 0.28, 0.19, 0.79),
            10_500,
            "another split of the same rows",
        ),
        PaperSet(
            "mnist",
            "mnist",
            60_000,
            "overall",
            _gammas(0.03, 0.01, 0.01, 0.01),
            exact_work=6.0,
        ),
        PaperSet(
            "house_16H",
            "census",
            18_227,
            "range",
            _gammas(4.46, 0.56, 0.79, 2.23),
            note="16 inputs of the same census places stand in for 119: errors do not compare",
            other_inputs=True,
        ),
        PaperSet(
            "cod-rna",
            "cod_rna",
            59_535,
            "largest",
            _gammas(6.3, 0.56, 0.28, 0.39),
            49_437,
            "49,437 of the 59,535 training rows",
        ),
    )
}
"""By our names."""
