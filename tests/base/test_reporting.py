"""Log records, verbose lines and callbacks of fits."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gramless import KernelRegressor
from gramless.base.progress import Progress, Reporter

X = np.random.default_rng(0).normal(size=(120, 2))
Y = X[:, 0] ** 2


def fit(**options):
    results: list[Progress] = []
    model = KernelRegressor(n_grids=8, grids="random", random_state=0, n_jobs=1, **options)
    model.fit(X, Y, callbacks=results.append)
    return results


def test_log_records_carry_their_progress(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "gramless"):
        result = fit()
    records = [record for record in caplog.records if record.name == "gramless"]
    assert [record.progress for record in records] == result
    assert {record.owner for record in records} == {"KernelRegressor"}
    assert [record.getMessage() for record in records] == [one.message for one in result]
    assert {one.stage for one in result} == {"search", "validation", "solve", "final fit"}
    assert result[-1].details["n_rows"] == len(X)
    assert result[0].details["score"] > 0


def test_logger_is_silent_by_default(caplog: pytest.LogCaptureFixture, capsys):
    assert fit()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_concurrent_fits_report_separately(capsys):
    with ThreadPoolExecutor(2) as pool:
        quiet, verbose = pool.submit(fit), pool.submit(fit, verbose=1)
    reports = [one for one in verbose.result() if one.stage != "solve"]
    lines = [f"[KernelRegressor] {one.message}" for one in reports]
    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", lines)
    assert [one.message for one in quiet.result()] == [one.message for one in verbose.result()]


def test_verbose_lines_are_not_duplicated_by_logging(caplog, capsys):
    with caplog.at_level(logging.INFO, "gramless"):
        result = fit(verbose=1)
    messages = [one.message for one in result if one.stage != "solve"]
    assert [record.getMessage() for record in caplog.records] == messages
    assert capsys.readouterr() == ("", "")


def test_errors_in_a_callback_propagate():
    def fail(progress: Progress) -> None:
        raise KeyError(progress.stage)

    with pytest.raises(KeyError, match="search"):
        Reporter("me", fail)("search", "a line")
