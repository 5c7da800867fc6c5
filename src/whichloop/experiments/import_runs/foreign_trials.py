"""The contract of a foreign format: it recognizes a file and reads it into a ForeignLog, which becomes records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from whichloop.metrics.arm_info import IMPORTED
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace, TraceEvent, TraceHead
from whichloop.protocol.json_text import digest, sha256
from whichloop.protocol.values import canonical

from .chats import asked_in
from .conversation import ConversationItem, events_of, untold_of
from .foreign_file import ForeignFile
from .values import (
    ScoreScale,
    count,
    label_of,
    name_of,
    names_in_a_line,
    nothing_at,
    number_from_zero,
    reason_line,
    score,
    value_at,
    with_total,
)

Status = Literal["scored", "errored", "excluded"]
TrialKey = tuple[str, str, int]
"""Arm, task, repeat."""
MEASURED = ("steps", "lm_calls", "tool_calls", "tokens", "input_tokens", "output_tokens", "cached_tokens", "seconds")
"""Measurements of a trial that a tool may report."""
ONLY_OURS = (
    *("false_success", "answer_unseen", "plan_unseen", "abstained", "gave_up"),
    *("faults", "seed", "wall_s", "simulated_s"),
)
"""What only this harness reports of a trial."""
SAME_IN_RECORD = ("status", "reason", "stop", "answer", "cost_usd", "confidence", "cluster", "attempt")
PLACES = ("arm", "model", "task", "score", "cluster", "suite", "tokens", "cost_usd", "seconds")
"""Meanings whose places in a document `--map` names."""
NO_SCORE = "no score; say where it stands: --map score=PLACE"
NO_TASK = "each is a task of its own without --map task=PLACE"
NEITHER = "no score, and a task of its own; say where both stand: --map task=PLACE,score=PLACE"


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The user's choices for ambiguous files."""

    scorer: str | None = None
    """The score to use as accuracy if there are several: a scorer, an evaluator, a column."""
    rows: str | None = None
    """The place of the list of rows in a JSON object, such as `results.rows`; None: the one list that holds trials."""
    scale: ScoreScale | None = None
    """The scale of numeric scores; None: 0 to 1."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Meaning → the column of a table, or the place in a document, that has it; an empty name: none has."""
    errors_as_failures: bool = False
    """Whether trials that end in an error are scored 0, as the agent's own failures instead of the infrastructure's."""
    decimal_comma: bool = False
    """Whether the numbers of a table are written as 1.234,5."""


@dataclass(frozen=True, slots=True)
class ForeignTrace:
    """What happened in one trial, as far as a file tells it."""

    events: tuple[TraceEvent, ...]
    query: str = ""
    expected: Any = None
    end_state: Mapping[str, Any] | None = None
    details: Any = None
    untold: tuple[str, ...] = ()
    """Families of faults that the format cannot show."""
    has_all_requests: bool = True
    """Whether every request is in it, so that they can be counted."""

    @classmethod
    def of(
        cls, items: Sequence[ConversationItem], untold: Sequence[str] = (), query: str | None = None, **more: Any
    ) -> ForeignTrace:
        """Return the trace of a conversation. `untold`: families that no file of the format shows."""
        events = events_of(items)
        asked = asked_in(items) if query is None else query
        told = tuple(sorted({*untold, *untold_of(events)}))
        return cls(events, asked, untold=told, **more)

    @property
    def digest(self) -> str:
        """sha256 of the events."""
        return sha256(canonical([event.to_json() for event in self.events]))

    def trace(self, record: Record) -> Trace:
        """Return the trace of the trial that this record is of."""
        head = TraceHead(
            **{name: getattr(record, name) for name in ("arm", "task", "repeat", "answer", "stop", "status", "reason", "scores")},
            **{name: getattr(self, name) for name in ("query", "expected", "end_state", "details", "untold")},
        )
        return Trace(head, self.events)


class ImportedTask(NamedTuple):
    """What the import that a trial is exported from knows of its task, whatever format that was read from."""

    asked: str
    """Short digest of the task's question and right answer."""
    suite: str
    """The digest of the suite."""
    tasks: int
    """How many tasks the suite has."""
    shared: str
    """Short digest of what all tasks have in common: the scorer and the scale."""


