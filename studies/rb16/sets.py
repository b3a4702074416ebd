"""RB16's data sets: their rows in the paper, our scaling of inputs, and the unavailable ones."""

from __future__ import annotations

from dataclasses import dataclass

from studies.comparisons import REPETITIONS
from studies.settings import Units

# What RB16's figures call sigma. For random bins it is 1 over the bandwidth of the paper's
# equation 5.
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
# Training rows in the paper's Table 1, by the authors' names of the data sets.
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
UNAVAILABLE = {
    "census": "census with 119 inputs is not available: house_16H has 16 of them",
    "SUSY": "SUSY is not available here",
    "acoustic": "acoustic is not available here",
}


@dataclass(frozen=True)
class PaperSet:
    """An available data set of the paper.

    Parameters
    ----------
    name : str
        Name of our data set.
    paper_name : str
        Name in the paper and in the authors' files.
    units : str
        Unit of bandwidths, see :class:`studies.settings.Setting`. It corresponds to LIBSVM's
        scaled version of the data set if there is one. For cadata and cod-rna it is the scaling
        that results in the authors' numbers of bins, see README.md.
    n_inputs, n_test : int
        Numbers of our inputs and test rows.
    grid_seconds : float
        Expected seconds per grid, with all classes and 50 iterations.
    is_split : bool, default=False
        Whether each repetition uses a random split, because the authors' split is unknown.
    n_train : int, default=None
        Number of our training rows, if we have fewer than the paper.
    other_data : str, default=""
        How our data differ from the paper's, if they do.
    bins : str, default="authors' grids"
        The trainer of random bins: on the grids that the authors' program drew, or on newly drawn
        grids, without which repetitions on fixed rows would not differ.
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
        """Number of our training rows."""
        return ROWS[self.paper_name] if self.n_train is None else self.n_train

    @property
    def repetitions(self) -> int:
        """Number of repetitions: one on other data, which are not compared with the paper."""
        return 1 if self.other_data else REPETITIONS


SETS = {
    data_set.name: data_set
    for data_set in (
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
