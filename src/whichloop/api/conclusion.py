"""The answer to a question: the finding itself, the sentences and tables that state it, and DataFrames of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from whichloop.experiments.gate import GateResult
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.size.sizes import Sizing
from whichloop.reports.frames import to_frame
from whichloop.reports.html.page import doc_html
from whichloop.text.doc import Doc

if TYPE_CHECKING:
    import pandas as pd

Finding = TypeVar("Finding")


@dataclass(frozen=True, slots=True, repr=False)
class Conclusion(Generic[Finding]):
    """An answer that prints as its verdict; `finding` has everything behind it."""

    doc: Doc
    """What is printed: the verdict first."""
    finding: Finding

    def __repr__(self) -> str:
        return str(self.doc)

    def _repr_html_(self) -> str:
        """Return the document for a notebook, its details folded; every text is escaped."""
        return doc_html(self.doc)


@dataclass(frozen=True, slots=True, repr=False)
class SizeAnswer(Conclusion[Sizing]):
    """How large a run has to be; `finding` has everything behind it."""

    @property
    def sizes(self) -> pd.DataFrame:
        """A row per purpose and number of repeats with which some number of tasks suffices; `best`: the one that is recommended."""
        plans = (plan.to_json() for plan in self.finding.plans)
        rows = (_plan(plan) | size | {"best": size == plan["best"]} for plan in plans for size in plan["sizes"])
        return to_frame(rows, (*_PLAN, "repeats", "tasks", "clusters", "trials", "best"))

    @property
    def reaches(self) -> pd.DataFrame:
        """A row per pair to compare, or arm to gate: the smallest difference and the smallest margin that the pilot shows."""
        rows = [
            _plan(plan) | {"a": a, "b": b, "difference": reach["difference"], "margin_shown": reach["margin"]}
            for plan in (plan.to_json() for plan in self.finding.plans)
            for reach in plan["reach"]
            for a, b in ((*reach["names"], None)[:2],)
        ]
        return to_frame(rows, (*_PLAN, "a", "b", "difference", "margin_shown"))


_PLAN = ("for", "margin", "level")


def _plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plan[name] for name in _PLAN}


@dataclass(frozen=True, slots=True, repr=False)
class GateAnswer(Conclusion[GateResult]):
    """Whether a run is worse than its baseline; `finding.outcome` is the word for it, `finding.reasons` say why."""

    @property
    def lines(self) -> pd.DataFrame:
        """A row per arm and metric: both sides, the effect (where `ratio` holds, a ratio, else a difference), result and reason."""
        first = ("arm", "metric", "result", "reason", "was", "is", "effect", "effect_low", "effect_high", "ratio", "margin")
        return to_frame((line.to_json() for line in self.finding.lines), first)

    @property
    def changes(self) -> pd.DataFrame:
        """A row per task whose score or stop differs: mean accuracy before and now, and by which step and cause it was lost."""
        return to_frame(map(asdict, self.finding.tasks), ("arm", "task", "became", "was", "now", "was_stop", "now_stop", "cause"))


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeAnswer(Conclusion[OptimizationResult]):
    """What better prompts gain; `finding` has everything behind it, such as the files of the programs."""

    @property
    def designs(self) -> pd.DataFrame:
        """A row per design: how its search ended, its scores on dev and test tasks, its gain, what to do, and what it cost."""
        return to_frame((design.to_json() for design in self.finding.designs), ("design", "status", "reason", "advice"))

    @property
    def programs(self) -> pd.DataFrame:
        """A row per program that a search tried: what it solved of how many dev and train tasks, its cost, whether it was kept."""
        rows = ({"design": design.design, **program} for design in self.finding.designs for program in design.programs)
        return to_frame(rows, ("design", "program", "digest", "kept"))
