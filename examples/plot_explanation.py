"""
Why this prediction?
====================

Shapley values divide a prediction among the columns. They add up from the mean prediction to that
of the row, and are exact for sums of grids over few columns. Here they show why a model classifies
a tumour as malignant.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from gramless import KernelClassifier
from gramless.inspection import AttributionsDisplay, shapley_values

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = KernelClassifier(grids="grown", effort=1, random_state=0).fit(X_train, y_train)

found = shapley_values(model, X_test)
sums = found.base_values + found.values.sum(axis=1)
print(f"off by {np.abs(sums - model.decision_function(X_test)).max():.1e} at most")

# %%
# The least certain tumour of the test rows: bars to the right are evidence for benign, bars to
# the left against it.

doubtful = int(np.argmin(np.abs(model.decision_function(X_test))))
print(f"probability of benign: {model.predict_proba(X_test)[doubtful, 1]:.2f}")

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
AttributionsDisplay(found).plot(ax, row=doubtful, max_features=10)
plt.show()
