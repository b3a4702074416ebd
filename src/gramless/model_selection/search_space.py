"""What a search chooses, what it may choose from, and what it tried."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from gramless.base.state import Stateful
from gramless.preprocessing.scaling import ScalingKind


@dataclass(frozen=True)
class Hyperparameters(Stateful, former=("Settings",)):
    """What a search chooses.

    The bandwidth of random features is in mean L1 distances between two rows, inputs scaled
    (median Euclidean ones for radial kernels); None when given, or without any. ``relevance`` has
    learned weights of the inputs, None weighs them alike. ``grids`` are "random", "grown" or
    "both"; then ``random_share`` is that of random grids' predictions in the average.
    """

    scaling: ScalingKind
    bandwidth: float | None
    alpha: float
    relevance: NDArray[np.float64] | None = None
    grids: str = "random"
    random_share: float | None = None


@dataclass(frozen=True)
class Trial:
    """One solution judged on held-back rows.

    ``stage`` is the part of the search that made it: "search" chooses scaling, bandwidth and
    relevance with the squared loss, "alpha" the penalty of another loss or of L1, "size" the
    number of random grids, and "validation" judges what the final fit may be. Scores compare among
    trials of one ``measure``: a loss, the user's scorer, or what stands for it in least squares.
    """

    stage: str
    settings: Hyperparameters
    score: float
    measure: str
    n_iter: int
    n_rows: int
    size: int
    """Grids, or columns of other features."""
    seconds: float
    curve: list[float] = field(repr=False)
    """Scores every fourth iteration and at the end."""

    def as_dict(self) -> dict[str, object]:
        """Return the trial as plain data."""
        flat = asdict(self)
        settings = flat.pop("settings")
        settings["relevance"] = "equal" if settings["relevance"] is None else "learned"
        return {**settings, **flat}


@dataclass(frozen=True)
class SearchSpace:
    """What may be tried: one entry where the user has decided."""

    scalings: tuple[ScalingKind, ...]
    bandwidth: NDArray[np.float64] | None
    """In units of the scaled inputs, one number or one an input; None to search."""
    alpha: float | None
    relevance: str
    """"equal", "learned", or "auto": learned where that predicts clearly better."""
    n_grids: int | None = None
    """How many; None for as many as are worth their time."""
