"""
Digits in two dimensions
========================

Kernel principal components are the directions in which features vary most. They map a table to two
dimensions without targets, and new rows to the same map.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from gramless import KernelPCA

X, y = load_digits(return_X_y=True)
pca = KernelPCA(2, features="nystrom", random_state=0).fit(X[:1500])
print("share of the variance:", pca.explained_variance_ratio_.round(3))

places, new = pca.transform(X[:1500]), pca.transform(X[1500:])

figure, ax = plt.subplots(figsize=(6, 4.8), layout="constrained")
shown = ax.scatter(places[:, 0], places[:, 1], c=y[:1500], cmap="tab10", s=6, vmin=-0.5, vmax=9.5)
ax.scatter(
    new[:, 0], new[:, 1], c=y[1500:], cmap="tab10", s=22, marker="x", lw=0.8, vmin=-0.5, vmax=9.5
)
ax.set(title="dots: rows of the fit, crosses: new rows", xticks=[], yticks=[])
figure.colorbar(shown, ticks=range(10), label="digit")
plt.show()
