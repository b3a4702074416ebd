"""What the trainers of this package's own machines are given, read from a job's options."""

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

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Setting:
    """One machine: its features, their size, its penalty and its solver.

    Parameters
    ----------
    size : int or str
        Grids, columns, landmarks, or rows in a block. Text holds several, such as ``"8 16"``:
        a machine for each.
    bandwidth : float or str
        In ``units``; ``"median"`` for the median distance; text of numbers for a machine each.
    penalty : float, default=0.01
        lambda of ``(Z'Z + lambda I) w = Z'y`` (RB16, equation 8): the number of rows times that
        of the mean loss.
    kernel : str, default="laplacian"
        A kernel's name, or ``"isotropic laplacian"``, the kernel ``exp(-||x - y||_2 / s)``.
    units : str, default="none"
        What a bandwidth of 1 stands for in each input: 1; its standard deviation; its largest
        absolute value; its range; half of that; the largest absolute value of all inputs. A
        kernel of differences does not care where zero is, so that these are LIBSVM's scalings to
        deviations, [0, 1] and [-1, 1].
    inputs : str, default=""
        Positions of the inputs used; all by default.
    solver : str, default="cg"
        A name in ``solvers/choose.py``; ``"auto"``, whatever is cheapest there; or ``"rows"``,
        :class:`~studies.baselines.row_conjugate.RowConjugateGradient`.
    tol, max_iter : float, int, default=1e-3, 50
        Of iterative solvers.
    centred : bool, default=False
        Whether the means of the targets are fitted apart.
    copies : int, default=1
        How often one output is solved for, side by side.
    fourier_map : {"paired", "shifted"}, default="paired"
        Of Fourier features.
    loss : str, default="squared"
        Which loss scores are computed of.
    without_last : bool, default=False
        Whether the last class is never predicted: a program that counts classes from 0 does so
        where labels begin with 1.

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
        """Return the setting that options name.

        Raises
        ------
        InputError
            If an option is missing or not known.
        """
        setting = read_options(cls, options, "a machine's options")
        if setting.units not in UNITS:
            raise InputError(f"units must be one of {', '.join(UNITS)}, got {setting.units!r}")
        return setting

    def each(self) -> Iterator[Setting]:
        """Yield a setting for each size and each bandwidth, bandwidths within sizes."""
        for size in numbers_in(self.size):
            for bandwidth in numbers_in(self.bandwidth):
                yield replace(self, size=int(size), bandwidth=bandwidth)

    def rows(self, X: Any) -> Any:
        """Return the rows with the inputs that are used."""
        return X[:, [int(j) for j in self.inputs.split()]] if self.inputs else X

    @property
    def kernel_used(self) -> str | Kernel:
        """The kernel that the name stands for."""
        return Matern(nu=0.5) if self.kernel == "isotropic laplacian" else self.kernel

    def bandwidths(self, X: Any) -> Any:
        """Return the bandwidth of each input in units of the rows given, or ``"median"``."""
        if self.bandwidth == "median":
            return self.bandwidth
        return float(self.bandwidth) * unit_of(self.units, X)


def read_options(kind: type[Kind], options: Mapping[str, Any], what: str) -> Kind:
    """Return the dataclass of a kind that options fill.

    Parameters
    ----------
    kind : type
    options : mapping
        Fields by their names.
    what : str
        What the options are called in errors.

    Raises
    ------
    InputError
        If an option is missing or not known.

    Examples
    --------
    >>> read_options(Setting, {"size": 8, "bandwidth": 0.5}, "a machine's options").solver
    'cg'
    """
    known = fields(kind)  # type: ignore[arg-type]  # any dataclass will do
    asked = {field.name for field in known if field.default is MISSING}
    wrong = sorted(set(options) - {field.name for field in known}) + sorted(asked - set(options))
    if wrong:
        raise InputError(f"{what}: missing or not known: {', '.join(wrong)}")
    return kind(**options)


def numbers_in(value: Any) -> list[Any]:
    """Return the numbers that a text holds; a number or another word alone.

    Examples
    --------
    >>> numbers_in("8 0.5"), numbers_in(3), numbers_in("median")
    ([8.0, 0.5], [3], ['median'])
    """
    if not isinstance(value, str) or value == "median":
        return [value]
    return [float(word) for word in value.split()]


def words(numbers: Iterable[float]) -> str:
    """Return numbers as the text of an option.

    Examples
    --------
    >>> words([8, 0.25])
    '8 0.25'
    """
    return " ".join(f"{number:.10g}" for number in numbers)


def unit_of(units: Units, X: Any) -> NDArray[np.float64]:
    """Return what a bandwidth of 1 stands for in each input; infinite for constant ones.

    Parameters
    ----------
    units : str
        As in :class:`Setting`.
    X : array (n_rows, n_inputs) or CSR
        Sparse rows only with ``"none"``.

    Returns
    -------
    array (n_inputs,)

    Notes
    -----
    Looks at all rows once.

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
