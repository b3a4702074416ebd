"""
Survival of patients with breast cancer
=======================================

Of 686 patients of a German study some had a recurrence, others left the study without one. What is
known of the latter is that nothing had happened until then. Cox's proportional hazards use both,
and grids let risks depend on the columns in any shape.
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
# Patients who were not seen, in three groups by predicted risk: what had been predicted for them
# (dashed), and what happened (Kaplan and Meier's estimate).

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
