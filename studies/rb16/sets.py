"""RB16's data sets: rows in the paper, how their inputs are scaled here, and which are missing."""

from __future__ import annotations

from dataclasses import dataclass

from studies.comparisons import REPETITIONS
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
"""What RB16's figures call sigma: for random bins 1 over the bandwidth of its equation 5."""
ROWS = {
    "cadata": 16_512,
    "census": 18_186,
    "ijcnn1": 35_000,
    "cod_rna": 49_437,
    "covtype": 464_809,
    "SUSY": 4_000_000,
    "mnist": 60_000,
    "acoustic": 78_823,
    "letter": 10_500,
}
"""Training rows by the authors' names of the sets: Table 1 of the paper."""
UNAVAILABLE = {
    "census": "census with 119 inputs is not available: house_16H has 16 of them",
    "SUSY": "SUSY is not available here",
    "acoustic": "acoustic is not available here",
}


@dataclass(frozen=True)
class PaperSet:
    """One data set of the paper that is available here.

    Parameters
    ----------
    name : str
        Here.
    paper_name : str
        In the paper and in its authors' files.
    units : str
        As :class:`studies.settings.Setting`. LIBSVM's scaled version where there is
        one. For cadata and cod-rna the scaling at which random bins are as many as
        the authors', see README.md.
    n_inputs, n_test : int
        Inputs and test rows of ours.
    grid_seconds : float
        What a grid takes with all classes and 50 iterations, about.
    is_split : bool, default=False
        Whether the authors' split into training and test rows is not known: each repetition has
        a random one.
    n_train : int, default=None
        Training rows of ours, where they are fewer than the paper's.
    other_data : str, default=""
        What differs from the paper's data.
    bins : str, default="authors' grids"
        The trainer of random bins: on the grids that the authors' program drew, or, where rows and
        split are fixed, on grids of its own in each repetition.
    without_last : bool, default=False
        Whether the authors' runs never predict the last class, see README.md.
    """

    name: str
    paper_name: str
    units: Units
    n_inputs: int
    n_test: int
    grid_seconds: float
    is_split: bool = False
    n_train: int | None = None
    other_data: str = ""
    bins: str = "authors' grids"
    without_last: bool = False

    @property
    def rows(self) -> int:
        """Training rows of ours."""
        return ROWS[self.paper_name] if self.n_train is None else self.n_train

    @property
    def repetitions(self) -> int:
        """Five; one on other data, which are compared with nothing."""
        return 1 if self.other_data else REPETITIONS


SETS = {
    own.name: own
    for own in (
        PaperSet("cadata", "cadata", "largest", 8, 4128, 0.002, is_split=True),
        PaperSet("ijcnn1", "ijcnn1", "none", 22, 91_701, 0.008),
        PaperSet(
            "letter", "letter", "half range", 16, 4000, 0.035, is_split=True, without_last=True
        ),
        PaperSet("cod-rna", "cod_rna", "largest", 8, 271_617, 0.008),
        PaperSet("mnist", "mnist", "overall", 780, 10_000, 0.08, bins="binning"),
        PaperSet(
            "covtype_1vs2_169k",
            "covtype",
            "range",
            54,
            33_894,
            0.04,
            n_train=135_578,
            other_data="169,472 rows of classes 1 and 2 stand in for 581,012 rows of all classes",
        ),
    )
}
"""By our names."""
