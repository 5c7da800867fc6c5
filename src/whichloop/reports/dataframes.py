"""A run's results for notebooks: `whichloop.load(run)` gives them as pandas DataFrames.

`reports.frames` has what all tables have in common.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare.arm_loop import arm_loop
from whichloop.experiments.compare.results import Results, find_record, results
from whichloop.experiments.compare.verdict import Verdict
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.why.losses import required_arms
from whichloop.experiments.why.trial import recorded_doc
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, PRIMARY, count_faults, measured_value, task_values
from whichloop.protocol import Loop, render_value
from whichloop.protocol.values import shown_short
from whichloop.reports.html.page import doc_html
from whichloop.runs.folders import run_folder, trials_folder
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import read_trace
from whichloop.text.doc import Doc, Lines

from .frames import to_frame
from .views_shown import ShownViews
from .why_shown import ShownDoc, ShownWhy, shown_why

if TYPE_CHECKING:
    import pandas as pd


def load(run: object, runs: str | Path | None = None) -> Loaded:
    """Load a comparison, an ablation, an imported run, or the test of an optimization as pandas DataFrames.

    `run`: its directory, its name under `runs` (default: the folder `runs`), `latest`, or what `optimize` returned. No model, loop
    or suite is loaded. Raises ValueError for anything else, and RunError, in one line, if the run or its files cannot be read.
    """
    finding = getattr(run, "finding", None)
    place = finding.folder if isinstance(finding, OptimizationResult) else run
    arguments: Mapping[str, object] = {"run": place, "runs": "" if runs is None else runs}
    for name, value in arguments.items():
        if not isinstance(value, str | Path):
            rows = "; whichloop.import_results reads results of other tools" if hasattr(value, "to_csv") else ""
            raise ValueError(f"{name}: give a text or a path, got {shown_short(value)}{rows}")
    assert isinstance(place, str | Path)
    if os.path.isfile(place):  # which takes a text of any length
        raise RunError(f"{place} is a file, not a run; whichloop.import_results({str(place)!r}) reads results of other tools")
    folder = run_folder(place, None if runs is None else Path(runs))
    return Loaded(results(trials_folder(folder)))


@dataclass(frozen=True, repr=False)
class Loaded:
    """A run and what it says. A table is made when it is first asked for, and kept."""

    results: Results

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.results.folder

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Return a row per trial, sorted by arm, task and repeat; scores, calls, errors and retries have a column per kind.

        A measure that somebody added has a column, too, unless another column has its name. Excluded trials stand last. `trial` is
        the name that `trace` takes. Accuracy and added measures are NaN where the trial was not scored.
        """
        infos = {info.arm: info for info in self.comparison.infos}
        places = {arm: number for number, arm in enumerate(infos)}
        ordered = sorted(self.results.records, key=lambda one: (one.status == "excluded", places[one.arm], one.task, one.repeat))
        table = self._measured([_trial(record) | _arm_of(infos[record.arm]) for record in ordered], TRIALS)
        for name in (name for name, measure in METRICS.items() if measure.in_trials and name not in table.columns):
            table[name] = [measured_value(record, METRICS[name]) for record in ordered]
            table[name] = table[name].astype("float64")
        return table

    @cached_property
    def arms(self) -> pd.DataFrame:
        """Return a row per arm, in the order of the run: counts, metrics with intervals, and stops, errors and faults by kind."""
        arms = [arm.to_json() for arm in self.comparison.arms]
        return self._measured([{name: part for name, part in arm.items() if name not in _REASONS} for arm in arms], ARMS)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Return a row per pair of arms and metric: a minus b with interval, p values, verdict, and what is likely to decide it."""
        infos = {info.arm: info for info in self.comparison.infos}
        return to_frame(
            [
                {name: part for name, part in pair.to_json().items() if name != "outlook" or part is not None}
                | {"loop_a": infos[pair.a].variant, "loop_b": infos[pair.b].variant, "profile": infos[pair.a].profile}
                for pair in self.comparison.pairs
            ],
            PAIRS,
        )

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """Return a row per task and arm: how often it was scored and solved (accuracy 1), metrics' means over scored repeats."""
        records = self.results.records
        rows = [row for arm in self.comparison.arms for row in _tasks([one for one in records if one.arm == arm.info.arm])]
        return self._measured(sorted(rows, key=lambda row: str(row["task"])), TASKS)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """Return a row per main effect or interaction, metric and profile where options were varied; no rows for other runs."""
        ablation = ablation_result(self.results)
        effects = [] if ablation is None else [effect.to_json() for effect in ablation.effects]
        return to_frame(({name: part for name, part in effect.items() if name not in _LISTS} for effect in effects), EFFECTS)

    @property
    def verdict(self) -> Verdict:
        """Return which loop to adopt, and what that rests on."""
        return self.results.verdict

    @cached_property
    def doc(self) -> Doc:
        """Return what the run says, the verdict first, with how the files of an imported run were read."""
        doc = run_doc(self.results)
        files: dict[str, list[str]] = {}
        imported = self.results.manifest.imported
        for source in () if imported is None else imported.sources:
            for reading in source.readings:
                files.setdefault(reading, []).append(source.file)
        readings = Lines(tuple(("Read", f"{', '.join(named)}: {reading}") for reading, named in files.items()))
        own_name = self.results.manifest.config.get("name")
        name = self.results.folder.name if own_name is None else f"{self.results.folder.name} ({own_name})"
        return replace(doc, title=f"{name}: {doc.title}", blocks=(*doc.blocks, *([readings] if files else [])))

    @property
    def comparison(self) -> Comparison:
        """Return the comparison behind the tables: arms, pairs and warnings."""
        return self.results.comparison

    @property
    def views(self) -> ShownViews:
        """Return accuracy against cost and at equal budgets, cost per solved task, confidence, and reliability, a table each."""
        return ShownViews(self.results.views)

    def why(self, a: str | None = None, b: str | None = None, *, task: str | None = None) -> ShownWhy:
        """Return why trials were lost, from their traces, by pair and by arm; it prints as `whichloop report --why` does.

        `a`, `b`: an arm or loop by name, or two where they part; the sums if left out. `task`: only its trials. Raises RunError for
        `b` without `a`, an unknown arm or task, and for traces that cannot be read.
        """
        _check_texts(a=a, b=b, task=task)
        return shown_why(self.results, a, b, task=task)

    def loop(self, name: str, program: str | Path | None = None) -> Loop:
        """Return the loop of an arm, set as it was compared, without the suite's limit of steps.

        `name`: an arm or a loop, as `why` takes it; whole, where its code is your own, which is imported. Its arms under several
        models and profiles are one loop. `program`: the file of its optimized program, unless an optimization keeps it beside the
        run, its test. Raises RunError for an unknown name, and for a loop that cannot be made again as it was.
        """
        _check_texts(name=name)
        return arm_loop(self.results, required_arms(self.results, name)[0], name, program)

    def trace(self, trial: str) -> dict[str, Any]:
        """Return all events of one trial. `trial`: ARM/TASK/REPEAT, as in the column of that name, or a unique part of it.

        Raises RunError if no trial or several match, or the trial has no trace.
        """
        _check_texts(trial=trial)
        return read_trace(self.results.folder, find_record(self.results, trial)).to_json()

    def show(self, trial: str) -> ShownDoc:
        """Return one trial's faults, its steps, its end and why it was lost; it prints as `whichloop show` does.

        `trial`: as `trace` takes it. Raises RunError as `trace` does.
        """
        _check_texts(trial=trial)
        return ShownDoc(recorded_doc(self.results.folder, find_record(self.results, trial)))

    def __repr__(self) -> str:
        """Return the run's name, the matrix and the verdict, as a terminal shows them."""
        return str(self.doc)

    def _repr_html_(self) -> str:
        """Return the same for a notebook, with all tables folded."""
        return doc_html(self.doc)

    def _measured(self, rows: Sequence[Mapping[str, Any]], first: Sequence[str]) -> pd.DataFrame:
        """Return rows as a DataFrame; of an imported run without what its source does not tell, besides the first columns."""
        table = to_frame(rows, first)
        if self.results.manifest.imported is None:
            return table
        return table.drop(columns=[name for name in table.columns if name not in first and table[name].isna().all()])


