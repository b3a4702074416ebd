"""
A model served over HTTP
========================

A model is one file, and loading it executes nothing from the file. Thirty lines of the standard
library serve it over HTTP: requests contain rows as JSON, and responses contain predictions with
their intervals.
"""

import json
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from gramless import KernelRegressor, load, save

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
file = Path(tempfile.mkdtemp(), "diabetes.gramless")
save(KernelRegressor(random_state=0).fit(X[:400], y[:400]), file)

# %%
# The service. A request that contains no rows gets an error message as JSON.

model = load(file)
names = list(model.feature_names_in_)


class Predictions(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            rows = pd.DataFrame(json.loads(sent))[names]
            lower, upper = model.predict_interval(rows, coverage=0.9)
            answer, code = {"mean": model.predict(rows), "lower": lower, "upper": upper}, 200
            answer = {name: values.tolist() for name, values in answer.items()}
        except (ValueError, KeyError, TypeError) as error:
            answer, code = {"error": str(error)}, 400
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Say nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Predictions)
threading.Thread(target=server.serve_forever, daemon=True).start()

# %%
# A client requests predictions for the 42 test patients, one at a time.


def ask(rows):
    place = f"http://127.0.0.1:{server.server_port}"
    with urlopen(Request(place, json.dumps(rows.to_dict("list")).encode())) as response:
        return json.load(response)


ask(X[400:401])
started, answers = time.perf_counter(), [ask(X[row : row + 1]) for row in range(400, 442)]
print(f"{1000 * (time.perf_counter() - started) / 42:.1f} ms a question")
server.shutdown()

mean, lower, upper = (np.ravel([a[key] for a in answers]) for key in ("mean", "lower", "upper"))
order = np.argsort(mean)
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.vlines(range(42), lower[order], upper[order], color="C0", alpha=0.3, lw=5, label="90 % interval")
ax.plot(mean[order], "_", color="C0", ms=8, label="prediction")
ax.plot(y[400:].to_numpy()[order], ".", color="C3", label="what happened")
ax.set(xlabel="patients, by prediction", ylabel="progression of the disease", xticks=[])
ax.legend()
plt.show()
