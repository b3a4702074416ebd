"""Density: averaged histograms on random grids, mixed over cell widths by held-out likelihood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from, stream, streams
from gramless.base.state import (
    State,
    Stateful,
    StatefulEstimator,
    array_in,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import FloatArray, TableLike
from gramless.estimators.parameters import check_count, check_number, is_auto
from gramless.features.binning import GivenBinning
from gramless.preprocessing.rows import check_rows
from gramless.unsupervised.bin_counts import hashed_grids

_WIDEST, _FINEST, _STEP = 4.0, 2.0**-9, 0.5
"""Widths of cells that are tried, in standard deviations: each is half of the one before."""
_MOST_ALONE = 0.5
"""Finer cells are not tried once so many of the rows share none with others."""
_SPREADS = (1.0, 3.0)
"""Standard deviations of the two normal distributions, relative to that of the rows."""
_LEAST_UNIT = 1e-150
"""Deviations below this, or above its inverse, have no squares in double precision."""
_LEAST_RIDGE = 1e-9
_MOST_INPUTS = 50
_LEAST_WEIGHT = 1e-3
_EM_STEPS = 500
_ROWS_AT_ONCE = 1 << 16
_MOST_SAMPLED = 10_000
"""Rows whose likelihood weighs the widths, and which samples start from."""


@dataclass(frozen=True)
class Histograms(Stateful):
    """Histograms of one width of cells: the bins of random grids, and the rows in each."""

    bins: GivenBinning
    counts: FloatArray
    n_rows: int

    @classmethod
    def of(cls, X: FloatArray, width: float, n_grids: int, seed: int, n_jobs: int | None) -> Self:
        """Count rows in the cells of grids, which are shifted at random."""
        draws = streams(seed, "density", n_grids)
        shifts = np.array([rng.random(X.shape[1]) * width for rng in draws])
        grids = hashed_grids(np.full(shifts.shape, width), shifts, seed)
        bins = GivenBinning(n_jobs=n_jobs)
        counts = bins.learn_bins(X, grids).bin_counts()
        return cls(bins, counts, len(X))

    def check(self) -> None:
        """Check that the parts of histograms from a file fit each other."""
        fields = vars(self)
        n_rows, bins = number_in(fields, "n_rows", int, 2), part_in(fields, "bins", GivenBinning)
        counts = array_in(fields, "counts", np.float64, (int(bins.offsets_[-1]),), finite=True)
        require((counts >= 1.0).all() and counts.max() <= n_rows, "counts are none of rows")
        widths = bins.widths_
        require(np.isfinite(widths).all() and np.ptp(widths) == 0.0, "cells differ in width")

    @property
    def width(self) -> float:
        """The width of cells."""
        return float(self.bins.widths_[0, 0])

    def densities(self, X: FloatArray, *, without: int = 0) -> FloatArray:
        """Return densities at rows; ``without=1`` leaves out each row, which was counted."""
        counts = np.maximum(self.counts - without, 0.0) / (self.n_rows - without)
        matrix = self.bins.rows_matrix(X)
        sums = matrix.matvec(counts / self.width ** X.shape[1])
        found: FloatArray = sums / (matrix.scale * matrix.n_grids)
        return found

    def moved(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return each row at a random place of its cell of a random grid."""
        shift = self.bins.shifts_[rng.integers(len(self.bins.shifts_), size=len(X))]
        cells = np.floor((X - shift) / self.width)
        return shift + self.width * (cells + rng.random(cells.shape))


