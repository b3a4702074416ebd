"""The choice of a solver by name or by cost, and the costs of direct and iterative solutions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gramless.base.errors import InputError
from gramless.base.memory import large_array_budget_for
from gramless.base.types import FloatArray
from gramless.losses import Loss, Squared
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.dense import ChunkedMatrix
from gramless.matrices.stacked import stacked_parts, without_ones
from gramless.matrices.transformed import WhitenedMatrix
from gramless.solvers.base import Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.direct import BYTES_PER_NUMBER, Cholesky
from gramless.solvers.falkon import Falkon
from gramless.solvers.gmres import Gmres
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.preconditioners import Identity, SampledRows, default_sample_size
from gramless.solvers.random_descent import RandomDescent

SOLVERS: dict[str, Solver] = {
    "pcg": ConjugateGradient(SampledRows()),
    "cg": ConjugateGradient(Identity()),
    "cholesky": Cholesky(),
    "falkon": Falkon(),
    "gmres": Gmres(),
    "newton": NewtonCG(),
    "grid": GridDescent(),
    "random": RandomDescent(),
}

# Names of solvers of version 0.2.0, with the files of the repository that hold them now.
REMOVED_SOLVERS = {
    "root": "studies/baselines/preconditioners.py",
    "jacobi": "studies/baselines/preconditioners.py",
    "nystrom": "studies/baselines/preconditioners.py",
    "rows": "studies/baselines/row_conjugate.py",
}


def choose_solver(
    solver: str | Solver,
    *,
    tol: float,
    max_iter: int,
    loss: Loss | None = None,
    l1_ratio: float = 0.0,
    n_jobs: int | None = None,
    matrix: FeatureMatrix | None = None,
    n_outputs: int = 1,
) -> tuple[Solver, str]:
    """Return the solver with a name, and the reason for the choice.

    ``"auto"`` chooses a direct solver for the squared loss with a smooth penalty if the matrix is
    dense and a direct solution fits into memory and costs less time than conjugate gradients.
    Otherwise, and without a matrix, it chooses an iterative solver. A solver object is returned as
    it is. Solvers given by name get those of the options
    ``tol``, ``max_iter`` and ``n_jobs`` that they have. Raises InputError if the name is unknown or
    the solver does not support the loss or penalty.

    Examples
    --------
    >>> choose_solver("cg", tol=1e-3, max_iter=50)[1]
    'cg, as asked'
    """
    loss = Squared() if loss is None else loss
    if isinstance(solver, Solver):
        return solver, f"{type(solver).__name__}, as given"
    if not isinstance(solver, str):
        raise InputError(f"solver must be a name or a Solver with its options, got {solver!r}.")
    name, reason = solver, "as asked"
    if solver == "auto":
        if l1_ratio > 0:
            parts = "grids" if matrix is None or matrix.has_row_lists else "columns"
            name, reason = "grid", f"{loss.name} loss with absolute values, descent over {parts}"
        elif loss.name != "squared":
            name, reason = "newton", f"{loss.name} loss, preconditioned with a sample of the rows"
        elif matrix is None or not matrix.has_column_gram:
            name, reason = "pcg", "squared loss, preconditioned with a sample of the rows"
        else:
            costs = Costs.of(matrix, n_outputs)
            is_direct_better, reason = costs.compare()
            name = "cholesky" if is_direct_better else "falkon" if costs.unwhitened else "pcg"
    if name in REMOVED_SOLVERS:
        raise InputError(
            f"solver {name!r} left gramless after version 0.2.0; use 'auto'. Its code is in "
            f"{REMOVED_SOLVERS[name]} of the repository."
        )
    if name not in SOLVERS:
        raise InputError(
            f"unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or a Solver."
        )
    lacks = {k: each.capabilities.lack(loss, l1=l1_ratio > 0) for k, each in SOLVERS.items()}
    if lacks[name] is not None:
        others = ", ".join(repr(other) for other, lack in lacks.items() if lack is None)
        penalty = " with l1_ratio above 0" if l1_ratio > 0 else ""
        remedy = f"for the loss {loss.name!r}{penalty} use 'auto' or {others}"
        remedy = remedy if others else "use a smooth loss"
        raise InputError(f"solver {name!r} {lacks[name]}; {remedy}.")
    options = {"tol": tol, "max_iter": max_iter, "n_jobs": n_jobs}
    known = {k: v for k, v in options.items() if k in vars(SOLVERS[name])}
    result = replace(SOLVERS[name], **known)  # type: ignore[type-var]
    return result, f"{name}, {reason}" if solver != "auto" else f"{name}: {reason}"


def path_solver(
    matrix: FeatureMatrix,
    row_weights: FloatArray,
    *,
    tol: float,
    max_iter: int,
    n_alphas: int,
    n_outputs: int = 1,
    n_jobs: int | None = None,
) -> Solver:
    """Return a solver of ridge problems over one matrix, for a path of ``n_alphas`` penalties.

    It is either direct, with one Gram matrix for all problems, or conjugate gradients with one
    sample of rows as the preconditioner.
    """
    if matrix.has_column_gram:
        is_direct_better, _ = Costs.of(matrix, n_outputs).compare(n_alphas, max_iter)
        if is_direct_better:
            return Cholesky(n_jobs).prepare(matrix, row_weights)
    sample = SampledRows().draw(matrix, row_weights)
    return ConjugateGradient(sample, tol, max_iter, n_jobs)


# Multiplications and additions per second and core, by the bytes of a number.
_GRAM_RATE = {4: 70e9, 8: 35e9}
_FACTOR_RATE = 25e9
# Seconds per number of the matrix in a pass: to read 4 bytes, to multiply by each output, and to
# recompute the number.
_READ_SECONDS, _OUTPUT_SECONDS, _COMPUTE_SECONDS = 0.3e-9, 0.2e-9, 1.5e-9
_KERNEL_VALUE_SECONDS = 4e-9

# Preconditioned iterations until the remaining error no longer shows in predictions.
ITERATIONS = 30


@dataclass(frozen=True)
class Costs:
    """Estimated costs of direct and iterative solutions, in seconds of one core.

    ``size`` is the number of columns or rows of the Gram matrix; ``what`` says which.
    ``start_seconds`` is the time for the preconditioner. If ``unwhitened``, conjugate gradients use
    kernel values, and only a direct solution needs the features.
    """

    size: int
    what: str
    gram_seconds: float
    iteration_seconds: float
    start_seconds: float
    unwhitened: bool = False

    @classmethod
    def of(cls, matrix: FeatureMatrix, n_outputs: int) -> Costs:
        """Return the costs, given the shape, the precision and the stored share of a matrix."""
        n_rows, n = matrix.shape
        size, other, what = min(n_rows, n), max(n_rows, n), "rows" if n_rows < n else "columns"
        one_pass = gram = 0.0
        inner, _ = without_ones(matrix)
        for _, part in stacked_parts(inner):
            stored = part.stored if isinstance(part, ChunkedMatrix) else 1.0
            reading = _READ_SECONDS * _itemsize(part) / 4
            seconds = reading + _COMPUTE_SECONDS * (1.0 - stored) + n_outputs * _OUTPUT_SECONDS
            one_pass += n_rows * part.shape[1] * seconds
            # Gram matrices of rows are summed in double precision.
            gram += part.shape[1] / max(1, n) / _GRAM_RATE[_itemsize(part) if n <= n_rows else 8]
        gram *= size**2 * other
        kernel_values = inner.unwhitened()
        if kernel_values is None:
            sample = default_sample_size(n_rows)
            start = sample**2 * (n + sample / 3) / _FACTOR_RATE
            return cls(size, what, gram, one_pass, start)
        values = n_rows * n * _KERNEL_VALUE_SECONDS
        gram += values + n_rows * n**2 / _GRAM_RATE[4]
        reading = _READ_SECONDS * _itemsize(kernel_values) / 4
        one_pass = n_rows * n * (reading + n_outputs * _OUTPUT_SECONDS)
        start = values + 5 / 6 * n**3 / _FACTOR_RATE
        return cls(size, what, gram, one_pass, start, unwhitened=True)

    def direct(self, n_alphas: int = 1) -> float:
        return self.gram_seconds + n_alphas * self.size**3 / 3 / _FACTOR_RATE

    def compare(self, n_alphas: int = 1, n_iter: int = ITERATIONS) -> tuple[bool, str]:
        """Return whether direct solutions are better, and the reason in words."""
        direct, n_iter = self.direct(n_alphas), n_alphas * n_iter
        iterative = self.start_seconds + n_iter * self.iteration_seconds
        subject = f"{self.size:,} {self.what}, whose Gram matrix and factor"
        needed = BYTES_PER_NUMBER * self.size**2
        if needed > (budget := large_array_budget_for(needed)):
            sizes = f"{needed / 1e9:.2g} GB of the {budget / 1e9:.2g} GB"
            return False, f"{subject} would need {sizes} that may be used"
        seconds = f"some {direct:.2g} s of a core, {n_iter} iterations some {iterative:.2g} s"
        return direct <= iterative, f"{subject} take {seconds}"


def _itemsize(part: FeatureMatrix) -> int:
    """Return the bytes of a number: 8, or fewer in chunked matrices."""
    if isinstance(part, WhitenedMatrix):
        return _itemsize(part.values)
    return part.dtype.itemsize if isinstance(part, ChunkedMatrix) else 8