@dataclass(frozen=True, slots=True)
class ForeignTrial:
    """One trial as reported by another tool; None: not reported."""

    arm: str
    task: str
    repeat: int
    """The 0-based repeat."""
    status: Status = "scored"
    reason: str = ""
    score: float | None = None
    """The score in [0, 1]; every scored trial has one."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Other scores of the same trial, in [0, 1]."""
    stop: str | None = None
    """The stop; `crashed` for an errored trial that ran and ended in an error."""
    answer: Any = None
    steps: int | None = None
    lm_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    """Input and output together; the two fields below may be known as well, or instead."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Part of the input that a provider served from its cache."""
    cost_usd: float | None = None
    seconds: float | None = None
    started_at: float | None = None
    """When it began, in seconds since 1970."""
    confidence: float | None = None
    cluster: str = ""
    attempt: int = 0
    """Earlier attempts at the same trial that failed."""
    errors: Mapping[str, int] = field(default_factory=dict)
    repeated_calls: int | None = None
    trace: ForeignTrace | None = None
    ours: Record | None = None
    """The record of a trial that whichloop exported; of its own runs it has what no other tool reports."""
    imported: ImportedTask | None = None
    """The task of the import that whichloop exported the trial from; None for any other trial."""

    @property
    def key(self) -> TrialKey:
        return (self.arm, self.task, self.repeat)

    @property
    def split_tokens(self) -> tuple[int, int] | None:
        """Input and output tokens; an undivided total counts as input, and what it has more than both as output.

        None if the total is unknown.
        """
        if self.input_tokens is not None and self.output_tokens is not None:
            return with_total(self.input_tokens, self.output_tokens, self.tokens)
        if self.tokens is None:
            return None
        rest = 0 if self.input_tokens is None else self.tokens - self.input_tokens
        output = min(max(rest if self.output_tokens is None else self.output_tokens, 0), self.tokens)
        return (self.tokens - output, output)

    def record(self, suite: str, suite_digest: str) -> Record:
        """Return the trial as a record; `unknown` lists the unreported fields, which tables show as –."""
        others = {name: value for name, value in self.scores.items() if name != PRIMARY}
        scores = {} if self.score is None else {PRIMARY: self.score, **others}
        same = {name: getattr(self, name) for name in ("arm", "task", "repeat", *SAME_IN_RECORD)}
        same |= {"suite": suite, "suite_digest": suite_digest, "scores": scores}
        if self.ours is not None:
            return replace(self.ours, **same, trace_at=0)
        unknown = [name for name in MEASURED if getattr(self, "split_tokens" if name == "tokens" else name) is None]
        input_tokens, output_tokens = self.split_tokens or (self.input_tokens or 0, self.output_tokens or 0)
        return Record(
            **same,
            seed=0,
            steps=self.steps or 0,
            calls={"decide": self.lm_calls} if self.lm_calls else {},
            tool_calls=self.tool_calls or 0,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=self.cached_tokens or 0,
            seconds=self.seconds or 0.0,
            started_at=self.started_at or 0.0,
            errors=self.errors,
            repeated_calls=self.repeated_calls or 0,
            unknown=(*unknown, *(["repeated_calls"] if self.repeated_calls is None else []), *ONLY_OURS),
        )


@dataclass(frozen=True, slots=True)
class ForeignArm:
    """An arm, as far as the file describes it."""

    name: str
    loop: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = "unknown"
    profile: str = IMPORTED

    @classmethod
    def of(cls, agent: Any, model: Any, what: str, options: Mapping[str, Any] | None = None) -> ForeignArm:
        """Return the arm of an agent with its model, which may be unknown. `what`: the field of the agent's name."""
        loop = name_of(agent, what)
        told = "unknown" if model in (None, "") else name_of(model, "the model's name")
        return cls(loop if told == "unknown" else f"{loop}/{told}", loop, options or {}, told)


