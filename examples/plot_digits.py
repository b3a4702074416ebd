"""
Handwritten digits and prediction sets
======================================

1,797 digits of 8 by 8 pixels. A model can return a set of classes that contains the true one with a
given probability. Digits with more than one class in the set are hard to read for people too.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gramless import KernelClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = KernelClassifier(random_state=0).fit(X_train, y_train)
print(f"{100 * (1 - model.score(X_test, y_test)):.1f} % of {len(y_test)} digits are wrong")

sets = model.predict_set(X_test, coverage=0.99)
print(f"{sets[np.arange(len(y_test)), y_test].mean():.3f} of the sets hold the true class")
print(f"{sets.sum(axis=1).mean():.2f} classes in a set")

# %%
# The twelve least certain digits, with the two most probable classes.

probabilities = model.predict_proba(X_test)
doubtful = np.argsort(probabilities.max(axis=1))[:12]

figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for ax, row in zip(axes.flat, doubtful):
    first, second = np.argsort(probabilities[row])[::-1][:2]
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.set_title(
        f"{first}: {probabilities[row, first]:.0%}, {second}: {probabilities[row, second]:.0%}\n"
        f"(it is {y_test[row]})",
        size=9,
    )
plt.show()
