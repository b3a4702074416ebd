"""
Detecting El Niño
=================

Monthly temperatures of the Pacific off Peru from 1950 to 2010. A month is an anomaly if it falls
into rare bins in many grids. The detector finds El Niño without any labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import elnino

from gramless import AnomalyDetector

table = elnino.load_pandas().data
temperature = table.drop(columns="YEAR").to_numpy().ravel()
time = table["YEAR"].iloc[0] + np.arange(len(temperature)) / 12
month = np.arange(len(temperature)) % 12
angle = 2 * np.pi * month / 12
X = np.column_stack([temperature, np.cos(angle), np.sin(angle)])

detector = AnomalyDetector(contamination=0.03, random_state=0).fit(X)
strange = detector.predict(X) == -1
years, months = np.unique(np.floor(time[strange]).astype(int), return_counts=True)
print("years with strange months:", dict(zip(years.tolist(), months.tolist())))

# %%
# The warm winters of 1982/83 and 1997/98 were the strongest El Niños of the century.

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ax.plot(time, temperature, lw=0.8, color="0.4")
ax.plot(time[strange], temperature[strange], "o", color="C3", ms=4, label="strange months")
ax.set(xlabel="year", ylabel="degrees Celsius")
ax.legend()
plt.show()
