"""
Learning from a stream
======================

Rows arrive in batches and are never stored. Each step reads one batch and changes one block of
random frequencies, so memory holds only the weights. Here a function generates the stream of
measurements; it could also be a queue, a sensor or a file larger than memory.
"""

import matplotlib.pyplot as plt
import numpy as np

from gramless import DoublyStochasticRegressor
from gramless.streaming import IteratorSource


def measurements(n_batches, rng):
    """Yield batches of places on a map, and the height there, measured with an error."""
    for _ in range(n_batches):
        places = rng.uniform(-3, 3, size=(1000, 2))
        heights = np.sin(2 * places[:, 0]) * np.cos(places[:, 1])
        yield places, heights + 0.2 * rng.normal(size=1000)


stream = IteratorSource(measurements(70, np.random.default_rng(0)), n_held_out=2000)
model = DoublyStochasticRegressor(random_state=0, batch_size=1000, max_steps=60)
model.fit_stream(stream)
print(model.status_, "after", model.n_iter_, "steps;", f"{model.weights_.size:,} weights")

# %%
# The error on validation rows during the stream, in standard deviations of the targets, and the
# learned map.

side = np.linspace(-3, 3, 120)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(model.evaluations_["iteration"], model.evaluations_["error"], "o-")
left.set(xlabel="batches of 1,000 rows", ylabel="error on rows held out", ylim=(0, None))
shown = right.imshow(model.predict(grid).reshape(120, 120), extent=(-3, 3, -3, 3), origin="lower")
right.set(title="the map that was learned")
figure.colorbar(shown, ax=right)
plt.show()
