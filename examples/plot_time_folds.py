"""
Validation on the last rows
===========================

Rows in time are not drawn at random. A model validated on rows between its training rows looks
better than it is. With ``cv=TimeSeriesSplit()`` models are validated on the last rows. The targets
are the sunspots of a year, the inputs those of the eleven years before.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import TimeSeriesSplit
from statsmodels.datasets import sunspots

from gramless import KernelRegressor

table = sunspots.load_pandas().data
spots = table["SUNACTIVITY"].to_numpy()
X = np.column_stack([spots[11 - lag : len(spots) - lag] for lag in range(1, 12)])
y, years = spots[11:], table["YEAR"].to_numpy()[11:]

model = KernelRegressor("nystrom", cv=TimeSeriesSplit(), random_state=0)
model.fit(X[:-60], y[:-60])
predicted = model.predict(X[-60:])
lower, upper = model.predict_interval(X[-60:], coverage=0.8)


def error(guess):
    return np.sqrt(np.mean((guess - y[-60:]) ** 2))


print(f"root mean squared error: {error(predicted):.1f}")
print(f"as many as the year before: {error(X[-60:, 0]):.1f}")
print(f"as many as eleven years before: {error(X[-60:, 10]):.1f}")

# %%

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.fill_between(years[-60:], np.maximum(lower, 0), upper, alpha=0.25, label="80 % interval")
ax.plot(years[-60:], predicted, label="predicted, a year ahead")
ax.plot(years[-60:], y[-60:], ".-", color="0.3", lw=0.8, label="counted")
ax.set(xlabel="year", ylabel="sunspots")
ax.legend()
plt.show()