def _check_texts(**target: object) -> None:
    """Raise ValueError, which names the argument, for a name that is no text; None stands for one that was left out."""
    for argument, value in target.items():
        if value is not None and not isinstance(value, str):
            hint = "; whichloop.why(run, loop) takes a loop as an object" if argument in ("a", "b") else ""
            raise ValueError(f"{argument}: give a name, as a text, got {shown_short(value)}{hint}")


# --- rows ---

_REASONS = ("exclusions", "errored_reasons", "crashes")
"""Parts of an arm's JSON that get no columns, since their keys are free text."""
_LISTS = ("factors", "aliases", "conditional")
"""Parts of an effect's JSON that get no columns, since they are lists."""


def _arm_of(info: ArmInfo) -> dict[str, Any]:
    return {"loop": info.variant, "base_loop": info.loop, "model": info.model, "profile": info.profile}


def _trial(record: Record) -> dict[str, Any]:
    row = record.to_json()
    row["scores"] = {name: value for name, value in row["scores"].items() if name != PRIMARY}
    row |= {PRIMARY: record.accuracy if record.status == "scored" else None, "lm_calls": record.lm_calls, "tokens": record.tokens}
    row |= {"trial": record.name, "answer": None if record.answer is None else render_value(record.answer)}
    row |= {"faults": asdict(count_faults([record])) if record.tells_faults else {}, "started_at": record.started_at or None}
    row |= dict.fromkeys((set(record.unknown) & row.keys()) - {"faults"})
    return {name: value for name, value in row.items() if name not in _UNTOLD}


