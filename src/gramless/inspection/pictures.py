"""Pictures of feature matrices, and functions to write picture files.

matplotlib is part of the extra ``cli``; it is imported only to draw.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gramless.base.errors import InputError, MissingDependencyError
from gramless.base.files import open_for_writing
from gramless.base.types import AnyArray, FloatArray
from gramless.inspection.explanation import sample_rows
from gramless.matrices.binned import BinnedMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS, GRIDS = 200, 10  # as in RB16's Figure 2

Exact = Callable[[AnyArray], FloatArray]  # returns the exact kernel matrix of row indices

_BLUE, _RED, _GREY = "#1b6ca8", "#d1495b", "0.75"
_MIN_WIDTH = 1 / 60  # minimum width of a mark, as a share of a grid's strip: about a pixel
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": "gramless"},
    ".svg": {"Creator": "gramless", "Date": None},
    ".pdf": {"Creator": "gramless", "CreationDate": None},
}


def draw_matrix(
    matrix: BinnedMatrix, *, exact: Exact | None = None, n_rows: int = ROWS, n_grids: int = GRIDS
) -> Figure:
    """Draw the non-zeros of a feature matrix, like RB16's Figure 2, and the kernel it implies.

    Rows that share many bins are next to each other. On the left, each row has
    one mark in each grid. A grid is a vertical strip, divided into the bins that
    the rows occupy. Its fullest bin is red, and the share of rows in that bin is
    the grid's nu for the rows shown. On the right is ``Z Z'`` over all grids of
    the matrix: the share of grids in which two rows are in the same bin.

    Parameters
    ----------
    matrix : BinnedMatrix (n_samples, D)
        Matrix to draw.
    exact : callable, optional
        Function of row indices (n,) that returns the exact kernel matrix of these
        rows (n, n), which is drawn next to ``Z Z'``.
    n_rows : int, default=200
        Maximum number of rows to draw. They are sampled with a fixed seed.
    n_grids : int, default=10
        Maximum number of grids to draw, the first ones of the matrix.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``figure.savefig(path)`` or :func:`write_picture`.

    Raises
    ------
    InputError
        If the matrix has no rows or no grids.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    ``n_rows**2`` comparisons per grid, and ``n_rows**3`` operations for the order of the
    rows, independent of the size of the matrix. It takes well below a second for 200 rows.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> Z = RandomBinning(bandwidth=2.0, n_grids=256, random_state=0).fit_matrix(X)
    >>> figure = draw_matrix(Z, n_rows=100)
    >>> figure.axes[0].get_ylabel()
    '100 of 1,000 rows, ordered by similarity'
    """
    if 0 in matrix.codes.shape:
        raise InputError("draw_matrix: the matrix must have at least one row and one grid.")
    require_matplotlib()
    from matplotlib.figure import Figure

    rows = sample_rows(matrix.shape[0], n_rows)
    sample = matrix.take_rows(rows)
    codes = np.ascontiguousarray(sample.codes)
    # With the scale 1 / sqrt(R), Z Z' is the share of grids in which two rows are in one bin.
    gram = BinnedMatrix(codes, sample.offsets, has_unseen=sample.has_unseen).row_gram()
    order = _order_by_similarity(gram)
    kernels = {f"Z Z' of {_count_with_noun(matrix.n_grids, 'grid')}": gram[np.ix_(order, order)]}
    if exact is not None:
        kernels["exact kernel"] = exact(rows)[np.ix_(order, order)]
    figure = Figure(figsize=(7.4 + 3.3 * len(kernels), 4.2), layout="constrained")
    panels = figure.subplots(1, 1 + len(kernels), width_ratios=[2.0] + [1.0] * len(kernels))
    shown = matrix.codes[:n_grids, rows[order]]
    _draw_pattern(panels[0], shown, matrix.shape[0])
    panels[0].set_title(f"Z: {len(shown):,} of {_count_with_noun(matrix.n_grids, 'grid')}", size=10)
    for axes, (title, values) in zip(panels[1:], kernels.items(), strict=True):
        image = axes.imshow(
            values, vmin=0.0, vmax=1.0, cmap="Blues", interpolation="nearest", aspect="auto"
        )
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, size=10)
    # All images have the same limits, so one colour bar holds for both.
    figure.colorbar(image, ax=list(panels[1:]), pad=0.02, label="share of bins in common")
    return figure


def require_matplotlib() -> None:
    """Raise MissingDependencyError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "Pictures need matplotlib, which is not installed: pip install gramless[cli]."
        ) from error


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raise InputError before any work if no picture can be written to ``path``."""
    file = Path(path)
    if file.suffix.lower() not in _METADATA:
        raise InputError(f"{path}: the name of a picture must end in {', '.join(_METADATA)}.")
    if not file.resolve().parent.is_dir():
        raise InputError(f"{path}: there is no folder {file.resolve().parent}; create it.")
    if file.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    require_matplotlib()


def write_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file with the same bytes on every run.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Figure to write.
    path : str or path-like
        File name that ends in ``.png``, ``.svg`` or ``.pdf``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from matplotlib.figure import Figure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "empty.svg")
    ...     write_picture(Figure(), path)
    ...     path.stat().st_size > 0
    True
    """
    check_picture(path)
    from matplotlib import rc_context

    # The salt makes the names of clip paths deterministic; the metadata omit the date.
    ending = Path(path).suffix.lower()
    with rc_context({"svg.hashsalt": "gramless"}), open_for_writing(path) as file:
        figure.savefig(file, format=ending[1:], dpi=150, metadata=_METADATA[ending])


