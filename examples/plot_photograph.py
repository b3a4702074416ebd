"""
Learning a photograph
=====================

A photograph is a function from a position, two numbers, to a colour, three numbers. It has edges,
which smooth kernels blur and grids keep. The model learns the function from a tenth of the pixels
and predicts all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from gramless import KernelRegressor

photo = load_sample_image("flower.jpg")[60:360:2, 160:560:2] / 255.0
height, width, _ = photo.shape
rows, columns = np.mgrid[:height, :width]
places = np.column_stack([rows.ravel(), columns.ravel()])
colours = photo.reshape(-1, 3)

# %%
# One pixel in ten is a training row. The three colours are three outputs of one model.

rng = np.random.default_rng(0)
known = rng.permutation(len(places))[: len(places) // 10]
model = KernelRegressor(effort=2, random_state=0)
model.fit(places[known], colours[known])

painted = np.clip(model.predict(places), 0, 1)
error = np.mean((painted - colours) ** 2)
print(f"{len(known):,} of {len(places):,} pixels known, PSNR {-10 * np.log10(error):.1f} dB")

# %%

seen = np.ones_like(colours)
seen[known] = colours[known]

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
titles = "what the model saw", "what it painted", "the photograph"
for ax, picture, title in zip(axes, (seen, painted, colours), titles):
    ax.imshow(picture.reshape(height, width, 3))
    ax.set(title=title, xticks=[], yticks=[])
plt.show()
