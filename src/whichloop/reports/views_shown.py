"""Other ways to look at a run, as `run.views` gives them: a DataFrame each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whichloop.metrics.views import Views

from .row_frames import flat, interval_columns, rows_frame

if TYPE_CHECKING:
    import pandas as pd

_GROUP = dict.fromkeys(("suite", "profile", "unit"), "string")
_FRONTS = {**_GROUP, "arm": "string", **interval_columns("accuracy", "cost"), "on_front": "bool", "front_share": "float64"}
_BUDGETS = {**_GROUP, **dict.fromkeys(("quartile", "budget"), "float64"), "arm": "string", **interval_columns("accuracy")}
_BUDGET_PAIRS = {
    **_GROUP,
    **dict.fromkeys(("quartile", "budget"), "float64"),
    **dict.fromkeys(("a", "b"), "string"),
    **interval_columns("difference"),
    "units": "int64",
    **dict.fromkeys(("p", "p_holm", "level", "margin"), "float64"),
    "verdict": "string",
    "within_margin": "bool",
}
_PER_SOLVED = {"arm": "string", "unit": "string", **interval_columns("cost")}
_CONFIDENCE = {
    "arm": "string",
    **dict.fromkeys(("scored", "reported"), "int64"),
    **interval_columns("brier"),
    "ece": "float64",
    **interval_columns("auroc"),
    "aurc": "float64",
}
_RELIABILITY = {
    "arm": "string",
    **dict.fromkeys(("tasks", "repeats", "k"), "int64"),
    **interval_columns("pass_at", "pass_hat", "consistency"),
    **dict.fromkeys(("variance.between", "variance.within"), "float64"),
}


@dataclass(frozen=True, repr=False)
class ShownViews:
    """Other views of a run; `of` holds the same as plain objects, and `to_json()` as plain JSON."""

    of: Views

    @cached_property
    def fronts(self) -> pd.DataFrame:
        """A row per arm: accuracy against cost per trial, in dollars or tokens, and whether it is on the Pareto front."""
        rows = [
            {"suite": front.suite, "profile": front.profile, "unit": front.unit, **flat(point.to_json())}
            for front in self.of.fronts
            for point in front.points
        ]
        return rows_frame(rows, _FRONTS)

    @cached_property
    def budgets(self) -> pd.DataFrame:
        """A row per arm, unit and budget (a quartile of what trials cost): accuracy where a trial scores only within the budget."""
        rows = [
            head | flat({"arm": arm, "accuracy": accuracy})
            for head, budget in self._budgets()
            for arm, accuracy in budget["arms"].items()
        ]
        return rows_frame(rows, _BUDGETS)

    @cached_property
    def budget_pairs(self) -> pd.DataFrame:
        """A row per pair of arms, unit and budget: a minus b within the budget, with its verdict."""
        columns = _BUDGET_PAIRS.keys()
        pairs = [(head, flat(pair)) for head, budget in self._budgets() for pair in budget["pairs"]]
        return rows_frame(
            [head | {name: value for name, value in pair.items() if name in columns} for head, pair in pairs], _BUDGET_PAIRS
        )

    @cached_property
    def per_solved(self) -> pd.DataFrame:
        """A row per arm and unit: what one solved task costs; NaN where none was solved, or where the interval has no end."""
        views = [view.to_json() for view in self.of.per_solved]
        return rows_frame([flat({"arm": one["arm"], "unit": one["unit"], "cost": one["value"]}) for one in views], _PER_SOLVED)

    @cached_property
    def confidence(self) -> pd.DataFrame:
        """A row per arm that reports its confidence: Brier score, calibration error, how well it ranks right and wrong trials."""
        lists = ("bins", "risk_coverage")
        views = [view.to_json() for view in self.of.confidence]
        return rows_frame([flat({name: part for name, part in one.items() if name not in lists}) for one in views], _CONFIDENCE)

    @cached_property
    def reliability(self) -> pd.DataFrame:
        """A row per arm with repeats and k: pass@k (any of k tries solves a task), pass^k (all do), consistency, variances.

        Tasks with two scored repeats or more count, `tasks` of them; k goes up to the fewest that one of them has.
        """
        rows = []
        for one in (view.to_json() for view in self.of.reliability):
            same = {name: part for name, part in one.items() if name not in ("pass_at", "pass_hat", "variance")}
            for k, (any_of, all_of) in enumerate(zip(one["pass_at"], one["pass_hat"], strict=True), 1):
                own = {"k": k, "pass_at": any_of, "pass_hat": all_of, "variance": one["variance"] or {}}
                rows.append(flat(same | own))
        return rows_frame(rows, _RELIABILITY)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with the bins and curves of confidence."""
        return self.of.to_json()

    def __repr__(self) -> str:
        """Return the tables that there are, with their numbers of rows, a line each."""
        named = ("fronts", "budgets", "budget_pairs", "per_solved", "confidence", "reliability")
        return "\n".join(f".{name}: {len(getattr(self, name))} rows" for name in named)

    def _budgets(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield what names the rows of each budget, and the budget itself as JSON."""
        for budget in (view.to_json() for view in self.of.budgets):
            yield {name: budget[name] for name in ("suite", "profile", "unit", "quartile", "budget")}, budget
