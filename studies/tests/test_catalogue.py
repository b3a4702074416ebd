"""Test that the jobs of every study can be run, and that its pages need no records."""

from __future__ import annotations

import pytest

from gramless.base.errors import InputError
from gramless.losses import Squared
from harness.known_sets import KNOWN
from studies.catalogue import PAPERS, find_trainer, studies
from studies.comparisons import NOT_MEASURED, Comparison
from studies.published import published
from studies.rb16.curves import points
from studies.rows import BUILT_IN
from studies.scores import LOSSES, SCORES
from studies.study import Line, Panel, TableOf

STUDIES = [study for paper in PAPERS for study in studies(paper)]
BROUGHT = "features"
"""How names of data sets end that only readers can bring."""


def test_papers_have_studies_with_names_of_their_own():
    keys = [study.key for study in STUDIES]
    assert len(set(keys)) == len(keys)
    for paper in PAPERS:
        assert studies(paper)
        assert {study.paper for study in studies(paper)} == {paper}
        assert "beyond" in {study.name for study in studies(paper)}
    with pytest.raises(InputError, match="no paper 'rb17'; there are rr07"):
        studies("rb17")


def test_jobs_can_be_run():
    for study in STUDIES:
        jobs = study.jobs()
        assert len({job.key for job in jobs}) == len(jobs)
        for job in jobs:
            assert job.study == study.key
            assert job.seconds > 0.0
            assert job.data in {*KNOWN, *BUILT_IN} or job.data.endswith(BROUGHT)
            assert callable(find_trainer(job.method))
            assert set(job.scores) <= set(SCORES)
            needs_loss = {"objective", "train_loss", "test_loss"} & set(job.scores)
            assert not needs_loss or job.options["loss"] in LOSSES


def test_all_budgets_together_are_at_most_eight_hours():
    assert sum(study.minutes for study in STUDIES) <= 480.0


def test_every_published_number_has_a_row():
    compared = [one.number.key for study in STUDIES for one in study.comparisons([])]
    assert len(set(compared)) == len(compared)
    listed = {key for paper in PAPERS for key in published(paper)}
    figures = {"figure-3", "figure-4", "figure-5"}
    drawn = {
        number.key
        for figure in figures
        for point in points(figure)
        for number in point.published().values()
    }
    assert set(compared) == listed | drawn
    # Seven sets, SUSY, acoustic.
    assert len([key for key in drawn if not key.endswith("/columns")]) == 1044 + 133 + 153


def test_pages_need_no_record():
    for study in STUDIES:
        assert study.title
        assert study.about
        assert all(isinstance(panel, Panel) for panel in study.panels([]))
        assert all(isinstance(table, TableOf) for table in study.tables([]))
        for one in study.comparisons([]):
            assert isinstance(one, Comparison)
            assert one.verdict == NOT_MEASURED
            assert one.reason
        lines = [line for panel in study.panels([]) for line in panel.lines]
        assert all(isinstance(line, Line) and len(line.x) == len(line.y) for line in lines)


def test_losses_are_those_of_the_library():
    assert LOSSES["squared"] == Squared()
    assert all(loss.name == name for name, loss in LOSSES.items())


def test_unknown_methods_are_named():
    with pytest.raises(InputError, match="no method 'magic'; there are"):
        find_trainer("magic")
