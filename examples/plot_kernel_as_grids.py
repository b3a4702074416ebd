"""
How a kernel becomes grids
==========================

Lay a grid of random width and shift over the plane. Two points share a cell in a certain share of
many such grids. This share is a kernel, which depends only on the distribution of the widths. A row
becomes one integer for each grid.
"""

import matplotlib.pyplot as plt
import numpy as np

from gramless import RandomBinning
from gramless.kernels import ExponentialPower, Laplacian

side = np.linspace(-2, 2, 161)
plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
rows = np.concatenate([[[0.0, 0.0]], plane])


def met(kernel, n_grids):
    """Return the share of the grids in which each place meets the centre."""
    matrix = RandomBinning(kernel, bandwidth=1.0, n_grids=n_grids, random_state=4).fit_matrix(rows)
    return (matrix.codes == matrix.codes[:, :1]).mean(axis=0)[1:]


kernels = {"Laplacian": Laplacian(), "exp(-sqrt(t)), rougher": ExponentialPower(0.5)}
figure, axes = plt.subplots(2, 4, figsize=(10, 5.2), layout="constrained")
for line, (name, kernel) in zip(axes, kernels.items()):
    pictures = {f"{n:,} grids" if n > 1 else "one grid": met(kernel, n) for n in (1, 16, 1024)}
    pictures["exact"] = kernel.gram([[0.0, 0.0]], plane)[0]
    for ax, (title, values) in zip(line, pictures.items()):
        shown = ax.imshow(values.reshape(161, 161), vmin=0, vmax=1, extent=(-2, 2, -2, 2))
        ax.set(title=title, xticks=[], yticks=[])
    line[0].set_ylabel(name)
figure.colorbar(
    shown, ax=axes, shrink=0.8, label="share of grids in which a place meets the centre"
)
plt.show()

# %%
# The error falls as one over the root of the number of grids, for all positions.

exact = Laplacian().gram([[0.0, 0.0]], plane)[0]
for n_grids in (64, 256, 1024, 4096):
    error = np.sqrt(np.mean((met(Laplacian(), n_grids) - exact) ** 2))
    print(f"{n_grids:5,} grids: off by {error:.4f}, times the root {error * n_grids**0.5:.2f}")
