"""Trials of spans: what a trace's root says of the agent, the task and the score, and what the spans below it say happened.

Formats of spans other than OTLP's give theirs the attributes of the GenAI conventions, and are read as those are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.experiments.import_runs.column_hints import is_score
from whichloop.experiments.import_runs.columns import columns_named
from whichloop.experiments.import_runs.foreign_trials import (
    ForeignArm,
    ForeignLog,
    ForeignTrace,
    ForeignTrial,
    LogBuilder,
    ReadingOptions,
)
from whichloop.experiments.import_runs.places import TraceFields, fields_of, mapped, nothing_at, value_at
from whichloop.experiments.import_runs.pooled import can_be_typed
from whichloop.experiments.import_runs.values import (
    answer_of,
    cut,
    label_of,
    located,
    name_of,
    names_in_a_line,
    reason_line,
    score,
    short_value,
)
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest
from whichloop.protocol.values import counted
from whichloop.protocol.wire import from_json

from .conversation import ConversationItem, ModelTurn, answer_in, beyond_parts_in, events_of, untold_of
from .gen_ai import CONVENTIONS, as_text, read_messages
from .otlp_in import TRIAL, ReadSpan, children_content, has_raw_arguments, items_of
from .own_trials import OwnTrial, own_trial

MAX_ID = 40
"""Most characters of a span's id that are shown."""


@dataclass(frozen=True, slots=True)
class GatheredTrace:
    """A trace with each of its spans once."""

    trace_id: str
    spans: list[ReadSpan]
    beside: Mapping[str, Any]
    """What was delivered beside its first span, such as the attributes of its resource, or its own head."""


@dataclass(slots=True)
class _Delivered:
    span: Mapping[str, Any]
    """As the file has it."""
    read: ReadSpan


@dataclass(slots=True)
class _Trace:
    beside: Mapping[str, Any]
    spans: dict[str, _Delivered] = field(default_factory=dict)


@dataclass(slots=True)
class GatheredSpans:
    """All spans read so far, by trace; of those with one id in one trace the one that came last."""

    _traces: dict[str, _Trace] = field(default_factory=dict)
    _again: list[str] = field(default_factory=list)
    """The places of spans that came again as they were."""
    _other: list[str] = field(default_factory=list)
    """The places of spans that came again with another content."""

    def add(
        self, trace_id: object, span_id: object, span: Mapping[str, object], read: ReadSpan, beside: Mapping[str, object]
    ) -> None:
        """Add a span as the file has it, and as it is read. Raises ValueError for a trace without a name."""
        named = name_of(trace_id, "traceId")
        trace = self._traces.setdefault(named, _Trace(beside))
        key = str(span_id) if span_id not in (None, "") else f" {len(trace.spans)}"  # a span without an id is one of its own
        before = trace.spans.get(key)
        if before is not None:
            place = f"span {cut(key, MAX_ID)!r} of trace {cut(named, MAX_ID)!r}"
            (self._again if before.span == span else self._other).append(place)
        trace.spans[key] = _Delivered(span, read)

    @property
    def traces(self) -> Iterator[GatheredTrace]:
        """The traces, in the order of their first spans."""
        for trace_id, trace in self._traces.items():
            yield GatheredTrace(trace_id, [delivered.read for delivered in trace.spans.values()], trace.beside)

    def notes(self) -> Iterator[str]:
        """Yield what the user is told of spans that came more than once."""
        if self._again:
            spans = counted(len(self._again), "span was", "spans were")
            yield f"{spans} delivered again, such as {self._again[0]}: each counts once"
        if self._other:
            spans = counted(len(self._other), "span has", "spans have")
            yield f"{spans} the id of an earlier one and another content, such as {self._other[0]}: the later one counts"


MEANINGS = ("arm", "task", "score", "cluster", "suite")
NO_SCORE = "no result of an evaluation; say where the score stands: --map score=KEY"
NO_TASK = "each trace is a task of its own without --map task=KEY"
NEITHER = "no result of an evaluation, and each trace is a task of its own; say where both stand: --map task=KEY,score=KEY"
_CONVENTIONAL = ("gen_ai.", "llm.", "openinference.", "input.", "output.", "telemetry.", "error.")
"""Beginnings of attributes that conventions define, none of which names a task or a score."""
MAX_KEYS = 12


