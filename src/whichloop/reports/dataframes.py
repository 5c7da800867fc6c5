"""A run's results for notebooks: `whichloop.load(run)` gives them as pandas DataFrames.

Every table is tidy: the first columns say what a row is about, the index counts from 0. Columns have the names of `--json`,
the parts of a name joined by a dot (`faults.landed`, `stops.finished`, `options.max_steps`); an interval is four columns:
`accuracy`, `accuracy_low`, `accuracy_high`, `accuracy_n`. Text is `string`, a count `int64`, a measure `float64`, yes or no `bool`:
NumPy's own types but for text, so that statsmodels and scikit-learn take them as they are. What is not known is NaN or <NA>.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.compare.arm_loop import arm_loop
from whichloop.experiments.compare.results import Results, find_record, results
from whichloop.experiments.compare.verdict import Verdict
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.run_doc import run_doc
from whichloop.experiments.why.losses import required_arms
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.measures import Measure
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import RecordTable, distinct
from whichloop.metrics.summary import COSTS, FAULT_COUNTS, METRICS, PRIMARY, count_faults, measured_value, task_values
from whichloop.protocol import Loop, render_value
from whichloop.protocol.values import shown_short
from whichloop.reports.html import doc_html
from whichloop.runs.folders import run_folder, trials_folder
from whichloop.runs.store.files import RunError
from whichloop.runs.store.traces import read_trace
from whichloop.text.doc import Doc, Lines

from .row_frames import SpreadRows, flat, interval_columns, rows_frame, without_none, without_untold
from .views_shown import ShownViews
from .why_shown import ShownDoc, ShownWhy, shown_trial, shown_why

if TYPE_CHECKING:
    import pandas as pd


_FIELDS = frozenset(item.name for item in fields(Record))


def added_columns(records: Sequence[Record], others: Collection[str]) -> dict[str, list[float | None]]:
    """Return the values of each added measure, one for each record; None where the trial was not scored, or the value is not known.

    A measure with the name of one of the `others`, the table's own columns, or of a field of records is left out.
    """
    added = {name: measure for name, measure in METRICS.items() if measure.in_trials}
    return {name: _values(records, measure) for name, measure in added.items() if name not in others and name not in _FIELDS}


def _values(records: Sequence[Record], measure: Measure) -> list[float | None]:
    """Return the measure of each record; of a table it is read once for each kind of trials, unless their own fields decide it."""
    if isinstance(records, RecordTable):
        try:
            by_kind = {code: measured_value(kind, measure) for code, kind in records.each_kind()}
        except AttributeError:  # a field of the trial's own, or a mistake of the measure's: then it is raised again
            return [measured_value(record, measure) for record in records]
        return [by_kind[code] for code in records.codes.tolist()]
    return [measured_value(record, measure) for record in records]


class Optimized(Protocol):
    """What `whichloop.optimize` returns, as far as loading its test takes."""

    @property
    def finding(self) -> OptimizationResult: ...


def load(run: str | Path | Optimized, runs: str | Path | None = None) -> Loaded:
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

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Return a row per trial, sorted by arm, task and repeat; scores, calls, errors and retries have a column per kind.

        A measure that somebody added has a column, too, unless another column has its name. Excluded trials stand last. `trial` is
        the name that `trace` takes. Accuracy and added measures are NaN where the trial was not scored.
        """
        places = {arm.info.arm: number for number, arm in enumerate(self.comparison.arms)}
        records = self.results.records
        if not isinstance(records, RecordTable) or records.store.whole or any(kind.unknown for kind in distinct(records)):
            by_trial = sorted(
                records, key=lambda record: (record.status == "excluded", places[record.arm], record.task, record.repeat)
            )
            added = added_columns(by_trial, _TRIALS)
            rows = [row | {name: values[i] for name, values in added.items()} for i, row in enumerate(self._trials(by_trial))]
            return self._measured_table(rows, _TRIALS | dict.fromkeys(added, "float64"))
        ordered = records.ordered(lambda kind: (kind.status == "excluded", places[kind.arm], kind.task))
        codes, first, kinds = np.unique(ordered.codes, return_index=True, return_inverse=True)
        rows = self._trials(RecordTable(ordered.store, ordered.places[first]))
        names = [f"{kind.arm}/{kind.task}/" for kind in map(ordered.store.kinds.__getitem__, codes.tolist())]
        own = {name: ordered.column(name).tolist() for name in ("repeat", "wall_s", "started_at", "attempt", "seed")}
        own["started_at"] = [start or None for start in own["started_at"]]
        own["trial"] = [f"{names[kind]}{repeat}" for kind, repeat in zip(kinds.tolist(), own["repeat"], strict=True)]
        added = added_columns(ordered, _TRIALS)
        return self._table(rows, _TRIALS | dict.fromkeys(added, "float64"), SpreadRows(kinds, own | added))

    def _trials(self, records: Iterable[Record]) -> list[dict[str, Any]]:
        infos = {arm.info.arm: arm.info for arm in self.comparison.arms}
        return [_trial(record) | _arm_of(infos[record.arm]) for record in records]

    @cached_property
    def arms(self) -> pd.DataFrame:
        """Return a row per arm, in the order of the run: counts, metrics with intervals, and stops, errors and faults by kind."""
        rows = [flat({k: v for k, v in arm.to_json().items() if k not in _REASONS}) for arm in self.comparison.arms]
        return self._measured_table(rows, _ARMS)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Return a row per pair of arms and metric: a minus b with interval, p values, verdict, and what is likely to decide it."""
        infos = {arm.info.arm: arm.info for arm in self.comparison.arms}
        rows = [
            flat(without_none(pair.to_json(), "outlook"))
            | {"loop_a": infos[pair.a].variant, "loop_b": infos[pair.b].variant, "profile": infos[pair.a].profile}
            for pair in self.comparison.pairs
        ]
        return self._table(rows, _PAIRS)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """Return a row per task and arm: how often it was scored and solved (accuracy 1), metrics' means over scored repeats."""
        rows = [row for arm in self.comparison.arms for row in _tasks(arm.info.arm, self._of(arm.info.arm))]
        return self._measured_table(sorted(rows, key=lambda row: row["task"]), _TASKS)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """Return a row per main effect or interaction, metric and profile of an ablation; no rows for other runs."""
        ablation = ablation_result(self.results)
        effects = () if ablation is None else ablation.effects.effects
        rows = [flat({k: v for k, v in effect.to_json().items() if k not in _LISTS}) for effect in effects]
        return self._table(rows, _EFFECTS)

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
        return shown_trial(self.results, trial)

    def __repr__(self) -> str:
        """Return the run's name, the matrix and the verdict, as a terminal shows them."""
        return str(self.doc)

    def _repr_html_(self) -> str:
        """Return the same for a notebook, with all tables folded."""
        return doc_html(self.doc)

    def _of(self, arm: str) -> list[Record]:
        return [record for record in self.results.records if record.arm == arm]

    def _measured_table(self, rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, str]) -> pd.DataFrame:
        """Return rows as `_table` does; of an imported run without the measures that its source does not tell, besides `KEPT`."""
        is_imported = self.results.manifest.imported is not None
        return self._table(*without_untold(rows, dtypes, KEPT)) if is_imported else self._table(rows, dtypes)

    def _table(
        self, rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, str], spread: SpreadRows | None = None
    ) -> pd.DataFrame:
        """Return rows as a DataFrame, as `rows_frame` does. Raises RunError for a value of another type."""
        try:
            return rows_frame(rows, dtypes, spread)
        except ImportError:  # a ValueError, too, where an extra is missing
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise RunError(f"{self.results.folder}: a record holds a value of another type: {error}") from None


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
    scores = row.pop("scores")
    scored = record.status == "scored"
    row |= {f"scores.{name}": value for name, value in scores.items() if name != PRIMARY}
    row |= {PRIMARY: record.accuracy if scored else None, "lm_calls": record.lm_calls, "tokens": record.tokens}
    row["trial"] = record.name
    row["answer"] = None if record.answer is None else render_value(record.answer)
    del row["faults_unmet"]  # which stands among the counts of faults
    row["faults"] = asdict(count_faults([record])) if record.tells_faults else dict.fromkeys(FAULT_COUNTS)
    row["started_at"] = record.started_at or None
    row |= dict.fromkeys((set(record.unknown) & row.keys()) - {"faults"})
    return flat({name: value for name, value in row.items() if name not in _UNTOLD})


