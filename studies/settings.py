"""Settings of the trainers that fit this package's models, read from a job's options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.kernels import Kernel, Matern

Units = Literal["none", "standard", "largest", "range", "half range", "overall"]
UNITS: tuple[Units, ...] = ("none", "standard", "largest", "range", "half range", "overall")

Options = TypeVar("Options")


@dataclass(frozen=True)
class Setting:
    """The features, penalty and solver of one model, or of several sizes and bandwidths.

    Parameters
    ----------
    size : int or str
        Number of grids, columns, landmarks, or rows in a block. Text with several numbers, such as
        ``"8 16"``, stands for one model each.
    bandwidth : float or str
        A number in ``units``, or ``"median"`` for the median distance. Text with several numbers
        stands for one model each.
    penalty : float, default=0.01
        lambda in ``(Z'Z + lambda I) w = Z'y`` (RB16, equation 8): the number of rows times the
        penalty of the mean loss.
    kernel : str, default="laplacian"
        A kernel's name, or ``"isotropic laplacian"``, the kernel ``exp(-||x - y||_2 / s)``.
    units : str, default="none"
        The unit of the bandwidth of each input: 1 (``"none"``), its standard deviation, its largest
        absolute value, its range, half its range, or the largest absolute value of all inputs
        (``"overall"``). Kernels of differences are invariant to shifts, so ``"range"`` and
        ``"half range"`` are equivalent to LIBSVM's scalings to [0, 1] and [-1, 1].
    inputs : str, default=""
        Indices of the inputs to use; all by default.
    solver : str, default="cg"
        A name in ``solvers/choose.py``, ``"auto"`` for the cheapest of them, or ``"rows"`` for
        :class:`~studies.baselines.row_conjugate.RowConjugateGradient`.
    tol, max_iter : float, int, default=1e-3, 50
        Tolerance and maximum number of iterations of iterative solvers.
    centred : bool, default=False
        Whether to subtract the means of the targets before the fit.
    copies : int, default=1
        Number of copies of a single output, to compare timings at equal numbers of outputs.
    fourier_map : {"paired", "shifted"}, default="paired"
        Kind of Fourier features.
    loss : str, default="squared"
        Loss of the scores that use one.
    without_last : bool, default=False
        Whether to never predict the last class, as a program does that numbers classes from 0
        although the labels begin with 1.

    Examples
    --------
    >>> setting = Setting.read({"size": "8 16", "bandwidth": 0.5})
    >>> [each.size for each in setting.each()]
    [8, 16]
    """

    size: Any
    bandwidth: Any
    penalty: float = 0.01
    kernel: str = "laplacian"
    units: Units = "none"
    inputs: str = ""
    solver: str = "cg"
    tol: float = 1e-3
    max_iter: int = 50
    centred: bool = False
    copies: int = 1
    fourier_map: str = "paired"
    loss: str = "squared"
    without_last: bool = False

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Setting:
        """Return the setting given by a job's options.

        Raises
        ------
        InputError
            If an option is missing or unknown.
        """
        setting = read_options(cls, options, "a machine's options")
        if setting.units not in UNITS:
            raise InputError(f"units must be one of {', '.join(UNITS)}, got {setting.units!r}")
        return setting

    def each(self) -> Iterator[Setting]:
        """Yield one setting per size and bandwidth, with all bandwidths of a size together."""
        for size in numbers_in(self.size):
            for bandwidth in numbers_in(self.bandwidth):
                yield replace(self, size=int(size), bandwidth=bandwidth)

    def rows(self, X: Any) -> Any:
        """Return the rows with the inputs that are used."""
        return X[:, [int(j) for j in self.inputs.split()]] if self.inputs else X

    @property
    def kernel_used(self) -> str | Kernel:
        """The kernel object for names that gramless does not have, otherwise the name."""
        return Matern(nu=0.5) if self.kernel == "isotropic laplacian" else self.kernel

    def bandwidths(self, X: Any) -> Any:
        """Return the bandwidth of each input, or ``"median"``."""
        if self.bandwidth == "median":
            return self.bandwidth
        return float(self.bandwidth) * unit_of(self.units, X)


def read_options(cls: type[Options], options: Mapping[str, Any], what: str) -> Options:
    """Return an instance of a dataclass with the given fields.

    Parameters
    ----------
    cls : type
        A dataclass.
    options : mapping
        Values by the names of the fields.
    what : str
        Name of the options in error messages.

    Raises
    ------
    InputError
        If an option is missing or unknown.

    Examples
    --------
    >>> read_options(Setting, {"size": 8, "bandwidth": 0.5}, "a machine's options").solver
    'cg'
    """
    known = fields(cls)  # type: ignore[arg-type]  # every dataclass is accepted
    required = {field.name for field in known if field.default is MISSING}
    unknown = sorted(set(options) - {field.name for field in known})
    wrong = unknown + sorted(required - set(options))
    if wrong:
        raise InputError(f"{what}: missing or not known: {', '.join(wrong)}")
    return cls(**options)


def numbers_in(value: Any) -> list[Any]:
    """Return a list of the numbers in a text, or of the value if it is a number or ``"median"``.

    Examples
    --------
    >>> numbers_in("8 0.5"), numbers_in(3), numbers_in("median")
    ([8.0, 0.5], [3], ['median'])
    """
    if not isinstance(value, str) or value == "median":
        return [value]
    return [float(word) for word in value.split()]


def words(numbers: Iterable[float]) -> str:
    """Return numbers as text for an option with several values.

    Examples
    --------
    >>> words([8, 0.25])
    '8 0.25'
    """
    return " ".join(f"{number:.10g}" for number in numbers)


def unit_of(units: Units, X: Any) -> NDArray[np.float64]:
    """Return the unit of the bandwidth of each input, infinite for constant inputs.

    Parameters
    ----------
    units : str
        See :class:`Setting`.
    X : array (n_rows, n_inputs) or CSR
        Sparse rows are supported only with ``"none"``.

    Returns
    -------
    array (n_inputs,)

    Examples
    --------
    >>> X = np.array([[1.0, -4.0, 7.0], [3.0, 0.0, 7.0]])
    >>> unit_of("range", X), unit_of("largest", X)
    (array([ 2.,  4., inf]), array([3., 4., 7.]))
    """
    if units == "none":
        return np.ones(X.shape[1])
    low, high = (np.asarray(edge, np.float64) for edge in (X.min(axis=0), X.max(axis=0)))
    largest = np.maximum(np.abs(low), np.abs(high))
    if units == "overall":
        return np.full(X.shape[1], largest.max())
    if units == "standard":
        unit = np.asarray(X.std(axis=0, dtype=np.float64))
    else:
        unit = {"largest": largest, "range": high - low, "half range": (high - low) / 2.0}[units]
    return np.where(unit > 0.0, unit, np.inf)
