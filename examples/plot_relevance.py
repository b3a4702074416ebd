"""
Which inputs matter
===================

Growth keeps grids that improve the prediction of rows that they were not fitted to, so few grids
divide uninformative inputs. The table has the measurements of 569 tumours and as many columns of
noise. The model finds out which are noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from gramless import KernelClassifier
from gramless.inspection import FeatureImportancesDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
for k in range(30):
    X[f"noise {k + 1}"] = rng.normal(size=len(X))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = KernelClassifier(grids="grown", random_state=0).fit(X_train, y_train)
print(f"{100 * (1 - model.score(X_test, y_test)):.1f} % of {len(y_test)} tumours are wrong")

noise = [name.startswith("noise") for name in X.columns]
print(f"{model.feature_importances_[noise].sum():.3f} of the importance lies on noise")

# %%

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
FeatureImportancesDisplay.from_estimator(model, ax=ax, max_features=20)
plt.show()
