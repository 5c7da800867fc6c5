"""Trials of spans: what a trace's root says of the agent, the task and the score, and what the spans below it say happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest
from whichloop.protocol.values import counted, shown_short

from .chats import as_text, asked_in, parsed, said_in
from .conversation import ConversationItem, ModelTurn, answer_in
from .foreign_trials import NEITHER, NO_SCORE, NO_TASK, ForeignArm, ForeignLog, ForeignTrace, ReadingOptions
from .own_trials import add_own_trial
from .spans import TRIAL, Span, Walk, prompt_of, reply_of
from .values import answer_of, cut, located, name_of, names_in_a_line, nothing_at, other_scores, reason_line, value_at

MAX_ID = 40
MAX_KEYS = 12
_CONVENTIONAL = ("gen_ai.", "llm.", "openinference.", "input.", "output.", "telemetry.", "error.", "ai.", "traceloop.", "mlflow.")
"""Beginnings of attributes that conventions define, none of which names a task or a score."""


@dataclass
class SpanTrace:
    """A trace with each of its spans once."""

    name: str
    beside: Mapping[str, Any]
    """What was delivered beside its first span, such as the attributes of its resource, or its own head."""
    by_id: dict[str, Span] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    """Results of evaluations of the whole trial, by name."""
    task: Any = None
    """The task where `--map` names none; None: the trace is a task of its own."""
    cost_usd: float | None = None

    @property
    def spans(self) -> list[Span]:
        return list(self.by_id.values())

    @cached_property
    def root(self) -> Span:
        """The span that all others are below: one without a parent among them, an agent's if there is one."""
        tops = [span for span in self.spans if span.parent not in self.by_id]
        agents = [span for span in (*tops, *self.spans) if span.kind == "agent"]
        return (agents or tops or self.spans)[0]


