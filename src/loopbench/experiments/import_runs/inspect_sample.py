"""One sample of an Inspect log.

Inspect counts the calls, tokens and dollars of model-graded scorers among a sample's; here they are told apart where the log holds
events. A sample that ended in an error has no score, and Inspect's means leave it out without a word (its issue 4286): here it is
errored, and seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from loopbench.protocol import StopReason
from loopbench.protocol.digest import digest

from .foreign_trials import ForeignTrial, ReadingOptions
from .values import amount, answer_of, count, label_of, listed, mapping, names_in_a_line, one_line, other_scores, score, shown

ATTACHMENT = "attachment://"
"""In the place of a long text, followed by its name among the sample's attachments."""
_STOPS: Mapping[str, StopReason] = {
    "message": StopReason.MAX_STEPS,
    "turn": StopReason.MAX_STEPS,
    "time": StopReason.TIMEOUT,
    "working": StopReason.TIMEOUT,
    "token": StopReason.BUDGET,
    "cost": StopReason.BUDGET,
    "context": StopReason.CONTEXT_OVERFLOW,
}
"""Inspect's limit → stop; one of another kind was set by an operator or by code."""


def told(sample: Mapping[str, Any], key: tuple[str, str, int], choice: Choice, reading: ReadingOptions) -> ForeignTrial:
    """A sample as a trial of `key`: arm, task, repeat. Raises ValueError for one that is none."""
    scores = {name: mapping(one, f"the score {shown(name)}") for name, one in _scores(sample).items()}
    given = choice.of(scores)
    value = score(given.get("value"), reading.scale)
    status, reason = _status(sample, value, given)
    events = list(_own_events(listed(sample.get("events"), "events")))
    spent = _spent(sample, events)
    return ForeignTrial(
        *key,
        status=status,
        reason=reason,
        score=value if status == "scored" else None,
        scores=other_scores({name: one.get("value") for name, one in scores.items() if one is not given}),
        stop=_stop(sample) if status == "scored" or sample.get("error") else None,
        answer=_answer(sample, given),
        steps=_steps(sample, spent),
        lm_calls=spent.lm_calls,
        tool_calls=sum(event.get("event") == "tool" for event in events) if events else None,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cached_tokens=spent.cached_tokens,
        cost_usd=spent.cost_usd,
        seconds=_seconds(sample),
        cluster=_cluster(sample, reading.cluster),
        attempt=len(listed(sample.get("error_retries"), "error_retries")),
    )


# --- its score ---