_UNTOLD = ("suite_digest", "trace_digest", "trace_at", "unknown", "version")
"""Parts of a record that get no column; what was not met stands among the counts of faults."""


def _tasks(records: Sequence[Record]) -> Iterable[dict[str, Any]]:
    """Yield a row for each task of an arm's records."""
    means = {metric: task_values(records, value).means for metric, value in METRICS.items()}
    by_task: dict[str, list[Record]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    for task, of_task in by_task.items():
        yield {
            "task": task,
            "arm": of_task[0].arm,
            "cluster": of_task[0].cluster,
            **{status: sum(record.status == status for record in of_task) for status in ("scored", "errored", "excluded")},
            "solved": sum(record.status == "scored" and record.is_solved for record in of_task),
            **{metric: values.get(task) for metric, values in means.items()},
        }


# --- columns that every run's tables have ---

_ARM = ("loop", "base_loop", "model", "profile", "suite")
TRIALS = (
    *("trial", "arm", "task", "repeat", *_ARM, "cluster", "status", "reason", "stop", "answer", PRIMARY, "steps", "lm_calls"),
    *("tool_calls", "tokens", "input_tokens", "output_tokens", "cost_usd", "seconds", "wall_s", "started_at", "attempt"),
    "confidence",
)
ARMS = (
    *("arm", *_ARM, "trials", "scored", "errored", "excluded", "tasks"),
    *(f"{name}{end}" for name in (PRIMARY, "steps", "tokens", "cost_usd") for end in ("", "_low", "_high", "_n")),
)
PAIRS = (
    *("a", "b", "loop_a", "loop_b", "profile", "metric", "family", "difference", "difference_low", "difference_high"),
    *("difference_n", "units", "p", "p_holm", "level", "margin", "verdict", "within_margin"),
)
EFFECTS = (
    *("term", "kind", "metric", "profile", "difference", "difference_low", "difference_high", "p", "p_holm", "verdict"),
    *("within_margin", "odds_ratio"),
)
TASKS = ("task", "arm", "cluster", "scored", "errored", "excluded", "solved", PRIMARY, "steps", "tokens", "cost_usd", "seconds")
