"""RB16's Theorem 1: its constants, its bound, and measured objectives to compare with the bound.

``python -m studies.rb16.theorem_1`` prints the table of the theory page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.inspection.diagnostics import diagnose
from gramless.kernels import Laplacian
from gramless.matrices.binned import BinnedMatrix

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """A reference solution w* on the bins of infinitely many grids, and the loss's curvature."""

    square: float  # |w*|^2
    start: float  # F(0)
    objective: float  # F(w*)
    beta: float = 1.0

    @classmethod
    def ridge(cls, gram: Array, y: Array, alpha: float) -> Reference:
        """Return the solution that minimises ``mean((y - f)^2) / 2 + alpha |w|^2 / 2``."""
        weights = np.linalg.solve(gram + len(y) * alpha * np.eye(len(y)), y)
        square = float(weights @ gram @ weights)
        loss = 0.5 * float(np.mean((y - gram @ weights) ** 2))
        return cls(square, 0.5 * float(np.mean(y**2)), loss + 0.5 * alpha * square)

    def lost_grids(self, kappa: float) -> int:
        """Return c, the number of grids that the bound does not count: ``R' = R - c``."""
        return math.ceil(2 * kappa * (self.start - self.objective) / (self.beta * self.square))

    def bound(self, kappa: float, n_grids: int) -> float:
        """Return the bound as printed, ``beta |w*|^2 / (kappa R')``, infinite if R <= c."""
        counted = n_grids - self.lost_grids(kappa)
        return self.beta * self.square / (kappa * counted) if counted > 0 else math.inf

    def proven_bound(self, kappa: float, n_grids: int) -> float:
        """Return the bound that the paper's recursion gives, ``2 beta |w*|^2 / (kappa (R' + 2))``.

        (21) is ``d_(r+1) <= d_r - kappa d_r^2 / (2 beta |w*|^2)``, from at most
        ``beta |w*|^2 / kappa``. So ``1 / d`` increases by ``kappa / (2 beta |w*|^2)`` a step, half
        of what the printed bound needs.
        """
        counted = n_grids - self.lost_grids(kappa)
        return 2 * self.beta * self.square / (kappa * (counted + 2)) if counted >= 0 else math.inf


def small_case() -> tuple[Array, Array, float, float]:
    """Return rows, targets, the penalty and the bandwidth of the table on the theory page."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1], 1e-2, 2.0


def measured(n_grids: int, n_draws: int) -> tuple[float, float, Reference]:
    """Return the mean of ``F(w_R) - F(w*)`` over draws of R grids, the mean kappa, and w*."""
    X, y, alpha, bandwidth = small_case()
    reference = Reference.ridge(Laplacian().gram(X, bandwidth=bandwidth), y, alpha)
    gaps, kappas = [], []
    for seed in range(n_draws):
        grids = RandomBinning(bandwidth=bandwidth, n_grids=n_grids, random_state=seed)
        matrix = grids.fit_matrix(X)
        assert isinstance(matrix, BinnedMatrix)
        Z = matrix.toarray()
        gaps.append(Reference.ridge(Z @ Z.T, y, alpha).objective - reference.objective)
        kappas.append(diagnose(matrix).kappa)
    return float(np.mean(gaps)), float(np.mean(kappas)), reference


def main() -> None:
    """Print the table."""
    print("| R | R' | measured | bound, as printed | bound, as proven |")
    for n_grids in (16, 64, 256):
        gap, kappa, reference = measured(n_grids, 40)
        counted = n_grids - reference.lost_grids(kappa)
        bounds = reference.bound(kappa, n_grids), reference.proven_bound(kappa, n_grids)
        print(f"| {n_grids} | {counted} | {gap:.4f} | {bounds[0]:.4f} | {bounds[1]:.4f} |")


if __name__ == "__main__":
    main()
