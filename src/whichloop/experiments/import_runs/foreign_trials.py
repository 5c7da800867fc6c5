"""The contract of a foreign format: it recognizes a file and reads it into a ForeignLog, which becomes records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from whichloop.metrics.arm_info import IMPORTED
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace, TraceEvent, TraceHead, canonical
from whichloop.protocol.digest import sha256
from whichloop.protocol.values import counted as number_of

from .foreign_file import ForeignFile
from .values import ScoreScale, ToldTotal, total_is_less, total_is_more, with_total

Status = Literal["scored", "errored", "excluded"]
TrialKey = tuple[str, str, int]
"""Arm, task, repeat."""

MEASURED = ("steps", "lm_calls", "tool_calls", "tokens", "input_tokens", "output_tokens", "cached_tokens", "seconds")
"""Measurements of a trial that a tool may report."""
ONLY_OURS = (
    *("false_success", "answer_unseen", "plan_unseen", "abstained", "gave_up"),
    *("faults", "faults_unmet", "seed", "wall_s", "simulated_s"),
)
"""What only this harness reports of a trial."""
_SAME_IN_RECORD = (
    *("arm", "task", "repeat", "status", "reason", "stop"),
    *("answer", "cost_usd", "confidence", "cluster", "attempt"),
)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The user's choices for ambiguous files."""

    scorer: str | None = None
    """The score to use as accuracy if there are several: a scorer, an evaluator, a column."""
    rows: str | None = None
    """The place of the list of rows in a JSON object, such as `results.rows`; None: the one list that holds trials."""
    scale: ScoreScale | None = None
    """The scale of numeric scores; None: 0 to 1."""
    cluster: str | None = None
    """The metadata key or column that names the cluster of tasks."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Meaning → the column of a table, or the place in a trajectory, that has it; an empty name: none has."""
    errors_as_failures: bool = False
    """Whether trials that end in an error are scored 0, as the agent's own failures instead of the infrastructure's."""
    is_one_arm: bool = False
    """Whether the user named the arm of each file, so that none may hold several."""


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


@dataclass(frozen=True, slots=True)
class ImportedTasks:
    """The list of tasks of the import that a trial was exported from."""

    digest: str
    """The digest of the suite."""
    number: int
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
    counts_as_failure: bool = False
    """Whether the tool that wrote the file counts the errored trial as not solved in the accuracy that it publishes."""
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
    beyond_parts: int = 0
    """What the totals of its requests have more than their input and output, counted as output; negative: what they have less."""
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
    imported_tasks: ImportedTasks | None = None
    """The tasks of the import that whichloop exported the trial from; None for any other trial."""

    @property
    def key(self) -> TrialKey:
        return (self.arm, self.task, self.repeat)

    @property
    def split_tokens(self) -> tuple[int, int] | None:
        """Input and output tokens; an undivided total counts as input, and what it has more than both as output.

        None if the total is unknown.
        """
        if self.input_tokens is not None and self.output_tokens is not None:
            return with_total(self.input_tokens, self.output_tokens, self.tokens)[:2]
        if self.tokens is None:
            return None
        rest = 0 if self.input_tokens is None else self.tokens - self.input_tokens
        output = min(max(rest if self.output_tokens is None else self.output_tokens, 0), self.tokens)
        return (self.tokens - output, output)

    @property
    def told_beyond_parts(self) -> int:
        """What the total of tokens that its log tells has more than input and output; negative: what it has less."""
        if self.input_tokens is None or self.output_tokens is None:
            return self.beyond_parts
        return self.beyond_parts or with_total(self.input_tokens, self.output_tokens, self.tokens).beyond_parts

    @property
    def unknown(self) -> tuple[str, ...]:
        """Metrics and fields of the record that the tool does not report."""
        unreported = [name for name in MEASURED if getattr(self, "split_tokens" if name == "tokens" else name) is None]
        return (*unreported, *(["repeated_calls"] if self.repeated_calls is None else []), *ONLY_OURS)

    def record(self, suite: str, suite_digest: str) -> Record:
        """Return the trial as a record; `unknown` lists the unreported fields, which tables show as –."""
        others = {name: value for name, value in self.scores.items() if name != PRIMARY}
        scores = {} if self.score is None else {PRIMARY: self.score, **others}
        same = {name: getattr(self, name) for name in _SAME_IN_RECORD}
        if self.ours is not None:
            return replace(self.ours, **same, suite=suite, suite_digest=suite_digest, scores=scores, trace_at=0)
        input_tokens, output_tokens = self.split_tokens or (self.input_tokens or 0, self.output_tokens or 0)
        return Record(
            **same,
            suite=suite,
            suite_digest=suite_digest,
            seed=0,
            scores=scores,
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
            unknown=self.unknown,
        )


