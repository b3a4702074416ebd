"""
Engel's law by quantiles
========================

Income and food expenditure of Belgian households of 1857. Richer households spend more, and vary
more. Quantile losses model both, and one model has several quantiles that never cross.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.datasets import engel

from gramless import KernelRegressor

table = engel.load_pandas().data
income, food = table[["income"]], table["foodexp"]

levels = [0.1, 0.5, 0.9]
model = KernelRegressor(loss="quantile", quantile=levels, random_state=0)
model.fit(income, food)
found = model.predict(income)
for level, below in zip(levels, (food.to_numpy()[:, None] <= found).mean(axis=0)):
    print(f"quantile {level}: {below:.2f} of the households lie below")

# %%

line = np.linspace(400, 3000, 300)
curves = model.predict(pd.DataFrame({"income": line}))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(income, food, ".", color="0.5", ms=4, label="households")
for level, curve, style in zip(levels, curves.T, ("--", "-", "--")):
    ax.plot(line, curve, style, color="C3", label=f"quantile {level}")
ax.set(xlabel="income, francs", ylabel="spent on food, francs", xlim=(350, 3000), ylim=(200, 2100))
ax.legend()
plt.show()
