"""
Fitting on a cluster of two processes
=====================================

The same fit on a cluster, here of two worker processes of this machine. Rows stay with the workers.
A sample of them selects grids and penalty, and each iteration is one round trip. The model does not
depend on the number of workers. Up to 100,000 rows it predicts the same as the model of one
machine.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from gramless import KernelRegressor
from gramless.datasets import friedman1
from gramless.distributed import DaskKernelRegressor

if __name__ == "__main__":
    X, y = friedman1(20_000, seed=0)
    rows = da.from_array(X[:15_000], chunks=(5_000, 10))
    targets = da.from_array(y[:15_000], chunks=5_000)

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, Client(cluster):
        fitted = DaskKernelRegressor(effort=1, random_state=0).fit(rows, targets)
    model = fitted.to_local()  # needs no cluster, and can be saved
    local = KernelRegressor(effort=1, random_state=0).fit(X[:15_000], y[:15_000])

    there, here = model.predict(X[15_000:]), local.predict(X[15_000:])
    print(f"R2 on rows not seen: {model.score(X[15_000:], y[15_000:]):.4f}")
    print(f"off the model of one machine by {np.abs(there - here).max():.1e} at most")

    figure, ax = plt.subplots(figsize=(4.6, 4), layout="constrained")
    shown = ax.hexbin(there, y[15_000:], gridsize=40, cmap="Blues", mincnt=1)
    ax.axline((15, 15), slope=1, color="C3", lw=1)
    ax.set(xlabel="predicted by the cluster's model", ylabel="target", title="5,000 rows not seen")
    figure.colorbar(shown, ax=ax, label="rows")
    plt.show()
