"""
Three approximations of a kernel
================================

``features`` selects the approximation of a kernel: bins, Fourier features or landmarks. Each is
fitted in three sizes to a smooth function and to one with steps, to show which suits which.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from gramless import KernelRegressor, Nystrom, RandomBinning, RandomFourier

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(2000, 3))
functions = {
    "a smooth function": np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2,
    "a function with steps": np.floor(2 * X[:, 0]) * (X[:, 1] > 0) + np.sign(X[:, 2] + X[:, 1]),
}
kinds = {
    "bins": lambda size: RandomBinning(n_grids=size),
    "Fourier": lambda size: RandomFourier(n_components=size),
    "landmarks": lambda size: Nystrom(n_components=size),
}
sizes = [32, 128, 512]
machine = partial(
    KernelRegressor,
    scaling="standard",
    alpha=1e-4,
    relevance="equal",
    calibrate=False,
    random_state=0,
)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, (title, values) in zip(axes, functions.items()):
    y = values + 0.1 * values.std() * rng.normal(size=len(values))
    for name, features in kinds.items():
        errors = []
        for size in sizes:
            model = machine(features(size))
            predicted = model.fit(X[:1000], y[:1000]).predict(X[1000:])
            errors.append(np.sqrt(np.mean((predicted - values[1000:]) ** 2)) / values.std())
        ax.semilogx(sizes, errors, "o-", label=name)
        print(f"{title}, {name}: error {errors[-1]:.3f} with {sizes[-1]:,}")
    ax.set_xscale("log", base=2)
    ax.set_ylim(0, None)
    ax.set(title=title, xlabel="grids, components or landmarks", ylabel="error without the noise")
axes[0].legend()
plt.show()
