"""Spans in the JSON encoding of OTLP, an object or a line for each request: GenAI semantic conventions, and OpenInference.

One trace is one trial. Its task and score are what `--map task=KEY,score=KEY` names among the attributes of its root span and
resource; without a word on the score it is the one result of an evaluation that the root span has as an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopbench.experiments.trace_formats.conversation import events_of, untold_of
from loopbench.experiments.trace_formats.gen_ai import CONVENTIONS, as_text, read_messages
from loopbench.experiments.trace_formats.otlp_in import (
    TRIAL,
    ReadSpan,
    children_content,
    each_span,
    has_raw_arguments,
    items_of,
    read_span,
    scores_of,
)
from loopbench.experiments.trace_formats.own_trials import OwnTrial, own_trial
from loopbench.protocol import StopReason
from loopbench.protocol.digest import digest
from loopbench.protocol.wire import from_json

from ..foreign_file import ForeignFile, parse_json
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions
from ..places import check_meanings, mapped
from ..values import answer_of, label_of, located, mapping, name_of, names_in_a_line, score

MEANINGS = ("arm", "task", "score", "cluster", "suite")
SPANS = "resourceSpans"
MAX_SPANS = 1_000_000
NO_SCORE = "no result of an evaluation; say which attribute is the score: --map score=KEY"


def recognizes(file: ForeignFile) -> bool:
    return SPANS in file.top_level or SPANS in file.first_row


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read traces. Raises ValueError with a one-line message that names the line, or the trace and what is wrong in it."""
    check_meanings(reading, MEANINGS)
    traces: dict[str, list[tuple[ReadSpan, Mapping[str, Any]]]] = {}
    number = 0
    for where, data in _requests(file):
        with located(where):
            for span, resource in each_span(mapping(data, "the request")):
                number += 1
                if number > MAX_SPANS:
                    raise ValueError(f"more than {MAX_SPANS} spans")
                traces.setdefault(name_of(span.get("traceId"), "traceId"), []).append((read_span(span), resource))
    gathered = _Gathered(reading)
    for trace_id, spans in traces.items():
        with located(f"trace {trace_id}"):
            gathered.add(trace_id, [span for span, _ in spans], spans[0][1])
    return gathered.log()


FORMAT = Format("otlp", recognizes, read, mapped=True)


def _requests(file: ForeignFile) -> Iterator[tuple[str, Any]]:
    if SPANS in file.top_level:
        yield "the file", file.json_object
        return
    for number, line in enumerate(file.content().splitlines(), 1):
        if line.strip():
            with located(f"line {number}"):
                data = parse_json(line)
            yield f"line {number}", data


@dataclass(slots=True)
class _Gathered:
    """The trials read so far."""

    reading: ReadingOptions
    arms: dict[str, ForeignArm] = field(default_factory=dict)
    trials: list[ForeignTrial] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    suites: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    repeats: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, trace_id: str, spans: Sequence[ReadSpan], resource: Mapping[str, Any]) -> None:
        root = root_of(spans)
        own = own_of(root, [span for span in spans if span is not root])
        if isinstance(own, str):
            self.notes.append(f"trace {trace_id}: {own}")
        if isinstance(own, OwnTrial):
            arm, trial, suite, question = own.arm, own.trial, own.record.suite, own.question
        else:
            arm, trial, suite, question = self._foreign(trace_id, spans, root, dict(resource) | dict(root.attributes))
        self.arms.setdefault(arm.name, arm)
        self.trials.append(trial)
        self.suites.add(suite)
        self.asked[trial.task] = self.asked.get(trial.task) or question

    def _foreign(
        self, trace_id: str, spans: Sequence[ReadSpan], root: ReadSpan, values: Mapping[str, Any]
    ) -> tuple[ForeignArm, ForeignTrial, str, str]:
        reading = self.reading
        arm = _arm(spans, root, values, mapped(values, "arm", reading))
        told = mapped(values, "task", reading)
        task = name_of(trace_id if told is None else told, "--map task")
        items = items_of(spans)
        events = events_of(items)
        untold = untold_of(events) | (frozenset() if has_raw_arguments(spans) else {"wire"})
        query = _query(values)
        value = self._score(root, values)
        repeat = self.repeats.get((arm.name, task), 0)
        self.repeats[arm.name, task] = repeat + 1
        suite = mapped(values, "suite", reading)
        answer = _answer(root.attributes)
        trial = ForeignTrial(
            arm.name,
            task,
            repeat,
            status="excluded" if value is None else "scored",
            reason=NO_SCORE if value is None else "",
            score=value,
            stop=StopReason.CRASHED if root.error else StopReason.FINISHED if answer else None,
            answer=answer_of(answer or None),
            seconds=root.seconds,
            cluster=label_of(mapped(values, "cluster", reading), "--map cluster"),
            trace=ForeignTrace(events, query, untold=tuple(sorted(untold))),
        )
        return arm, trial, "traces" if suite is None else name_of(suite, "--map suite"), digest(query) if query else ""

    def _score(self, root: ReadSpan, values: Mapping[str, Any]) -> float | None:
        if self.reading.columns.get("score"):
            return score(mapped(values, "score", self.reading), self.reading.scale)
        found = scores_of(root.span)
        if self.reading.scorer is not None:
            return score(found.get(self.reading.scorer), self.reading.scale)
        if len(found) > 1:
            raise ValueError(f"results of {names_in_a_line(list(found))}; say which is the accuracy: --scorer {next(iter(found))}")
        return score(next(iter(found.values()), None), self.reading.scale)

    def log(self) -> ForeignLog:
        return ForeignLog(
            suite=" + ".join(sorted(self.suites)) or "traces",
            arms=tuple(self.arms.values()),
            trials=tuple(self.trials),
            asked=self.asked,
            by=CONVENTIONS,
            notes=tuple(self.notes),
        )


def root_of(spans: Sequence[ReadSpan]) -> ReadSpan:
    """Return the span that all others are below: one without a parent among them, an agent's if there is one."""
    ids = {str(span.span.get("spanId")) for span in spans}
    tops = [span for span in spans if str(span.span.get("parentSpanId")) not in ids]
    agents = [span for span in (*tops, *spans) if span.kind == "agent"]
    return (agents or tops or list(spans))[0]


def own_of(root: ReadSpan, rest: Sequence[ReadSpan]) -> OwnTrial | str | None:
    told = root.attributes.get(TRIAL)
    if not isinstance(told, str):
        return None
    ordered = sorted(rest, key=lambda span: span.start)
    return own_trial(from_json(told), children_content([span.span for span in ordered]), events_of(items_of(ordered)))


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
    told = values.get("gen_ai.input.messages")
    if told is not None:
        return next((message.content for message in read_messages(told) if message.role == "user"), "")
    return as_text(values.get("input.value"))


def _answer(values: Mapping[str, Any]) -> str:
    told = values.get("gen_ai.output.messages")
    if told is not None:
        return next((message.content for message in read_messages(told)), "")
    return as_text(values.get("output.value"))
