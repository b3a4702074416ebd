"""Pictures of feature matrices, and picture files of any kind.

matplotlib comes with the extra ``cli``: it is imported when something is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gramless.base.errors import InputError, MissingDependencyError
from gramless.base.files import writing
from gramless.base.types import AnyArray, FloatArray
from gramless.inspection.explanation import sampled_rows
from gramless.matrices.binned import BinnedMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS, GRIDS = 200, 10
"""Rows and grids of RB16's Figure 2."""

Exact = Callable[[AnyArray], FloatArray]

_INK, _WARM, _LINE = "#1b6ca8", "#d1495b", "0.75"
_LEAST_WIDTH = 1 / 60  # least width of a mark as a fraction of a grid: about a pixel
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": "gramless"},
    ".svg": {"Creator": "gramless", "Date": None},
    ".pdf": {"Creator": "gramless", "CreationDate": None},
}


def draw_matrix(
    matrix: BinnedMatrix, *, exact: Exact | None = None, n_rows: int = ROWS, n_grids: int = GRIDS
) -> Figure:
    """Draw the non-zeros of a feature matrix, as RB16's Figure 2, and the kernel it implies.

    Rows stand in an order that puts those next to each other that share many
    bins. On the left, each row has one mark in each grid, and each grid a strip
    of its own, cut into the bins that the rows occupy; its fullest bin is red,
    and the share of that bin is the grid's nu among the rows shown. On the right
    is ``Z Z'`` over all grids of the matrix: the share of grids in which two rows
    meet.

    Parameters
    ----------
    matrix : BinnedMatrix (n_samples, D)
        Rows as bins.
    exact : callable, optional
        Takes row numbers (n,) and returns the exact kernel between them, (n, n),
        to be drawn beside ``Z Z'``.
    n_rows : int, default=200
        Rows shown at most, drawn evenly: the same on every call.
    n_grids : int, default=10
        The first grids of the matrix, at most.

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig(path)`` or :func:`write_picture` makes a file of it.

    Raises
    ------
    InputError
        If the matrix has no rows or no grids.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    ``n_rows**2`` times all grids in comparisons, ``n_rows**3`` for the order;
    independent of the rows of the matrix. Well below a second for 200 rows.

    Examples
    --------
    >>> from gramless import RandomBinning
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> Z = RandomBinning(bandwidth=2.0, n_grids=256, random_state=0).fit_matrix(X)
    >>> figure = draw_matrix(Z, n_rows=100)
    >>> figure.axes[0].get_ylabel()
    '100 of 1,000 rows, alike ones together'
    """
    if 0 in matrix.codes.shape:
        raise InputError("draw_matrix: there is nothing to draw; it needs a row and a grid.")
    require_matplotlib()
    from matplotlib.figure import Figure

    rows = sampled_rows(matrix.shape[0], n_rows)
    chosen = matrix.take_rows(rows)
    codes = np.ascontiguousarray(chosen.codes)
    # At the scale 1 / sqrt(R) Z Z' has the share of grids in which two rows meet.
    met = BinnedMatrix(codes, chosen.offsets, has_unseen=chosen.has_unseen).row_gram()
    order = _alike_together(met)
    kernels = {f"Z Z' of {_counted(matrix.n_grids, 'grid')}": met[np.ix_(order, order)]}
    if exact is not None:
        kernels["exact kernel"] = exact(rows)[np.ix_(order, order)]
    figure = Figure(figsize=(7.4 + 3.3 * len(kernels), 4.2), layout="constrained")
    panels = figure.subplots(1, 1 + len(kernels), width_ratios=[2.0] + [1.0] * len(kernels))
    shown = matrix.codes[:n_grids, rows[order]]
    _draw_pattern(panels[0], shown, matrix.shape[0])
    panels[0].set_title(f"Z: {len(shown):,} of {_counted(matrix.n_grids, 'grid')}", size=10)
    _draw_kernels(figure, panels[1:], kernels)
    return figure


