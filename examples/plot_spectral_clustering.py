"""
Clusters of any shape
=====================

k-means separates clusters by straight lines. Spectral clustering separates connected groups of
rows. Rows are vertices of a graph, and their common neighbours determine the weights of the edges,
in time linear in the number of rows. Noise columns, which depend on no other column, are ignored:
the table of the last line has six of them in addition to the two columns drawn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from gramless import SpectralClustering

moons, moon = make_moons(2000, noise=0.06, random_state=0)
circles, circle = make_circles(2000, factor=0.3, noise=0.05, random_state=0)
noisy = np.column_stack([moons, np.random.default_rng(0).normal(size=(2000, 6))])

figure, axes = plt.subplots(3, 2, figsize=(7, 9), layout="constrained")
for line, rows, truth in zip(axes, (moons, circles, noisy), (moon, circle, moon)):
    methods = {
        "k-means": KMeans(2, n_init=5, random_state=0),
        "spectral clustering": SpectralClustering(2, random_state=0),
    }
    for ax, (name, method) in zip(line, methods.items()):
        labels = method.fit_predict(rows)
        score = adjusted_rand_score(truth, labels)
        ax.scatter(*rows[:, :2].T, c=labels, cmap="coolwarm", s=3)
        ax.set(title=f"{name}\nadjusted Rand index {score:.2f}", xticks=[], yticks=[])
        print(f"{name:>20}: {score:.2f}, {np.bincount(labels)} rows")
plt.show()