@dataclass(slots=True)
class GatheredSpans:
    """All spans read so far, by trace; of those with one id in one trace the one that came last, since exporters deliver again."""

    reading: ReadingOptions
    by_name: dict[str, SpanTrace] = field(default_factory=dict)
    trials: ForeignLog = field(init=False)
    _keys: dict[str, None] = field(default_factory=dict)
    """Attributes of root spans and resources that --map may name, of traces whose task nobody names."""
    _unknown: list[str] = field(default_factory=list)
    """A span of each trace whose requests are not all known."""
    _unread: list[str] = field(default_factory=list)

    def add(self, trace: object, span: Span, beside: Mapping[str, Any]) -> None:
        """Add a span."""
        name = name_of(trace, "the trace's id")
        known = self.by_name.setdefault(name, SpanTrace(name, beside))
        known.by_id[span.id or f" {len(known.by_id)}"] = span  # a span without an id is one of its own

    def log(self) -> ForeignLog:
        """Return the traces as trials."""
        self.trials = ForeignLog("traces", self.reading)
        scorer, place, notes = self.reading.scorer, self.reading.columns.get("score"), self.trials.notes
        names = list(dict.fromkeys(name for trace in self.by_name.values() for name in trace.scores))
        if scorer is not None and scorer not in names and not place:
            there = f"there are {names_in_a_line(names)}" if names else "no trace has a result of an evaluation"
            raise ValueError(f"--scorer: no result of {shown_short(scorer)}; {there}")
        every = self.by_name.values()
        lost = [one.name for one in every if all(span.parent for span in one.spans) and not self._is_agents(one)]
        left_out = set() if len(lost) == len(every) else set(lost)
        whole = [one for one in every if one.name not in left_out]
        has_scores = any(value_at(_values(one), place) is not None if place else self._results(one) for one in whole)
        for trace in whole:
            with located(f"trace {trace.name}"):
                self._add(trace, is_judged=has_scores)
        if place and whole and not any(trial.status == "scored" for trial in self.trials.trials):
            raise ValueError(f"trace {whole[0].name}: {nothing_at(_values(whole[0]), 'score', place)}")
        if left_out:
            told = f"{len(lost):,} of {counted(len(self.by_name), 'trace')} without a root span, which says task, score and answer"
            notes.append(f"{told}; left out: {names_in_a_line([cut(name, MAX_ID) for name in lost])}")
        if self._keys and "task" not in self.reading.columns:
            notes.append(f"of traces {NO_TASK}; the attributes are {names_in_a_line(list(self._keys), MAX_KEYS)}")
        if self._unknown:
            notes.append(
                f"spans of {counted(len(self._unknown), 'trace')} are not understood as requests of a model, such as "
                f"{shown_short(self._unknown[0])}: what no span tells of steps, calls and tokens is unknown"
            )
        if self._unread:
            notes.append(
                f"messages of {counted(len(self._unread), 'request')} are not read, such as {reason_line(self._unread[0])}"
            )
        return self.trials

    def _is_agents(self, trace: SpanTrace) -> bool:
        """Tell whether an agent's span says which task it was, though what called the agent is not in the trace."""
        place = self.reading.columns.get("task")
        return trace.root.kind == "agent" and (not place or value_at(_values(trace), place) is not None)

    def _results(self, trace: SpanTrace) -> dict[str, Any]:
        """Return the results that may be the accuracy: of the wanted name, or all that are numbers or verdicts in words."""
        if self.reading.scorer is not None:
            return {name: value for name, value in trace.scores.items() if name == self.reading.scorer}
        return {name: one for name, one in trace.scores.items() if not isinstance(one, str) or other_scores({name: one})}

    def _add(self, trace: SpanTrace, *, is_judged: bool) -> None:
        """Add a trace. `is_judged`: somebody judged some of the traces; else the failed ones are not the only ones with a score."""
        root, values = trace.root, _values(trace)
        own = parsed(root.values.get(TRIAL))
        below = sorted((span for span in trace.spans if span is not root), key=lambda span: span.start)
        content = [span.content for span in below]
        if isinstance(own, Mapping) and add_own_trial(self.trials, own, content, f"trace {trace.name}"):
            return
        walk, place, results = Walk(trace.spans), self.reading.columns.get("score"), self._results(trace)
        items = walk.items()
        self._unknown += [] if walk.is_whole else [(walk.unknown or [root.name])[0]]
        self._unread += walk.unread
        if len(results) > 1 and not place:
            names = list(results)
            raise ValueError(f"results of {names_in_a_line(names)}; say which is the accuracy: --scorer {names[0]}")
        task = self.trials.at(values, "task") if "task" in self.reading.columns else trace.task
        if task is None:
            self.trials.own_tasks.add(trace.name)
            self._keys |= dict.fromkeys(name for name in values if not name.startswith(_CONVENTIONAL))
        task_name = name_of(trace.name if task is None else task, "--map task")
        query = _said(root, asked=True) or _first_asked(items)
        answer = _said(root, asked=False) or ("" if root.error else answer_in(items))
        usage = None if walk.requests else root.usage
        failure = root.message if root.error == "error" and root.message else ": ".join(filter(None, (root.error, root.message)))
        models = [model for span in (root, *walk.requests) if isinstance(model := span.of("model"), str) and model]
        agent = as_text(root.of("agent")) or as_text(values.get("service.name")) or root.name or "agent"
        trace_of = ForeignTrace.of(items, () if walk.has_raw_arguments else ("wire",), query, has_all_requests=walk.is_whole)
        self.trials.tell(
            values if not place or value_at(values, place) is not None else {**values, place: ""},
            ForeignArm.of(agent, next(iter(models), None), "the agent's name"),
            task_name,
            next(iter(results.values()), None),
            unscored="errored" if root.error and is_judged else "excluded",
            reason=f"the root span failed: {failure}" if root.error and is_judged else NEITHER if task is None else NO_SCORE,
            question=self.trials.questions.get(task_name)
            or (digest(query) if query else ""),  # prompts may hold the time: the first counts
            stop=StopReason.CRASHED if root.error else StopReason.FINISHED if answer else None,
            answer=answer_of(answer or None),
            input_tokens=usage and usage.input,
            output_tokens=usage and usage.output,
            cost_usd=trace.cost_usd,
            seconds=root.seconds,
            started_at=root.start / 1e9,
            trace=trace_of if items else None,
        )


def _values(trace: SpanTrace) -> dict[str, Any]:
    return {**trace.beside, **trace.root.values}


def _said(root: Span, *, asked: bool) -> str:
    """Return what the agent was asked, or what it answered, as its own span has it; empty if it does not say."""
    try:
        if asked and "gen_ai.input.messages" in root.values:
            return asked_in(prompt_of(root))
        if not asked and "gen_ai.output.messages" in root.values:
            reply = reply_of(root)
            return reply.text if reply else ""
    except ValueError:
        return ""
    value = root.of("asked" if asked else "answer")
    return said_in(parsed(value) if isinstance(value, str) and "ai.prompt" in root.values else value)


def _first_asked(items: Sequence[ConversationItem]) -> str:
    """Return what a user said in the first request; empty if its prompt is not told."""
    first = next((item for item in items if isinstance(item, ModelTurn)), None)
    return next((message.content for message in (first.prompt or ()) if message.role == "user"), "") if first else ""
