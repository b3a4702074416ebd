"""What to fit: random grids, grown grids or both, with every number that was left open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from gramless.base.cached import cached_property
from gramless.base.errors import InputError
from gramless.base.memory import memory_budget
from gramless.base.random import stream
from gramless.features.binning import RandomBinning
from gramless.model_selection.alpha import Goal, search_alpha
from gramless.model_selection.amounts import affordable_grids, number_beside, number_of_grids
from gramless.model_selection.blending import Blend, Shares
from gramless.model_selection.grouped_rows import kept_together, shuffled
from gramless.model_selection.growth import MOST_ROWS, PAUSE, Growth
from gramless.model_selection.judging import Judged, judge
from gramless.model_selection.plan import Plan
from gramless.model_selection.recipes import GridRecipe, RandomRecipe, Recipe
from gramless.model_selection.search import TIME_SHARE, Search
from gramless.model_selection.search_space import Settings, Trial
from gramless.model_selection.sizing import LEAST_ROWS_TO_SIZE, enough_grids
from gramless.model_selection.splits import Split, held_back_splits
from gramless.preprocessing.scaling import Scaler, ScalingKind

_GROWTH_SHARE, _COMPARE_SHARE = 0.4, 0.5
"""Of a time budget: growth ends, and other features are not tried any more."""
_LEAST_BESIDE = 1024
"""Of these, where there is room: the few rows that choose how many cannot tell what more rows
gain by more grids, nor how a later sample drifts."""
_CLEARLY = 0.2
"""Grown grids whose score is below that of a search by this factor are taken as they are."""
_PART_ROWS, _MANY_ROWS = 60_000, 4
"""Of more than four times as many rows, so many show first whether random grids help."""
_LEAST_TO_PAUSE = 20_000
"""Training rows: with fewer, growth takes a second or two, and few rows say what it is worth."""
_STRONG_ALPHAS = (1e-1, 1e-2, 1e-3)
_ALPHAS = 4.0 ** np.arange(1, -6, -1)
ENOUGH_TO_SEARCH = 40
_DEFAULT_ALPHA = 1e-3


class Planner:
    """Chooses what was left open.

    Parameters
    ----------
    search : Search
        For random grids; its data, feature map, seed, deadline and report are used throughout.
    goal : Goal
    """

    def __init__(self, search: Search, goal: Goal) -> None:
        self.search, self.goal = search, goal
        self.data, self.n_rows = search.data, search.data.rows.shape[0]
        choices = search.choices
        given = choices.bandwidth is not None and choices.alpha is not None
        decided = given and len(choices.scalings) == 1
        self.searches = not decided and self.n_rows >= ENOUGH_TO_SEARCH
        self.limits: list[str] = []
        self.last_search = 0
        self.keeps_fits = True

    def random(self) -> Plan:
        """Return random grids, their settings as given, searched, or by rule for few rows."""
        plan = self._random_plan(self._random_settings())
        binning = isinstance(self.search.feature_map, RandomBinning)
        return self._finished(self._of_enough_grids(plan, 0) if binning else plan)

    def grown(self) -> Plan:
        """Return grown grids."""
        most = self._most_grown()
        return self._finished(self._grow(self._growth(most), most))

    def best(self) -> Plan:
        """Return grown grids, random ones, or the average of both models, what predicts best.

        Of a number of grids that is given, all are of one kind: each model of an average
        would have too few.
        """
        if self.search.choices.n_grids is not None:
            return self.single()
        n_grown, n_random = self._most_of_each()
        if n_random == 0:
            return self.single()
        return self._chosen(n_grown, n_random, self._averaged)

    def single(self) -> Plan:
        """Return grown grids or random ones, whichever predict better: one kernel, one solution."""
        most = self._most_grown()
        self.keeps_fits = self._most_affordable >= 2 * most
        return self._chosen(most, most, lambda *plans: min(plans, key=lambda plan: plan.score))

    def judged(self, plan: Plan) -> Plan:
        """Return the plan with a fit that did not know some rows, unless it has one."""
        if plan.judged is not None:
            return plan
        if self.n_rows < 2:
            raise InputError("calibrate=True needs at least 2 rows, to hold one back.")
        alpha = self._fewer_rows(plan.alpha)
        return replace(plan, judged=self._judge(plan.recipe, [alpha], self.splits))

    def _chosen(self, n_grown: int, n_random: int, choose: Callable[[Plan, Plan], Plan]) -> Plan:
        """Return what is chosen of grown and random grids; grown ones if they are far better."""
        grown, paused = self._begun(n_grown)
        random = self._rival(grown, n_random)
        if paused is not None and random is not None and not self._helps(grown, random):
            chosen = random
        else:
            if paused is not None:
                grown = self._grow(paused, n_grown)
            chosen = grown if random is None else choose(grown, random)
        return replace(self._finished(chosen), growth=grown.growth)

    def _begun(self, n_grown: int) -> tuple[Plan, Growth | None]:
        """Return grown grids, and their growth if it has paused; else its rows need no memory."""
        growth = self._growth(n_grown)
        grown = self._grow(growth, PAUSE if self._pauses else n_grown)
        return grown, None if growth.ended else growth

    @property
    def _pauses(self) -> bool:
        """Whether growth takes so long that its first grids say first what it is worth.

        Of very many rows it sees a part, and other work takes longer. A budget of time has
        said already what it is worth.
        """
        n_rows = len(self.splits[0][0])
        return _LEAST_TO_PAUSE <= n_rows <= MOST_ROWS and self.search.deadline.seconds is None

    def _most_grown(self) -> int:
        return self._affordable(self.search.choices.n_grids or self._worth_growing())

    def _worth_growing(self) -> int:
        return number_of_grids(len(self.splits[0][0]), self.data.n_outputs)

    def _most_of_each(self) -> tuple[int, int]:
        """Return how many grids to grow, and to draw beside them."""
        n_rows, n_outputs = len(self.splits[0][0]), self.data.n_outputs
        n_grown, n_random = self._worth_growing(), number_beside(n_rows, n_outputs)
        most = self._affordable(n_grown + n_random)
        if most < n_grown + n_random:
            n_random = min(n_random, most // 3)
        return most - n_random, n_random

    def _random_settings(self) -> Settings:
        search, choices = self.search, self.search.choices
        if not self.searches:
            return search.first_settings(_DEFAULT_ALPHA if choices.alpha is None else choices.alpha)
        self.last_search = len(search.trials)
        settings = search.run()
        if choices.alpha is None and (self.goal.loss.name != "squared" or self.goal.sparse):
            self.last_search = len(search.trials)
            settings = search_alpha(search, settings, self.goal)
        self._has_time(TIME_SHARE, "search")
        return settings

    def _random_plan(self, settings: Settings) -> Plan:
        scaler = self._scaler(settings.scaling).weighted(settings.relevance)
        bandwidth = self.search.bandwidth(settings, scaler)
        template = clone(self.search.feature_map).set_params(
            bandwidth=scaler.unscaled(bandwidth),
            categorical=scaler.categorical,
        )
        if isinstance(template, RandomBinning):
            template = template.resized(self._affordable(template.size))
        relevance = settings.relevance
        weights = np.ones(len(scaler.unit)) if relevance is None else relevance
        recipe = RandomRecipe(scaler, template)
        return Plan(recipe, settings, settings.alpha, bandwidth, weights, [])

    def _of_enough_grids(self, plan: Plan, least: int) -> Plan:
        """Return the plan with as many grids as are worth their time, or as are given."""
        search, settings = self.search, plan.settings
        given = search.choices.n_grids is not None
        if given or self.goal.sparse or self.n_rows < LEAST_ROWS_TO_SIZE:
            return plan
        assert isinstance(plan.recipe, RandomRecipe)
        recipe, history = enough_grids(
            self.data,
            self.goal,
            plan.recipe,
            least,
            plan.alpha,
            self.splits[0],
            self.search.groups,
            search.seed,
            search.deadline,
            search.n_jobs,
        )
        for size in history:
            n_rows, n_grids, score = int(size["n_rows"]), int(size["n_grids"]), size["score"]
            own = replace(settings, alpha=plan.alpha * self.n_rows / n_rows)
            trial = Trial("size", own, score, 0, n_rows, n_grids, size["seconds"], [score])
            search.trials.append(trial)
            message = f"{2 * n_rows:>7} rows, {n_grids} random grids -> {score:.5f}"
            search.report("size", message, **trial.as_dict())
        return replace(plan, recipe=recipe)

    def _growth(self, most: int) -> Growth:
        search = self.search
        return Growth(
            self.data,
            self.splits[0],
            self.both,
            self.goal,
            most,
            search.seed,
            search.n_jobs,
            search.groups,
        )

    def _grow(self, growth: Growth, most: int) -> Plan:
        """Grow grids on the training part and choose alpha on the rows held back."""
        split, told = self.splits[0], len(growth.history)
        n_rows, n_features = len(split[0]), self.data.rows.shape[1]
        grown = growth.run(lambda: not self._has_time(_GROWTH_SHARE, "growth"), most)
        for stage in grown.history[told:]:
            self.search.report(
                "growth",
                f"{2 * grown.n_rows:>7} rows, {stage['n_grids']:.0f} grown grids, alpha "
                f"{stage['alpha']:.1e} -> {stage['score']:.5f}",
                **stage,
            )
        alphas, begin = self._alphas(grown.alpha * grown.n_rows / n_rows)
        judged = self._judge(GridRecipe(growth.scaler, grown.grids), alphas, [split], begin)
        plan = self._grown_plan(judged, Settings("both", None, 0.0, grids="grown"))
        return replace(plan, relevance=grown.relevance(n_features), growth=grown.history)

    def _random_beside(self, settings: Settings, n_grids: int) -> Plan:
        """Return random grids, at most so many, over the inputs and ranks of grown ones."""
        plan = self._random_plan(settings)
        assert isinstance(plan.recipe, RandomRecipe)
        few = plan.recipe.sized(min(n_grids, plan.recipe.size)).over(self.both)
        return self._of_enough_grids(replace(plan, recipe=few), min(n_grids, _LEAST_BESIDE))

    def _rival(self, grown: Plan, most: int) -> Plan | None:
        """Return random grids, judged; None where grown ones are far better, or time is short."""
        settings = self._random_settings()
        searched = min(trial.score for trial in self.search.trials[self.last_search :])
        near = grown.score >= _CLEARLY * searched
        if not (near and self._has_time(_COMPARE_SHARE, "comparison")):
            return None
        random = self._random_beside(settings, most)
        return self._judged_beside(random) if self._promises(grown, random) else None

    def _promises(self, grown: Plan, random: Plan) -> bool:
        """Tell from a part of many rows whether random grids help grown ones."""
        training, held_back = self.splits[0]
        if len(training) < _MANY_ROWS * _PART_ROWS:
            return True
        assert grown.judged is not None
        generator = stream(self.search.seed, "part of the rows")
        part = shuffled(training, self.search.groups, generator)[:_PART_ROWS], held_back
        fewer = len(training) / len(part[0])
        first = self._judge(grown.recipe, [grown.judged.alpha * fewer], [part])
        second = self._judge(random.recipe, [self._fewer_rows(random.alpha) * fewer], [part])
        self._tell(replace(random, judged=second))
        return self._shares(first, second).best[0] > 0

    def _judged_beside(self, plan: Plan) -> Plan:
        """Judge random grids by the rows that judge grown ones."""
        judged = self._judge(plan.recipe, [self._fewer_rows(plan.alpha)], self.splits[:1])
        plan = replace(plan, judged=judged)
        self._tell(plan)
        return plan

    def _shares(self, grown: Judged, random: Judged) -> Shares:
        """Judge averages of both by the rows held back."""
        targets, weight = self.data.targets[grown.rows], self.data.weights_of(grown.rows)
        return Shares.judge(grown.responses, random.responses, targets, weight, self.goal.score)

    def _helps(self, grown: Plan, random: Plan) -> bool:
        """Tell whether grown grids beside random ones are clearly better than those alone."""
        assert grown.judged is not None
        assert random.judged is not None
        return self._shares(grown.judged, random.judged).first_helps

    def _averaged(self, grown: Plan, random: Plan) -> Plan:
        """Return the average of both that predicts the rows held back well, or one of them."""
        assert isinstance(grown.recipe, GridRecipe)
        assert isinstance(random.recipe, RandomRecipe | GridRecipe)
        first, second = grown.judged, random.judged
        assert first is not None
        assert second is not None
        share, score = self._shares(first, second).best
        if share in (0.0, 1.0):
            return random if share else grown
        responses = (1.0 - share) * first.responses + share * second.responses
        recipe = grown.recipe.joined(random.recipe)
        plan = replace(
            grown,
            recipe=recipe,
            settings=replace(
                grown.settings,
                bandwidth=random.settings.bandwidth,
                grids="both",
                random_share=share,
            ),
            bandwidth=random.bandwidth,
            judged=replace(
                first,
                recipe=recipe,
                score=score,
                responses=responses,
                fits=(*first.fits, *second.fits),
            ),
            blend=Blend(share, (grown.alpha, random.alpha)),
        )
        self._tell(plan)
        return plan

    def _grown_plan(self, judged: Judged, settings: Settings) -> Plan:
        alpha = judged.alpha * judged.n_rows / self.n_rows
        settings, nothing = replace(settings, alpha=alpha), np.empty(0)
        plan = Plan(judged.recipe, settings, alpha, None, nothing, [], judged=judged)
        self._tell(plan)
        return plan

    def _judge(
        self, recipe: Recipe, alphas: list[float], splits: list[Split], begin: int = 0
    ) -> Judged:
        search = self.search
        judged = judge(
            self.data, self.goal, recipe, alphas, splits, search.deadline, search.n_jobs, begin
        )
        return judged if self.keeps_fits else replace(judged, fits=())

    def _finished(self, plan: Plan) -> Plan:
        trials = [trial.as_dict() for trial in self.search.trials]
        return replace(plan, trials=trials, limits=self.limits)

    def _scaler(self, kind: ScalingKind) -> Scaler:
        return self.data.scaler(kind)

    @cached_property
    def both(self) -> Scaler:
        """Of all inputs, and all their ranks beside them."""
        return self._scaler("both")

    @cached_property
    def splits(self) -> list[Split]:
        """Rows to fit and rows to judge: once, or in turns where they are few."""
        splits = held_back_splits(self.n_rows, self.search.seed)
        return [kept_together(split, self.search.groups) for split in splits]

    def _has_time(self, share: float, what: str) -> bool:
        """Tell whether the time budget allows more; remember what it cut short."""
        if not self.search.deadline.beyond(share):
            return True
        self._note(f"time: {what} was cut short")
        return False

    def _affordable(self, n_grids: int) -> int:
        """Return as many grids as there is memory for; remember if they are fewer."""
        most = self._most_affordable
        if n_grids > most:
            self._note(f"memory: {most} grids instead of {n_grids}")
        return min(n_grids, most)

    @property
    def _most_affordable(self) -> int:
        n_rows, n_inputs = self.data.rows.shape
        return affordable_grids(n_rows, n_inputs, memory_budget())

    def _note(self, limit: str) -> None:
        if limit not in self.limits:
            self.limits.append(limit)
            self.search.report("limits", limit)

    def _alphas(self, centre: float) -> tuple[list[float], int]:
        """Return alphas from strong to weak, and the first to try; growth flatters weak ones."""
        given = self.search.choices.alpha
        if given is not None:
            return [self._fewer_rows(given)], 0
        nearby = _ALPHAS * centre
        strong = [alpha for alpha in _STRONG_ALPHAS if alpha > nearby[0]]
        return [*strong, *nearby.tolist()], len(strong)

    def _fewer_rows(self, alpha: float) -> float:
        """Return an alpha of all rows as it is for those that are not held back."""
        return alpha * self.n_rows / len(self.splits[0][0])

    def _tell(self, plan: Plan) -> None:
        judged = plan.judged
        assert judged is not None
        settings = replace(plan.settings, alpha=judged.alpha)
        size = judged.recipe.size
        trial = Trial(
            *("validation", settings, judged.score, 0, judged.n_rows, size, 0.0, [judged.score])
        )
        self.search.trials.append(trial)
        unit = self.search.feature_map.size_unit
        self.search.report(
            "validation",
            f"{judged.n_rows:>7} rows, {settings.grids} {unit}, alpha {judged.alpha:.1e} -> "
            f"{judged.score:.5f}",
            **trial.as_dict(),
        )