@dataclass(frozen=True, slots=True)
class ToldOfTrace:
    """What a trace says besides its spans."""

    beside: Mapping[str, Any]
    """Values that stand beside the root span's attributes."""
    scores: Mapping[str, float]
    """Results of evaluations, by name."""
    task: Any = None
    """The task where `--map` names none; None: the trace is a task of its own."""
    cost_usd: float | None = None


@dataclass(slots=True)
class SpanTrials:
    """The trials read so far."""

    reading: ReadingOptions
    log_builder: LogBuilder = field(default_factory=lambda: LogBuilder("traces"))
    keys: dict[str, None] = field(default_factory=dict)
    """Attributes of root spans and resources that --map may name, of traces whose task nobody names."""
    are_scores: dict[str, bool] = field(default_factory=dict)
    """Places that --map may name, and whether all that stands there is a score."""
    scores: dict[str, None] = field(default_factory=dict)
    """Names of the results of evaluations that the traces have."""
    fields: TraceFields = field(init=False)
    absent: str = ""
    """What to tell of the first trace that has no score though its root did not fail, if no trace at all has one."""
    rootless: list[tuple[str, Sequence[ReadSpan], ToldOfTrace]] = field(default_factory=list)
    """Traces that have lost their root span, and with it what it says of the trial."""

    def __post_init__(self) -> None:
        self.fields = TraceFields(self.reading)

    def add(self, trace_id: str, spans: Sequence[ReadSpan], facts: ToldOfTrace) -> None:
        """Add a trace; one that has lost its root waits for the others. Raises ValueError for what is wrong in it."""
        if has_lost_root(spans) and not self._is_agents(spans, facts):
            self.rootless.append((trace_id, spans, facts))
        else:
            self._add(trace_id, spans, facts)

    def _is_agents(self, spans: Sequence[ReadSpan], facts: ToldOfTrace) -> bool:
        """Tell whether an agent's span says which task it was, though what called the agent is not in the trace."""
        root, place = root_of(spans), self.reading.columns.get("task")
        return root.kind == "agent" and (not place or value_at(dict(facts.beside) | dict(root.attributes), place) is not None)

    def _add(self, trace_id: str, spans: Sequence[ReadSpan], facts: ToldOfTrace) -> None:
        root = root_of(spans)
        own_trial = own_of(root, [span for span in spans if span is not root])
        if isinstance(own_trial, str):
            self.log_builder.notes.append(f"trace {trace_id}: {own_trial}")
        if isinstance(own_trial, OwnTrial):
            arm, trial, suite, question = own_trial.arm, own_trial.trial, own_trial.record.suite, own_trial.question
        else:
            arm, trial, suite, question = self._foreign(trace_id, spans, facts)
        first_question = self.log_builder.questions.get(trial.task) or question  # prompts may hold the time: the first counts
        self.log_builder.add(arm, trial, first_question, suite)

    def _foreign(self, trace_id: str, spans: Sequence[ReadSpan], facts: ToldOfTrace) -> tuple[ForeignArm, ForeignTrial, str, str]:
        reading, root = self.reading, root_of(spans)
        values = dict(facts.beside) | dict(root.attributes)
        arm = _arm(spans, root, values, mapped(values, "arm", reading))
        task_named = mapped(values, "task", reading) if "task" in reading.columns else facts.task
        if task_named is None:
            self.log_builder.own_tasks.add(trace_id)
            self.keys |= dict.fromkeys(name for name in values if not name.startswith(_CONVENTIONAL))
        for place, value in fields_of(values).items():
            self.are_scores[place] = self.are_scores.get(place, True) and is_score(value)
        task = name_of(trace_id if task_named is None else task_named, "--map task")
        items = items_of(spans)
        events = events_of(items)
        untold = untold_of(events) | (frozenset() if has_raw_arguments(spans) else {"wire"})
        query = _query(values) or _first_asked(items)
        value = self._score(values, facts.scores)
        if value is None and not root.error and not self.absent:
            self.absent = self._no_score(trace_id, values)
        suite = mapped(values, "suite", reading)
        answer = _answer(root.attributes) or ("" if root.error else answer_in(items))
        trial = ForeignTrial(
            arm.name,
            task,
            self.log_builder.next_repeat(arm.name, task),
            status="scored" if value is not None else "errored" if root.error else "excluded",
            reason="" if value is not None else _failure(root) if root.error else self._excluded(task_named),
            score=value,
            stop=StopReason.CRASHED if root.error else StopReason.FINISHED if answer else None,
            answer=answer_of(answer or None),
            cost_usd=facts.cost_usd,
            seconds=root.seconds,
            started_at=root.start / 1e9,
            cluster=label_of(mapped(values, "cluster", reading), "--map cluster"),
            beyond_parts=beyond_parts_in(items),
            trace=ForeignTrace(events, query, untold=tuple(sorted(untold))),
        )
        self.fields.add(trial, values)
        return arm, trial, "traces" if suite is None else name_of(suite, "--map suite"), digest(query) if query else ""

    def _score(self, values: Mapping[str, Any], scores: Mapping[str, float]) -> float | None:
        self.scores |= dict.fromkeys(scores)
        if place := self.reading.columns.get("score"):
            return score(value_at(values, place), self.reading.scale)
        if self.reading.scorer is not None:
            return score(scores.get(self.reading.scorer), self.reading.scale)
        if len(scores) > 1:
            raise ValueError(
                f"results of {names_in_a_line(list(scores))}; say which is the accuracy: --scorer {next(iter(scores))}"
            )
        return score(next(iter(scores.values()), None), self.reading.scale)

    def _no_score(self, trace_id: str, values: Mapping[str, Any]) -> str:
        """Return what is wrong with a trace that has no score, in case no trace has one."""
        place, scorer = self.reading.columns.get("score"), self.reading.scorer
        if place:
            return f"trace {trace_id}: {nothing_at(values, 'score', place)}"
        return NO_SCORE if scorer is None else f"--scorer: no trace has a result of an evaluation, so none of {short_value(scorer)}"

    def _excluded(self, task: Any) -> str:
        place, scorer = self.reading.columns.get("score"), self.reading.scorer
        if place or scorer is not None:
            return f"nothing stands at {short_value(place)}" if place else f"no result of {short_value(scorer)}"
        return NEITHER if task is None else NO_SCORE

    def log(self, by: str = CONVENTIONS) -> ForeignLog:
        """Return all trials. `by`: the tool that wrote them.

        Raises ValueError if the user named a score that no trace has.
        """
        columns, scorer = self.reading.columns, self.reading.scorer
        if not len(self.log_builder):
            for trace_id, spans, facts in self.rootless:
                with located(f"trace {trace_id}"):
                    self._add(trace_id, spans, facts)
        elif self.rootless:
            names, traces = [cut(trace_id, MAX_ID) for trace_id, _, _ in self.rootless], len(self.log_builder) + len(self.rootless)
            lost = "has lost its root span, which says" if len(names) == 1 else "have lost their root spans, which say"
            note = f"{len(names):,} of {counted(traces, 'trace')} {lost} what the task, the score and the answer were"
            self.log_builder.notes.append(f"{note}; left out: {names_in_a_line(names)}")
        if scorer is not None and self.scores and scorer not in self.scores and not columns.get("score"):
            raise ValueError(f"--scorer: no result of {short_value(scorer)}; there are {names_in_a_line(list(self.scores))}")
        if self.keys and "task" not in self.reading.columns:
            more = ", …" if len(self.keys) > MAX_KEYS else ""
            named = f"its attributes are {', '.join(map(short_value, list(self.keys)[:MAX_KEYS]))}{more}"
            self.log_builder.notes.append(f"{self._with_places(NO_TASK)}, so that no two agents share any; {named}")
        self.log_builder.notes.extend(self.fields.notes())
        log = self._log(by)
        if not self.absent or any(trial.status == "scored" for trial in log.trials):
            return log
        if columns.get("score") or scorer is not None:
            raise ValueError(self.absent)
        # Nobody judged these traces, so that the failed ones are not the only ones with a score, which would be 0.
        return replace(log, trials=tuple(self._left_out(trial) for trial in log.trials))

    def _log(self, by: str) -> ForeignLog:
        """Return the trials so far, whose reasons name the places of task and score that are plain by now."""
        log = self.log_builder.log(by)
        reasons = {reason: self._with_places(reason) for reason in (NO_SCORE, NEITHER)}
        trials = (
            replace(trial, reason=reasons.get(trial.reason, trial.reason)) if trial.ours is None else trial for trial in log.trials
        )
        return replace(log, trials=tuple(trials))

    def _with_places(self, text: str) -> str:
        """Return a text with the places of task and score that are plain by their names, in place of KEY."""
        for meaning in ("task", "score"):
            places = [place for place, is_scored in self.are_scores.items() if is_scored or meaning == "task"]
            likely = [place for place in places if _is_called(meaning, place) and shlex.quote(place) == place]
            if len(likely) == 1 and can_be_typed(likely[0]):
                text = text.replace(f"{meaning}=KEY", f"{meaning}={likely[0]}")
        return text

    def _left_out(self, trial: ForeignTrial) -> ForeignTrial:
        if trial.status != "errored" or trial.ours is not None:
            return trial
        reason = self._excluded(None if trial.task in self.log_builder.own_tasks else trial.task)
        return replace(trial, status="excluded", reason=self._with_places(reason))


