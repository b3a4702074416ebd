"""Workers that die, in processes that are killed: the fits end with the same bits."""

from __future__ import annotations

import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from gramless.base.errors import ClusterError
from gramless.distributed import DaskKernelClassifier, DaskKernelRegressor
from gramless.distributed.partitions import Sizes
from tests.distributed.conftest import HERE, OPTIONS, cluster_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

GIVEN = {"bandwidth": 3.0, "alpha": 1e-5, "n_grids": 32, "scaling": "none", "random_state": 0}
N_ROWS, N_BLOCKS = 40_000, 20


class Regressor(DaskKernelRegressor):
    sizes = Sizes(min_block_rows=N_ROWS // N_BLOCKS)


class Classifier(DaskKernelClassifier):
    sizes = Sizes(min_block_rows=N_ROWS // N_BLOCKS)


def made(number):
    """Return a partition's rows and targets: any worker can make them."""
    generator = np.random.default_rng(number)
    X = generator.normal(size=(N_ROWS // N_BLOCKS, 4))
    return np.column_stack([X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]])


def table():
    shape = N_ROWS // N_BLOCKS, 5
    parts = [da.from_delayed(dask.delayed(made)(k), shape, float) for k in range(N_BLOCKS)]
    whole = da.concatenate(parts)
    return whole[:, :4], whole[:, 4]


@pytest.fixture(scope="module")
def client():
    """Three workers, of which a nanny starts others in the place of the dead."""
    with cluster_of(3, processes=True) as client:
        yield client


@pytest.fixture(scope="module")
def expected(client):
    """Fits of which nobody died."""
    X, y = table()
    squares = Regressor(**GIVEN, client=client).fit(X, y)
    losses = Classifier(**GIVEN, loss="logistic", client=client).fit(X, y > 0)
    return {"squares": squares.weights_, "losses": losses.weights_}


def kill_one(client):
    """Kill the process of a worker."""
    pids = client.run(os.getpid)
    os.kill(min(pids.values()), signal.SIGKILL)


@pytest.mark.parametrize("stage", ["sample", "bins", "first", "tenth"])
@pytest.mark.parametrize("loss", ["squares", "losses"])
def test_killed_worker_does_not_change_the_fit(client, expected, loss, stage, monkeypatch):
    from gramless.distributed.rows import ClusterRows

    X, y = table()
    client.wait_for_workers(2)
    if stage in ("sample", "bins"):

        def callback(progress):
            if progress.stage == stage:
                kill_one(client)
    else:
        callback, ask = None, ClusterRows._run_round
        rounds = {"first": 4, "tenth": 12}[stage]

        def asked(self, *arguments):
            if self.cluster.n_rounds == rounds:
                threading.Timer(0.01, kill_one, [client]).start()
            return ask(self, *arguments)

        monkeypatch.setattr(ClusterRows, "_run_round", asked)
    if loss == "squares":
        model = Regressor(**GIVEN, client=client).fit(X, y, callbacks=callback)
    else:
        model = Classifier(**GIVEN, loss="logistic", client=client)
        model.fit(X, y > 0, callbacks=callback)
    np.testing.assert_array_equal(model.weights_, expected[loss])


def test_killed_worker_does_not_change_predictions(client, expected):
    X, y = table()
    model = Regressor(**GIVEN, client=client).fit(X, y)
    lazy = model.predict(X).persist()
    kill_one(client)
    np.testing.assert_array_equal(lazy.compute(), model.to_local().predict(X.compute()))


def test_many_workers_give_the_same_weights(expected):
    with cluster_of(18, processes=False) as client:
        model = Regressor(**GIVEN, client=client).fit(*table())
    np.testing.assert_array_equal(model.weights_, expected["squares"])


def test_concurrent_fits_share_a_cluster(client, expected):
    X, y = table()
    result = {}

    def fit(name):
        if name == "squares":
            result[name] = Regressor(**GIVEN, client=client).fit(X, y).weights_
        else:
            model = Classifier(**GIVEN, loss="logistic", client=client)
            result[name] = model.fit(X, y > 0).weights_

    threads = [threading.Thread(target=fit, args=[name]) for name in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, coef in expected.items():
        np.testing.assert_array_equal(result[name], coef)


def test_lost_scattered_rows_are_reported(client):
    client.wait_for_workers(2)
    parts = client.scatter([made(k) for k in range(4)])
    whole = da.concatenate(
        [da.from_delayed(part, (N_ROWS // N_BLOCKS, 5), float) for part in parts]
    )

    def callback(progress):
        if progress.stage == "bins":
            for pid in client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(ClusterError, match="scattered"):
        Regressor(**GIVEN, client=client).fit(whole[:, :4], whole[:, 4], callbacks=callback)


def test_joining_workers_and_leaving_clients_do_not_disturb_fits(expected):
    X, y = table()
    with LocalCluster(n_workers=1, **HERE, **OPTIONS) as cluster, Client(cluster) as client:

        def join(progress):
            if progress.stage == "bins":
                cluster.scale(2)

        model = Regressor(**GIVEN, client=client).fit(X, y, callbacks=join)
        np.testing.assert_array_equal(model.weights_, expected["squares"])
        leaving = Client(cluster, set_as_default=False)

        def leave(progress):
            if progress.stage == "bins":
                leaving.close()

        with pytest.raises(ClusterError, match="client"):
            Regressor(**GIVEN, client=leaving).fit(X, y, callbacks=leave)
        model = Regressor(**GIVEN, client=client).fit(X, y)
        np.testing.assert_array_equal(model.weights_, expected["squares"])
        del model
        deadline = time.monotonic() + 30
        while any(client.run(lambda dask_worker: len(dask_worker.data)).values()):
            held = client.run(lambda dask_worker: list(dask_worker.data))
            assert time.monotonic() < deadline, held
            time.sleep(0.2)


@pytest.mark.parametrize("loss", ["squares", "losses"])
def test_fit_without_workers_times_out_and_resumes(expected, loss, tmp_path, monkeypatch):
    from gramless.distributed.rows import ClusterRows

    X, y = table()
    path, ask = tmp_path / "solve.npz", ClusterRows._run_round
    kind = Regressor if loss == "squares" else Classifier
    options = GIVEN if loss == "squares" else GIVEN | {"loss": "logistic"}
    targets = y if loss == "squares" else y > 0
    with LocalCluster(n_workers=2, **HERE, **OPTIONS) as cluster, Client(cluster) as client:

        def asked(self, *arguments):
            if self.cluster.n_rounds == 30:
                cluster.scale(0)
            return ask(self, *arguments)

        with monkeypatch.context() as patch, dask.config.set({"gramless.patience": 2}):
            patch.setattr(ClusterRows, "_run_round", asked)
            with pytest.raises(ClusterError, match="no worker for 2 seconds"):
                kind(**options, tol=1e-4, client=client).fit(X, targets, checkpoint=path)
        assert path.exists()
        cluster.scale(2)
        resumed = kind(**options, tol=1e-4, client=client).fit(X, targets, checkpoint=path)
        assert not path.exists()
        whole = kind(**options, tol=1e-4, client=client).fit(X, targets)
    np.testing.assert_array_equal(resumed.weights_, whole.weights_)
    assert (resumed.n_iter_, resumed.status_) == (whole.n_iter_, whole.status_)
    assert resumed.history_ == whole.history_