@dataclass(slots=True)
class ForeignLog:
    """The content of one file, as far as it is read."""

    default_suite: str
    """Name of the list of tasks where the trials name none."""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    by: str = ""
    """Tool and version that wrote it; empty if unknown."""
    arms: dict[str, ForeignArm] = field(default_factory=dict)
    trials: list[ForeignTrial] = field(default_factory=list)
    questions: dict[str, str] = field(default_factory=dict)
    """Task → digest of its question and its right answer; empty if unknown. Also tasks that were due and did not run.

    A trial that was exported from an import may tell only the short digest of it.
    """
    suites: set[str] = field(default_factory=set)
    scorers: set[str] = field(default_factory=set)
    """Names of the scores that were taken as accuracy."""
    unfinished: str = ""
    """The reason why trials are missing; empty if the file is complete."""
    due_repeats: int = 1
    """Trials that were due per arm and task, as far as the file says."""
    own_tasks: set[str] = field(default_factory=set)
    """Tasks that are a trace's own, since nobody names its task: no other arm has them."""
    notes: list[str] = field(default_factory=list)
    """Remarks for the user."""
    readings: list[str] = field(default_factory=list)
    """What was read as what, for the user to check; nothing in it is amiss."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of a table → what it is read as; empty: it is not read."""
    path: Path = Path()
    """The path; the importer fills in this field and the next two."""
    format: str = ""
    sha256: str = ""
    _repeats: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def suite(self) -> str:
        return " + ".join(sorted(self.suites)) or self.default_suite

    @property
    def scorer(self) -> str:
        """Name of the score that is the accuracy; empty if there are several, or it has none."""
        return next(iter(self.scorers)) if len(self.scorers) == 1 else ""

    @property
    def repeats(self) -> int:
        """Trials due per arm and task."""
        return max([self.due_repeats, *(trial.repeat + 1 for trial in self.trials)])

    def __post_init__(self) -> None:
        for meaning in self.reading.columns:
            if meaning not in PLACES:
                raise ValueError(f"--map {meaning}: this format takes {names_in_a_line(PLACES, len(PLACES))}")

    def at(self, document: Any, meaning: str) -> Any:
        """Return what stands at the place that the user named for a meaning; None if none was named."""
        place = self.reading.columns.get(meaning)
        value = value_at(document, place) if place else None
        if place and value is None and meaning != "cluster":
            raise ValueError(nothing_at(document, meaning, place))
        return value

    def tell(self, document: Any, arm: ForeignArm, task: Any, value: Any = None, **told: Any) -> ForeignTrial:
        """Add what a document tells of a trial; what stands at the places that the user named counts instead.

        `value`: its score as the document has it. `told`: fields of the trial; besides `reason` and `unscored`, why it has no score
        and its status then; `is_judged=False`: no score counts, wherever it stands; `question`: digest of what it asks; `suite`;
        `own_task`: the task is called as the document is, and nothing is known of it.
        """
        named = {meaning: found for meaning in PLACES if (found := self.at(document, meaning)) is not None}
        if "arm" in named:
            arm = replace(arm, name=name_of(named["arm"], "--map arm"))
        if "model" in named:
            arm = replace(arm, model=name_of(named["model"], "--map model"))
        name = name_of(named.get("task", task), "--map task" if "task" in named else "the task")
        unscored, reason = told.pop("unscored", "errored"), told.pop("reason", "")
        is_unknown = told.pop("own_task", False) and "task" not in named
        is_judged, trace, suite = told.pop("is_judged", True), told.get("trace"), told.pop("suite", None) or self.default_suite
        scored = score(named.get("score", value), self.reading.scale) if is_judged else None
        told["reason"] = reason_line(reason or (NEITHER if is_unknown else NO_SCORE)) if scored is None else ""
        asked = told.pop("question", None)
        if asked is None:
            asked = digest(trace.query) if trace is not None and trace.query else ""
        measures: dict[str, Any] = {"tokens": count, "cost_usd": number_from_zero, "seconds": number_from_zero, "cluster": label_of}
        told |= {meaning: read(named[meaning], f"--map {meaning}") for meaning, read in measures.items() if meaning in named}
        told |= {"input_tokens": None, "output_tokens": None} if "tokens" in named else {}
        if told.get("repeat") is None:
            told["repeat"] = self._repeats[arm.name, name]
            self._repeats[arm.name, name] += 1
        if trace is not None and not trace.events and trace.details is None:
            told["trace"] = None  # nothing happened that the file tells
        trial = ForeignTrial(arm.name, name, status=unscored if scored is None else "scored", score=scored, **told)
        self.add(arm, trial, asked, name_of(named.get("suite", suite), "--map suite"))
        return trial

    def add(self, arm: ForeignArm, trial: ForeignTrial, question: str, suite: str = "") -> None:
        """Add a trial. `question`: digest of what its task asks; empty if unknown."""
        question_before = self.questions.get(trial.task, "")
        if question_before and question and question_before != question:
            raise ValueError(f"task {trial.task}: it asks something else than in another trial")
        self.questions[trial.task] = question_before or question
        self.arms.setdefault(arm.name, arm)
        self.trials.append(trial)
        self.suites.add(suite or self.default_suite)


@dataclass(frozen=True, slots=True)
class Format:
    """One format: each file in `formats/` defines one as FORMAT."""

    name: str
    """The name for `--format`."""
    recognizes: Callable[[ForeignFile], bool]
    """A function that tells whether a file has this format; it must not raise."""
    read: Callable[[ForeignFile, ReadingOptions], ForeignLog]
    """A function that reads a file; it raises ValueError with a one-line message about the error and its place."""


def with_counts(trial: ForeignTrial) -> ForeignTrial:
    """Return the trial with what its events count: replies, requests, tokens, calls and errors; what the file says stays."""
    if trial.trace is None or trial.ours is not None:
        return trial
    events = trial.trace.events
    requests = [event for event in events if isinstance(event, ModelExchange)]
    runs = [event for event in events if isinstance(event, ToolRun)]
    replies = [request for request in requests if request.reply is not None]
    tokens = [reply.tokens for reply in replies if reply.tokens is not None]
    counts: dict[str, Any] = {"tool_calls": sum(not run.never_ran for run in runs)}
    if "tool" not in trial.trace.untold:
        keys = [run.call.key for run in runs]
        gave = {key: place for place, key in reversed([*enumerate(keys)]) if runs[place].gave_result}
        counts["repeated_calls"] = sum(place > gave.get(key, place) for place, key in enumerate(keys))
    if trial.trace.has_all_requests:
        counts |= {"steps": len(replies), "lm_calls": len(requests)}
        if trial.split_tokens is None and tokens and len(tokens) == len(replies):
            counts |= {"input_tokens": sum(one[0] for one in tokens), "output_tokens": sum(one[1] for one in tokens)}
    missing = {name: value for name, value in counts.items() if getattr(trial, name) is None}
    errors = Counter(f"tool.{run.error_type or 'Error'}" for run in runs if not run.ok)
    errors.update(request.error.kind for request in requests if request.error is not None)
    errors.update("wire" for request in requests if request.wire_error is not None)
    return replace(trial, **missing, errors=trial.errors or dict(errors))
