"""
Counting visits to doctors
==========================

The RAND health insurance experiment gave families insurances in which they paid more or less of
their bills themselves, and counted their visits to doctors. The spread of counts grows with their
mean. The Poisson loss predicts the mean through its logarithm, and intervals of whole numbers come
from a negative binomial distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.datasets import randhie

from gramless import KernelRegressor

table = randhie.load_pandas().data
visits = table.pop("mdvis")
X_train, X_test, y_train, y_test = train_test_split(table, visits, random_state=0)

model = KernelRegressor(loss="poisson", effort=1, random_state=0).fit(X_train, y_train)
linear = make_pipeline(StandardScaler(), PoissonRegressor()).fit(X_train, y_train)

for name, one in ("grids", model), ("log-linear", linear):
    print(f"{name:>10}: deviance {mean_poisson_deviance(y_test, one.predict(X_test)):.3f}")

# %%
# Small and large predictions should both be unbiased: in each tenth of the predictions, the mean
# of the visits should be the mean of the predictions.

lower, upper = model.predict_interval(X_test, coverage=0.9)
print(
    f"{np.mean((lower <= y_test) & (y_test <= upper)):.3f} of the counts lie in their 90 % interval"
)

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
for name, one, marker in ("grids", model, "o"), ("log-linear", linear, "s"):
    predicted = one.predict(X_test)
    tenths = np.array_split(np.argsort(predicted), 10)
    means = [(predicted[rows].mean(), y_test.iloc[rows].mean()) for rows in tenths]
    ax.plot(*np.transpose(means), marker, label=name)
ax.axline((1, 1), slope=1, color="0.6", lw=1)
ax.set(xlabel="visits predicted", ylabel="visits counted", title="Means of ten groups of people")
ax.legend()
plt.show()