def require_matplotlib() -> None:
    """Refuse to draw without matplotlib, with what to install."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as fault:
        raise MissingDependencyError(
            "Pictures need matplotlib, which is not installed: pip install gramless[cli]."
        ) from fault


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no picture could be written, before any work is done."""
    place = Path(path)
    if place.suffix.lower() not in _METADATA:
        raise InputError(f"{path}: a picture ends in {', '.join(_METADATA)}; name it so.")
    if not place.resolve().parent.is_dir():
        raise InputError(f"{path}: there is no folder {place.resolve().parent}; make it.")
    if place.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    require_matplotlib()


def write_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of the ending, byte by byte the same on every run.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What to write.
    path : str or path-like
        Ends in ``.png``, ``.svg`` or ``.pdf``.

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

    # A salt in place of random names of clip paths, and no date.
    ending = Path(path).suffix.lower()
    with rc_context({"svg.hashsalt": "gramless"}), writing(path) as file:
        figure.savefig(file, format=ending[1:], dpi=150, metadata=_METADATA[ending])


def _alike_together(met: FloatArray) -> AnyArray:
    """Order the leaves of a tree of mean distances so that neighbours meet in many grids."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(met) < 3:
        return np.arange(len(met))
    # Rows of bins never seen do not even meet themselves, yet are at no distance from themselves.
    distance = np.maximum(0.0, 1.0 - met)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), np.intp)


def _bin_ranks(codes: AnyArray) -> AnyArray:
    """Return the column of each row (n,) in one grid: bins by the mean place of their rows."""
    _, bins, counts = np.unique(codes, return_inverse=True, return_counts=True)
    places = np.bincount(bins, weights=np.arange(len(codes))) / counts
    return np.argsort(np.argsort(places, kind="stable"), kind="stable")[bins]


def _draw_pattern(axes: Axes, codes: AnyArray, n_samples: int) -> None:
    """Draw one mark for each row and grid of ``codes`` (grids, rows), each grid one unit wide."""
    shown, n_rows = codes.shape
    labels = []
    for r, grid in enumerate(codes):
        seen = np.flatnonzero(grid)
        ranks = _bin_ranks(grid[seen])
        counts = np.bincount(ranks, minlength=1)
        is_fullest, width = ranks == counts.argmax(), 1 / len(counts)
        for chosen, colour in ((~is_fullest, _INK), (is_fullest, _WARM)):
            _draw_marks(axes, r + ranks[chosen] / len(counts), seen[chosen], width, colour)
        n_bins = _counted(int(np.count_nonzero(counts)), "bin")
        labels.append(f"{n_bins}\n{counts.max() / n_rows:.0%}")
        axes.axvline(r, color=_LINE, lw=0.8)
    axes.set(xlim=(0, shown), ylim=(n_rows - 0.5, -0.5), yticks=[])
    axes.set_xticks(np.arange(shown) + 0.5, labels, size=8)
    axes.tick_params(axis="x", length=0)
    of_all = "" if n_rows == n_samples else f"of {n_samples:,} "
    axes.set_ylabel(f"{n_rows:,} {of_all}rows, alike ones together")
    axes.set_xlabel("occupied bins of each grid; share of the rows in the fullest, in red")


def _draw_marks(axes: Axes, left: FloatArray, rows: AnyArray, width: float, colour: str) -> None:
    """Draw a rectangle of one row's height at each place, wide enough to be seen."""
    from matplotlib.collections import PolyCollection

    width = max(width, _LEAST_WIDTH)
    corners = [(0.0, -0.5), (width, -0.5), (width, 0.5), (0.0, 0.5)]
    places = np.column_stack([left, rows])[:, None, :] + np.array(corners)
    axes.add_collection(PolyCollection(places, facecolors=colour, linewidths=0))


def _draw_kernels(figure: Figure, panels: Sequence[Axes], kernels: dict[str, FloatArray]) -> None:
    for axes, (title, values) in zip(panels, kernels.items(), strict=True):
        shown = axes.imshow(
            values, vmin=0.0, vmax=1.0, cmap="Blues", interpolation="nearest", aspect="auto"
        )
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, size=10)
    figure.colorbar(shown, ax=list(panels), pad=0.02, label="1: rows alike; 0: no bin in common")


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
