"""All studies by paper and all trainers by name; their modules are imported when needed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from gramless.base.errors import InputError
from studies.study import Study, Trainer

PAPERS = {
    "rr07": "Rahimi & Recht 2007, Random features for large-scale kernel machines",
    "rb16": "Wu, Yen, Chen & Yan 2016, Revisiting random binning features",
    "dsg16": "Li & Póczos 2016, Utilize old coordinates: faster doubly stochastic gradients",
}
TRAINER_MODULES = (
    "studies.methods",
    "studies.peers",
    "studies.dsg16.stochastic_gradients",
    "studies.rb16.their_grids",
)


def studies(paper: str) -> list[Study]:
    """Return the studies of a paper: its figures and tables, then those in ``studies.beyond``.

    Parameters
    ----------
    paper : str
        A key of :data:`PAPERS`.

    Raises
    ------
    InputError
        If there is no such paper.
    """
    if paper not in PAPERS:
        raise InputError(f"There is no paper {paper!r}; there are {', '.join(PAPERS)}.")
    beyond = import_module("studies.beyond").STUDIES
    reproduced = import_module(f"studies.{paper}").STUDIES
    return [*reproduced, *(study for study in beyond if study.paper == paper)]


def find_trainer(name: str, modules: Sequence[str] = TRAINER_MODULES) -> Trainer:
    """Return a trainer by name.

    Parameters
    ----------
    name : str
    modules : sequence of str
        Modules with a dictionary ``TRAINERS``, searched in order.

    Raises
    ------
    InputError
        If no module has a trainer with this name.
    """
    known: list[str] = []
    for module in modules:
        trainers: dict[str, Trainer] = import_module(module).TRAINERS
        if name in trainers:
            return trainers[name]
        known += trainers
    raise InputError(f"There is no method {name!r}; there are {', '.join(known)}.")