def _is_called(meaning: str, place: str) -> bool:
    """Tell whether a place is called as what has a meaning: `task.id`, `eval.correct`; `user.id` is no task's."""
    last = place.rpartition(".")[2]
    return bool(columns_named(meaning, [place.replace(".", "_")]) or (last != "id" and columns_named(meaning, [last])))


def _failure(root: ReadSpan) -> str:
    """Return which error a trial ended with."""
    is_explained = root.error == "error" and root.message  # the bare word adds nothing to a message
    parts = [root.message] if is_explained else [root.error, root.message]
    return reason_line(f"the root span failed: {': '.join(filter(None, parts))}")


def root_of(spans: Sequence[ReadSpan]) -> ReadSpan:
    """Return the span that all others are below: one without a parent among them, an agent's if there is one."""
    ids = {str(span.span.get("spanId")) for span in spans}
    tops = [span for span in spans if str(span.span.get("parentSpanId")) not in ids]
    agents = [span for span in (*tops, *spans) if span.kind == "agent"]
    return (agents or tops or list(spans))[0]


def has_lost_root(spans: Sequence[ReadSpan]) -> bool:
    """Tell whether each span names a parent, so that what the whole trace is below was not delivered."""
    return all(span.span.get("parentSpanId") for span in spans)


def own_of(root: ReadSpan, rest: Sequence[ReadSpan]) -> OwnTrial | str | None:
    """Return the trial of ours that spans hold; None where they hold none, and a text where it does not fit them."""
    trial_json = root.attributes.get(TRIAL)
    if not isinstance(trial_json, str):
        return None
    ordered = sorted(rest, key=lambda span: span.start)
    return own_trial(from_json(trial_json), children_content([span.span for span in ordered]), events_of(items_of(ordered)))


