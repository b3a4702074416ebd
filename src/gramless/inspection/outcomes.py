"""What a comparison of approximations finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gramless.features.base import SizedMap

By = Literal["time", "memory"]


@dataclass(frozen=True, eq=False)
class Chosen:
    """What a method's own search found, at a middle size.

    Parameters
    ----------
    method : str
    feature_map : SizedMap
        A template, any size of which may be fitted.
    scaling : str
    bandwidth : float or array (n_features,)
        In units of the scaled inputs.
    alpha : float
    seconds : float
        Of the search and the fit at that size.
    model : estimator
        That fit.
    """

    method: str
    feature_map: SizedMap
    scaling: str
    bandwidth: Any
    alpha: float
    seconds: float
    model: Any

    def as_dict(self) -> dict[str, Any]:
        """Return the choices as plain data."""
        return {
            "method": self.method,
            "kernel": self.feature_map.check_parameters().to_config(),
            "scaling": self.scaling,
            "bandwidth": np.asarray(self.bandwidth).tolist(),
            "alpha": self.alpha,
            "seconds": self.seconds,
            "limits": self.model.limits_,
        }


@dataclass(frozen=True)
class Outcome:
    """What a method came to at one size.

    Parameters
    ----------
    method : str
    size : int
        Grids, frequencies' columns, landmarks, rows of a block.
    unit : str
        What the size counts.
    n_columns : int
    n_bytes : int
        Of the features of all rows of the fit, kept whole.
    seconds : float
        To compute the features and to solve; the median over the seeds.
    predict_seconds : float
        For the rows that judge; the median over the seeds.
    error : float
        Share of wrong classes, or RMSE over the targets' standard deviation; the mean over
        the seeds.
    """

    method: str
    size: int
    unit: str
    n_columns: int
    n_bytes: int
    seconds: float
    predict_seconds: float
    error: float

    def cost(self, by: By) -> float:
        """Return seconds or bytes."""
        return self.seconds if by == "time" else float(self.n_bytes)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Reached:
    """What a method needs at least to be as good as asked, of the sizes tried.

    Parameters
    ----------
    method : str
    seconds, n_bytes : number or None
        Each the least of all outcomes with no larger error; None where there is none.
    """

    method: str
    seconds: float | None
    n_bytes: int | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison found.

    Parameters
    ----------
    by : {"time", "memory"}
    budget : float
        Seconds of a fit, or bytes of its features.
    chosen : list of Chosen
    outcomes : list of Outcome
        Of each method by rising size; the last may cost more than the budget.
    left_out : dict
        Methods that were not tried, or not to the end, and why.
    """

    by: By
    budget: float
    chosen: list[Chosen]
    outcomes: list[Outcome]
    left_out: dict[str, str]

    def of(self, method: str) -> list[Outcome]:
        """Return one method's outcomes, by rising size."""
        return [outcome for outcome in self.outcomes if outcome.method == method]

    def best(self) -> list[Outcome]:
        """Return each method's outcome of least error within the budget, the best first.

        A method that has none within the budget is left out.
        """
        found = []
        for chosen in self.chosen:
            within = [o for o in self.of(chosen.method) if o.cost(self.by) <= self.budget]
            found += [min(within, key=lambda o: o.error)] if within else []
        return sorted(found, key=lambda outcome: outcome.error)

    def to_reach(self, error: float) -> list[Reached]:
        """Return what each method needed to predict no worse than an error."""
        return [to_reach(self.of(one.method), one.method, error) for one in self.chosen]


def to_reach(outcomes: Iterable[Outcome], method: str, error: float) -> Reached:
    """Return the least seconds and the least bytes of outcomes that are no worse than an error.

    Examples
    --------
    >>> to_reach([Outcome("binning", 8, "grids", 90, 800, 0.1, 0.1, 0.3)], "binning", 0.2)
    Reached(method='binning', seconds=None, n_bytes=None)
    """
    good = [outcome for outcome in outcomes if outcome.error <= error]
    seconds = min((outcome.seconds for outcome in good), default=None)
    return Reached(method, seconds, min((outcome.n_bytes for outcome in good), default=None))
