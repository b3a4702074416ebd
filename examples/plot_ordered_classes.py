"""
Ordered classes
===============

Answers to "how happy is your marriage?", from 1 to 5, are neither numbers with equal steps nor
classes without an order. The cumulative loss learns one response and the thresholds between the
classes. The table has 601 answers of 1974, with other data about the respondents.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from statsmodels.datasets import fair

from gramless import KernelClassifier
from gramless.losses import CumulativeLogistic

table = fair.load_pandas().data
names = ["very poor", "poor", "fair", "good", "very good"]
rating = pd.Series(
    pd.Categorical.from_codes(table.pop("rate_marriage").astype(int) - 1, names, ordered=True)
)
X_train, X_test, y_train, y_test = train_test_split(table, rating, test_size=0.5, random_state=0)

model = KernelClassifier(effort=1, random_state=0).fit(X_train, y_train)
assert isinstance(model.loss_, CumulativeLogistic)  # the default for ordered classes
print("thresholds:", np.round(model.loss_.thresholds, 2))
said = model.predict_proba(X_test)[np.arange(len(y_test)), y_test.cat.codes]
print(f"mean log loss: {-np.log(said).mean():.3f}")

# %%
# Predicted probabilities by the time spent in affairs. All other columns have the median of the
# table.

line = pd.concat([table.median().to_frame().T] * 40, ignore_index=True)
line["affairs"] = np.linspace(0, 8, 40)

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.stackplot(
    line["affairs"],
    model.predict_proba(line).T,
    labels=names,
    colors=plt.cm.RdYlGn(np.linspace(0.1, 0.9, 5)),
)
ax.set(
    xlabel="time spent in affairs, as the survey measured it",
    ylabel="probability",
    xlim=(0, 8),
    ylim=(0, 1),
)
ax.legend(loc="lower left", reverse=True)
plt.show()
