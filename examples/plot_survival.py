"""
Survival of patients with breast cancer
=======================================

Some of 686 patients of a German study had a recurrence; others left the study without one. Of the
latter only the time without a recurrence is known. Cox's proportional hazards use both, and with
grids the risk may depend on the columns in any form.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sksurv.datasets import load_gbsg2
from sksurv.nonparametric import kaplan_meier_estimator

from gramless import KernelSurvival

table, outcome = load_gbsg2()  # a data frame with categories; who had an event, and when
X_train, X_test, y_train, y_test = train_test_split(table, outcome, test_size=0.4, random_state=0)

model = KernelSurvival(random_state=0).fit(X_train, y_train)
print(f"concordance on patients not seen: {model.score(X_test, y_test):.3f}")

# %%
# Test patients in three groups by predicted risk: predicted survival (dashed), and observed
# survival (Kaplan and Meier's estimate).

years = np.linspace(0, 6, 100)
curves = model.predict_survival_function(X_test, years * 365)
groups = np.array_split(np.argsort(model.predict(X_test)), 3)

figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for rows, name, colour in zip(groups, ("low", "middle", "high"), ("C2", "C0", "C3")):
    found = y_test[rows]
    time, probability = kaplan_meier_estimator(found["cens"], found["time"])
    ax.step(time / 365, probability, color=colour, where="post", label=f"{name} risk")
    ax.plot(years, curves[rows].mean(axis=0), "--", color=colour)
ax.set(xlabel="years", ylabel="share without recurrence", xlim=(0, 6), ylim=(0, 1))
ax.legend()
plt.show()