def _arm(spans: Sequence[ReadSpan], root: ReadSpan, values: Mapping[str, Any], typed: Any) -> ForeignArm:
    requests = [span.attributes for span in spans if span.kind == "request"]
    models = [as_text(one.get("gen_ai.request.model", one.get("llm.model_name"))) for one in (root.attributes, *requests)]
    model = next((name for name in models if name), "unknown")
    if typed is not None:
        return ForeignArm(name_of(typed, "--map arm"), model=model)
    agent = as_text(values.get("gen_ai.agent.name", values.get("agent.name"))) or as_text(values.get("service.name"))
    loop = name_of(agent or as_text(root.span.get("name")) or "agent", "the agent's name")
    return ForeignArm(loop if model == "unknown" else f"{loop}/{model}", loop=loop, model=model)


def _query(values: Mapping[str, Any]) -> str:
    """Return what the agent was asked, as its own span has it; empty if it does not say."""
    messages = values.get("gen_ai.input.messages")
    if messages is not None:
        return next((message.content for message in read_messages(messages) if message.role == "user"), "")
    return as_text(values.get("input.value"))


def _first_asked(items: Sequence[ConversationItem]) -> str:
    """Return what a user said in the first request; empty if its prompt is not told."""
    first = next((item for item in items if isinstance(item, ModelTurn)), None)
    return next((message.content for message in (first.prompt or ()) if message.role == "user"), "") if first else ""


def _answer(values: Mapping[str, Any]) -> str:
    messages = values.get("gen_ai.output.messages")
    if messages is not None:
        return next((message.content for message in read_messages(messages)), "")
    return as_text(values.get("output.value"))
