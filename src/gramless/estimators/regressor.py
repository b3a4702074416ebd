"""Kernel ridge regression without the Gram matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from gramless.estimators.base import KernelMachine
from gramless.losses import Huber, Loss, SmoothPinball, Squared
from gramless.matrices.base import Vector


class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel ridge regression on random features, with no knobs to turn.

    Minimises ``mean (f(x) - y)^2 / 2 + alpha/2 |w|^2`` over ``f(x) = w'z(x) +
    intercept`` (RB16, equation 1). What is left on ``"auto"`` is chosen on
    held-back rows.

    Parameters
    ----------
    features : str or feature map, default="binning"
        ``"binning"`` is :class:`RandomBinning` with the Laplacian kernel and 512
        grids, up to 2,048 on small tables.
    loss : {"squared", "huber", "median"} or Loss, default="squared"
        "huber" is squared to half a standard deviation of the targets and linear
        beyond; "median" predicts the median. ``SmoothPinball(0.9)`` predicts
        another quantile. Parameters of a loss are in standard deviations of the
        targets.
    bandwidth : float, array-like (n_features,) or "auto", default="auto"
        In units of the scaled inputs. ``"auto"`` searches, unless the feature
        map given has a number of its own.
    alpha : float or "auto", default="auto"
    scaling : {"auto", "standard", "quantile", "none"}, default="auto"
        Units of the inputs; "quantile" replaces values by ranks.
    relevance : {"auto", "equal"}, default="auto"
        "auto" weighs inputs by how much they move the prediction, if that
        predicts held-back rows better.
    l1_ratio : float, default=0.0
        0 penalises squares of the weights (L2), 1 absolute values (L1), which makes
        most weights zero; between them is the elastic net. Bins without weight are
        forgotten: the model is smaller and predicts faster.
    solver : str or Solver, default="auto"
        "auto" is "grid", descent over grids, where ``l1_ratio`` is above 0, "newton"
        for losses other than the squared one, else "pcg": conjugate gradients,
        preconditioned by a sample of the rows. For comparison: "root" and "jacobi"
        (bin counts), "cg" (nothing), "gmres", "random" (coordinate descent).
    tol : float, default=1e-2
        On the gradient relative to the start, in the preconditioner's norm; the
        objective is then within about 1e-4 of its minimum, relative to the way
        from the start.
    max_iter : int, default=100
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.
    verbose : int, default=0
        1 prints what was tried and chosen.

    Attributes
    ----------
    features_ : RandomBinning
        Fitted, in units of the scaled inputs.
    coef_, intercept_ : arrays (D,) or (D, n_outputs); float or (n_outputs,)
    bandwidth_, alpha_, settings_ : what was chosen
    search_ : list of dict
        Every trial: settings, score on held-back rows, validation curve along
        the iterations, rows, grids, seconds.
    sparsity_ : float
        Share of the bins that have no weight, 0 unless ``l1_ratio`` is above 0.
    relevance_ : array (n_features,)
        Weights of the inputs; a bandwidth is divided by them.
    scaler_ : Scaler
    encoder_ : TableEncoder or None
        For data frames.
    n_iter_, status_, history_, solver_reason_
        How the final solve went.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A fit with everything given costs, a row, grid and core, some 2 ns to bin
    and 0.6 ns an iteration; 1, 2 or 4 bytes a row and grid, and 8 bytes a
    column and output.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 2))
    >>> y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    >>> model = KernelRegressor(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.97)
    True
    """

    _free_intercept = True
    _losses: ClassVar[dict[str, Loss]] = {
        "squared": Squared(),
        "huber": Huber(0.5),
        "median": SmoothPinball(0.5),
    }

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predictions.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        return self._responses(X)

    def _target_options(self) -> dict[str, Any]:
        return {"multi_output": True, "y_numeric": True}

    def _check_targets(self, y: NDArray) -> NDArray:
        return np.asarray(y, np.float64)

    def _encode_targets(self, y: NDArray, weight: NDArray[np.float64] | None) -> Vector:
        # A power of two divides without rounding, and keeps the squares of huge targets finite.
        largest = np.abs(y).max(axis=0)
        size = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
        middle = np.average(y / size, axis=0, weights=weight)
        centred = y / size - middle
        deviation = np.sqrt(np.average(centred**2, axis=0, weights=weight))
        deviation = np.where(deviation > 0, deviation, 1.0)
        self._middle, self._spread = middle * size, deviation * size
        return centred / deviation

    def _in_units(self, weights: Vector) -> tuple[Vector, Any]:
        intercept = weights[-1] * self._spread + self._middle
        return weights[:-1] * self._spread, intercept if weights.ndim == 2 else float(intercept)

    @staticmethod
    def _score(z: Vector, y: Vector, weight: NDArray[np.float64] | None) -> float:
        return float(np.mean(np.average((z - y) ** 2, axis=0, weights=weight)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