@dataclass(frozen=True, slots=True)
class ForeignArm:
    """An arm, as far as the file describes it."""

    name: str
    loop: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = "unknown"
    profile: str = IMPORTED


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """The content of one file."""

    suite: str
    arms: tuple[ForeignArm, ...]
    trials: tuple[ForeignTrial, ...]
    questions: Mapping[str, str]
    """Task → digest of its question and its right answer; empty if unknown. Also tasks that were due and did not run.

    A trial that was exported from an import may tell only the short digest of it.
    """
    by: str = ""
    """Tool and version that wrote it; empty if unknown."""
    scorer: str = ""
    """Name of the score that is the accuracy; empty if the file has only one, without a name."""
    unfinished: str = ""
    """The reason why trials are missing; empty if the file is complete."""
    due_repeats: int = 1
    """Trials that were due per arm and task, as far as the file says."""
    own_tasks: frozenset[str] = frozenset()
    """Tasks that are a trace's own, since nobody names its task: no other arm has them."""
    notes: tuple[str, ...] = ()
    """Remarks for the user."""
    readings: tuple[str, ...] = ()
    """What was read as what, for the user to check; nothing in it is amiss."""
    cluster: str = ""
    """The column that was taken as the cluster of tasks, be it named or found; empty where none was."""
    path: Path = Path()
    """The path; the importer fills in this field and the next two."""
    format: str = ""
    sha256: str = ""

    @property
    def repeats(self) -> int:
        """Trials due per arm and task."""
        return max([self.due_repeats, *(trial.repeat + 1 for trial in self.trials)])


@dataclass(frozen=True, slots=True)
class Format:
    """One format: each file in `formats/` defines one as FORMAT."""

    name: str
    """The name for `--format`."""
    recognizes: Callable[[ForeignFile], bool]
    """A function that tells whether a file has this format; it must not raise."""
    read: Callable[[ForeignFile, ReadingOptions], ForeignLog]
    """A function that reads a file; it raises ValueError with a one-line message about the error and its place."""
    mapped: bool = False
    """Whether `--map` names the places of values in its files."""


@dataclass(slots=True)
class LogBuilder:
    """The trials read so far."""

    suite: str
    """Name of the list of tasks where the trials name none."""
    notes: list[str] = field(default_factory=list)
    """Remarks for the user."""
    scorers: set[str] = field(default_factory=set)
    """Names of the scores that were taken as accuracy."""
    questions: dict[str, str] = field(default_factory=dict)
    """Task → digest of what it asks."""
    own_tasks: set[str] = field(default_factory=set)
    """Tasks that are a trace's own, since nobody names its task."""
    _arms: dict[str, ForeignArm] = field(default_factory=dict)
    _trials: list[ForeignTrial] = field(default_factory=list)
    _suites: set[str] = field(default_factory=set)
    _repeats: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __len__(self) -> int:
        """Return the number of trials."""
        return len(self._trials)

    def next_repeat(self, arm: str, task: str) -> int:
        """Number the trials of one arm and task, from 0 on."""
        self._repeats[arm, task] += 1
        return self._repeats[arm, task] - 1

    def add(self, arm: ForeignArm, trial: ForeignTrial, question: str, suite: str = "") -> None:
        """Add a trial. `question`: digest of what its task asks; empty if unknown.

        Raises ValueError if another trial of the task asks something else.
        """
        question_before = self.questions.get(trial.task, "")
        if question_before and question and question_before != question:
            raise ValueError(f"task {trial.task}: it asks something else than in another trial")
        self.questions[trial.task] = question_before or question
        self._arms.setdefault(arm.name, arm)
        self._trials.append(trial)
        self._suites.add(suite or self.suite)

    def log(self, by: str = "") -> ForeignLog:
        """Return all of it. `by`: the tool that wrote the file."""
        return ForeignLog(
            suite=" + ".join(sorted(self._suites)) or self.suite,
            arms=tuple(self._arms.values()),
            trials=tuple(self._trials),
            questions=self.questions,
            by=by,
            scorer=next(iter(self.scorers)) if len(self.scorers) == 1 else "",
            notes=tuple(self.notes),
            own_tasks=frozenset(self.own_tasks),
        )


