"""Logs of Inspect (UK AI Security Institute), `.eval` and `.json`: format version 2, as inspect-ai 0.3 writes it.

Inspect counts the calls, tokens and dollars of model-graded scorers with a sample's own; here they are separated if the log holds
events. A sample that ended in an error has no score, and Inspect's means leave it out silently (its issue 4286): here it is
errored, and visible.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from whichloop.experiments.import_runs.foreign_file import ZipArchive
from whichloop.experiments.trace_formats.conversation import events_of, untold_of
from whichloop.experiments.trace_formats.inspect_transcript import inspect_usage, items_of_sample, question_of
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest
from whichloop.protocol.redact import redact

from ..foreign_file import ForeignFile, parse_json
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions, Status, TrialKey
from ..values import (
    answer_of,
    count,
    cut,
    json_array,
    list_at,
    located,
    mapping,
    metadata_label,
    name_of,
    names_in_a_line,
    number_from_zero,
    object_at,
    objects_at,
    other_scores,
    reason_line,
    score,
    short_value,
)

HEADER, STARTED = "header.json", "_journal/start.json"
SAMPLES, SHELL = "samples/", "/sample.json"
MAX_LABEL_CHARS = 80
"""Longest arguments in an arm's name; in the place of longer ones, and of lists and objects, it has a digest of all."""
ATTACHMENT = "attachment://"
"""The prefix of a reference to a long text among the sample's attachments."""
DIGEST_CHARS = 8
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
"""A place in memory, in the name of a function that Inspect could not write down; it differs in every process."""
_WHOLE = re.compile(rf"{SAMPLES}.+_epoch_\d+\.json", re.DOTALL)
_CHUNK = re.compile(rf"({SAMPLES}.+)/(events|messages|attachments)/(\d{{1,15}})\.json", re.DOTALL)
_STOPS: Mapping[str, StopReason] = {
    "message": StopReason.MAX_STEPS,
    "turn": StopReason.MAX_STEPS,
    "time": StopReason.TIMEOUT,
    "working": StopReason.TIMEOUT,
    "token": StopReason.BUDGET,
    "cost": StopReason.BUDGET,
    "context": StopReason.CONTEXT_OVERFLOW,
}
"""Inspect's limit → stop; a limit of another kind was set by an operator or by code."""


def recognizes(file: ForeignFile) -> bool:
    if file.is_zip and file.suffix != ".eval":
        return file.tree is None or any(name in file.tree for name in (HEADER, STARTED))
    if file.suffix == ".eval" or not isinstance(file.top_level.get("eval"), dict):
        return file.suffix == ".eval"
    return "version" in file.top_level or not isinstance(file.json_value, list)  # rows of a table may have an object `eval`


