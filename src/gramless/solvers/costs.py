"""What a direct solution and an iterative one would cost, roughly, by the size of the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gramless.base.memory import memory_budget
from gramless.matrices.abilities import SupportsColumnGram, SupportsUnwhitening
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.chunked import ChunkedMatrix
from gramless.matrices.stacked import HStack, WithIntercept
from gramless.matrices.whitened import WhitenedMatrix
from gramless.solvers.gram import BYTES_A_NUMBER, has_diagonal_blocks, without_ones
from gramless.solvers.preconditioners import default_rows

_GRAM_RATE = {4: 70e9, 8: 35e9}
"""Multiplications and additions a second and core, by bytes a number."""

_FACTOR_RATE = 25e9
_READ, _AN_OUTPUT, _COMPUTED = 0.3e-9, 0.2e-9, 1.5e-9
"""Seconds a number of the matrix in one pass: reading 4 bytes, each output, computing it anew."""
_VALUE = 4e-9
"""Seconds a kernel value."""

ITERATIONS = 30
"""Of preconditioned conjugate gradients, to a gap that nobody sees in predictions."""


@dataclass(frozen=True)
class Costs:
    """Seconds of one core, roughly, and bytes.

    Attributes
    ----------
    size : int
        Of the Gram matrix.
    what : str
        What it is of: ``"columns"`` or ``"rows"``.
    gram_seconds : float
        Its sum over the other side of the matrix.
    factor_seconds : float
        Of one factorisation.
    gram_bytes : int
        With its factor.
    iteration_seconds : float
        One pass over the matrix.
    start_seconds : float
        Of the preconditioner.
    unwhitened : bool
        Whether conjugate gradients go through kernel values, and features are for direct
        solutions alone.
    """

    size: int
    what: str
    gram_seconds: float
    factor_seconds: float
    gram_bytes: int
    iteration_seconds: float
    start_seconds: float
    unwhitened: bool = False

    @classmethod
    def of(cls, matrix: FeatureMatrix, n_outputs: int) -> Costs:
        """Estimate by the shape, the precision and what is stored."""
        found = cls._of_features(matrix, n_outputs)
        inner, _ = without_ones(matrix)
        if not isinstance(inner, SupportsUnwhitening):
            return found
        n_rows, n = matrix.shape
        value_seconds = n_rows * n * _VALUE
        read = _reading(inner.unwhitened())
        return replace(
            found,
            gram_seconds=found.gram_seconds + value_seconds + n_rows * n**2 / _GRAM_RATE[4],
            iteration_seconds=n_rows * n * (read + n_outputs * _AN_OUTPUT),
            start_seconds=value_seconds + 5 / 6 * n**3 / _FACTOR_RATE,
            unwhitened=True,
        )

    @classmethod
    def _of_features(cls, matrix: FeatureMatrix, n_outputs: int) -> Costs:
        n_rows, n_columns = matrix.shape
        size, other = min(n_rows, n_columns), max(n_rows, n_columns)
        gram, one_pass = 0.0, 0.0
        for part in _parts(matrix):
            share = part.shape[1] / max(1, n_columns)
            # Gram matrices of rows are always summed in double precision.
            gram += share / _GRAM_RATE[_itemsize(part) if n_columns <= n_rows else 8]
            anew = _COMPUTED * (1.0 - _stored(part))
            seconds = _reading(part) + anew + n_outputs * _AN_OUTPUT
            one_pass += part.shape[0] * part.shape[1] * seconds
        sample = default_rows(n_rows)
        return cls(
            size,
            "rows" if n_rows < n_columns else "columns",
            size**2 * other * gram,
            size**3 / 3 / _FACTOR_RATE,
            BYTES_A_NUMBER * size**2,
            one_pass,
            sample**2 * (n_columns + sample / 3) / _FACTOR_RATE,
        )

    def direct(self, n_alphas: int = 1) -> float:
        """Return the seconds of direct solutions for so many alphas."""
        return self.gram_seconds + n_alphas * self.factor_seconds

    def iterative(self, n_alphas: int = 1, n_iter: int = ITERATIONS) -> float:
        """Return the seconds of conjugate gradients for so many alphas."""
        return self.start_seconds + n_alphas * n_iter * self.iteration_seconds

    def compared(self, n_alphas: int = 1, n_iter: int = ITERATIONS) -> tuple[bool, str]:
        """Tell whether direct solutions are better, and why, for people."""
        direct, iterative = self.direct(n_alphas), self.iterative(n_alphas, n_iter)
        budget, told = memory_budget(), f"{self.size:,} {self.what}, whose Gram matrix and factor"
        if self.gram_bytes > budget:
            needed = f"{self.gram_bytes / 1e9:.2g} GB of the {budget / 1e9:.2g} GB"
            return False, f"{told} would need {needed} that may be used"
        return direct <= iterative, (
            f"{told} take some {direct:.2g} s of a core, "
            f"{n_alphas * n_iter} iterations some {iterative:.2g} s"
        )


def direct_is_possible(matrix: FeatureMatrix) -> bool:
    """Tell whether a matrix of features without zeros has what a direct solution needs."""
    return isinstance(matrix, SupportsColumnGram) or has_diagonal_blocks(matrix)


def _itemsize(part: FeatureMatrix) -> int:
    """Return the bytes of a number; all but matrices of slabs and their products have doubles."""
    if isinstance(part, WhitenedMatrix):
        return _itemsize(part.values)
    return part.dtype.itemsize if isinstance(part, ChunkedMatrix) else 8


def _stored(part: FeatureMatrix) -> float:
    """Return the fraction of the rows that are stored, not computed anew in each pass."""
    return part.stored if isinstance(part, ChunkedMatrix) else 1.0


def _reading(part: FeatureMatrix) -> float:
    """Return the seconds a number that reading a part takes."""
    return _READ * _itemsize(part) / 4


def _parts(matrix: FeatureMatrix) -> Iterator[FeatureMatrix]:
    """Yield the matrices that a matrix is made of, without columns of ones."""
    if isinstance(matrix, WithIntercept):
        yield from _parts(matrix.matrix)
    elif isinstance(matrix, HStack):
        for part in matrix.parts:
            yield from _parts(part)
    else:
        yield matrix
