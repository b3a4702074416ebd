"""
Few labels, many rows
=====================

Labels are expensive, rows are cheap. Rows that share bins are joined in a graph, and the labels
of a few spread along it to all others. 1,797 digits, of which 20 to 200 have a label.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from gramless import LabelSpreading

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))

counts, spread, alone = [20, 50, 100, 200], [], []
for count in counts:
    labelled, others = order[:count], order[count:]
    known = np.full(len(y), -1)
    known[labelled] = y[labelled]
    model = LabelSpreading(0.9, estimator=None, random_state=0).fit(X, known)
    spread.append(np.mean(model.transduction_[others] != y[others]))
    machine = SVC(C=10).fit(X[labelled], y[labelled])
    alone.append(np.mean(machine.predict(X[others]) != y[others]))
    print(f"{count:4} labels: {spread[-1]:.3f} wrong by spreading, {alone[-1]:.3f} by labels alone")

# %%
# With 20 labels the other rows help; from 100 on the labelled rows alone do better.

figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
ax.plot(counts, alone, "s-", label="a support vector machine on the labelled rows")
ax.plot(counts, spread, "o-", label="labels spread over all rows")
ax.set(xlabel="rows with a label", ylabel="share of the others that is wrong")
ax.legend()
plt.show()
