"""Parameters of the doubly stochastic estimators, and what they mean for a stream."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from numpy.typing import ArrayLike

from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.base.random import RandomState
from gramless.base.state import StatefulEstimator
from gramless.base.threads import thread_count
from gramless.estimators.parameters import check_count, check_number, check_switch, is_auto
from gramless.kernels import KernelLike, as_spectral_kernel
from gramless.losses import Loss
from gramless.streaming.sources import default_held_out
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform
from gramless.streaming.training_loop import Limits

STRATEGIES: dict[str, Strategy] = {"checking": Checking(), "uniform": Uniform(), "grow": Grow()}
"""CDSG, UDSG and DSG."""

_LEAST_ALPHA = 1e-100


@dataclass(frozen=True)
class StreamDefaults:
    """What streamed estimators do where a parameter leaves it open."""

    theta_alpha: float = 1.5  # of the schedule; DSG16's Theorem 3 requires from 1 to 2
    alpha_rows: float = 0.1  # alpha times the number of rows
    unknown_rows: int = 1_000_000  # rows to assume if their number is unknown
    min_rows_to_hold_out: int = 200  # tables of fewer rows hold out none
    max_newton_columns: int = 2048  # blocks of more features take gradient steps
    min_ridge: float = 1e-6  # of Newton steps: above rounding errors in single precision
    sample_rows: int = 2000  # decide the kernel's scale
    curvature_rows: int = 1000  # of these, decide the first step
    variance_rows: int = 400  # of these, decide the variance of blocks
    predict_rows: int = 4096  # per block of predictions


# A dataclass has the constructor that scikit-learn asks for.
@dataclass(eq=False, repr=False)
class StreamParameters(StatefulEstimator):
    """The parameters of the doubly stochastic estimators, with messages that name them."""

    _losses: ClassVar[dict[str, Loss]]
    _defaults: ClassVar[StreamDefaults] = StreamDefaults()

    kernel: KernelLike = "gaussian"
    _: KW_ONLY
    loss: str = "squared"
    strategy: str | Strategy = "checking"
    bandwidth: float | ArrayLike | str = "auto"
    alpha: float | str = "auto"
    update: str = "auto"
    schedule: str | InverseTime = "auto"
    block_size: int = 256
    batch_size: int = 4096
    max_steps: int = 500
    fit_intercept: bool = True
    average: bool = True
    scaling: str = "auto"
    n_components: int | None = None
    patience: int | None = 10
    tol: float = 1e-2
    time_budget: float | None = None
    cache_bytes: int = 1 << 29
    checkpoint: str | None = None
    checkpoint_seconds: float = 60.0
    device: str = "cpu"
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        """Refuse what can be seen to be wrong before any row is read."""
        as_spectral_kernel(self.kernel)
        self._given_loss()
        self._given_strategy()
        self._given_scalings()
        self._given_alpha(None)
        self._given_patience()
        if not isinstance(self.schedule, InverseTime) and not is_auto(self.schedule):
            raise self._unknown("schedule", self.schedule, ("auto",), " or an InverseTime")
        for name in ("block_size", "batch_size", "max_steps"):
            check_count(self, name)
        check_count(self, "cache_bytes", low=0)
        if self.n_components is not None:
            check_count(self, "n_components")
        for name in ("fit_intercept", "average"):
            check_switch(self, name)
        updates = "auto", "newton", "gradient"
        if self.update not in updates:
            raise self._unknown("update", self.update, updates)
        if self.update == "newton" and not self.fit_intercept:
            raise self._refused("update='newton' needs fit_intercept=True, or use 'gradient'.")
        check_number(self, "tol", high=1.0)
        check_number(self, "checkpoint_seconds")
        if self.time_budget is not None:
            check_number(self, "time_budget")
        thread_count(self.n_jobs)
        self._check_places()

    def _check_places(self) -> None:
        """Refuse devices that are no text, and checkpoints that are no files of a folder."""
        place = self.checkpoint
        if not isinstance(self.device, str):
            raise self._refused(
                f"device must be 'cpu' or text that names a device of PyTorch; got {self.device!r}."
            )
        if place is not None and not isinstance(place, str | os.PathLike):
            raise self._refused(f"checkpoint must name a file; got {place!r}.")
        if place is not None and not Path(place).absolute().parent.is_dir():
            raise self._refused(
                f"checkpoint {str(place)!r} is in a folder that does not exist; make it, or name "
                f"another file."
            )

    def _given_patience(self) -> int | None:
        return None if self.patience is None else check_count(self, "patience")

    def _given_limits(self, deadline: Deadline) -> Limits:
        tol = check_number(self, "tol", high=1.0)
        return Limits(check_count(self, "max_steps"), self._given_patience(), tol, deadline)

    def _rows_to_hold_out(self, n_rows: int) -> int:
        """Return how many rows of a table to hold out: none without patience, or of few rows."""
        if self._given_patience() is None or n_rows < self._defaults.min_rows_to_hold_out:
            return 0
        return default_held_out(n_rows)

    def _given_strategy(self) -> Strategy:
        given = self.strategy
        if isinstance(given, str) and given in STRATEGIES:
            return STRATEGIES[given]
        if isinstance(given, (Checking, Grow, Uniform)):
            return given
        raise self._unknown("strategy", given, STRATEGIES, " or such an object")

    def _given_loss(self) -> Loss:
        if isinstance(self.loss, str) and self.loss in self._losses:
            return self._losses[self.loss]
        raise self._unknown("loss", self.loss, self._losses)

    def _given_scalings(self) -> tuple[str, ...]:
        """Return the scalings to choose from."""
        if self.scaling in ("standard", "none"):
            return (self.scaling,)
        if not is_auto(self.scaling):
            raise self._unknown("scaling", self.scaling, ("auto", "standard", "none"))
        return ("none",) if self.n_components is not None else ("standard", "none")

    def _given_alpha(self, n_rows: int | None) -> float:
        """Return the penalty, by default from the number of rows, None if that is unknown."""
        if is_auto(self.alpha):
            return self._defaults.alpha_rows / (n_rows or self._defaults.unknown_rows)
        return check_number(self, "alpha", low=_LEAST_ALPHA)

    def _unknown(
        self, name: str, value: object, known: Iterable[str], others: str = ""
    ) -> InputError:
        names = ", ".join(map(repr, known))
        return self._refused(f"{name} must be one of {names}{others}; got {value!r}.")

    def _refused(self, what: str) -> InputError:
        return InputError(f"{type(self).__name__}: {what}")