def read_log(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a log of either kind. Raises ValueError with a one-line message that names the invalid place."""
    if not file.is_zip and file.suffix != ".eval":
        data = file.json_object
        return _log(data, (mapping(sample, "a sample") for sample in list_at(data, "samples")), reading)
    archive = file.archive()
    if HEADER not in archive and STARTED not in archive:
        raise ValueError(f"a zip file, but not a log of Inspect: it has no {HEADER}")
    return _log(_object_in(archive, HEADER if HEADER in archive else STARTED), _archived_samples(archive), reading)


FORMAT = Format("inspect", recognizes, read_log)


# --- archives ---


def _object_in(archive: ZipArchive, name: str) -> Mapping[str, Any]:
    return mapping(_parsed(archive, name), name)


def _parsed(archive: ZipArchive, name: str) -> Any:
    raw = archive.read(name)
    with located(name):
        return parse_json(raw)


def _archived_samples(archive: ZipArchive) -> Iterator[Mapping[str, Any]]:
    """Yield samples one after the other, whole or joined from chunks."""
    starts: dict[tuple[str, str], list[int]] = {}
    for match in filter(None, map(_CHUNK.fullmatch, archive.names)):
        starts.setdefault((match[1], match[2]), []).append(int(match[3]))
    for name in archive.names:
        if _WHOLE.fullmatch(name):
            yield _object_in(archive, name)
        elif name.startswith(SAMPLES) and name.endswith(SHELL):
            yield _from_chunks(archive, name.removesuffix(SHELL), starts)


def _from_chunks(archive: ZipArchive, folder: str, starts: Mapping[tuple[str, str], Sequence[int]]) -> Mapping[str, Any]:
    """Join a sample whose long parts are members of their own, each named by the index of its first item."""

    def parts(kind: str) -> list[Any]:
        members = [f"{folder}/{kind}/{start}.json" for start in sorted(starts.get((folder, kind), ()))]
        return [item for name in members for item in json_array(_parsed(archive, name), name)]

    sample = dict(_object_in(archive, f"{folder}{SHELL}"))
    if (name := f"{folder}/metadata.json") in archive:
        sample["metadata"] = _object_in(archive, name)
    attachments = {str(index): text for index, text in enumerate(parts("attachments"))}
    return sample | {"events": parts("events"), "messages": parts("messages"), "attachments": attachments}


# --- one log ---


def _log(header: Mapping[str, Any], samples: Iterable[Mapping[str, Any]], reading: ReadingOptions) -> ForeignLog:
    spec = object_at(header, "eval")
    arm = _arm(spec, object_at(header, "plan"))
    trials: list[ForeignTrial] = []
    questions = {name_of(item, "a sample's id"): "" for item in list_at(object_at(spec, "dataset"), "sample_ids")}
    accuracy = _Accuracy(reading.scorer)
    for sample in samples:
        task = name_of(sample.get("id"), "a sample's id")
        epoch = count(sample.get("epoch"), f"sample {task}: epoch") or 1
        with located(f"sample {task}, epoch {epoch}"):
            trials.append(_trial(sample, (arm.name, task, epoch - 1), accuracy, reading))
            texts = object_at(sample, "attachments")
            choices = sorted(map(str, list_at(sample, "choices")))  # shuffled ones are the same question
            target = None if choices else sample.get("target")
            questions[task] = digest(_content([sample.get("input"), choices, target], texts))
    return ForeignLog(
        suite=name_of(spec.get("task"), "eval.task"),
        arms=(arm,),
        trials=tuple(_without_unlogged_calls(trials)),
        questions=questions,
        by=f"inspect_ai {cut(str(object_at(spec, 'packages').get('inspect_ai', '')), 20)}".strip(),
        scorer=accuracy.name(),
        due_repeats=count(object_at(spec, "config").get("epochs"), "epochs") or 1,
        unfinished="" if header.get("status") == "success" else f"the log ends with status {cut(str(header.get('status')), 20)}",
    )


def _without_unlogged_calls(trials: Sequence[ForeignTrial]) -> Iterator[ForeignTrial]:
    """Yield the trials; where no call of a model is logged in any of them, what calls would have taken is unknown, not 0.

    A solver that wraps an agent of another kind sets the output itself, and Inspect sees none of the requests that it makes.
    """
    has_calls, unknown = any(trial.lm_calls for trial in trials), asdict(_Usage())
    for trial in trials:
        if has_calls or trial.lm_calls is None:
            yield trial
        else:
            yield replace(trial, **unknown, steps=trial.steps or None, tool_calls=trial.tool_calls or None)


def _arm(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> ForeignArm:
    """Return the arm: the solver with the arguments that were passed to it and to the task, and the model."""
    steps = "+".join(_solver_name(step.get("solver")) for step in objects_at(plan, "steps", "a step of the plan"))
    loop = _solver_name(name_of(spec.get("solver") or steps or spec.get("task"), "eval.solver"))
    model = name_of(spec.get("model"), "eval.model")
    arguments = _arguments(spec, plan)
    options = {
        cut(name, MAX_LABEL_CHARS): value if isinstance(value, bool | int | float) else cut(redact(str(value)), MAX_LABEL_CHARS)
        for name, value in arguments.items()
        if isinstance(value, str | bool | int | float)
    }
    shown_options = {name: answer_of(value) for name, value in options.items()}
    return ForeignArm(name_of(f"{loop}{_label(arguments, options)}/{model}", "the arm"), loop, shown_options, model)


def _arguments(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of task and solver, and of the plan's steps; earlier versions do not say which of these were defaults.

    A step's argument has its name alone, or after the step's name if another value has that.
    """
    arguments = {**object_at(spec, "task_args_passed"), **object_at(spec, "solver_args_passed")}
    for number, step in enumerate(objects_at(plan, "steps", "a step of the plan"), 1):
        for name, value in object_at(step, "params" if step.get("params_passed") is None else "params_passed").items():
            if name in arguments and arguments[name] != value:
                qualified = f"{_solver_name(step.get('solver'))}.{name}"
                name = qualified if qualified not in arguments else f"{number}.{qualified}"
            arguments[name] = value
    return {name: value for name, value in arguments.items() if value not in (None, [], {})}


def _label(arguments: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return arguments as an arm's name has them: in brackets if they are short, else the digest that tells them apart."""
    inside = ", ".join(f"{name}={value}" for name, value in options.items())
    if len(inside) <= MAX_LABEL_CHARS and options == arguments:
        return f"({inside})" if inside else ""
    return f"(#{digest(_ADDRESS.sub('', redact(json.dumps(arguments, sort_keys=True))))[:DIGEST_CHARS]})"


def _solver_name(name: Any) -> str:
    """Return a solver's name, without the package if it is Inspect's own."""
    return cut(str(name), MAX_LABEL_CHARS).removeprefix("inspect_ai/")


# --- one sample ---


def _trial(sample: Mapping[str, Any], key: TrialKey, accuracy: _Accuracy, reading: ReadingOptions) -> ForeignTrial:
    """Return a sample as a trial. Raises ValueError for what is not a sample."""
    scores = {name: mapping(entry, f"the score {short_value(name)}") for name, entry in _scores(sample).items()}
    result = accuracy.of(scores)
    value = score(result.get("value"), reading.scale)
    status, reason = _status(sample, value, result)
    events = list(_own_events(list_at(sample, "events")))
    usage = _usage(sample, events)
    return ForeignTrial(
        *key,
        status=status,
        reason=reason,
        score=value if status == "scored" else None,
        scores=other_scores({name: entry.get("value") for name, entry in scores.items() if entry is not result}),
        stop=_stop(sample) if status == "scored" or sample.get("error") else None,
        answer=_answer(sample, result),
        steps=_steps(sample, usage),
        tool_calls=sum(event.get("event") == "tool" for event in events) if events else None,
        **asdict(usage),
        seconds=_seconds(sample),
        cluster="" if reading.cluster is None else metadata_label(object_at(sample, "metadata"), reading.cluster),
        attempt=len(list_at(sample, "error_retries")),
        trace=_trace(sample, events),
    )


def _trace(sample: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> ForeignTrace | None:
    """Return what happened in a sample; None if the log holds neither events nor messages."""
    texts = object_at(sample, "attachments")

    def resolve(text: str) -> str:
        return str(_content(text, texts))

    trace_events = events_of(items_of_sample(sample, events, resolve))
    if not trace_events:
        return None
    untold = tuple(sorted({"wire", "provider", *untold_of(trace_events)}))
    has_all = any(event.get("event") == "model" for event in events)
    return ForeignTrace(trace_events, question_of(sample, resolve), sample.get("target"), untold=untold, has_all_requests=has_all)


# --- its score ---


@dataclass(slots=True)
class _Accuracy:
    """The choice of the score that is the accuracy: the requested one, or the only one."""

    wanted: str | None
    """`NAME`, or `NAME/KEY` for a scorer that gives several values."""
    names_used: set[str] = field(default_factory=set)
    scorers: set[str] = field(default_factory=set)
    """All scorers of the samples."""

    def of(self, scores: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return a sample's score; empty if it has none. Raises ValueError if it is not clear which score is meant."""
        self.scorers.update(scores)
        if self.wanted is None and len(scores) > 1:
            raise ValueError(_choose(scores))
        name = next(iter(scores), "") if self.wanted is None else self.wanted
        if name in scores:
            if isinstance(values := scores[name].get("value"), Mapping):
                parts = names_in_a_line([f"{name}/{part}" for part in values])
                raise ValueError(f"{name} gives several values; say which is the accuracy: --scorer {parts}")
            self.names_used.add(name)
            return scores[name]
        scorer, _, part = name.rpartition("/")
        entry = scores.get(scorer, {})
        values = entry.get("value")
        if not isinstance(values, Mapping) or part not in values:
            return {}
        self.names_used.add(name)
        return {**entry, "value": values[part]}

    def name(self) -> str:
        """Return the score's name; empty if no sample has it. Raises ValueError if there are several, or not the wanted one."""
        if self.wanted is not None and self.scorers and not self.names_used:
            raise ValueError(f"no score by {short_value(self.wanted)}; there are scores by {names_in_a_line(sorted(self.scorers))}")
        if len(self.names_used) > 1:
            raise ValueError(_choose(self.names_used))
        return next(iter(self.names_used), "")


def _choose(names: Iterable[str]) -> str:
    return f"scores by {names_in_a_line(sorted(names))}; say which is the accuracy: --scorer {min(names)}"


def _scores(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores by scorer; very old logs have one without a name."""
    if sample.get("score") is not None:
        return {"score": sample["score"]}
    return object_at(sample, "scores")


def _status(sample: Mapping[str, Any], value: float | None, result: Mapping[str, Any]) -> tuple[Status, str]:
    """Return the status and its reason. An error beside a score (`score_on_error`) is the agent's own failure, and counts."""
    error, invalid = object_at(sample, "error"), object_at(sample, "invalidation")
    if invalid:
        return "excluded", reason_line(f"invalidated: {invalid.get('reason') or 'no reason given'}")
    if value is not None:
        return "scored", reason_line(error.get("message") or "")
    if error:
        return "errored", reason_line(error.get("message") or "an error without a message")
    return "errored", reason_line(f"not scored: {result.get('reason') or 'the log says no more'}")


def _stop(sample: Mapping[str, Any]) -> str:
    if sample.get("error"):
        return StopReason.CRASHED
    limit = object_at(sample, "limit")
    return _STOPS.get(str(limit.get("type")), StopReason.TERMINATED) if limit else StopReason.FINISHED


def _answer(sample: Mapping[str, Any], result: Mapping[str, Any]) -> Any:
    """Return the answer that the scorer extracted, else the last reply's text."""
    extracted = result.get("answer")
    return answer_of(object_at(sample, "output").get("completion") if extracted is None else extracted)


# --- its usage ---


@dataclass(frozen=True, slots=True)
class _Usage:
    """The usage of the solver's own model calls; None: unknown."""

    lm_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    beyond_parts: int = 0
    cached_tokens: int | None = None
    cost_usd: float | None = None


def _own_events(events: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all events except the scorers', also nested ones, which sub-agents of earlier versions have."""
    judging: set[str] = set()
    depth = 0
    """Number of open steps of scorers: versions before about 0.3.90 wrote steps instead of spans."""
    iterators = [iter(events)]
    while iterators:
        event = next(iterators[-1], None)
        if event is None:
            iterators.pop()
            continue
        event = mapping(event, "an event")
        is_scorer = event.get("type") in ("scorers", "scorer")
        if event.get("event") == "span_begin" and (is_scorer or str(event.get("parent_id")) in judging):
            judging.add(str(event.get("id")))
        elif event.get("event") == "step" and is_scorer:
            depth = max(depth + (1 if event.get("action") == "begin" else -1), 0)
        elif not depth and str(event.get("span_id")) not in judging:
            yield event
            iterators.append(iter(list_at(event, "events")))


def _usage(sample: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> _Usage:
    """Add up the model calls that the log holds; if it holds none, the sample's totals, which include the scorers' calls."""
    calls = [event for event in events if event.get("event") == "model" and not event.get("error") and not event.get("pending")]
    totals = [mapping(usage, "model_usage") for usage in object_at(sample, "model_usage").values()]
    if not calls and (totals or not events):
        return _sum(totals) if totals else _Usage()
    usages = [object_at(object_at(call, "output"), "usage") for call in calls]
    if not all(usages):
        return _Usage(lm_calls=len(calls))
    free = {"total_cost": 0.0}
    charged = [{**usage, **(free if call.get("cache") == "read" else {})} for call, usage in zip(calls, usages, strict=True)]
    return replace(_sum(charged), lm_calls=len(calls))


def _sum(usages: Sequence[Mapping[str, Any]]) -> _Usage:
    """Add up usages; our input tokens include those served or stored by a cache."""

    def total(name: str) -> int:
        return sum(count(usage.get(name), name) or 0 for usage in usages)

    cached, parsed = total("input_tokens_cache_read"), [inspect_usage(usage) for usage in usages]
    costs = [number_from_zero(usage.get("total_cost"), "total_cost") for usage in usages]
    known_costs = [cost for cost in costs if cost is not None]
    return _Usage(
        input_tokens=sum(one.input for one in parsed),
        output_tokens=sum(one.output for one in parsed),
        beyond_parts=sum(one.beyond_parts for one in parsed),
        cached_tokens=cached,
        cost_usd=math.fsum(known_costs) if len(known_costs) == len(costs) else None,
    )


def _steps(sample: Mapping[str, Any], usage: _Usage) -> int | None:
    """Return the solver's turns; if unknown its model calls, else the assistant's messages."""
    turns = count(sample.get("turn_count"), "turn_count")
    if turns is not None:
        return turns
    replies = sum(message.get("role") == "assistant" for message in objects_at(sample, "messages", "a message"))
    return usage.lm_calls if usage.lm_calls is not None else replies or None


def _seconds(sample: Mapping[str, Any]) -> float | None:
    """Return the seconds, without waits for limits and retries if that is known."""
    working = number_from_zero(sample.get("working_time"), "working_time")
    return number_from_zero(sample.get("total_time"), "total_time") if working is None else working


# --- its question ---


def _content(value: Any, texts: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return texts.get(value.removeprefix(ATTACHMENT), value)
    if isinstance(value, list):
        return [_content(item, texts) for item in value]
    if isinstance(value, dict):
        fields = {name: item for name, item in value.items() if item is not None and name not in ("id", "source")}
        return {name: _content(item, texts) for name, item in fields.items()}
    return str(value) if isinstance(value, float) else value
