"""Draws the pictures of the documentation from the library itself.

``python docs/make_pictures.py`` needs matplotlib (``pip install -e ".[cli]"``) and a few seconds.
The pictures go to ``docs/pictures/`` and come out alike on every run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.random import stream
from gramless.inspection.pictures import draw_matrix
from gramless.kernels import BinningKernel, ExponentialPower, Hat, InversePower, Laplacian
from gramless.matrices.binned import BinnedMatrix

FOLDER = Path(__file__).parent / "pictures"
BANDWIDTH = 1.0
LIMIT = 3.0
GRIDS_SHOWN = (2, 3, 5)
"""Three of the first grids, wide enough to be seen."""
_INK, _GREY, _WARM = "#1b6ca8", "#b8b8b8", "#d1495b"


def rows() -> NDArray[np.float64]:
    """Return 600 points on two half rings, the first one far from the edges."""
    rng = stream(0, "picture rows")
    angle = rng.uniform(0.0, np.pi, 600)
    side = np.where(np.arange(600) % 2 == 0, 1.0, -1.0)
    ring = np.column_stack([side * 0.75 + 1.5 * np.cos(angle), side * (1.5 * np.sin(angle) - 0.4)])
    points = ring + 0.18 * rng.standard_normal(ring.shape)
    points[0] = (0.35, 0.75)
    return points


def shared(matrix: BinnedMatrix) -> NDArray[np.bool_]:
    """Return for each grid and row whether the row lies in the bin of row 0."""
    return matrix.codes == matrix.codes[:, :1]


def draw_grid(axes: Any, X: NDArray[np.float64], binning: RandomBinning, r: int) -> None:
    """Draw grid ``r`` over the rows, with the bin of row 0."""
    inside = shared(binning.feature_matrix(X))[r]
    width, shift = binning.widths_[r], binning.shifts_[r]
    corner = shift + width * np.floor((X[0] - shift) / width)
    axes.add_patch(Rectangle(corner, *width, color=_WARM, alpha=0.18, lw=0))
    for line, size, start in zip((axes.axvline, axes.axhline), width, shift, strict=True):
        for k in range(int(np.floor((-LIMIT - start) / size)), int((LIMIT - start) / size) + 1):
            line(start + k * size, color="0.65", lw=0.7)
    axes.plot(*X[~inside].T, ".", color=_GREY, ms=3)
    axes.plot(*X[inside].T, ".", color=_WARM, ms=4)
    axes.plot(*X[0], "*", color="black", ms=11)
    axes.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), aspect="equal", xticks=[], yticks=[])
    axes.set_title(f"{inside.sum() - 1} points share its bin", size=10)


def draw_average(axes: Any, X: NDArray[np.float64]) -> None:
    """Draw the share of grids in which a row meets row 0, against the exact kernel."""
    distance = np.abs(X - X[0]).sum(axis=1)
    for n_grids, colour, size in ((16, _GREY, 8), (256, "#e8a33d", 8), (4096, _INK, 5)):
        binning = RandomBinning(bandwidth=BANDWIDTH, n_grids=n_grids, random_state=1)
        met = shared(binning.fit_matrix(X)).mean(axis=0)
        axes.scatter(distance, met, s=size, color=colour, lw=0, label=f"{n_grids:,} grids")
    line = np.linspace(0.0, distance.max(), 200)
    exact = Laplacian().gram([[0.0]], line[:, None], bandwidth=BANDWIDTH)[0]
    axes.plot(line, exact, color="black", lw=1.2, label="exact Laplacian")
    axes.set(xlabel="L1 distance from the star", xlim=(0, None), ylim=(-0.02, 1.02))
    axes.set_title("share of grids in which a point meets the star", size=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def random_grids() -> Figure:
    """Three grids over a table of two columns, and the kernel that grids average to."""
    X = rows()
    binning = RandomBinning(bandwidth=BANDWIDTH, n_grids=8, random_state=1).fit(X)
    figure = Figure(figsize=(13, 3.5), layout="constrained")
    panels: Any = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.35])
    for axes, r in zip(panels[:3], GRIDS_SHOWN, strict=True):
        draw_grid(axes, X, binning, r)
    draw_average(panels[3], X)
    return figure


def kernel_maps() -> Figure:
    """The kernel around one point, by more and more grids, and exact."""
    side = np.linspace(-2.0, 2.0, 201)
    pixels = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    X = np.concatenate([np.zeros((1, 2)), pixels])
    figure = Figure(figsize=(13, 2.9), layout="constrained")
    panels: Any = figure.subplots(1, 5)
    images = {}
    for n_grids in (1, 8, 64, 1024):
        binning = RandomBinning(bandwidth=BANDWIDTH, n_grids=n_grids, random_state=3)
        met = shared(binning.fit_matrix(X)).mean(axis=0)
        images["one grid" if n_grids == 1 else f"{n_grids:,} grids"] = met[1:]
    images["exact Laplacian"] = Laplacian().gram(X[:1], pixels, bandwidth=BANDWIDTH)[0]
    for axes, (title, values) in zip(panels, images.items(), strict=True):
        image = values.reshape(len(side), len(side))
        shown = axes.imshow(image, origin="lower", extent=(-2, 2, -2, 2), vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.set_title(title, size=10)
    figure.colorbar(shown, ax=list(panels), shrink=0.9, pad=0.01)
    return figure


def width_distributions() -> Figure:
    """Kernels of one input and the distributions of widths that represent them."""
    kernels: dict[str, BinningKernel] = {
        "Laplacian, exp(-t)": Laplacian(),
        "exp(-sqrt(t))": ExponentialPower(0.5),
        "1 / (1 + t)": InversePower(1.0),
        "hat, max(0, 1 - t)": Hat(),
    }
    colours = (_INK, "#e8a33d", "#3f8f5b", _WARM)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    distances = np.linspace(0.0, 5.0, 501)
    shares = np.arange(1, 20_001) / 20_000
    for (name, kernel), colour in zip(kernels.items(), colours, strict=True):
        left.plot(distances, kernel.profile(distances), color=colour, label=name)
        widths = np.sort(kernel.sample_widths(stream(0, name), (len(shares),)))
        right.step(np.append(widths, 1e4), np.append(shares, 1.0), color=colour)
    left.set(xlabel="distance t, in bandwidths", ylabel="k(t)", ylim=(0, 1.02), xlim=(0, 5))
    left.legend(frameon=False)
    right.set(xlabel="width w, in bandwidths", xscale="log", xlim=(1e-3, 1e3), ylim=(0, 1.02))
    right.set_ylabel("share of 20,000 widths below w")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def feature_matrix() -> Figure:
    """The matrix of the half rings, and the kernel that it implies."""
    X = rows()
    matrix = RandomBinning(bandwidth=BANDWIDTH, n_grids=256, random_state=1).fit_matrix(X)
    return draw_matrix(matrix, exact=lambda some: Laplacian().gram(X[some], bandwidth=BANDWIDTH))


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for make in (random_grids, kernel_maps, width_distributions, feature_matrix):
        path = FOLDER / f"{make.__name__}.png"
        make().savefig(path, dpi=120, metadata={"Software": None})
        print(path)


if __name__ == "__main__":
    main()