def _order_by_similarity(gram: FloatArray) -> AnyArray:
    """Return the order of the leaves of a hierarchical clustering of the rows."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(gram) < 3:
        return np.arange(len(gram))
    distance = np.maximum(0.0, 1.0 - gram)
    # Rows in unknown bins have a zero on the diagonal of the Gram matrix.
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), np.intp)


def _draw_pattern(axes: Axes, codes: AnyArray, n_samples: int) -> None:
    """Draw one mark for each row and grid of ``codes`` (grids, rows); grids are one unit wide."""
    from matplotlib.collections import PolyCollection

    n_grids, n_rows = codes.shape
    labels = []
    for r, grid in enumerate(codes):
        rows = np.flatnonzero(grid)  # code 0 is an unknown bin
        # Bins are ordered by the mean position of their rows, so that marks follow the diagonal.
        _, bins, sizes = np.unique(grid[rows], return_inverse=True, return_counts=True)
        positions = np.bincount(bins, weights=np.arange(len(rows))) / sizes
        ranks = np.argsort(np.argsort(positions, kind="stable"), kind="stable")[bins]
        counts = np.bincount(ranks, minlength=1)
        is_fullest, width = ranks == counts.argmax(), max(1 / len(counts), _MIN_WIDTH)
        corners = np.array([(0.0, -0.5), (width, -0.5), (width, 0.5), (0.0, 0.5)])
        for mask, colour in ((~is_fullest, _BLUE), (is_fullest, _RED)):
            left = r + ranks[mask] / len(counts)
            rectangles = np.column_stack([left, rows[mask]])[:, None, :] + corners
            axes.add_collection(PolyCollection(rectangles, facecolors=colour, linewidths=0))
        n_bins = _count_with_noun(int(np.count_nonzero(counts)), "bin")
        labels.append(f"{n_bins}\n{counts.max() / n_rows:.0%}")
        axes.axvline(r, color=_GREY, lw=0.8)
    axes.set(xlim=(0, n_grids), ylim=(n_rows - 0.5, -0.5), yticks=[])
    axes.set_xticks(np.arange(n_grids) + 0.5, labels, size=8)
    axes.tick_params(axis="x", length=0)
    of_all = "" if n_rows == n_samples else f"of {n_samples:,} "
    axes.set_ylabel(f"{n_rows:,} {of_all}rows, ordered by similarity")
    axes.set_xlabel("occupied bins of each grid; share of the rows in the fullest (red)")


def _count_with_noun(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
