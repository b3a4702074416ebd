"""Counts of rows in the bins of grids, and the codes of a random sample of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gramless.base.arrays import padded_rows
from gramless.base.random import stream, streams
from gramless.base.state import Stateful, array_in, number_in, part_in, require
from gramless.base.types import AnyArray, BoolArray, FloatArray
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.rows import Rows

MAX_SAMPLED = 10_000  # maximum number of rows in the sample


def hashed_grids(widths: FloatArray, shifts: FloatArray, seed: int) -> Grids:
    n_grids, n_columns = widths.shape
    generators = streams(seed, "cells", n_grids)
    hashes = np.array([rng.integers(-(2**63), 2**63 - 1, n_columns + 1) for rng in generators])
    return Grids(widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())


@dataclass(frozen=True, repr=False)
class BinCounts(Stateful):
    """Counts of rows in the bins of random grids, and the codes of a random sample of rows.

    A row of weight w counts as w rows; ``total`` is the sum of the weights of ``n_rows`` rows.
    ``codes`` (n_grids, n_sampled) are the bins of the sampled rows and ``weights`` their weights.
    ``draws`` are their random numbers: when rows are added, the sample keeps those with the
    smallest. ``shaped_grids`` marks the sampled rows that determined the grids.
    """

    bins: GivenBinning
    counts: FloatArray
    n_rows: int
    total: float
    codes: AnyArray
    weights: FloatArray
    draws: FloatArray
    shaped_grids: BoolArray

    @classmethod
    def empty(cls, grids: Grids, X: Rows, n_jobs: int | None) -> BinCounts:
        """Return counts of 0 in the bins of the first row."""
        bins = GivenBinning(n_jobs=n_jobs)
        bins.learn_bins(X[:1], grids)
        codes, empty = np.zeros((len(grids), 0), np.uint16), np.zeros(0)
        return cls(bins, np.zeros(len(grids)), 0, 0.0, codes, empty, empty, np.zeros(0, bool))

    def check(self) -> None:
        fields = vars(self)
        bins = part_in(fields, "bins", GivenBinning)
        number_in(fields, "n_rows", int, 1)
        total = number_in(fields, "total", float, 0.0)
        counts = array_in(fields, "counts", np.float64, (int(bins.offsets_[-1]),), finite=True)
        is_valid = (counts >= 0.0).all() and counts.max() <= total * (1.0 + 1e-9)
        require(total > 0.0 and is_valid, "counts are none of rows")
        draws = array_in(fields, "draws", np.float64, (None,), finite=True)
        require(len(draws) > 0, "no rows are sampled")
        weights = array_in(fields, "weights", np.float64, draws.shape, finite=True)
        require((weights > 0.0).all(), "weights are not positive")
        array_in(fields, "shaped_grids", np.bool_, draws.shape)
        n_bins = bins.n_bins_
        codes = part_in(fields, "codes", np.ndarray)
        require(codes.dtype in (np.uint8, np.uint16, np.uint32), "codes are none of bins")
        require(codes.shape == (len(n_bins), len(draws)), "codes have a wrong shape")
        is_known = (codes > 0).all() and (codes.max(axis=1) <= n_bins).all()
        require(bool(is_known), "codes are none of known bins")

    def add_rows(
        self, X: Rows, seed: int, weights: FloatArray | None, shaped_grids: BoolArray
    ) -> BinCounts:
        """Return the counts after adding a block of rows of positive weight."""
        bins, matrix = self._extended(X)
        n_new = X.shape[0]
        if weights is None:
            new_counts, weights = matrix.bin_counts(), np.ones(n_new)
        else:
            new_counts = matrix.rmatvec(weights) / matrix.scale
        counts = self.bins.weights_in(bins, self.counts) + new_counts
        new_draws = stream(seed, "calibration", self.n_rows).random(n_new)
        draws, n_old = np.concatenate([self.draws, new_draws]), len(self.draws)
        kept = np.sort(np.argsort(draws, kind="stable")[:MAX_SAMPLED])
        old, new = kept[kept < n_old], kept[kept >= n_old] - n_old
        codes = np.concatenate([self.codes[:, old], matrix.codes[:, new]], axis=1)
        return BinCounts(
            bins,
            counts,
            self.n_rows + n_new,
            self.total + float(weights.sum()),
            codes,
            np.concatenate([self.weights[old], weights[new]]),
            draws[kept],
            np.concatenate([self.shaped_grids[old], shaped_grids[new]]),
        )

    def _extended(self, X: Rows) -> tuple[GivenBinning, BinnedMatrix]:
        """Return bins that include those of new rows, and the matrix of the new rows."""
        if self.n_rows == 0:
            return self.bins.extended(X)
        known = self.bins.rows_matrix(X)
        # Only rows in unknown bins are used to extend the bins, because these are few.
        outside = np.flatnonzero((known.codes == 0).any(axis=0))
        if len(outside) == 0:
            return self.bins, known
        bins, new = self.bins.extended(X[outside])
        # Known bins keep their codes: new bins follow the known ones of their grid.
        codes = padded_rows(known.codes.shape, np.promote_types(known.codes.dtype, new.codes.dtype))
        codes[...] = known.codes
        codes[:, outside] = new.codes
        return bins, _matrix(bins, codes)

    @property
    def n_grids(self) -> int:
        return len(self.codes)

    def shares(self, joined: float = 0.0) -> FloatArray:
        """Return the share of the rows in each bin, followed by the share of an empty bin.

        Each share is computed as if a row of weight ``joined`` were added to that bin.
        """
        result: FloatArray = (np.append(self.counts, 0.0) + joined) / (self.total + joined)
        return result

    def shares_of_others(self) -> Iterator[FloatArray]:
        """Yield, for each grid, the share of the other rows in the bin of each sampled row."""
        others = self.total - self.weights
        for codes, start in zip(self.codes, self.bins.offsets_[:-1].tolist(), strict=True):
            # The codes of known bins begin at 1.
            in_bin = self.counts[start - 1 + codes.astype(np.int64)] - self.weights
            shares = np.zeros(len(in_bin))
            np.divide(in_bin, others, out=shares, where=(in_bin > 0.0) & (others > 0.0))
            yield shares

    def mean_over_grids(self, matrix: BinnedMatrix, values: FloatArray) -> FloatArray:
        """Return the mean value of the bins of each row; the last value is for unknown bins."""
        of_unknown = values[-1]
        sums: FloatArray = matrix.matvec(values[:-1] - of_unknown)
        return of_unknown + sums / (matrix.scale * self.n_grids)

    def of_sample(self, values: FloatArray) -> FloatArray:
        """Return the mean value of the bins of each sampled row."""
        return self.mean_over_grids(_matrix(self.bins, self.codes), values)


def _matrix(bins: GivenBinning, codes: AnyArray) -> BinnedMatrix:
    return BinnedMatrix(
        codes, bins.offsets_, scale=bins.scale_, has_unseen=False, n_jobs=bins.n_jobs
    )