def with_counts(trial: ForeignTrial) -> ForeignTrial:
    """Return the trial with what its events count: replies, requests, tokens, calls and errors; what the file says stays."""
    if trial.trace is None or trial.ours is not None:
        return trial
    events = trial.trace.events
    requests = [event for event in events if isinstance(event, ModelExchange)]
    runs = [event for event in events if isinstance(event, ToolRun)]
    replies = [request for request in requests if request.reply is not None]
    counts: dict[str, Any] = {
        "steps": len(replies),
        "lm_calls": len(requests),
        "tool_calls": sum(not run.never_ran for run in runs),
        "repeated_calls": None if "tool" in trial.trace.untold else _repeated(runs),
    }
    if trial.split_tokens is None and replies and all(reply.tokens is not None for reply in replies):
        tokens_told = [reply.tokens for reply in replies if reply.tokens is not None]
        counts |= {
            "input_tokens": sum(tokens[0] for tokens in tokens_told),
            "output_tokens": sum(tokens[1] for tokens in tokens_told),
        }
    if not trial.trace.has_all_requests:
        counts = {name: value for name, value in counts.items() if name not in ("steps", "lm_calls")}
    missing = {name: value for name, value in counts.items() if getattr(trial, name) is None}
    return replace(trial, **missing, errors=trial.errors or _errors(events))


def half_told_tokens(records: Sequence[Record]) -> Iterator[str]:
    """Yield for each kind of tokens in how many trials it is the only one that is told, so that their total is not known."""
    for kind, other in (("input", "output"), ("output", "input")):
        alone = sum(
            f"{other}_tokens" in record.unknown and f"{kind}_tokens" not in record.unknown and "tokens" in record.unknown
            for record in records
        )
        if alone:
            many = "has" if alone == 1 else "have"
            yield f"{number_of(alone, 'trial')} {many} a count of {kind} tokens and none of {other} tokens: their total is unknown"


def told_totals(trials: Sequence[ForeignTrial]) -> Iterator[str]:
    """Yield what the user is told of the trials of a log whose total of tokens is not the sum of input and output."""
    more, less = list[ToldTotal](), list[ToldTotal]()
    for trial in trials:
        beyond = trial.told_beyond_parts
        split = with_counts(trial).split_tokens if beyond else None
        if split is not None:
            parts = sum(split) - max(beyond, 0)
            place = f"{trial.arm}/{trial.task}/{trial.repeat}"
            (more if beyond > 0 else less).append(ToldTotal(place, parts + beyond, parts))
    of = number_of(len(trials), "trial")
    if more:
        yield total_is_more("the total of tokens", more, of)
    if less:
        yield f"{total_is_less('the total of tokens', less, of)}: input + output is counted"


def _repeated(runs: Sequence[ToolRun]) -> int:
    """Count runs equal to an earlier one that had given a result."""
    gave: set[str] = set()
    repeated = 0
    for run in runs:
        repeated += run.call.key in gave
        if run.gave_result:
            gave.add(run.call.key)
    return repeated


def _errors(events: Sequence[TraceEvent]) -> dict[str, int]:
    """Count unreadable replies, failed requests, and failed runs of tools by their type."""
    errors = Counter[str]()
    for event in events:
        if isinstance(event, ModelExchange):
            errors["wire"] += event.wire_error is not None
            if event.error is not None:
                errors[event.error.kind] += 1
        elif isinstance(event, ToolRun) and not event.ok:
            errors[f"tool.{event.error_type or 'Error'}"] += 1
    return {kind: count for kind, count in errors.items() if count}