_UNTOLD = ("suite_digest", "trace_digest", "trace_at", "unknown", "version")


def _tasks(arm: str, records: Sequence[Record]) -> Iterable[dict[str, Any]]:
    means = {metric: task_values(records, value).means for metric, value in METRICS.items()}
    by_task: dict[str, list[Record]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    for task, task_records in by_task.items():
        yield {
            "task": task,
            "arm": arm,
            "cluster": task_records[0].cluster,
            **{status: sum(record.status == status for record in task_records) for status in ("scored", "errored", "excluded")},
            "solved": sum(record.status == "scored" and record.is_solved for record in task_records),
            **{metric: values.get(task) for metric, values in means.items()},
        }


# --- columns ---

KEPT = frozenset(
    [
        *(PRIMARY, "steps", "lm_calls", "tool_calls", "tokens", "input_tokens", "output_tokens", "cost_usd"),
        *("seconds", "wall_s", "started_at", "attempt", "confidence", "over_templates"),
    ]
)
"""Measures that every run's tables have, also those of an imported run that does not tell them, though others do."""

_TIME = "datetime64[us, UTC]"
_FAULTS = {f"faults.{name}": "int64" for name in FAULT_COUNTS}
_TRIALS = {
    **dict.fromkeys(("trial", "arm", "task"), "string"),
    "repeat": "int64",
    **dict.fromkeys(("loop", "base_loop", "model", "profile", "suite", "cluster", "status", "reason", "stop", "answer"), "string"),
    PRIMARY: "float64",
    **dict.fromkeys(("steps", "lm_calls", "tool_calls", "repeated_calls"), "int64"),
    **dict.fromkeys(("tokens", "input_tokens", "output_tokens", "cached_tokens"), "int64"),
    "tokens_estimated": "bool",
    **dict.fromkeys(("cost_usd", "nominal_usd", "seconds", "wall_s", "simulated_s"), "float64"),
    "started_at": _TIME,
    **dict.fromkeys(("attempt", "seed"), "int64"),
    **dict.fromkeys(("false_success", "abstained", "answer_unseen"), "bool"),
    "confidence": "float64",
    **_FAULTS,
}
_ARMS = {
    **dict.fromkeys(("arm", "loop", "base_loop", "model", "profile", "suite"), "string"),
    **dict.fromkeys(("trials", "scored", "errored", "excluded", "tasks"), "int64"),
    **dict.fromkeys((f"known.{measure}" for measure in COSTS), "int64"),
    **interval_columns(*METRICS, "over_templates", "recovery"),
    "false_success.count": "int64",
    **interval_columns("false_success.rate"),
    "right_unseen": "int64",
    **_FAULTS,
}
_PAIRS = {
    **dict.fromkeys(("a", "b", "loop_a", "loop_b", "profile", "metric", "family"), "string"),
    **interval_columns("difference", "over_templates"),
    "units": "int64",
    **dict.fromkeys(("p", "p_holm", "level", "margin"), "float64"),
    "verdict": "string",
    "within_margin": "bool",
    **dict.fromkeys(("outlook.repeats", "look"), "Int64"),
    **{f"outlook.{size}.{name}": "Int64" for size in ("fewer", "more") for name in ("tasks", "trials")},
    **{f"outlook.{size}.{name}": "float64" for size in ("fewer", "more") for name in ("cost_usd", "chance")},
    "outlook.equivalent": "float64",
}
_EFFECTS = {
    **dict.fromkeys(("term", "kind", "metric", "profile"), "string"),
    **interval_columns("difference"),
    **dict.fromkeys(("p", "p_holm", "level", "margin"), "float64"),
    "verdict": "string",
    "within_margin": "bool",
    **interval_columns("odds_ratio"),
}
_TASKS = {
    **dict.fromkeys(("task", "arm", "cluster"), "string"),
    **dict.fromkeys(("scored", "errored", "excluded", "solved"), "int64"),
    **dict.fromkeys(METRICS, "float64"),
}