@dataclass(slots=True)
class Choice:
    """Which score of a log is the accuracy: the one that was asked for, or the only one."""

    wanted: str | None
    """`NAME`, or `NAME/KEY` of a scorer that gives several values."""
    found: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    """All that samples have scores by."""

    def of(self, scores: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The score; empty where the sample has none by it. Raises ValueError where it is not clear which one is meant."""
        self.met.update(scores)
        if self.wanted is None and len(scores) > 1:
            raise ValueError(f"scores by {names_in_a_line(sorted(scores))}; say which is the accuracy: --scorer {min(scores)}")
        name = next(iter(scores), "") if self.wanted is None else self.wanted
        given = scores.get(name)
        if given is None:
            return self._part(scores, name)
        values = given.get("value")
        if isinstance(values, Mapping):
            parts = [f"{name}/{part}" for part in values]
            raise ValueError(f"{name} gives several values; say which is the accuracy: --scorer {names_in_a_line(parts)}")
        self.found.add(name)
        return given

    def _part(self, scores: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
        scorer, _, part = name.rpartition("/")
        given = scores.get(scorer, {})
        values = given.get("value")
        if not isinstance(values, Mapping) or part not in values:
            return {}
        self.found.add(name)
        return {**given, "value": values[part]}

    def name(self) -> str:
        """Whose score it is; empty where no sample has one. Raises ValueError where there are several, or not the one asked for."""
        if self.wanted is not None and self.met and not self.found:
            raise ValueError(f"no score by {shown(self.wanted)}; there are scores by {names_in_a_line(sorted(self.met))}")
        if len(self.found) > 1:
            raise ValueError(
                f"scores by {names_in_a_line(sorted(self.found))}; say which is the accuracy: --scorer {min(self.found)}"
            )
        return next(iter(self.found), "")


def _scores(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Scorer → score; logs of long ago have one without a name."""
    if sample.get("score") is not None:
        return {"score": sample["score"]}
    return mapping(sample.get("scores"), "scores")


def _status(
    sample: Mapping[str, Any], value: float | None, given: Mapping[str, Any]
) -> tuple[Literal["scored", "errored", "excluded"], str]:
    """An error beside a score (`score_on_error`) is the agent's own failure, and counts."""
    error = mapping(sample.get("error"), "error")
    invalid = mapping(sample.get("invalidation"), "invalidation")
    if invalid:
        return "excluded", one_line(f"invalidated: {invalid.get('reason') or 'no reason given'}")
    if value is not None:
        return "scored", one_line(error.get("message") or "")
    if error:
        return "errored", one_line(error.get("message") or "an error without a message")
    return "errored", one_line(f"not scored: {given.get('reason') or 'the log says no more'}")


def _stop(sample: Mapping[str, Any]) -> str:
    if sample.get("error"):
        return StopReason.CRASHED
    limit = mapping(sample.get("limit"), "limit")
    return _STOPS.get(str(limit.get("type")), StopReason.TERMINATED) if limit else StopReason.FINISHED


def _answer(sample: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """What the scorer took for the answer, else the last reply's text."""
    extracted = given.get("answer")
    return answer_of(mapping(sample.get("output"), "output").get("completion") if extracted is None else extracted)


# --- what it took ---


@dataclass(frozen=True, slots=True)
class _Spent:
    """What the solver's own model calls came to; None: not told."""

    lm_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


def _own_events(events: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """All but what scorers did, also those within others, as sub-agents of earlier versions have them."""
    judging: set[str] = set()
    depth = 0
    """Of scorers, as steps that begin and end: how versions before 0.3.90 or so wrote what are spans now."""
    left = [iter(events)]
    while left:
        event = next(left[-1], None)
        if event is None:
            left.pop()
            continue
        event = mapping(event, "an event")
        is_scorer = event.get("type") in ("scorers", "scorer")
        if event.get("event") == "span_begin" and (is_scorer or str(event.get("parent_id")) in judging):
            judging.add(str(event.get("id")))
        elif event.get("event") == "step" and is_scorer:
            depth = max(depth + (1 if event.get("action") == "begin" else -1), 0)
        elif not depth and str(event.get("span_id")) not in judging:
            yield event
            left.append(iter(listed(event.get("events"), "events")))


def _spent(sample: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> _Spent:
    """From the model calls that the log holds; else from the sample's totals, in which scorers' calls are counted too."""
    calls = [event for event in events if event.get("event") == "model" and not event.get("error") and not event.get("pending")]
    totals = [mapping(usage, "model_usage") for usage in mapping(sample.get("model_usage"), "model_usage").values()]
    if not calls and (totals or not events):
        return _added(totals) if totals else _Spent()
    usages = [mapping(mapping(call.get("output"), "output").get("usage"), "usage") for call in calls]
    free = [
        {**usage, "total_cost": 0.0} if call.get("cache") == "read" else usage for call, usage in zip(calls, usages, strict=True)
    ]
    spent = _added(free) if all(usages) else _Spent()
    return _Spent(len(calls), spent.input_tokens, spent.output_tokens, spent.cached_tokens, spent.cost_usd)


def _added(usages: Sequence[Mapping[str, Any]]) -> _Spent:
    """Inspect's input tokens are those that no cache served or took; ours are all."""

    def total(name: str) -> int:
        return sum(count(usage.get(name), name) or 0 for usage in usages)

    cached = total("input_tokens_cache_read")
    costs = [amount(usage.get("total_cost"), "total_cost") for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return _Spent(
        input_tokens=total("input_tokens") + cached + total("input_tokens_cache_write"),
        output_tokens=total("output_tokens"),
        cached_tokens=cached,
        cost_usd=math.fsum(known) if len(known) == len(costs) else None,
    )


def _steps(sample: Mapping[str, Any], spent: _Spent) -> int | None:
    """Turns of the solver; where they are not told its model calls, else the assistant's messages."""
    turns = count(sample.get("turn_count"), "turn_count")
    if turns is not None:
        return turns
    messages = [mapping(message, "a message") for message in listed(sample.get("messages"), "messages")]
    replies = sum(message.get("role") == "assistant" for message in messages)
    return spent.lm_calls if spent.lm_calls is not None else replies or None


def _seconds(sample: Mapping[str, Any]) -> float | None:
    """Without waits for limits and retries, where that is told."""
    working = amount(sample.get("working_time"), "working_time")
    return amount(sample.get("total_time"), "total_time") if working is None else working


# --- its task ---


def _cluster(sample: Mapping[str, Any], key: str | None) -> str:
    return "" if key is None else label_of(mapping(sample.get("metadata"), "metadata").get(key), f"metadata {shown(key)}")


def asked_of(sample: Mapping[str, Any]) -> str:
    """Digest of what the sample asks and what is right: without ids of messages, which differ from run to run."""
    texts = mapping(sample.get("attachments"), "attachments")
    choices = sorted(map(str, listed(sample.get("choices"), "choices")))  # shuffled ones are the same question
    target = None if choices else sample.get("target")
    return digest(_content([sample.get("input"), choices, target], texts))


def _content(value: Any, texts: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return texts.get(value.removeprefix(ATTACHMENT), value)
    if isinstance(value, list):
        return [_content(item, texts) for item in value]
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if item is not None and name not in ("id", "source")}
        return {name: _content(item, texts) for name, item in kept.items()}
    return str(value) if isinstance(value, float) else value
