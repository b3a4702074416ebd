"""What every study keeps to: jobs that can be run, and pages that need no record."""

from __future__ import annotations

import pytest

from gramless.base.errors import InputError
from gramless.losses import Squared
from harness.known_sets import KNOWN
from studies.catalogue import PAPERS, find_trainer, studies
from studies.rows import BUILT_IN
from studies.runner import LADDER
from studies.scores import LOSSES, SCORES
from studies.study import Comparison, Line, Panel, Study, TableOf

STUDIES = [study for paper in PAPERS for study in studies(paper)]
BROUGHT = "features"
"""How names of data sets end that only readers can bring."""

each_study = pytest.mark.parametrize("study", STUDIES, ids=[study.key for study in STUDIES])


def test_papers_have_studies_with_names_of_their_own():
    keys = [study.key for study in STUDIES]
    assert len(set(keys)) == len(keys)
    for paper in PAPERS:
        assert studies(paper)
        assert {study.paper for study in studies(paper)} == {paper}
        assert "beyond" in {study.name for study in studies(paper)}
    with pytest.raises(InputError, match="no paper 'rb17'; there are rr07"):
        studies("rb17")


@each_study
def test_jobs_can_be_run(study: Study):
    for job in study.jobs(1.0):
        assert job.study == study.key
        assert job.data in {*KNOWN, *BUILT_IN} or job.data.endswith(BROUGHT)
        assert callable(find_trainer(job.method))
        assert set(job.scores) <= set(SCORES)
        needs_loss = {"objective", "train_loss", "test_loss"} & set(job.scores)
        assert not needs_loss or job.options["loss"] in LOSSES


@each_study
def test_less_scale_is_less_time_and_no_other_method(study: Study):
    whole = study.jobs(1.0)
    seconds = [sum(job.seconds for job in study.jobs(scale)) for scale in LADDER]
    assert seconds == sorted(seconds, reverse=True)
    for scale in LADDER:
        jobs = study.jobs(scale)
        assert jobs
        assert len({job.key for job in jobs}) == len(jobs)
        assert {(job.method, job.data) for job in jobs} <= {(one.method, one.data) for one in whole}


@each_study
def test_pages_need_no_record(study: Study):
    assert study.title
    assert study.about
    assert all(isinstance(panel, Panel) for panel in study.panels([]))
    assert all(isinstance(table, TableOf) for table in study.tables([]))
    for one in study.comparisons([]):
        assert isinstance(one, Comparison)
        assert one.verdict == "not measured"
        assert one.note, "the reason why it was not measured"
    lines = [line for panel in study.panels([]) for line in panel.lines]
    assert all(isinstance(line, Line) and len(line.x) == len(line.y) for line in lines)


def test_losses_are_those_of_the_library():
    assert LOSSES["squared"] == Squared()
    assert all(loss.name == name for name, loss in LOSSES.items())


def test_unknown_methods_are_named():
    with pytest.raises(InputError, match="no method 'magic'; there are"):
        find_trainer("magic")