@dataclass(eq=False)
class Density(DensityMixin, StatefulEstimator):
    """Density estimate from random binning, in time linear in the rows.

    The histogram on a random grid with cells of volume v has the density m / (n v) in a bin of m of
    the n rows. Histograms of one width and random shifts are averaged, which is the kernel density
    estimate of a triangular kernel, in the limit of many grids (Scott 1985). Such averages of
    several widths, and two normal distributions, are mixed with the weights that maximise the
    leave-one-out likelihood of the rows, which follows from their own bins.

    Parameters
    ----------
    bandwidth : float or "auto", default="auto"
        Width of the cells in standard deviations of each input. With "auto" widths from 4 down are
        mixed, each half of the one before, as long as half of the rows share cells with others.
    n_grids : int, default=64
        Number of grids of each width.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    bandwidths_, weights_ : array (n_widths,), array (n_widths + 2,)
        The widths that are mixed, and their weights, followed by those of the normal distributions.
    log_likelihood_ : float
        Mean leave-one-out log density of the rows, or of 10,000 of them.
    mean_, covariance_ : array (n_features,), (n_features, n_features)
        Of the rows, in the unit of the inputs.
    histograms_ : list of Histograms
        The bins of each width, and how many rows are in each.
    rows_ : array (n_kept, n_features)
        At most 10,000 rows of the fit, in standard deviations.
    unit_ : array (n_features,)
        Standard deviations of the inputs.
    n_features_in_, feature_names_in_

    Notes
    -----
    Time grows with the rows times the grids, memory with the occupied bins. Meant for few inputs:
    of more than about six, bins of one row are the rule, and the normal distributions have most of
    the weight. Equal rows, as of rounded numbers, lead to narrow cells, and to large densities.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2000, 1))
    >>> density = Density(random_state=0).fit(X)
    >>> places = np.linspace(-5.0, 5.0, 2001)
    >>> float(np.exp(density.score_samples(places[:, None])).sum() * 0.005).__round__(2)
    1.0
    >>> density.sample(3, random_state=0).shape
    (3, 1)
    """

    bandwidth: float | str = "auto"
    n_grids: int = field(default=64, kw_only=True)
    random_state: RandomState = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Count rows in bins of several widths, and weigh these.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Numbers without gaps; at least two rows, and at most 50 columns.
        y : ignored
            Taken for scikit-learn's sake.

        Returns
        -------
        The estimator itself.
        """
        n_grids = check_count(self, "n_grids")
        given = None if is_auto(self.bandwidth) else check_number(self, "bandwidth", low=1e-9)
        rows = self._rows(X, reset=True)
        self.seed_ = seed_from(self.random_state)
        self._learn_moments(rows)
        scaled = rows / self.unit_
        drawn = stream(self.seed_, "sample").permutation(len(rows))[:_MOST_SAMPLED]
        self.rows_: FloatArray = scaled[np.sort(drawn)]
        found: list[Histograms] = []
        held_out: list[FloatArray] = []
        width = _WIDEST if given is None else given
        while not found or (
            given is None and width >= _FINEST and np.mean(held_out[-1] == 0.0) <= _MOST_ALONE
        ):
            found.append(Histograms.of(scaled, width, n_grids, self.seed_, self.n_jobs))
            held_out.append(found[-1].densities(self.rows_, without=1))
            width *= _STEP
        with np.errstate(divide="ignore"):
            logs = np.column_stack([np.log(held_out).T, self._normals(self.rows_)])
        weights = _mixed(logs)
        kept = weights >= _LEAST_WEIGHT
        # The wide normal distribution stays: densities are positive everywhere.
        kept[-1] = True
        weights = np.where(kept, np.maximum(weights, _LEAST_WEIGHT), 0.0)
        weights /= weights.sum()
        chosen = np.flatnonzero(kept[:-2])
        self.histograms_: list[Histograms] = [found[k] for k in chosen]
        self.bandwidths_: FloatArray = np.array([own.width for own in self.histograms_])
        self.weights_: FloatArray = np.append(weights[chosen], weights[-2:])
        mixed = logsumexp(logs, axis=1, b=weights)
        self.log_likelihood_ = float(np.mean(mixed) - np.log(self.unit_).sum())
        return self

    def score_samples(self, X: TableLike) -> FloatArray:
        """Return the logarithm of the density at each row.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array (n_samples,)
        """
        check_is_fitted(self)
        rows, found = self._rows(X, reset=False), [np.zeros(0)]
        for a, b in row_blocks(rows.shape[0], _ROWS_AT_ONCE):
            scaled = rows[a:b] / self.unit_
            columns = [own.densities(scaled) for own in self.histograms_]
            with np.errstate(divide="ignore"):
                logs = np.column_stack([*np.log(columns), self._normals(scaled)])
            mixed = logsumexp(logs, axis=1, b=self.weights_)
            found.append(mixed - np.log(self.unit_).sum())
        return np.concatenate(found)

    def score(self, X: TableLike, y: object = None) -> float:
        """Return the sum of the logarithms of the densities at the rows, as scikit-learn does.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Rows with known targets.
        y : ignored
            Taken for scikit-learn's sake.

        Returns
        -------
        float
        """
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw rows from the density.

        A row of the fit, or of the 10,000 of it that are kept, is moved to a random place of its
        cell of a random grid, or a normal row is drawn.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows to draw.
        random_state : int, RandomState, Generator or None, default=None
            Seed of everything that is drawn; None draws one from NumPy's global state.

        Returns
        -------
        array (n_samples, n_features)
        """
        check_is_fitted(self)
        rng = stream(seed_from(random_state), "density")
        part = rng.choice(len(self.weights_), n_samples, p=self.weights_)
        found = self.rows_[rng.integers(len(self.rows_), size=n_samples)].copy()
        for k, histograms in enumerate(self.histograms_):
            own = np.flatnonzero(part == k)
            found[own] = histograms.moved(found[own], rng)
        factor = self._factor()
        for k, spread in enumerate(_SPREADS, len(self.histograms_)):
            own = np.flatnonzero(part == k)
            normals = rng.normal(size=(len(own), len(factor)))
            found[own] = self.mean_ / self.unit_ + spread * normals @ factor.T
        return found * self.unit_

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        n_features = number_in(state, "n_features_in_", int, 1)
        number_in(state, "seed_", int, 0, 2**64)
        number_in(state, "log_likelihood_", float)
        unit = array_in(state, "unit_", np.float64, (n_features,), finite=True)
        require((unit > 0.0).all(), "unit_ is not positive")
        array_in(state, "mean_", np.float64, (n_features,), finite=True)
        array_in(state, "covariance_", np.float64, (n_features, n_features), finite=True)
        rows = array_in(state, "rows_", np.float64, (None, n_features), finite=True)
        require(len(rows) > 0, "no rows are kept")
        widths = array_in(state, "bandwidths_", np.float64, (None,), finite=True)
        weights = array_in(state, "weights_", np.float64, (len(widths) + 2,), finite=True)
        sound = (weights >= 0.0).all() and abs(weights.sum() - 1.0) < 1e-9
        require(bool(sound), "weights_ do not sum to 1")
        histograms = part_in(state, "histograms_", list)
        fits = len(histograms) == len(widths) and all(
            isinstance(own, Histograms) and own.bins.n_inputs == n_features and own.width == width
            for own, width in zip(histograms, widths, strict=True)
        )
        require(fits, "histograms_ do not fit the widths")

    def _rows(self, X: TableLike, *, reset: bool) -> FloatArray:
        rows = check_rows(self, X, reset=reset, min_rows=2 if reset else 1)
        if sp.issparse(rows):
            raise InputError("Density: X is sparse; densities need dense rows of few inputs.")
        if rows.shape[1] > _MOST_INPUTS:
            raise InputError(
                f"Density: X has {rows.shape[1]} columns, and densities are for at most "
                f"{_MOST_INPUTS}; reduce them, for example by KernelPCA."
            )
        return np.asarray(rows, np.float64)

    def _learn_moments(self, rows: FloatArray) -> None:
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            self.mean_: FloatArray = rows.mean(axis=0)
            centred = rows - self.mean_
            self.covariance_: FloatArray = centred.T @ centred / len(centred)
            unit = np.sqrt(self.covariance_.diagonal())
        varies = rows.min(axis=0) < rows.max(axis=0)
        lost = np.flatnonzero(varies & ~((unit > _LEAST_UNIT) & (unit < 1.0 / _LEAST_UNIT)))
        if len(lost):
            raise InputError(
                f"Density: column {lost[0]} of X has a standard deviation whose square is beyond "
                f"double precision; divide the column by its largest value."
            )
        self.unit_: FloatArray = np.where(unit > 0.0, unit, 1.0)

    def _factor(self) -> FloatArray:
        """Return the Cholesky factor of the covariance of scaled rows, made regular."""
        scaled = self.covariance_ / np.multiply.outer(self.unit_, self.unit_)
        scaled[np.diag_indices(len(scaled))] += _LEAST_RIDGE
        with one_blas_thread():
            factor: FloatArray = scipy.linalg.cholesky(scaled, lower=True)
        return factor

    def _normals(self, scaled: FloatArray) -> FloatArray:
        """Return the log densities (n_samples, 2) of scaled rows in the normal distributions."""
        factor, d = self._factor(), scaled.shape[1]
        with one_blas_thread():
            whitened = scipy.linalg.solve_triangular(
                factor, (scaled - self.mean_ / self.unit_).T, lower=True
            )
        squares = (whitened**2).sum(axis=0)
        constant = np.log(factor.diagonal()).sum() + 0.5 * d * np.log(2.0 * np.pi)
        logs = [-0.5 * squares / s**2 - constant - d * np.log(s) for s in _SPREADS]
        return np.column_stack(logs)


def _mixed(logs: FloatArray) -> FloatArray:
    """Return the weights of parts that maximise the likelihood: expectation-maximisation."""
    parts = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(logs.shape[1], 1.0 / logs.shape[1])
    for _ in range(_EM_STEPS):
        shares = parts * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights
