"""
Monotone predictions
====================

Sometimes the direction of an effect is known, and a model that contradicts it is not acceptable.
Households with more income do not spend less on food: with ``monotonic_cst`` this holds for all
rows, not only on average.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import engel

from gramless import KernelRegressor

table = engel.load_pandas().data
income, food = table[["income"]].to_numpy(), table["foodexp"].to_numpy()

free = KernelRegressor(grids="grown", calibrate=False, random_state=0).fit(income, food)
rising = KernelRegressor(monotonic_cst=[1], calibrate=False, random_state=0).fit(income, food)

line = np.linspace(350, 3000, 2000).reshape(-1, 1)
for name, model in ("free", free), ("rising", rising):
    falls = np.diff(model.predict(line)) < 0
    print(f"{name:>6}: falls at {falls.sum()} of {len(falls)} steps")

# %%

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(income, food, ".", color="0.6", ms=4)
ax.plot(line, free.predict(line), color="C0", label="without a constraint")
ax.plot(line, rising.predict(line), color="C3", lw=2, label="never falls")
ax.set(xlabel="income, francs", ylabel="spent on food, francs", xlim=(350, 3000), ylim=(200, 1800))
ax.legend()
plt.show()
