"""
Comparing methods on a small table
==================================

The table has 442 patients, ten measurements, and the progression of diabetes after a year. With few
rows and much noise, the question is whether any method beats a linear model. All methods use the
same five folds.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from gramless import KernelRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
folds = KFold(5, shuffle=True, random_state=0)

models = {
    "gramless, defaults": KernelRegressor(random_state=0),
    "random forest": RandomForestRegressor(200, random_state=0, n_jobs=-1),
    "support vectors, C = 100": make_pipeline(StandardScaler(), SVR(C=100)),
    "ridge": make_pipeline(StandardScaler(), RidgeCV()),
}
scores = {name: cross_val_score(model, X, y, cv=folds) for name, model in models.items()}
for name, found in scores.items():
    print(f"{name:>24}: R2 {found.mean():.3f}, standard deviation over folds {found.std():.3f}")

# %%
# Scores differ more between folds than between methods, so no difference here is reliable.

figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for height, found in enumerate(scores.values()):
    ax.plot(found, [height] * 5, "o", color="C0", alpha=0.5)
    ax.plot(found.mean(), height, "|", color="C3", ms=22, mew=3)
ax.set(yticks=range(len(scores)), yticklabels=scores, xlabel="R2 of each fold, and their mean")
plt.show()
