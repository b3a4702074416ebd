"""Base class of kernels: profiles, exact Gram matrices, and their configuration."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from gramless.base.errors import InputError, KernelError
from gramless.base.numeric import as_float, clip_infinities, is_whole
from gramless.base.state import State, Stateful
from gramless.base.threads import row_blocks

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
KernelConfig = Mapping[str, Any]
Metric = Literal["cityblock", "euclidean"]


@dataclass(frozen=True)
class Kernel(Stateful, ABC, tag="kernel"):
    """A kernel of the differences between rows, in units of the bandwidth of each input.

    By default a kernel is a product of one-dimensional profiles over the inputs: ``k(x, y) = prod_j
    profile(|x_j - y_j| / bandwidth_j)`` with ``profile(0) = 1``. The profile of other kernels, such
    as radial ones, is the kernel of rows with one input. Subclasses are frozen dataclasses whose
    fields are the parameters. The bandwidth is not one of them.
    """

    # Subclasses check and convert their parameters in __post_init__. They store the results by
    # vars(self).update, because assignments to a frozen dataclass raise an error.

    name: ClassVar[str]
    metric: ClassVar[Metric] = "cityblock"  # the distance between rows that a bandwidth scales
    no_binning_because: ClassVar[str] = "its class defines no distribution of grid widths"
    no_fourier_because: ClassVar[str] = "its class defines no distribution of frequencies"
    _named: ClassVar[dict[str, type[Kernel]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            known = cls._named.setdefault(cls.name, cls)
            # A class that is defined again, for example in a notebook, replaces the former one.
            if (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__):
                cls._named[cls.name] = cls

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """Kernels of which this kernel is composed, if any."""
        return ()

    @property
    def is_separable(self) -> bool:
        """True if the kernel is the product of its values in each input."""
        return all(part.is_separable for part in self.parts)

    def part_without(self, kind: type) -> Kernel | None:
        """Return the first of the kernel and its parts that is not a ``kind``, or None."""
        if not isinstance(self, kind):
            return self
        others = (part.part_without(kind) for part in self.parts)
        return next((part for part in others if part is not None), None)

    @abstractmethod
    def profile(self, distance: FloatArray) -> FloatArray:
        """Return the kernel of rows with one input; it is 1 at distance 0.

        Parameters
        ----------
        distance : array of any shape
            Non-negative distances, in units of the bandwidth.
        """

    def gram(
        self,
        X: ArrayLike,
        Y: ArrayLike | None = None,
        *,
        bandwidth: ArrayLike = 1.0,
        categorical: BoolArray | None = None,
    ) -> FloatArray:
        """Return the exact kernel values between the rows of ``X`` and those of ``Y``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows.
        Y : array-like of shape (n_others, n_inputs), default=None
            ``None`` means ``X``.
        bandwidth : float or array-like of shape (n_inputs,), default=1.0
            In units of the inputs. Infinity ignores an input.
        categorical : ndarray of shape (n_inputs,) of bool, default=None
            Mask of categorical inputs. The kernel of rows with different categories is multiplied
            by ``profile(1 / bandwidth)``.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
            Values in float64.

        Notes
        -----
        Time is O(n_rows n_others n_inputs), memory O(n_rows n_others).

        Examples
        --------
        >>> from gramless.kernels import Laplacian
        >>> Laplacian().gram([[0.0, 0.0]], [[1.0, 5.0]], bandwidth=[2.0, float("inf")]).round(4)
        array([[0.6065]])
        """
        return self.gram_of_checked(*_check_rows(X, Y, bandwidth, categorical))

    def gram_blocks(
        self,
        X: ArrayLike,
        Y: ArrayLike | None = None,
        *,
        bandwidth: ArrayLike = 1.0,
        categorical: BoolArray | None = None,
        block_rows: int = 1024,
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the exact Gram matrix in blocks of rows, which need less memory.

        Parameters
        ----------
        X, Y, bandwidth, categorical
            As in :meth:`gram`.
        block_rows : int, default=1024
            Number of rows of a block, at least 1. Values do not depend on it.

        Returns
        -------
        iterator of (slice, ndarray of shape (at most block_rows, n_others))
            Rows and values of each block.

        Examples
        --------
        >>> from gramless.kernels import Gaussian
        >>> for rows, block in Gaussian().gram_blocks([[0.0], [1.0], [2.0]], block_rows=2):
        ...     print(rows.start, rows.stop, block.sum().round(4))
        0 2 3.9549
        2 3 1.7419
        """
        if not is_whole(block_rows, 1):
            raise InputError(f"block_rows must be a whole number above 0, got {block_rows!r}.")
        rows, others, widths, mask = _check_rows(X, Y, bandwidth, categorical)
        return (
            (slice(a, b), self.gram_of_checked(rows[a:b], others, widths, mask))
            for a, b in row_blocks(len(rows), int(block_rows))
        )

    def gram_of_checked(
        self, rows: FloatArray, others: FloatArray, widths: FloatArray, categorical: BoolArray
    ) -> FloatArray:
        """Return the Gram matrix of checked rows."""
        used = np.isfinite(widths)
        numeric = used & ~categorical
        # Indexing would return Fortran-ordered arrays, for which cdist is slow.
        with np.errstate(over="ignore"):
            scaled = (
                clip_infinities(np.compress(numeric, part, axis=1) / widths[numeric])
                for part in (rows, others)
            )
            gram = self._gram_at_unit_bandwidth(*scaled)
        for j in np.flatnonzero(used & categorical):
            unequal = rows[:, j, None] != others[:, j]
            gram *= np.where(unequal, self.profile(np.array(1.0 / widths[j])), 1.0)
        return gram

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        gram = np.ones((rows.shape[0], others.shape[0]))
        for column, other_column in zip(rows.T, others.T, strict=True):
            gram *= self.profile(np.abs(column[:, None] - other_column[None, :]))
        return gram

    def to_config(self) -> dict[str, object]:
        """Return the kernel as plain data, for JSON and :func:`gramless.kernels.from_config`.

        Examples
        --------
        >>> from gramless.kernels import ExponentialPower
        >>> ExponentialPower(power=0.3).to_config()
        {'name': 'exponential_power', 'power': 0.3}
        """
        fields = [field.name for field in dataclasses.fields(self) if field.init]
        return {
            "name": self.name,
            **{field: _to_plain_data(getattr(self, field)) for field in fields},
        }

    def state(self) -> State:
        """Return :meth:`to_config`, or raise ``KernelError`` if another class has the same name."""
        if self._named.get(self.name) not in (type(self), None):
            raise KernelError(f"a kernel of another class has the name {self.name!r} too.")
        return self.to_config()

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the kernel of a configuration, as :func:`gramless.kernels.from_config`."""
        name = state.get("name")
        kind = cls._named.get(name) if isinstance(name, str) else None
        if kind is None:
            raise KernelError(f"unknown kernel {name!r}; the names are {', '.join(cls._named)}.")
        parameters = {key: _restore(value) for key, value in state.items() if key != "name"}
        known = {field.name for field in dataclasses.fields(kind) if field.init}
        if unknown := parameters.keys() - known:
            raise KernelError(f"{kind.__name__} has no parameter {', '.join(sorted(unknown))}.")
        if missing := required_parameters(kind) - parameters.keys():
            raise KernelError(f"{kind.__name__} needs {', '.join(sorted(missing))}.")
        try:
            kernel = kind(**parameters)
        except TypeError as error:
            raise KernelError(f"{kind.__name__} cannot use its parameters: {error}.") from error
        assert isinstance(kernel, cls)
        return kernel


def required_parameters(kind: type[Kernel]) -> set[str]:
    """Return the names of the parameters that have no default."""
    fields = [field for field in dataclasses.fields(kind) if field.init]
    return {field.name for field in fields if field.default is dataclasses.MISSING}


def _restore(value: object) -> object:
    if isinstance(value, dict):
        return Kernel.from_state(value)
    return tuple(map(_restore, value)) if isinstance(value, list) else value


def _check_rows(
    X: ArrayLike, Y: ArrayLike | None, bandwidth: ArrayLike, categorical: BoolArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    rows = check_array(X, dtype=np.float64, input_name="X")
    others = rows if Y is None else check_array(Y, dtype=np.float64, input_name="Y")
    n_inputs = rows.shape[1]
    if others.shape[1] != n_inputs:
        raise InputError(f"X has {n_inputs} inputs and Y has {others.shape[1]}: they must agree.")
    mask = np.zeros(n_inputs, bool) if categorical is None else np.asarray(categorical)
    if mask.shape != (n_inputs,) or mask.dtype != bool:
        raise InputError(
            f"categorical must be {n_inputs} truth values, one per input; got {categorical!r}."
        )
    return rows, others, bandwidth_vector(bandwidth, n_inputs), mask


def bandwidth_vector(bandwidth: ArrayLike, n_inputs: int) -> FloatArray:
    """Return the bandwidth of each input, or raise ``InputError`` if one is not positive.

    Parameters
    ----------
    bandwidth : float or array-like (n_inputs,)
        One for all inputs, or one per input. Infinity is allowed.
    n_inputs : int
        Number of inputs.

    Examples
    --------
    >>> bandwidth_vector(2, 3)
    array([2., 2., 2.])
    """
    try:
        vector = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"bandwidth must be numbers, got {bandwidth!r}.") from error
    if vector.shape not in ((), (n_inputs,)):
        raise InputError(
            f"bandwidth must be one number or {n_inputs}, one per input; got shape {vector.shape}."
        )
    if not np.all(vector > 0):
        raise InputError(
            f"bandwidth must be positive (infinity ignores an input), got {bandwidth!r}."
        )
    return np.broadcast_to(vector, (n_inputs,))


def check_positive_number(value: object, owner: str, parameter: str) -> float:
    """Return a kernel parameter, or raise ``KernelError`` if it is not finite and positive."""
    number = as_float(value)
    if not 0.0 < number < np.inf:
        raise KernelError(f"{owner} needs {parameter} to be a number above 0, got {value!r}.")
    return number


def _to_plain_data(value: object) -> object:
    if isinstance(value, Kernel):
        return value.to_config()
    return [_to_plain_data(item) for item in value] if isinstance(value, tuple) else value
