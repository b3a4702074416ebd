import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gramless import KernelRegressor
from gramless.base.progress import Progress, Reporter

X = np.random.default_rng(0).normal(size=(120, 2))
Y = X[:, 0] ** 2


def fit(**options):
    found: list[Progress] = []
    model = KernelRegressor(n_grids=8, grids="random", random_state=0, n_jobs=1, **options)
    model.fit(X, Y, callbacks=found.append)
    return found


def test_records_carry_their_progress(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "gramless"):
        found = fit()
    records = [record for record in caplog.records if record.name == "gramless"]
    assert [record.progress for record in records] == found
    assert {record.owner for record in records} == {"KernelRegressor"}
    assert [record.getMessage() for record in records] == [one.message for one in found]
    assert {one.stage for one in found} == {"search", "validation", "solve", "final fit"}
    assert found[-1].details["n_rows"] == len(X)
    assert found[0].details["score"] > 0


def test_the_logger_is_silent_unless_asked(caplog: pytest.LogCaptureFixture, capsys):
    assert fit()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_fits_that_run_at_once_keep_their_reports_apart(capsys):
    with ThreadPoolExecutor(2) as pool:
        quiet, verbose = pool.submit(fit), pool.submit(fit, verbose=1)
    told = [one for one in verbose.result() if one.stage != "solve"]
    lines = [f"[KernelRegressor] {one.message}" for one in told]
    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", lines)
    assert [one.message for one in quiet.result()] == [one.message for one in verbose.result()]


def test_verbose_lines_are_shown_once_where_logging_takes_them(caplog, capsys):
    with caplog.at_level(logging.INFO, "gramless"):
        found = fit(verbose=1)
    told = [one.message for one in found if one.stage != "solve"]
    assert [record.getMessage() for record in caplog.records] == told
    assert capsys.readouterr() == ("", "")


def test_faults_of_a_callback_reach_the_caller():
    def fail(progress: Progress) -> None:
        raise KeyError(progress.stage)

    with pytest.raises(KeyError, match="search"):
        Reporter("me", fail)("search", "a line")
