"""
Has the distribution changed?
=============================

A model may fail on new rows, and its errors show this only when targets arrive. A two-sample test
needs no targets: it shows whether two tables have the same distribution, and which columns differ.
The tables are the economy of the United States by quarters, before and after 1985.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import macrodata

from gramless import two_sample_test

table = macrodata.load_pandas().data
rates = table[["unemp", "infl", "realint"]].copy()
rates["growth"] = 400 * np.log(table["realgdp"]).diff()
rates["consumption"] = 400 * np.log(table["realcons"]).diff()
rates, late = rates[1:], table["year"][1:] >= 1985

found = two_sample_test(rates[~late], rates[late], random_state=0)
print(f"p-value of one distribution: {found.p_value:.3f}")
for one in found.changed():
    print(f"{one.name:>12}: p-value {one.p_value:.3f}, distance {one.distance:.2f}")

halves = np.random.default_rng(0).permutation(len(rates)) < len(rates) // 2
same = two_sample_test(rates[halves], rates[~halves], random_state=0)
print(f"two halves drawn at random: {same.p_value:.3f}")

# %%
# Growth varied less after 1985: economists call this the great moderation.

figure, axes = plt.subplots(1, 5, figsize=(11, 2.6), layout="constrained")
for ax, name in zip(axes, rates):
    for rows, label in (rates[~late], "before 1985"), (rates[late], "after"):
        ax.hist(rows[name], bins=15, density=True, alpha=0.5, label=label)
    ax.set(title=name, yticks=[])
axes[0].legend(fontsize=8)
plt.show()
