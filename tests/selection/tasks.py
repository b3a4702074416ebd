"""Selection tasks for tests."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gramless import RandomBinning
from gramless.base.progress import Deadline, Reporter
from gramless.losses import Squared
from gramless.matrices.base import Vector
from gramless.preprocessing.rows import Rows
from gramless.selection.budget import Budget
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import Goal, mean_loss
from gramless.selection.splits import Folds, Split
from gramless.selection.task import FixedChoices, HeldBackRows, SelectionTask


def make_task(X: Rows, y: Vector, **options: Any) -> SelectionTask:
    """Return a task over rows and encoded targets.

    Options are fields of the task, of its data, fixed choices and held-back rows, and ``loss``,
    ``l1_ratio``, ``weight``, ``seconds`` of a time budget and ``split``, the only one there is.
    """
    loss = options.pop("loss", Squared())
    seed, n_jobs = options.setdefault("seed", 0), options.setdefault("n_jobs", 1)
    report = options.setdefault("report", Reporter())
    split: Split | None = options.pop("split", None)
    if split is not None:
        options["folds"] = Folds([split])
    data = Data(
        **{
            "rows": X,
            "targets": y,
            "sample_weight": options.pop("weight", None),
            "score": mean_loss(loss),
            "intercept": True,
            **_taken(Data, options),
        }
    )
    fixed = {"scalings": ("standard",), "relevance": "equal", **_taken(FixedChoices, options)}
    shared = {"data": data, "seed": seed, "report": report, "n_jobs": n_jobs}
    held_back = HeldBackRows(**shared, **_taken(HeldBackRows, options))
    deadline = Deadline(options.pop("seconds", None))
    defaults = {
        "goal": Goal(loss, options.pop("l1_ratio", 0.0), data.score),
        "feature_map": RandomBinning(n_grids=24, random_state=0),
        "config": SearchConfig(),
        "budget": Budget(X.shape, deadline, report, data.n_outputs),
    }
    shared = {"data": data, "held_back": held_back, "fixed": FixedChoices(**fixed)}
    return SelectionTask(**{**defaults, **shared, **options})


def _taken(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """Take from the options those that are fields of a class, but not of tasks."""
    shared = {field.name for field in fields(SelectionTask)}
    names = {field.name for field in fields(kind)} - shared
    return {name: options.pop(name) for name in names & options.keys()}
