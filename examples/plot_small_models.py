"""
Small models
============

A model keeps a weight for every bin that contains training rows. An L1 penalty makes most of them
exactly zero, and bins without weight are removed. This example shows how much accuracy a small file
costs.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from gramless import KernelRegressor, save
from gramless.datasets import friedman1

X, y = friedman1(6000, seed=0)
file = Path(tempfile.mkdtemp(), "model.gramless")


def size_and_score(**settings):
    model = KernelRegressor(random_state=0, **settings).fit(X[:4000], y[:4000])
    save(model, file)
    return file.stat().st_size / 1e3, model.score(X[4000:], y[4000:]), model.sparsity_


given = {"grids": "random", "n_grids": 256, "scaling": "standard", "bandwidth": 6.0}
path = [size_and_score(l1_ratio=1, alpha=alpha, **given) for alpha in (1e-3, 3e-4, 1e-4, 3e-5)]
squares = size_and_score(alpha=1e-4, **given)
default = size_and_score(effort=1)

for size, score, sparsity in path:
    print(f"{size:6.0f} kB: R2 {score:.3f}, {100 * sparsity:.1f} % of the bins without weight")
print(f"squares {squares[0]:.0f} kB: R2 {squares[1]:.3f}")

# %%

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.semilogx([p[0] for p in path], [p[1] for p in path], "o-", label="random grids, absolute values")
ax.semilogx(*squares[:2], "s", label="the same grids, squares")
ax.semilogx(*default[:2], "D", label="grown grids, effort 1")
ax.set_xscale("log", base=2)
ax.set(xlabel="kilobytes of the file", ylabel="R2 on rows not seen")
ax.legend()
plt.show()
