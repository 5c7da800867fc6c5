"""The answer to a question: the finding itself, the sentences and tables that state it, and DataFrames of its numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from whichloop.experiments.gate import GateResult
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.size.sizes import Sizing
from whichloop.reports.html import doc_html
from whichloop.reports.row_frames import flat, rows_frame
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
        """Return the document as a terminal shows it."""
        return str(self.doc)

    def _repr_html_(self) -> str:
        """Return the document for a notebook, its details folded; every text is escaped."""
        return doc_html(self.doc)


# --- sizes ---

_PLAN = {"for": "string", **dict.fromkeys(("margin", "level"), "float64")}
_SIZES = {
    **_PLAN,
    **dict.fromkeys(("repeats", "tasks"), "int64"),
    "clusters": "Int64",
    "trials": "int64",
    **dict.fromkeys(("lm_calls", "tokens", "cost_usd", "seconds"), "float64"),
    "suite": "string",
    **dict.fromkeys(("enough_tasks", "best"), "bool"),
}
_REACHES = {**_PLAN, "a": "string", "b": "string", **dict.fromkeys(("difference", "margin_shown"), "float64")}
_NOISE = {"arm": "string", "sd": "float64", "band": "float64", "at_most": "bool", "again": "float64", "p": "float64"}


@dataclass(frozen=True, slots=True, repr=False)
class SizeAnswer(Conclusion[Sizing]):
    """How large a run has to be; `finding` has everything behind it."""

    @property
    def sizes(self) -> pd.DataFrame:
        """A row per purpose and number of repeats with which some number of tasks suffices; `best`: the one that is recommended."""
        rows = []
        for plan in (plan.to_json() for plan in self.finding.plans):
            head = {name: plan[name] for name in _PLAN}
            rows += [head | size | {"best": size == plan["best"]} for size in plan["sizes"]]
        return rows_frame(rows, _SIZES)

    @property
    def reaches(self) -> pd.DataFrame:
        """A row per pair to compare, or arm to gate: the smallest difference and the smallest margin that the pilot shows."""
        rows = []
        for plan in (plan.to_json() for plan in self.finding.plans):
            head = {name: plan[name] for name in _PLAN}
            for reach in plan["reach"]:
                a, b = (*reach["names"], None)[:2]
                rows.append(head | {"a": a, "b": b, "difference": reach["difference"], "margin_shown": reach["margin"]})
        return rows_frame(rows, _REACHES)

    @property
    def noise(self) -> pd.DataFrame:
        """A row per arm: by how much two of its runs with fresh seeds differ, and by how much a second run did."""
        return rows_frame(self.finding.to_json()["noise"], _NOISE)


# --- gates ---

_LINES = {
    **dict.fromkeys(("arm", "metric", "result", "reason"), "string"),
    **dict.fromkeys(("was", "is", "effect", "effect_low", "effect_high"), "float64"),
    "ratio": "bool",
    "margin": "float64",
    **dict.fromkeys(("tasks", "units"), "int64"),
    **dict.fromkeys(("p_worse", "p_holm", "p_beyond"), "float64"),
    "tasks_to_decide": "Int64",
}
_CHANGED = {
    **dict.fromkeys(("arm", "task", "became"), "string"),
    **dict.fromkeys(("was", "now"), "float64"),
    "repeat": "int64",
    **dict.fromkeys(("was_stop", "now_stop"), "string"),
    "step": "Int64",
    **dict.fromkeys(("cause", "detail", "command"), "string"),
}


@dataclass(frozen=True, slots=True, repr=False)
class GateAnswer(Conclusion[GateResult]):
    """Whether a run is worse than its baseline; `finding.outcome` is the word for it, `finding.reasons` say why."""

    @property
    def lines(self) -> pd.DataFrame:
        """A row per arm and metric: both sides, the effect (where `ratio` holds, a ratio, else a difference), result and reason."""
        return rows_frame([flat(line.to_json()) for line in self.finding.lines], _LINES)

    @property
    def changes(self) -> pd.DataFrame:
        """A row per task whose score or stop differs: mean accuracy before and now, and by which step and cause it was lost."""
        return rows_frame([*map(asdict, self.finding.tasks)], _CHANGED)


# --- optimizations ---


def _interval(name: str) -> dict[str, str]:
    """Return the columns of an interval."""
    return {**dict.fromkeys((name, f"{name}_low", f"{name}_high"), "float64"), f"{name}_n": "Int64"}


_RATIOS = ("test.token_ratio", "test.nominal_usd_ratio", "test.cost_usd_ratio")
_SPENT = [f"cost.{part}" for part in ("search", "proposals", "evaluation")]
_SOLVED = {"solved": "float64", "scored": "int64", "tasks": "int64"}
_DESIGNS = {
    **dict.fromkeys(("design", "status", "reason", "program", "digest"), "string"),
    "unchanged": "bool",
    **dict.fromkeys(("candidates", "chosen"), "Int64"),
    **dict.fromkeys(("dev.before", "dev.after", "dev.gain"), "float64"),
    "dev.tasks": "Int64",
    **{column: dtype for name in ("before", "after", "difference") for column, dtype in _interval(f"test.{name}").items()},
    **dict.fromkeys(("test.p", "test.p_holm", "test.margin"), "float64"),
    "test.verdict": "string",
    **{column: dtype for name in _RATIOS for column, dtype in _interval(name).items()},
    **_interval("optimism_interval"),
    **dict.fromkeys(("advice", "cut_off"), "string"),
    **{f"{part}.{unit}": "Int64" for part in _SPENT for unit in ("calls", "tokens")},
    **{f"{part}.cost_usd": "float64" for part in _SPENT},
}


_PROGRAMS = {
    "design": "string",
    "program": "int64",
    "digest": "string",
    "kept": "bool",
    **{f"{split}_{part}": dtype for split in ("dev", "train") for part, dtype in _SOLVED.items()},
    **dict.fromkeys(("rollouts", "calls", "tokens"), "int64"),
    "cost_usd": "float64",
}


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeAnswer(Conclusion[OptimizationResult]):
    """What better prompts gain; `finding` has everything behind it, such as the files of the programs."""

    @property
    def designs(self) -> pd.DataFrame:
        """A row per design: how its search ended, its scores on dev and test tasks, its gain, what to do, and what it cost."""
        rows = [flat(design.to_json()) for design in self.finding.designs]
        return rows_frame([{name: row.get(name) for name in _DESIGNS} for row in rows], _DESIGNS)

    @property
    def programs(self) -> pd.DataFrame:
        """A row per program that a search tried: what it solved of how many dev and train tasks, its cost, whether it was kept."""
        rows = [{"design": design.design, **program.to_json()} for design in self.finding.designs for program in design.tried]
        return rows_frame(rows, _PROGRAMS)
