"""Other ways to look at a run, as `run.views` gives them: a DataFrame each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whichloop.metrics.views import AtBudget, Front, Views

from .frames import flat, to_frame

if TYPE_CHECKING:
    import pandas as pd

_GROUP = ("suite", "profile", "unit")
_COST = ("cost", "cost_low", "cost_high", "cost_n")
_ACCURACY = ("accuracy", "accuracy_low", "accuracy_high", "accuracy_n")


@dataclass(frozen=True, repr=False)
class ShownViews:
    """Other views of a run; `of` holds the same as plain objects, and `to_json()` as plain JSON."""

    of: Views

    @cached_property
    def fronts(self) -> pd.DataFrame:
        """A row per arm: accuracy against cost per trial, in dollars or tokens, and whether it is on the Pareto front."""
        rows = (_group(front) | point.to_json() for front in self.of.fronts for point in front.points)
        return to_frame(rows, (*_GROUP, "arm", *_ACCURACY, *_COST, "on_front", "front_share"))

    @cached_property
    def budgets(self) -> pd.DataFrame:
        """A row per arm, unit and budget (a quartile of what trials cost): accuracy where a trial scores only within the budget."""
        budgets = [(_budget(one), one.to_json()["arms"]) for one in self.of.budgets]
        rows = (head | {"arm": arm, "accuracy": accuracy} for head, arms in budgets for arm, accuracy in arms.items())
        return to_frame(rows, (*_GROUP, "quartile", "budget", "arm", *_ACCURACY))

    @cached_property
    def budget_pairs(self) -> pd.DataFrame:
        """A row per pair of arms, unit and budget: a minus b within the budget, with its verdict."""
        pairs = ((_budget(one), pair) for one in self.of.budgets for pair in one.to_json()["pairs"])
        rows = (head | {name: part for name, part in flat(pair).items() if name in _PAIR} for head, pair in pairs)
        return to_frame(rows, (*_GROUP, "quartile", "budget", *_PAIR))

    @cached_property
    def per_solved(self) -> pd.DataFrame:
        """A row per arm and unit: what one solved task costs; NaN where none was solved, or where the interval has no end."""
        views = (view.to_json() for view in self.of.per_solved)
        return to_frame(({"arm": one["arm"], "unit": one["unit"], "cost": one["value"]} for one in views), ("arm", "unit", *_COST))

    @cached_property
    def confidence(self) -> pd.DataFrame:
        """A row per arm that reports its confidence: Brier score, calibration error, how well it ranks right and wrong trials."""
        return to_frame(
            (view.to_json() for view in self.of.confidence), ("arm", "scored", "reported", "brier", "ece", "auroc", "aurc")
        )

    @cached_property
    def reliability(self) -> pd.DataFrame:
        """A row per arm with repeats and k: pass@k (any of k tries solves a task), pass^k (all do), consistency, variances.

        Tasks with two scored repeats or more count, `tasks` of them; k goes up to the fewest that one of them has.
        """
        rows = [
            view | {"k": k, "pass_at": any_of, "pass_hat": all_of, "variance": view["variance"] or {}}
            for view in (view.to_json() for view in self.of.reliability)
            for k, (any_of, all_of) in enumerate(zip(view["pass_at"], view["pass_hat"], strict=True), 1)
        ]
        return to_frame(rows, ("arm", "tasks", "repeats", "k", "pass_at", "pass_hat", "consistency"))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return self.of.to_json()

    def __repr__(self) -> str:
        """Return the tables that there are, with their numbers of rows, a line each."""
        named = ("fronts", "budgets", "budget_pairs", "per_solved", "confidence", "reliability")
        return "\n".join(f".{name}: {len(getattr(self, name))} rows" for name in named)


_PAIR = ("a", "b", "difference", "difference_low", "difference_high", "difference_n", "units", "p", "p_holm", "verdict")


def _group(one: Front | AtBudget) -> dict[str, Any]:
    """Return what names the rows of a view."""
    return {name: getattr(one, name) for name in _GROUP}


def _budget(one: AtBudget) -> dict[str, Any]:
    return _group(one) | {"quartile": one.quartile, "budget": one.budget}
