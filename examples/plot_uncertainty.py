"""
Uncertainty of predictions
==========================

Kernel ridge regression is the mean of a Gaussian process. Draws of its weights show the
uncertainty: small near training rows, large far from them. The data are the flow of the Nile at
Aswan, 1871 to 1970, with thirty years removed.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import nile

from gramless import KernelRegressor

table = nile.load_pandas().data
year, flow = table["year"].to_numpy(), table["volume"].to_numpy()
known = (year < 1905) | (year > 1935)

model = KernelRegressor(
    "exact", bandwidth=12.0, scaling="none", alpha=0.02, n_posterior=500, random_state=0
)
model.fit(year[known].reshape(-1, 1), flow[known])

line = np.linspace(1871, 1970, 300)
mean, std = model.predict(line.reshape(-1, 1), return_std=True)
there = year[~known].reshape(-1, 1)
expected, spread = model.predict(there, return_std=True)
assert model.posterior_ is not None  # for n_posterior was given
bound = 1.645 * np.hypot(spread, model.posterior_.noise)
inside = np.abs(flow[~known] - expected) < bound
print(f"{inside.mean():.2f} of the flows taken out lie within 90 % bounds")

# %%

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.fill_between(
    line, mean - 1.645 * std, mean + 1.645 * std, alpha=0.3, label="90 % of the function"
)
ax.plot(line, mean, label="mean")
ax.plot(year[known], flow[known], ".", color="0.3", label="known")
ax.plot(year[~known], flow[~known], "x", color="C3", ms=4, label="taken out")
ax.set(xlabel="year", ylabel="flow, 100 million cubic metres")
ax.legend(ncol=2)
plt.show()
